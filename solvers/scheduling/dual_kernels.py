"""Compiled loops of the Lagrangian dual: each job's cheapest schedule by prices of time, rigid or malleable.

In a cell a malleable job may share its time among its configurations; the cost of work there is the lower
hull of (0, 0) and the points (speed, cost per second). Between corners it has pieces, at ascending costs per
work.
"""

from __future__ import annotations

import numpy as np

from ...formulations.common.compiled import compiled
from ...instances.common.arrays import Floats, Ints


@compiled
def _cell_at(edges: Floats, at: float) -> int:
    """Return the cell (interval of the time grid) that contains a time in seconds, by binary search."""
    low, high = 0, len(edges)
    while high - low > 1:
        middle = (low + high) // 2
        if edges[middle] <= at:
            low = middle
        else:
            high = middle
    return low


@compiled
def _rate(price: Floats, demand: Floats) -> float:
    rate = 0.0
    for r in range(len(demand)):
        rate += price[r] * demand[r]
    return rate


@compiled
def _push_seconds(rates: Floats, lengths: Floats, count: int, rate: float, length: float) -> None:
    """Push a duration in seconds and its cost rate onto a max-heap (by rate) of `count` entries."""
    at = count
    while at:
        above = (at - 1) // 2
        if rates[above] >= rate:
            break
        rates[at], lengths[at] = rates[above], lengths[above]
        at = above
    rates[at], lengths[at] = rate, length


@compiled
def _pop_seconds(rates: Floats, lengths: Floats, count: int) -> None:
    """Remove the entry with the highest cost rate from a max-heap of `count` entries."""
    last = count - 1
    rate, length, at = rates[last], lengths[last], 0
    while True:
        child = 2 * at + 1
        if child >= last:
            break
        if child + 1 < last and rates[child + 1] > rates[child]:
            child += 1
        if rates[child] <= rate:
            break
        rates[at], lengths[at] = rates[child], lengths[child]
        at = child
    rates[at], lengths[at] = rate, length


@compiled
def _use_rigid(
    edges: Floats,
    rates: Floats,
    demand: Floats,
    arrival: float,
    until: float,
    first: int,
    last: int,
    limit: float,
    missing: float,
    used: Floats,
) -> None:
    """Add the unit-seconds that a rigid job uses per resource in each cell of the time grid.

    It runs in all seconds at a rate below the limit, and in as many at the limit as are missing.

    Parameters
    ----------
    until
        C_j, in cell `last`; the arrival is in cell `first`.
    missing
        Run time of the job in seconds.
    """
    for g in range(first, last + 1):
        if rates[g] < limit:
            missing -= max(0.0, (edges[g + 1] if g < last else until) - max(edges[g], arrival))
    for g in range(first, last + 1):
        if rates[g] > limit:
            continue
        seconds = max(0.0, (edges[g + 1] if g < last else until) - max(edges[g], arrival))
        if rates[g] == limit:
            seconds = min(seconds, max(0.0, missing))
            missing -= seconds
        for r in range(len(demand)):
            used[g, r] += demand[r] * seconds


