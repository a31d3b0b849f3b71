"""Compiled loops of the Lagrangian dual: each job's cheapest schedule by prices of time, rigid or malleable.

In a cell a malleable job may share its time among its configurations; the cost of work there is the lower
hull of (0, 0) and the points (speed, cost per second). Between corners it has pieces, at ascending costs per
work.

Times are divided by G edges, and one more that is infinite. After the last finite one resources are free.
"""

from __future__ import annotations

import numpy as np

from ...formulations.common.compiled import compiled
from ...formulations.scheduling.cost_of_work import cost_hull, cost_rate, enlarged, pop, push
from ...instances.common.arrays import Floats, Ints


@compiled
def _seconds_in_cell(edges: Floats, g: int, since: float, until: float) -> float:
    """Return how much of a time lies in a cell of the time grid."""
    seconds: float = max(0.0, min(until, edges[g + 1]) - max(edges[g], since))
    return seconds


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
    for again in range(2):
        for g in range(first, last + 1):
            seconds = max(0.0, (edges[g + 1] if g < last else until) - max(edges[g], arrival))
            if again == 0:
                missing -= seconds if rates[g] < limit else 0.0
                continue
            if rates[g] > limit:
                continue
            if rates[g] == limit:
                seconds = min(seconds, max(0.0, missing))
                missing -= seconds
            for r in range(len(demand)):
                used[g, r] += demand[r] * seconds


@compiled
def rigid_preemptive(
    edges: Floats,
    price: Floats,
    cell: Ints,
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
        Shapes (G + 1,) and (G, R); the first edge is before any arrival, and the last row is 0.
    cell
        The cell in which each job arrives, shape (J,).
    arrival, work, weight, demand
        Shapes (J,), and (J, R); work is in seconds.
    used
        Usage of each resource by the jobs in each cell, unit-seconds, shape (G, R); added to.
    result
        Filled with the least cost and C − r of each job, shape (2, J).
    """
    cells = len(price)
    rate_of, heap = np.empty(cells), np.empty((2, 2 * cells + 2))
    for j in range(begin, len(arrival), stride):
        w, a = weight[j], demand[j]
        g, at, rest, count, cost, moved = cell[j], arrival[j], work[j], 0, 0.0, 0.0
        while True:
            rate = cost_rate(price[g], a)
            rate_of[g] = rate
            left = edges[g + 1] - at
            step = min(left, rest)
            cost += rate * step
            moved += step
            rest -= step
            push(heap, count, rate, step)
            count += 1
            left -= step
            if rest <= 0:
                break
            g += 1
            at = edges[g]
        least, best, limit, last = w * moved + cost, moved, heap[0, 0], g
        while True:
            taken = 0.0
            while left > 0 and count and heap[0, 0] > rate:
                dearest, pile = heap[0, 0], heap[1, 0]
                step = min(left, pile)
                cost -= step * (dearest - rate)
                moved += step
                left -= step
                taken += step
                if step < pile:
                    heap[1, 0] = pile - step
                else:
                    pop(heap, count)
                    count -= 1
                if w * moved + cost < least:
                    least, best, limit, last = w * moved + cost, moved, dearest, g
            moved += left
            if taken > 0:
                push(heap, count, rate, taken)
                count += 1
            g += 1
            if w * moved >= least or g == cells or heap[0, 0] <= 0:
                break
            rate = cost_rate(price[g], a)
            rate_of[g] = rate
            left = edges[g + 1] - edges[g]
        result[0, j], result[1, j] = least, best
        _use_rigid(edges, rate_of, a, arrival[j], arrival[j] + best, cell[j], last, limit, work[j], used)


@compiled
def rigid_nonpreemptive(
    edges: Floats,
    price: Floats,
    cell: Ints,
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
    cells = len(price)
    for j in range(begin, len(arrival), stride):
        w, a, length = weight[j], demand[j], work[j]
        tail = head = cell[j]
        rest, cost = length, 0.0
        rate_tail = rate_head = cost_rate(price[tail], a)
        ahead = behind = edges[tail + 1] - arrival[j]
        while ahead < rest:
            cost += rate_head * ahead
            rest -= ahead
            head += 1
            rate_head = cost_rate(price[head], a)
            ahead = edges[head + 1] - edges[head]
        cost += rate_head * rest
        ahead -= rest
        waited, best, least, start = 0.0, 0.0, w * length + cost, tail
        while tail + 1 < cells and w * (waited + length) < least:
            step = min(ahead, behind)
            cost = max(0.0, cost + step * (rate_head - rate_tail))
            waited += step
            behind -= step
            ahead -= step
            if behind <= 0:
                tail += 1
                rate_tail = cost_rate(price[tail], a)
                behind = edges[tail + 1] - edges[tail]
            if ahead <= 0:
                head += 1
                rate_head = cost_rate(price[head], a)
                ahead = edges[head + 1] - edges[head]
            if w * (waited + length) + cost < least:
                least, best, start = w * (waited + length) + cost, waited, tail
        result[0, j], result[1, j] = least, best + length
        at, until = arrival[j] + best, arrival[j] + best + length
        while edges[start] < until:
            seconds = _seconds_in_cell(edges, start, at, until)
            for r in range(len(a)):
                used[start, r] += a[r] * seconds
            start += 1


@compiled
def _advance_in_cell(
    left: float,
    pieces: Floats,
    scheduled: Floats,
    n: int,
    heap: Floats,
    count: int,
    weight: float,
    sweep: Floats,
) -> int:
    """Move the completion time through the rest of a cell; its cheap work replaces the dearest scheduled.

    Parameters
    ----------
    scheduled, n
        Scheduled work in each of the n pieces of the cell; the heap holds that in earlier cells.
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
        top = pieces[0, own] if own >= 0 else 0.0
        older = count > 0 and heap[0, 0] > top
        if older:
            top = heap[0, 0]
        pace, saving, active = 0.0, 0.0, 0
        while active < n and pieces[0, active] < top:
            pace += pieces[1, active]
            saving += pieces[1, active] * (top - pieces[0, active])
            active += 1
        if active == 0:
            break
        pile = heap[1, 0] if older else scheduled[own]
        step = min(left, pile / pace)
        for i in range(active):
            scheduled[i] += pieces[1, i] * step
        rest = max(0.0, pile - pace * step) if step >= left else 0.0
        if not older:
            scheduled[own] = rest
        elif rest > 0:
            heap[1, 0] = rest
        else:
            pop(heap, count)
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
    pieces: Floats,
    corners: Floats,
) -> None:
    """Add the unit-seconds that a malleable job uses per resource in each cell of the time grid.

    It takes all work at a cost below the limit, and as much at the limit as is missing.

    Parameters
    ----------
    until
        C_j; the arrival is in cell `first`.
    missing
        Work of the job.
    pieces, corners
        Buffers of a hull.
    """
    for again in range(2):
        g = first
        while edges[g] < until:
            seconds = _seconds_in_cell(edges, g, arrival, until)
            for i in range(cost_hull(price[g], usage, speed, pieces, corners)):
                if again == 0:
                    missing -= pieces[1, i] * seconds if pieces[0, i] < limit else 0.0
                    continue
                if pieces[0, i] > limit:
                    break
                part = seconds
                if pieces[0, i] == limit:
                    part = min(seconds, max(0.0, missing) / pieces[1, i])
                    missing -= pieces[1, i] * part
                for r in range(used.shape[1]):
                    before = usage[int(pieces[2, i - 1]), r] if i else 0.0
                    used[g, r] += (usage[int(pieces[2, i]), r] - before) * part
            g += 1


