"""Cost of work at prices of time: the cost of a configuration, the hull of all, and heaps of work by cost.

Small compiled tools of two derivations that are independent of each other: the check of the bound
(`check/one_job.py`), and the Lagrangian dual in which methods look for prices. Arrays are written entry by
entry, as slices take seconds to compile.
"""

from __future__ import annotations

import numpy as np

from ...instances.common.arrays import Floats
from ..common.compiled import compiled


@compiled
def cost_rate(price: Floats, usage: Floats) -> float:
    """Return the cost per second λ·a of the resources of a configuration."""
    total = 0.0
    for r in range(len(price)):
        total += price[r] * usage[r]
    return total


@compiled
def cost_hull(price: Floats, usage: Floats, speed: Floats, pieces: Floats, corners: Floats) -> int:
    """Compute the lower convex hull of cost over speed in an interval of time; return its piece count.

    Configurations may share the interval: every speed up to the largest has a least cost per second, which
    is convex and piecewise linear, from (0, 0) on.

    Parameters
    ----------
    price
        λ, shape (R,).
    usage, speed
        Demands and speeds of the K configurations by rising speed, shapes (K, R) and (K,).
    pieces
        Output: cost per work, speed, and the configuration at the end of each piece, and 0 for the work that
        is selected in it; shape (4, K).
    corners
        Buffer: speed and cost at the end of each piece, shape (2, K + 1).
    """
    count = 0
    corners[0, 0] = corners[1, 0] = 0.0
    for k in range(len(speed)):
        s, c = speed[k], cost_rate(price, usage[k])
        if count and s == corners[0, count]:
            if c >= corners[1, count]:
                continue
            count -= 1
        while count and (c - corners[1, count]) / (s - corners[0, count]) <= pieces[0, count - 1]:
            count -= 1
        pieces[0, count] = (c - corners[1, count]) / (s - corners[0, count])
        pieces[1, count], pieces[2, count] = s - corners[0, count], k
        count += 1
        corners[0, count], corners[1, count] = s, c
    for i in range(count):
        pieces[3, i] = 0.0
    return count


@compiled
def push(heap: Floats, count: int, cost: float, amount: float) -> None:
    """Insert an amount of work at a cost into a max-heap of `count` entries; shape (2, capacity)."""
    at = count
    while at and heap[0, (at - 1) // 2] < cost:
        above = (at - 1) // 2
        heap[0, at], heap[1, at] = heap[0, above], heap[1, above]
        at = above
    heap[0, at], heap[1, at] = cost, amount


@compiled
def pop(heap: Floats, count: int) -> None:
    """Remove the entry of maximum cost from a heap of `count` entries."""
    last = count - 1
    cost, amount = heap[0, last], heap[1, last]
    at = 0
    while True:
        child = 2 * at + 1
        if child >= last:
            break
        if child + 1 < last and heap[0, child + 1] > heap[0, child]:
            child += 1
        if heap[0, child] <= cost:
            break
        heap[0, at], heap[1, at] = heap[0, child], heap[1, child]
        at = child
    heap[0, at], heap[1, at] = cost, amount


@compiled
def enlarged(heap: Floats, count: int, n: int) -> Floats:
    """Return a copy of a heap of `count` entries with capacity for n more."""
    larger = np.empty((2, 2 * heap.shape[1] + n))
    for i in range(count):
        larger[0, i], larger[1, i] = heap[0, i], heap[1, i]
    return larger