@compiled
def rigid_preemptive(
    edges: Floats,
    price: Floats,
    arrival: Floats,
    work: Floats,
    weight: Floats,
    demand: Floats,
    begin: int,
    stride: int,
    used: Floats,
    result: Floats,
) -> None:
    """Minimise ω (C − r) + ∫ λ·a dt for each rigid job alone, with preemption (the Lagrangian subproblem).

    The jobs are each stride-th one from `begin` on.

    C sweeps over time while the cheapest seconds before it are selected: a cell that is cheaper than the
    dearest of them replaces it.

    Parameters
    ----------
    edges, price
        Shapes (G,) and (G, R); the first edge is before any arrival, and the last row is 0.
    arrival, work, weight, demand
        Shapes (J,), and (J, R); work is in seconds.
    used
        Usage of each resource by the jobs in each cell, unit-seconds, shape (G, R); added to.
    result
        Filled with the least cost and C − r of each job, shape (2, J).
    """
    cells = len(price)
    rate_of, rates, lengths = np.empty(cells), np.empty(2 * cells + 2), np.empty(2 * cells + 2)
    for j in range(begin, len(arrival), stride):
        w, a = weight[j], demand[j]
        first = _cell_at(edges, arrival[j])
        g, at, rest, count, cost, moved = first, arrival[j], work[j], 0, 0.0, 0.0
        while True:
            rate = _rate(price[g], a)
            rate_of[g] = rate
            left = edges[g + 1] - at if g + 1 < cells else np.inf
            step = min(left, rest)
            cost += rate * step
            moved += step
            rest -= step
            _push_seconds(rates, lengths, count, rate, step)
            count += 1
            left -= step
            if rest <= 0:
                break
            g += 1
            at = edges[g]
        least, best, limit, last = w * moved + cost, moved, rates[0], g
        while True:
            taken = 0.0
            while left > 0 and count and rates[0] > rate:
                dearest, pile = rates[0], lengths[0]
                step = min(left, pile)
                cost -= step * (dearest - rate)
                moved += step
                left -= step
                taken += step
                if step < pile:
                    lengths[0] = pile - step
                else:
                    _pop_seconds(rates, lengths, count)
                    count -= 1
                if w * moved + cost < least:
                    least, best, limit, last = w * moved + cost, moved, dearest, g
            moved += left
            if taken > 0:
                _push_seconds(rates, lengths, count, rate, taken)
                count += 1
            g += 1
            if w * moved >= least or g == cells or rates[0] <= 0:
                break
            rate = _rate(price[g], a)
            rate_of[g] = rate
            left = edges[g + 1] - edges[g] if g + 1 < cells else np.inf
        result[0, j], result[1, j] = least, best
        _use_rigid(edges, rate_of, a, arrival[j], arrival[j] + best, first, last, limit, work[j], used)


@compiled
def rigid_nonpreemptive(
    edges: Floats,
    price: Floats,
    arrival: Floats,
    work: Floats,
    weight: Floats,
    demand: Floats,
    begin: int,
    stride: int,
    used: Floats,
    result: Floats,
) -> None:
    """Minimise ω (C − r) + ∫ λ·a dt for each rigid job alone, without preemption.

    The minimum is over windows that start at r, or start or end at an edge of the time grid.

    Parameters are those of `rigid_preemptive`.
    """
    cells, resources = price.shape
    for j in range(begin, len(arrival), stride):
        w, a, length = weight[j], demand[j], work[j]
        tail = _cell_at(edges, arrival[j])
        head, rest, cost = tail, length, 0.0
        rate_tail = rate_head = _rate(price[tail], a)
        ahead = edges[tail + 1] - arrival[j] if tail + 1 < cells else np.inf
        behind = ahead
        while ahead < rest:
            cost += rate_head * ahead
            rest -= ahead
            head += 1
            rate_head = _rate(price[head], a)
            ahead = edges[head + 1] - edges[head] if head + 1 < cells else np.inf
        cost += rate_head * rest
        ahead -= rest
        waited, best, least, start = 0.0, 0.0, w * length + cost, tail
        while tail + 1 < cells and w * (waited + length) < least:
            step = min(ahead, behind)
            cost = max(0.0, cost + step * (rate_head - rate_tail)) if head != tail else cost
            waited += step
            behind -= step
            ahead -= step
            if behind <= 0:
                tail += 1
                rate_tail = _rate(price[tail], a)
                behind = edges[tail + 1] - edges[tail] if tail + 1 < cells else np.inf
            if ahead <= 0:
                head += 1
                rate_head = _rate(price[head], a)
                ahead = edges[head + 1] - edges[head] if head + 1 < cells else np.inf
            if w * (waited + length) + cost < least:
                least, best, start = w * (waited + length) + cost, waited, tail
        result[0, j], result[1, j] = least, best + length
        at, until, g = arrival[j] + best, arrival[j] + best + length, start
        while g < cells:
            stop = min(until, edges[g + 1]) if g + 1 < cells else until
            seconds = max(0.0, stop - max(edges[g], at))
            for r in range(resources):
                used[g, r] += a[r] * seconds
            if stop >= until:
                break
            g += 1