@compiled
def malleable_preemptive(
    edges: Floats,
    price: Floats,
    cell: Ints,
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
        As in `rigid_preemptive`, as are the others.
    """
    cells, widest = len(price), 1
    for j in range(len(arrival)):
        widest = max(widest, first[j + 1] - first[j])
    pieces, corners = np.empty((4, widest)), np.empty((2, widest + 1))
    scheduled, heap, sweep = pieces[3], np.empty((2, 4096)), np.empty(5)
    for j in range(begin, len(arrival), stride):
        own_usage, own_speed = usage[first[j] : first[j + 1]], speed[first[j] : first[j + 1]]
        full, g, at, rest, count, dearest = own_speed[-1], cell[j], arrival[j], work[j], 0, 0.0
        sweep[0] = sweep[1] = 0.0
        while g < cells:
            n = cost_hull(price[g], own_usage, own_speed, pieces, corners)
            left = edges[g + 1] - at
            if rest > 0:
                # As early as can be: everything at full speed.
                step = min(left, rest / full)
                for i in range(n):
                    scheduled[i] = pieces[1, i] * step
                    sweep[1] += pieces[0, i] * scheduled[i]
                sweep[0] += step
                rest = 0.0 if step < left or full * left >= rest else rest - full * step
                left -= step
                dearest = max(dearest, pieces[0, n - 1])
                if rest <= 0:
                    sweep[2], sweep[3], sweep[4] = weight[j] * sweep[0] + sweep[1], sweep[0], dearest
            if rest <= 0:
                count = _advance_in_cell(left, pieces, scheduled, n, heap, count, weight[j], sweep)
                if weight[j] * sweep[0] >= sweep[2]:
                    break
            if count + n > heap.shape[1]:
                heap = enlarged(heap, count, n)
            for i in range(n):
                if scheduled[i] > 0:
                    push(heap, count, pieces[0, i], scheduled[i])
                    count += 1
            g += 1
            at = edges[g]
        result[0, j], result[1, j] = sweep[2], sweep[3]
        _use_malleable(
            edges,
            price,
            own_usage,
            own_speed,
            arrival[j],
            arrival[j] + sweep[3],
            cell[j],
            sweep[4],
            work[j],
            used,
            pieces,
            corners,
        )
