"""Compiled loops of the check: lower bounds on the cost of each job alone, by prices of time.

A job runs from r on, and ends at C; it costs ω (C − r) and its use of resources at their prices over time. No
code is shared with the solvers. Arrays are written entry by entry, as slices take seconds to compile.

Configuration k of a job costs c_k(t) = λ(t)·a_k per second, and does work s_k per second. In a cell of the
grid, where c is constant, the lower hull of the points (0, 0) and (s_k, c_k) gives the cost of work: pieces
of speed at rising costs per work.

Every loop counts its roundings, and results are reduced by their largest possible error: all terms are sums
of non-negative products, so that a rounding is wrong by at most `UNIT` of the largest cost. The errors of
times and of work are relative too, n roundings of UNIT each; the caller reduces the work by more than that.
"""

from __future__ import annotations

import numpy as np

from ....instances.common.arrays import Floats, Ints
from ...common.compiled import compiled

UNIT = 2.0**-53
"""Relative error of one rounding."""
MAX_ROUNDINGS = 1e6
"""Maximum number of roundings for one job; with more the cost is that of its fastest run without prices."""

END, COST, LEAST, COUNT = 0, 1, 2, 3
"""Indices in the state of a sweep: C − r, cost of the selected work, least total so far, roundings."""


@compiled
def _cost_rate(price: Floats, usage: Floats) -> float:
    """Return the cost per second λ·a of the resources of a configuration."""
    total = 0.0
    for r in range(len(price)):
        total += price[r] * usage[r]
    return total


@compiled
def _cost_hull(price: Floats, usage: Floats, speed: Floats, pieces: Floats, corners: Floats) -> int:
    """Compute the lower convex hull of cost over speed in an interval of time; return its segment count.

    Parameters
    ----------
    price
        λ, shape (R,).
    usage, speed
        Demands and speeds of the K configurations by rising speed, shapes (K, R) and (K,).
    pieces
        Output: cost per work, and speed, of each piece; shape (2, K).
    corners
        Buffer: speed and cost at the end of each piece, shape (2, K + 1).
    """
    count = 0
    corners[0, 0] = corners[1, 0] = 0.0
    for k in range(len(speed)):
        s, c = speed[k], _cost_rate(price, usage[k])
        if count and s == corners[0, count]:
            if c >= corners[1, count]:
                continue
            count -= 1
        while count and (c - corners[1, count]) / (s - corners[0, count]) <= pieces[0, count - 1]:
            count -= 1
        pieces[0, count] = (c - corners[1, count]) / (s - corners[0, count])
        pieces[1, count] = s - corners[0, count]
        count += 1
        corners[0, count], corners[1, count] = s, c
    return count