@compiled
def _hull(
    price: Floats, usage: Floats, speed: Floats, dear: Floats, fast: Floats, corner: Ints, cost: Floats
) -> int:
    """Compute the corners of a job's lower convex hull of cost per second over speed; return their number.

    The corner (0, 0) is not counted.

    Parameters
    ----------
    usage, speed
        Usage and speed of the K configurations, in ascending order of speed.
    dear, fast
        Cost per work, and speed, of the piece that ends at each corner, shape (K,).
    corner, cost
        Configuration of each corner, and its cost, shape (K,).
    """
    count = 0
    for k in range(len(speed)):
        rate = 0.0
        for r in range(len(price)):
            rate += price[r] * usage[k, r]
        if count and speed[corner[count - 1]] == speed[k]:
            if cost[count - 1] <= rate:
                continue
            count -= 1
        while True:
            before_s = speed[corner[count - 1]] if count else 0.0
            before_c = cost[count - 1] if count else 0.0
            slope = (rate - before_c) / (speed[k] - before_s)
            if count == 0 or slope > dear[count - 1]:
                break
            count -= 1
        dear[count], fast[count], corner[count], cost[count] = slope, speed[k] - before_s, k, rate
        count += 1
    return count


@compiled
def _push_work(piles: Floats, count: int, dear: float, work: float) -> None:
    """Push an amount of work and its cost per work onto a max-heap (by cost), shape (2, capacity)."""
    at = count
    while at and piles[0, (at - 1) // 2] < dear:
        piles[0, at], piles[1, at] = piles[0, (at - 1) // 2], piles[1, (at - 1) // 2]
        at = (at - 1) // 2
    piles[0, at], piles[1, at] = dear, work


@compiled
def _pop_work(piles: Floats, count: int) -> None:
    """Remove the entry with the highest cost per work from a max-heap of `count` entries."""
    last = count - 1
    dear, work, at = piles[0, last], piles[1, last], 0
    while True:
        child = 2 * at + 1
        if child >= last:
            break
        if child + 1 < last and piles[0, child + 1] > piles[0, child]:
            child += 1
        if piles[0, child] <= dear:
            break
        piles[0, at], piles[1, at] = piles[0, child], piles[1, child]
        at = child
    piles[0, at], piles[1, at] = dear, work


@compiled
def _clear(values: Floats, n: int) -> None:
    """Set the first n entries of an array to 0."""
    for i in range(n):
        values[i] = 0.0


@compiled
def _enlarged(piles: Floats, count: int, n: int) -> Floats:
    """Return a larger array of a heap, with its first `count` entries and space for n more."""
    larger = np.empty((2, 2 * piles.shape[1] + n))
    for i in range(count):
        larger[0, i], larger[1, i] = piles[0, i], piles[1, i]
    return larger


@compiled
def _advance_in_cell(
    left: float,
    dear: Floats,
    fast: Floats,
    scheduled: Floats,
    n: int,
    piles: Floats,
    count: int,
    weight: float,
    sweep: Floats,
) -> int:
    """Move the completion time through the rest of a cell; its cheap work replaces the dearest scheduled.

    Parameters
    ----------
    scheduled, n
        Scheduled work in each of the n pieces of the cell; piles hold that in earlier cells.
    sweep
        C − r, cost of the scheduled work, least total so far, C − r there, and the dearest work there.

    Returns
    -------
    count
        Heap entries that are left.
    """
    while left > 0:
        own = n - 1
        while own >= 0 and scheduled[own] <= 0:
            own -= 1
        top = dear[own] if own >= 0 else 0.0
        older = count > 0 and piles[0, 0] > top
        if older:
            top = piles[0, 0]
        pace, saving, active = 0.0, 0.0, 0
        while active < n and dear[active] < top:
            pace += fast[active]
            saving += fast[active] * (top - dear[active])
            active += 1
        if active == 0:
            break
        pile = piles[1, 0] if older else scheduled[own]
        step = min(left, pile / pace)
        for i in range(active):
            scheduled[i] += fast[i] * step
        rest = max(0.0, pile - pace * step) if step >= left else 0.0
        if not older:
            scheduled[own] = rest
        elif rest > 0:
            piles[1, 0] = rest
        else:
            _pop_work(piles, count)
            count -= 1
        left = 0.0 if step >= left else left - step
        sweep[0] += step
        sweep[1] -= saving * step
        if weight * sweep[0] + sweep[1] < sweep[2]:
            sweep[2], sweep[3], sweep[4] = weight * sweep[0] + sweep[1], sweep[0], top
    sweep[0] += left
    return count


@compiled
def _use_malleable(
    edges: Floats,
    price: Floats,
    usage: Floats,
    speed: Floats,
    arrival: float,
    until: float,
    first: int,
    limit: float,
    missing: float,
    used: Floats,
) -> None:
    """Add the unit-seconds that a malleable job uses per resource in each cell of the time grid.

    It takes all work at a cost below the limit, and as much at the limit as is missing.

    Parameters
    ----------
    until
        C_j; the arrival is in cell `first`.
    missing
        Work of the job.
    """
    size = len(speed)
    dear, fast, cost, corner = np.empty(size), np.empty(size), np.empty(size), np.empty(size, dtype=np.int64)
    for again in range(2):
        g = first
        while g < len(edges) and edges[g] < until:
            stop = min(until, edges[g + 1]) if g + 1 < len(edges) else until
            seconds = max(0.0, stop - max(edges[g], arrival))
            for i in range(_hull(price[g], usage, speed, dear, fast, corner, cost)):
                if again == 0:
                    missing -= fast[i] * seconds if dear[i] < limit else 0.0
                    continue
                if dear[i] > limit:
                    break
                part = seconds
                if dear[i] == limit:
                    part = min(seconds, max(0.0, missing) / fast[i])
                    missing -= fast[i] * part
                for r in range(used.shape[1]):
                    before = usage[corner[i - 1], r] if i else 0.0
                    used[g, r] += (usage[corner[i], r] - before) * part
            g += 1


@compiled
def malleable_preemptive(
    edges: Floats,
    price: Floats,
    arrival: Floats,
    work: Floats,
    weight: Floats,
    first: Ints,
    usage: Floats,
    speed: Floats,
    begin: int,
    stride: int,
    used: Floats,
    result: Floats,
) -> None:
    """Minimise ω (C − r) + ∫ λ·a dt for each malleable job alone, with preemption.

    The jobs are each stride-th one from `begin` on.

    Parameters
    ----------
    first, usage, speed
        Configurations of job j are rows first[j] to first[j + 1] − 1, by rising speed.
    used, result
        As in `rigid_preemptive`.
    """
    cells, widest = len(price), 1
    for j in range(len(arrival)):
        widest = max(widest, first[j + 1] - first[j])
    dear, fast, cost, scheduled = np.empty(widest), np.empty(widest), np.empty(widest), np.empty(widest)
    corner, piles, sweep = np.empty(widest, dtype=np.int64), np.empty((2, 4096)), np.empty(5)
    for j in range(begin, len(arrival), stride):
        own_usage, own_speed = usage[first[j] : first[j + 1]], speed[first[j] : first[j + 1]]
        full, start = own_speed[-1], np.searchsorted(edges, arrival[j], side="right") - 1
        g, at, rest, count, dearest = start, arrival[j], work[j], 0, 0.0
        _clear(sweep, len(sweep))
        while g < cells:
            n = _hull(price[g], own_usage, own_speed, dear, fast, corner, cost)
            left = edges[g + 1] - at if g + 1 < cells else np.inf
            _clear(scheduled, n)
            if rest > 0:
                # As early as can be: everything at full speed.
                step = min(left, rest / full)
                for i in range(n):
                    scheduled[i] = fast[i] * step
                    sweep[1] += dear[i] * scheduled[i]
                sweep[0] += step
                rest = 0.0 if step < left or full * left >= rest else rest - full * step
                left -= step
                dearest = max(dearest, dear[n - 1])
                if rest <= 0:
                    sweep[2], sweep[3], sweep[4] = weight[j] * sweep[0] + sweep[1], sweep[0], dearest
            if rest <= 0:
                count = _advance_in_cell(left, dear, fast, scheduled, n, piles, count, weight[j], sweep)
                if weight[j] * sweep[0] >= sweep[2]:
                    break
            if count + n > piles.shape[1]:
                piles = _enlarged(piles, count, n)
            for i in range(n):
                if scheduled[i] > 0:
                    _push_work(piles, count, dear[i], scheduled[i])
                    count += 1
            g += 1
            at = edges[g] if g < cells else np.inf
        result[0, j], result[1, j] = sweep[2], sweep[3]
        until, limit = arrival[j] + sweep[3], sweep[4]
        _use_malleable(edges, price, own_usage, own_speed, arrival[j], until, start, limit, work[j], used)
