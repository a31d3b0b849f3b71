"""Compiled loops of engine, policies and placement: choice by keys, sorted queues, backfilling, best fit."""

from __future__ import annotations

import numpy as np

from ...formulations.common.compiled import compiled
from ...instances.common.arrays import Flags, Floats, Ints


@compiled
def earliest(jobs: Ints, times: Floats) -> float:
    """Return the minimum of the given jobs' times in seconds, infinite for no jobs."""
    least = np.inf
    for j in jobs:
        least = min(least, times[j])
    return least


@compiled
def add_to(jobs: Ints, seconds: float, totals: Floats) -> None:
    """Add seconds to the accumulated times of the given jobs, in place."""
    for j in jobs:
        totals[j] += seconds


@compiled
def total(jobs: Ints, demand: Floats) -> Floats:
    """Return the total resource demand of the given jobs, shape (R,)."""
    amounts = np.zeros(demand.shape[1])
    for j in jobs:
        for r in range(len(amounts)):
            amounts[r] += demand[j, r]
    return amounts


@compiled
def _fits(demand: Floats, free: Floats, slack: Floats, j: int) -> bool:
    for r in range(len(free)):  # noqa: SIM110  the compiler knows no all()
        if demand[j, r] > free[r] + slack[r]:
            return False
    return True


@compiled
def place(waiting: Ints, count: int, keys: Floats, j: int) -> int:
    """Return the position at which a job belongs in a queue sorted by key, then job number."""
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
    """Insert a job into a queue of `count` jobs sorted by key, whose array must have space for it."""
    at = place(waiting, count, keys, j)
    for k in range(count, at, -1):
        waiting[k] = waiting[k - 1]
    waiting[at] = j


@compiled
def remove(waiting: Ints, count: int, keys: Floats, j: int) -> None:
    """Remove a job from a queue of `count` jobs sorted by key; its key must be that of its insertion."""
    for k in range(place(waiting, count, keys, j), count - 1):
        waiting[k] = waiting[k + 1]


@compiled
def fill(
    waiting: Ints,
    count: int,
    keys: Floats,
    running: Ints,
    protected: Flags,
    running_keys: Floats,
    demand: Floats,
    capacity: Floats,
) -> Ints:
    """Return the jobs that run: protected ones, then all in ascending order of keys while they fit.

    A job that does not fit blocks no other.

    Parameters
    ----------
    waiting, count, keys
        The waiting jobs, sorted by key, then job.
    running, protected, running_keys
        The running jobs, flags of those that must continue, and the keys of all.
    demand, capacity
        Shapes (J, R), (R,).
    """
    free, slack = capacity.copy(), 1e-9 * capacity
    chosen = np.empty(len(running) + count, dtype=np.int64)
    n = 0
    for k in range(len(running)):
        if protected[k]:
            free -= demand[running[k]]
            chosen[n] = running[k]
            n += 1
    by_job = np.argsort(running, kind="mergesort")
    order = by_job[np.argsort(running_keys[by_job], kind="mergesort")]
    a = b = 0
    while a < count or b < len(order):
        while b < len(order) and protected[order[b]]:
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
    """Raise each job's level while its attained service (GPU-seconds) has reached that level's limit.

    Parameters
    ----------
    level, limits
        Level of each job, and limit of each level in GPU-seconds; infinite for the last.
    near, moment_s
        Tolerances of a limit: relative to it, and in seconds.
    """
    for j in jobs:
        while limits[level[j]] < np.inf:
            limit = limits[level[j]]
            if executed_s[j] * width[j] < limit - max(near * limit, moment_s * width[j]):
                break
            level[j] += 1


@compiled
def until_limit(jobs: Ints, executed_s: Floats, width: Floats, level: Ints, limits: Floats) -> float:
    """Return the seconds of run time until a job first reaches the limit of its level of attained service."""
    least_s = np.inf
    for j in jobs:
        least_s = min(least_s, limits[level[j]] / width[j] - executed_s[j])
    return least_s


@compiled
def choice_fault(chosen: Ints, arrived: int, done: Flags, mark: Flags) -> int:
    """Return the fault code of a choice of jobs: 1 not arrived, 2 completed, 3 chosen twice, 0 for none.

    Parameters
    ----------
    arrived
        Number of jobs that have arrived; they are the first ones.
    mark
        Work array for all jobs, which holds False.
    """
    fault = 0
    for j in chosen:
        if j < 0 or j >= arrived:
            return 1
        if done[j]:
            fault = 2
    for j in chosen:
        if mark[j]:
            fault = 3
        mark[j] = True
    for j in chosen:
        mark[j] = False
    return fault


@compiled
def changes(running: Ints, chosen: Ints, mark: Flags) -> tuple[Ints, Ints]:
    """Return the running jobs that stop and the chosen jobs that start; `mark` is a work array of False."""
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
    """Return the waiting jobs that EASY backfilling starts now, in the order of `waiting`.

    Jobs start in order while they fit. The first that does not gets a reservation for the earliest time at
    which it fits if running jobs end as expected; a later job starts now only if it ends by then, or leaves
    free what the reserved job needs (Lifka 1995).

    Parameters
    ----------
    running, expected_end_s
        The running jobs, and the expected end of each job by its estimate.
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
    """Return how many of a job's tasks fit on one server; room, slack and demand have shape (R,)."""
    count = tasks
    for r in range(len(demand)):
        if demand[r] > 0 and count * demand[r] > room[r] + slack[r]:
            count = max(0, int(np.floor((room[r] + slack[r]) / demand[r])))
    return count


@compiled
def best_fit(
    free: Floats, slack: Floats, capacity: Floats, demand: Floats, tasks: int, most: int
) -> tuple[Ints, Ints]:
    """Return a best-fit placement of a job: servers and tasks on each, empty beyond `most` servers.

    Each step takes the server that holds most of the remaining tasks, of several the one with the least
    residual capacity (Gu et al., Tiresias, NSDI'19). Tasks are identical, so that no other choice needs fewer
    servers.

    Parameters
    ----------
    free, slack, capacity
        Residual capacity of servers, its tolerance, and their capacity; shape (N, R).
    demand
        Demand of one task, shape (R,).
    """
    servers, counts = np.empty(most, dtype=np.int64), np.empty(most, dtype=np.int64)
    taken = np.zeros(len(free), dtype=np.bool_)
    waiting, used = tasks, 0
    while waiting > 0:
        best, best_count, best_left = -1, 0, np.inf
        for n in range(len(free)):
            if taken[n]:
                continue
            count = most_tasks(free[n], slack[n], demand, waiting)
            if count == 0 or count < best_count:
                continue
            left = 0.0
            for r in range(len(demand)):
                if capacity[n, r] > 0:
                    left += (free[n, r] - count * demand[r]) / capacity[n, r]
            if count > best_count or left < best_left:
                best, best_count, best_left = n, count, left
        if best < 0 or used == most:
            return servers[:0], counts[:0]
        servers[used], counts[used] = best, best_count
        taken[best] = True
        used += 1
        waiting -= best_count
    return servers[:used], counts[:used]
