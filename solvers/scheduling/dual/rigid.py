"""Compiled loops of the dual: the cheapest schedule of each rigid job by prices of time, and what it uses."""

from __future__ import annotations

import numpy as np

from ....formulations.common.compiled import compiled
from ....instances.common.arrays import Floats


@compiled
def _cell(edges: Floats, at: float) -> int:
    """Return in which cell a moment is; written out, for the library's search takes long to compile."""
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
    found = 0.0
    for r in range(len(demand)):
        found += price[r] * demand[r]
    return found


@compiled
def _push(rates: Floats, lengths: Floats, count: int, rate: float, length: float) -> None:
    """Put seconds at a rate into a heap of `count` piles, the dearest first."""
    at = count
    while at:
        above = (at - 1) // 2
        if rates[above] >= rate:
            break
        rates[at], lengths[at] = rates[above], lengths[above]
        at = above
    rates[at], lengths[at] = rate, length


@compiled
def _pop(rates: Floats, lengths: Floats, count: int) -> None:
    """Take the dearest of `count` piles away."""
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
def _use(
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
    """Add what a job uses: all seconds whose rate is below the limit, and of those at it what is missing.

    Parameters
    ----------
    until
        C_j, in cell `last`; the arrival is in cell `first`.
    missing
        Seconds that it runs.
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
def interrupted(
    edges: Floats,
    price: Floats,
    arrival: Floats,
    work: Floats,
    weight: Floats,
    demand: Floats,
    begin: int,
    stride: int,
    used: Floats,
    found: Floats,
) -> None:
    """Find min ω (C − r) + ∫ λ·a dt of each stride-th job from `begin` on, where it may be interrupted.

    C sweeps over time while the cheapest seconds before it are held: where a cell is cheaper than the dearest
    of them, it takes their place.

    Parameters
    ----------
    edges, price
        Shapes (G,) and (G, R); the first edge is before any arrival, and the last row is 0.
    arrival, work, weight, demand
        Shapes (J,), and (J, R); work is in seconds.
    used
        What the jobs use of each resource in each cell, unit-seconds, shape (G, R); added to.
    found
        Becomes the least cost and C − r of the jobs, shape (2, J).
    """
    cells = len(price)
    rate_of, rates, lengths = np.empty(cells), np.empty(2 * cells + 2), np.empty(2 * cells + 2)
    for j in range(begin, len(arrival), stride):
        w, a = weight[j], demand[j]
        first = _cell(edges, arrival[j])
        g, at, rest, count, cost, moved = first, arrival[j], work[j], 0, 0.0, 0.0
        while True:
            rate = _rate(price[g], a)
            rate_of[g] = rate
            left = edges[g + 1] - at if g + 1 < cells else np.inf
            step = min(left, rest)
            cost += rate * step
            moved += step
            rest -= step
            _push(rates, lengths, count, rate, step)
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
                    _pop(rates, lengths, count)
                    count -= 1
                if w * moved + cost < least:
                    least, best, limit, last = w * moved + cost, moved, dearest, g
            moved += left
            if taken > 0:
                _push(rates, lengths, count, rate, taken)
                count += 1
            g += 1
            if w * moved >= least or g == cells or rates[0] <= 0:
                break
            rate = _rate(price[g], a)
            rate_of[g] = rate
            left = edges[g + 1] - edges[g] if g + 1 < cells else np.inf
        found[0, j], found[1, j] = least, best
        _use(edges, rate_of, a, arrival[j], arrival[j] + best, first, last, limit, work[j], used)


@compiled
def at_once(
    edges: Floats,
    price: Floats,
    arrival: Floats,
    work: Floats,
    weight: Floats,
    demand: Floats,
    begin: int,
    stride: int,
    used: Floats,
    found: Floats,
) -> None:
    """Find the same for jobs that run in one go, in a window that starts or ends at an edge, or starts at r.

    Parameters are those of `interrupted`.
    """
    cells, resources = price.shape
    for j in range(begin, len(arrival), stride):
        w, a, length = weight[j], demand[j], work[j]
        tail = _cell(edges, arrival[j])
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
        found[0, j], found[1, j] = least, best + length
        at, until, g = arrival[j] + best, arrival[j] + best + length, start
        while g < cells:
            stop = min(until, edges[g + 1]) if g + 1 < cells else until
            seconds = max(0.0, stop - max(edges[g], at))
            for r in range(resources):
                used[g, r] += a[r] * seconds
            if stop >= until:
                break
            g += 1
