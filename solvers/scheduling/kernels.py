"""Compiled loops of the engine and its policies: what runs, what fits, and lists sorted by keys.

Compiled loops of placement.
"""

from __future__ import annotations

import numpy as np

from ...formulations.common.compiled import compiled
from ...instances.common.arrays import Flags, Floats, Ints


@compiled
def earliest(jobs: Ints, times: Floats) -> float:
    """Return the least time of these jobs, infinite without any."""
    found = np.inf
    for j in jobs:
        found = min(found, times[j])
    return found


@compiled
def add_to(jobs: Ints, seconds: float, totals: Floats) -> None:
    """Add seconds to the totals of these jobs."""
    for j in jobs:
        totals[j] += seconds


@compiled
def total(jobs: Ints, demand: Floats) -> Floats:
    """Return what these jobs take together, shape (R,)."""
    found = np.zeros(demand.shape[1])
    for j in jobs:
        for r in range(len(found)):
            found[r] += demand[j, r]
    return found


@compiled
def _fits(demand: Floats, free: Floats, slack: Floats, j: int) -> bool:
    for r in range(len(free)):  # noqa: SIM110  the compiler knows no all()
        if demand[j, r] > free[r] + slack[r]:
            return False
    return True


@compiled
def place(waiting: Ints, count: int, keys: Floats, j: int) -> int:
    """Return where a job stands, or would, in a list that is sorted by keys, then jobs."""
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        other = waiting[middle]
        if keys[other] < keys[j] or (keys[other] == keys[j] and other < j):
            low = middle + 1
        else:
            high = middle
    return low


@compiled
def insert(waiting: Ints, count: int, keys: Floats, j: int) -> None:
    """Put a job into a sorted list of `count` jobs, which has room for it."""
    at = place(waiting, count, keys, j)
    for k in range(count, at, -1):
        waiting[k] = waiting[k - 1]
    waiting[at] = j


@compiled
def remove(waiting: Ints, count: int, keys: Floats, j: int) -> None:
    """Take a job out of a sorted list of `count` jobs; its key is still the one that it came with."""
    for k in range(place(waiting, count, keys, j), count - 1):
        waiting[k] = waiting[k + 1]


@compiled
def fill(
    waiting: Ints,
    count: int,
    keys: Floats,
    running: Ints,
    held: Flags,
    running_keys: Floats,
    demand: Floats,
    capacity: Floats,
) -> Ints:
    """Return the jobs that run if those are served first that have the least keys, and none blocks another.

    Parameters
    ----------
    waiting, count, keys
        The jobs that wait, sorted by key, then job.
    running, held, running_keys
        The jobs that run; which of them must go on, and the keys of all.
    demand, capacity
        Shapes (J, R), (R,).
    """
    free, slack = capacity.copy(), 1e-9 * capacity
    chosen = np.empty(len(running) + count, dtype=np.int64)
    n = 0
    for k in range(len(running)):
        if held[k]:
            free -= demand[running[k]]
            chosen[n] = running[k]
            n += 1
    by_job = np.argsort(running, kind="mergesort")
    order = by_job[np.argsort(running_keys[by_job], kind="mergesort")]
    a = b = 0
    while a < count or b < len(order):
        while b < len(order) and held[order[b]]:
            b += 1
        if b < len(order):
            k = order[b]
            first = a >= count or (running_keys[k], running[k]) <= (keys[waiting[a]], waiting[a])
        else:
            if a >= count:
                break
            first = False
        if first:
            j = running[k]
            b += 1
        else:
            j = waiting[a]
            a += 1
        if _fits(demand, free, slack, j):
            free -= demand[j]
            chosen[n] = j
            n += 1
        if len(free) == 1 and free[0] <= slack[0]:
            break
    return chosen[:n]


