"""Compiled loops of the check: lower bounds on the cost of each job alone, by prices of time.

A job runs from r on, and ends at C; it costs ω (C − r) and its use of resources at their prices over time.
The derivation is independent of the solvers, which share only hulls and heaps with it (`cost_of_work.py`);
the tests compare these with plain enumeration.

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
from ..cost_of_work import cost_hull, cost_rate, enlarged, pop, push

UNIT = 2.0**-53
"""Relative error of one rounding."""
MAX_ROUNDINGS = 1e6
"""Maximum number of roundings for one job; with more the cost is that of its fastest run without prices."""

END, COST, LEAST, COUNT = 0, 1, 2, 3
"""Indices in the state of a sweep: C − r, cost of the selected work, least total so far, roundings."""


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
                pop(heap, count)
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
        Shapes (G + 1,) and (G, R); the first edge is before any arrival, the last one infinite, and the last
        row is 0.
    arrival, work, weight
        Arrival, work and weight of each job, shape (J,); without work a job costs nothing.
    first, usage, speed
        Configurations of job j are rows first[j] to first[j + 1] − 1, by rising speed.
    """
    cells, bounds = len(price), np.zeros(len(arrival))
    widest = 1
    for j in range(len(arrival)):
        widest = max(widest, first[j + 1] - first[j])
    pieces, corners = np.empty((4, widest)), np.empty((2, widest + 1))
    selected, heap, state = pieces[3], np.empty((2, 1024)), np.zeros(4)
    for j in range(len(arrival)):
        if work[j] <= 0:
            continue
        own_usage, own_speed = usage[first[j] : first[j + 1]], speed[first[j] : first[j + 1]]
        g = np.searchsorted(edges, arrival[j], side="right") - 1
        for i in range(len(state)):
            state[i] = 0.0
        rest, at, filled, count = work[j], arrival[j], False, 0
        highest = soonest = 0.0
        while g < cells:
            until = edges[g + 1]
            length = until - at
            n = cost_hull(price[g], own_usage, own_speed, pieces, corners)
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
                heap = enlarged(heap, count, n)
            for i in range(n):
                if selected[i] > 0:
                    push(heap, count, pieces[0, i], selected[i])
                    count += 1
            g += 1
            at = until
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
    cells = len(price)
    head = tail = begin
    rate_tail = cost_rate(price[begin], usage)
    rate_head = rate_tail
    ahead = edges[begin + 1] - arrival
    behind, rest, cost, count = ahead, length, 0.0, price.shape[1] + 8.0
    while ahead < rest:
        cost += rate_head * ahead
        rest -= ahead
        head += 1
        count += 4
        rate_head = cost_rate(price[head], usage)
        ahead = edges[head + 1] - edges[head]
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
            rate_tail = cost_rate(price[tail], usage)
            behind = edges[tail + 1] - edges[tail]
        if ahead <= 0:
            head += 1
            rate_head = cost_rate(price[head], usage)
            ahead = edges[head + 1] - edges[head]
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