@compiled
def _push(heap: Floats, count: int, dear: float, work: float) -> None:
    """Insert an amount of work at a cost into a max-heap of `count` entries; shape (2, capacity)."""
    at = count
    while at and heap[0, (at - 1) // 2] < dear:
        above = (at - 1) // 2
        heap[0, at], heap[1, at] = heap[0, above], heap[1, above]
        at = above
    heap[0, at], heap[1, at] = dear, work


@compiled
def _pop(heap: Floats, count: int) -> None:
    """Remove the entry of maximum cost from a heap of `count` entries."""
    last = count - 1
    dear, work = heap[0, last], heap[1, last]
    at = 0
    while True:
        child = 2 * at + 1
        if child >= last:
            break
        if child + 1 < last and heap[0, child + 1] > heap[0, child]:
            child += 1
        if heap[0, child] <= dear:
            break
        heap[0, at], heap[1, at] = heap[0, child], heap[1, child]
        at = child
    heap[0, at], heap[1, at] = dear, work


@compiled
def _clear(values: Floats, n: int) -> None:
    """Set the first n values of an array to 0."""
    for i in range(n):
        values[i] = 0.0


@compiled
def _enlarged_heap(heap: Floats, count: int, n: int) -> Floats:
    """Return a copy of a heap of `count` entries with capacity for n more."""
    larger = np.empty((2, 2 * heap.shape[1] + n))
    for i in range(count):
        larger[0, i], larger[1, i] = heap[0, i], heap[1, i]
    return larger


@compiled
def _cross_cell(
    length: float,
    pieces: Floats,
    selected: Floats,
    n: int,
    heap: Floats,
    count: int,
    weight: float,
    state: Floats,
) -> int:
    """Move a job's end C through a cell (interval of time), replacing dear work by cheaper work there.

    Parameters
    ----------
    pieces, selected, n
        Hull of the cell in the first n columns, and the selected work of each of its n pieces.
    heap, count
        Selected work of earlier cells.

    Returns
    -------
    count
        Number of entries left in the heap.
    """
    left = length
    while left > 0:
        own = n - 1
        while own >= 0 and selected[own] <= 0:
            own -= 1
        dearest = pieces[0, own] if own >= 0 else 0.0
        from_heap = count > 0 and heap[0, 0] > dearest
        if from_heap:
            dearest = heap[0, 0]
        pace, saving, active = 0.0, 0.0, 0
        while active < n and pieces[0, active] < dearest:
            pace += pieces[1, active]
            saving += pieces[1, active] * (dearest - pieces[0, active])
            active += 1
        state[COUNT] += 2 * active + 8
        if active == 0:
            break
        pile = heap[1, 0] if from_heap else selected[own]
        step = min(left, pile / pace)
        for i in range(active):
            selected[i] += pieces[1, i] * step
        if step < left:
            left -= step
            if from_heap:
                _pop(heap, count)
                count -= 1
            else:
                selected[own] = 0.0
        else:
            left = 0.0
            rest = max(0.0, pile - pace * step)
            if from_heap:
                heap[1, 0] = rest
            else:
                selected[own] = rest
        state[END] += step
        state[COST] -= saving * step
        # The total is linear from one step to the next.
        state[LEAST] = min(state[LEAST], weight * state[END] + state[COST])
    state[END] += left
    return count


@compiled
def preemptive_cost_bounds(
    edges: Floats,
    price: Floats,
    arrival: Floats,
    work: Floats,
    weight: Floats,
    first: Ints,
    usage: Floats,
    speed: Floats,
) -> Floats:
    """Return lower bounds on min ω (C − r) + ∫ λ·a dt of jobs that may be interrupted, shape (J,).

    C sweeps over time, with the cheapest work before it selected and sorted by cost.

    Parameters
    ----------
    edges, price
        Shapes (G,) and (G, R); the first edge is before any arrival, and the last row is 0.
    arrival, work, weight
        Arrival, work and weight of each job, shape (J,); without work a job costs nothing.
    first, usage, speed
        Configurations of job j are rows first[j] to first[j + 1] − 1, by rising speed.
    """
    cells, bounds = len(edges), np.zeros(len(arrival))
    widest = 1
    for j in range(len(arrival)):
        widest = max(widest, first[j + 1] - first[j])
    pieces, corners = np.empty((2, widest)), np.empty((2, widest + 1))
    selected, heap, state = np.zeros(widest), np.empty((2, 1024)), np.zeros(4)
    for j in range(len(arrival)):
        if work[j] <= 0:
            continue
        own_usage, own_speed = usage[first[j] : first[j + 1]], speed[first[j] : first[j + 1]]
        g = np.searchsorted(edges, arrival[j], side="right") - 1
        _clear(state, len(state))
        rest, count, filled, at, highest, soonest = work[j], 0, False, arrival[j], 0.0, 0.0
        while g < cells:
            length = edges[g + 1] - at if g + 1 < cells else np.inf
            n = _cost_hull(price[g], own_usage, own_speed, pieces, corners)
            _clear(selected, n)
            state[COUNT] += 2 * n + 8
            if not filled:
                # As early as possible: all work at full speed.
                full = own_speed[-1]
                step = min(length, rest / full)
                for i in range(n):
                    selected[i] = pieces[1, i] * step
                    state[COST] += pieces[0, i] * selected[i]
                state[END] += step
                filled = step < length or full * length >= rest
                rest -= full * step
                length -= step
                if filled:
                    highest, soonest = state[COST], weight[j] * state[END]
                    state[LEAST] = soonest + highest
            if filled:
                count = _cross_cell(length, pieces, selected, n, heap, count, weight[j], state)
                if weight[j] * state[END] >= state[LEAST]:
                    break
            if count + n > heap.shape[1]:
                heap = _enlarged_heap(heap, count, n)
            for i in range(n):
                if selected[i] > 0:
                    _push(heap, count, pieces[0, i], selected[i])
                    count += 1
            g += 1
            at = edges[g] if g < cells else np.inf
        margin = 2 * UNIT * (state[COUNT] + price.shape[1] + 8)
        bounds[j] = soonest * (1 - margin)
        if state[COUNT] < MAX_ROUNDINGS and np.isfinite(state[COST]) and np.isfinite(highest):
            bounds[j] = max(bounds[j], state[LEAST] * (1 - margin) - margin * highest)
    return bounds


@compiled
def _run_cost_bound(
    edges: Floats,
    price: Floats,
    arrival: float,
    length: float,
    weight: float,
    usage: Floats,
    begin: int,
) -> float:
    """Return a lower bound on the cost of one uninterrupted run of given length in one configuration.

    The cost is weighted completion time plus priced resources.

    The total is linear in the start between those at which the start or the end is at an edge.
    """
    cells = len(edges)
    head = tail = begin
    rate_tail = _cost_rate(price[begin], usage)
    rate_head = rate_tail
    ahead = edges[begin + 1] - arrival if begin + 1 < cells else np.inf
    behind, rest, cost, count = ahead, length, 0.0, price.shape[1] + 8.0
    while ahead < rest:
        cost += rate_head * ahead
        rest -= ahead
        head += 1
        count += 4
        rate_head = _cost_rate(price[head], usage)
        ahead = edges[head + 1] - edges[head] if head + 1 < cells else np.inf
    cost += rate_head * rest
    ahead -= rest
    waited, highest, least = 0.0, cost, weight * length + cost
    while tail + 1 < cells and weight * (waited + length) < least:
        step = min(ahead, behind)
        if head != tail:
            cost = max(0.0, cost + step * (rate_head - rate_tail))
            highest = max(highest, cost)
        waited += step
        behind -= step
        ahead -= step
        count += 8
        if behind <= 0:
            tail += 1
            rate_tail = _cost_rate(price[tail], usage)
            behind = edges[tail + 1] - edges[tail] if tail + 1 < cells else np.inf
        if ahead <= 0:
            head += 1
            rate_head = _cost_rate(price[head], usage)
            ahead = edges[head + 1] - edges[head] if head + 1 < cells else np.inf
        least = min(least, weight * (waited + length) + cost)
    margin = 2 * UNIT * count
    alone = weight * length * (1 - margin)
    if count >= MAX_ROUNDINGS or not np.isfinite(highest):
        return float(alone)
    return float(max(alone, least * (1 - margin) - margin * highest))


@compiled
def nonpreemptive_cost_bounds(
    edges: Floats,
    price: Floats,
    arrival: Floats,
    work: Floats,
    weight: Floats,
    first: Ints,
    usage: Floats,
    speed: Floats,
) -> Floats:
    """Return lower bounds on min ω (C − r) + ∫ λ·a dt of jobs that run without a break, shape (J,).

    Each job runs in one configuration.
    """
    bounds = np.zeros(len(arrival))
    for j in range(len(arrival)):
        if work[j] <= 0:
            continue
        begin = np.searchsorted(edges, arrival[j], side="right") - 1
        least = np.inf
        for k in range(first[j], first[j + 1]):
            length = work[j] / speed[k]
            least = min(least, _run_cost_bound(edges, price, arrival[j], length, weight[j], usage[k], begin))
        bounds[j] = least
    return bounds