@compiled
def raise_levels(
    jobs: Ints, executed_s: Floats, width: Floats, level: Ints, limits: Floats, near: float, moment_s: float
) -> None:
    """Raise the level of each of these jobs while its service has reached the limit of the level.

    Parameters
    ----------
    level, limits
        Of each job, and the limit of each level in GPU-seconds; infinite for the last.
    near, moment_s
        A limit counts as reached that is missed by so much of it, or by so many seconds.
    """
    for j in jobs:
        while limits[level[j]] < np.inf:
            limit = limits[level[j]]
            if executed_s[j] * width[j] < limit - max(near * limit, moment_s * width[j]):
                break
            level[j] += 1


@compiled
def until_limit(jobs: Ints, executed_s: Floats, width: Floats, level: Ints, limits: Floats) -> float:
    """Return how many seconds the next of these jobs still runs to the limit of its level."""
    found = np.inf
    for j in jobs:
        found = min(found, limits[level[j]] / width[j] - executed_s[j])
    return found


@compiled
def choice_fault(chosen: Ints, arrived: int, done: Flags, mark: Flags) -> int:
    """Return what is wrong with chosen jobs: 1, one has not arrived; 2, it has ended; 3, it is there twice.

    Parameters
    ----------
    arrived
        Jobs that have arrived; they are the first ones.
    mark
        Has room for all jobs, and holds False.
    """
    found = 0
    for j in chosen:
        if j < 0 or j >= arrived:
            return 1
        if done[j]:
            found = 2
    for j in chosen:
        if mark[j]:
            found = 3
        mark[j] = True
    for j in chosen:
        mark[j] = False
    return found


@compiled
def changes(running: Ints, chosen: Ints, mark: Flags) -> tuple[Ints, Ints]:
    """Return the jobs that stop and those that start; `mark` has room for all jobs and holds False."""
    stop, start = np.empty(len(running), dtype=np.int64), np.empty(len(chosen), dtype=np.int64)
    stops = starts = 0
    for j in chosen:
        mark[j] = True
    for j in running:
        if not mark[j]:
            stop[stops] = j
            stops += 1
        mark[j] = False
    for j in chosen:
        if mark[j]:
            start[starts] = j
            starts += 1
        mark[j] = False
    return stop[:stops], start[:starts]


@compiled
def backfill(
    waiting: Ints,
    demand: Floats,
    free: Floats,
    capacity: Floats,
    running: Ints,
    expected_end_s: Floats,
    now_s: float,
    estimate_s: Floats,
) -> Ints:
    """Return the jobs that EASY backfilling starts, in the order of `waiting`.

    Jobs start in order while they fit. The first that does not is promised the earliest time at which it
    will fit if running jobs end when they are expected to; a later job starts now only if it ends by then,
    or leaves free what the promised job needs (Lifka 1995).

    Parameters
    ----------
    running, expected_end_s
        The jobs that run, and when they end by their estimates, both by job.
    """
    free, slack = free.copy(), 1e-9 * capacity
    chosen = np.empty(len(waiting), dtype=np.int64)
    n = head = 0
    while head < len(waiting) and _fits(demand, free, slack, waiting[head]):
        free -= demand[waiting[head]]
        chosen[n] = waiting[head]
        n += 1
        head += 1
    if head >= len(waiting) - 1:
        return chosen[:n]
    active = np.empty(len(running) + n, dtype=np.int64)
    ends = np.empty(len(running) + n)
    for k in range(len(running)):
        active[k], ends[k] = running[k], max(now_s, expected_end_s[running[k]])
    for k in range(n):
        active[len(running) + k], ends[len(running) + k] = chosen[k], now_s + estimate_s[chosen[k]]
    promised, spare = np.inf, free.copy()
    for k in np.argsort(ends, kind="mergesort"):
        spare += demand[active[k]]
        if _fits(demand, spare, slack, waiting[head]):
            promised = ends[k]
            break
    spare -= demand[waiting[head]]
    for k in range(head + 1, len(waiting)):
        j = waiting[k]
        if not _fits(demand, free, slack, j):
            continue
        in_time = now_s + estimate_s[j] <= promised
        if in_time or _fits(demand, spare, slack, j):
            if not in_time:
                spare -= demand[j]
            free -= demand[j]
            chosen[n] = j
            n += 1
    return chosen[:n]


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
