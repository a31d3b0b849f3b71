"""Compiled loops of policies and placement: sorted queues, choice by keys, backfilling, best fit."""

from __future__ import annotations

import numpy as np

from ...formulations.common.compiled import compiled
from ...instances.common.arrays import Flags, Floats, Ints


@compiled
def fits(demand: Floats, free: Floats, slack: Floats, j: int) -> bool:
    """Return whether the demand of job j, of shape (J, R), is at most what is free and its tolerance."""
    for r in range(len(free)):  # noqa: SIM110  the compiler knows no all()
        if demand[j, r] > free[r] + slack[r]:
            return False
    return True


@compiled
def requeue(queue: Ints, count: int, keys: Floats, leave: Ints, enter: Ints) -> None:
    """Remove jobs from a queue of `count` jobs sorted by key, then job; then insert others.

    The keys of jobs that leave must be those of their insertion, and the array must have space.
    """
    for k in range(len(leave) + len(enter)):
        inserts = k >= len(leave)
        j = enter[k - len(leave)] if inserts else leave[k]
        low, high = 0, count
        while low < high:
            middle = (low + high) // 2
            other = queue[middle]
            if keys[other] < keys[j] or (keys[other] == keys[j] and other < j):
                low = middle + 1
            else:
                high = middle
        if inserts:
            for at in range(count, low, -1):
                queue[at] = queue[at - 1]
            queue[low] = j
            count += 1
        else:
            count -= 1
            for at in range(low, count):
                queue[at] = queue[at + 1]


@compiled
def transition(
    rows: Ints,
    owner: Ints,
    running: Ints,
    held: Flags,
    row: Ints,
    done: Flags,
    arrived: int,
    usage: Floats,
    limit: Floats,
    chosen: Ints,
) -> tuple[bool, Ints, Ints]:
    """Return whether a choice of configurations is possible, the jobs that stop, and the rows that start.

    Parameters
    ----------
    rows, owner
        The chosen rows, and the job of each row of the table.
    running, held, row
        The running jobs, flags of those that continue, and the row in which each job runs, shape (J,).
    done, arrived
        Flags of completed jobs, shape (J,), and the number of jobs that have arrived, which are the first.
    usage, limit
        Resource usage of each row of the table, (K, R), and the most that chosen rows may use, (R,).
    chosen
        Work array for all jobs, which holds −1.
    """
    used = np.zeros(len(limit))
    for k in range(len(running)):
        if held[k]:
            chosen[running[k]] = row[running[k]]
    start = np.empty(len(rows), dtype=np.int64)
    starts = 0
    for k in rows:
        if k < 0 or k >= len(owner) or owner[k] >= arrived or done[owner[k]] or chosen[owner[k]] >= 0:
            return False, start[:0], start[:0]
        chosen[owner[k]] = k
        if row[owner[k]] != k:
            start[starts] = k
            starts += 1
        used += usage[k]
    stop = np.empty(len(running), dtype=np.int64)
    stops = 0
    for j in running:
        if chosen[j] != row[j]:
            stop[stops] = j
            stops += 1
        chosen[j] = -1
    for k in rows:
        chosen[owner[k]] = -1
    return bool((used <= limit).all()), stop[:stops], start[:starts]


@compiled
def fill(
    queue: Ints,
    keys: Floats,
    running: Ints,
    held: Flags,
    running_keys: Floats,
    demand: Floats,
    free: Floats,
    slack: Floats,
    blocks: bool,
) -> Ints:
    """Return the jobs that run besides those that are held, in ascending order of keys while they fit.

    Parameters
    ----------
    queue, keys
        The waiting jobs, sorted by key, then job; and the keys of all jobs that wait.
    running, held, running_keys
        The running jobs, flags of those that continue in any case, and the keys of all.
    demand, free, slack
        Demand of each job, shape (J, R), and what is free beside the held jobs and its tolerance, shape (R,).
    blocks
        Whether a job that does not fit blocks those after it.
    """
    free = free.copy()
    chosen = np.empty(len(running) + len(queue), dtype=np.int64)
    by_job = np.argsort(running, kind="mergesort")
    order = by_job[np.argsort(running_keys[by_job], kind="mergesort")]
    n = a = b = 0
    while a < len(queue) or b < len(order):
        if b < len(order) and held[order[b]]:
            b += 1
            continue
        k = order[b] if b < len(order) else -1
        if k >= 0 and (a >= len(queue) or (running_keys[k], running[k]) <= (keys[queue[a]], queue[a])):
            j = running[k]
            b += 1
        else:
            j = queue[a]
            a += 1
        if fits(demand, free, slack, j):
            free -= demand[j]
            chosen[n] = j
            n += 1
        elif blocks:
            break
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
    while head < len(waiting) and fits(demand, free, slack, waiting[head]):
        free -= demand[waiting[head]]
        chosen[n] = waiting[head]
        n += 1
        head += 1
    if head >= len(waiting) - 1:
        return chosen[:n]
    active = np.concatenate((running, chosen[:n]))
    ends = np.concatenate((np.maximum(now_s, expected_end_s[running]), now_s + estimate_s[chosen[:n]]))
    promised, spare = np.inf, free.copy()
    for k in np.argsort(ends, kind="mergesort"):
        spare += demand[active[k]]
        if fits(demand, spare, slack, waiting[head]):
            promised = ends[k]
            break
    spare -= demand[waiting[head]]
    for k in range(head + 1, len(waiting)):
        j = waiting[k]
        if not fits(demand, free, slack, j):
            continue
        in_time = now_s + estimate_s[j] <= promised
        if in_time or fits(demand, spare, slack, j):
            if not in_time:
                spare -= demand[j]
            free -= demand[j]
            chosen[n] = j
            n += 1
    return chosen[:n]
