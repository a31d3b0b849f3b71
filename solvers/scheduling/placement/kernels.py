"""Compiled loops of placement."""

from __future__ import annotations

import numpy as np

from ....formulations.common.compiled import compiled
from ....instances.common.arrays import Floats, Ints


@compiled
def most_tasks(room: Floats, slack: Floats, demand: Floats, tasks: int) -> int:
    """Return how many of these tasks one server holds; room, slack and demand have shape (R,)."""
    held = tasks
    for r in range(len(demand)):
        if demand[r] > 0 and held * demand[r] > room[r] + slack[r]:
            held = max(0, int(np.floor((room[r] + slack[r]) / demand[r])))
    return held


@compiled
def best_fit(
    free: Floats, slack: Floats, capacity: Floats, demand: Floats, tasks: int, most: int
) -> tuple[Ints, Ints]:
    """Return servers and how many tasks go on each; nothing where they do not fit on `most` servers.

    Each time that server is taken which holds most of the tasks that wait, and of these the one on which the
    least is left (Gu et al., Tiresias, NSDI'19). Tasks are all alike, so that no other choice needs fewer.

    Parameters
    ----------
    free, slack, capacity
        What servers have left, by how much that may be exceeded, and what they have; shape (N, R).
    demand
        What one task takes, shape (R,).
    """
    servers, counts = np.empty(most, dtype=np.int64), np.empty(most, dtype=np.int64)
    taken = np.zeros(len(free), dtype=np.bool_)
    waiting, used = tasks, 0
    while waiting > 0:
        best, best_held, best_left = -1, 0, np.inf
        for n in range(len(free)):
            if taken[n]:
                continue
            held = most_tasks(free[n], slack[n], demand, waiting)
            if held == 0 or held < best_held:
                continue
            left = 0.0
            for r in range(len(demand)):
                if capacity[n, r] > 0:
                    left += (free[n, r] - held * demand[r]) / capacity[n, r]
            if held > best_held or left < best_left:
                best, best_held, best_left = n, held, left
        if best < 0 or used == most:
            return servers[:0], counts[:0]
        servers[used], counts[used] = best, best_held
        taken[best] = True
        used += 1
        waiting -= best_held
    return servers[:used], counts[:used]
