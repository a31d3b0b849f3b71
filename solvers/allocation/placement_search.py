"""Placement of jobs on servers: greedy pieces, and ruin and recreate with the choice of configurations.

Ruin and recreate (Schrimpf et al., *Record breaking optimization results using the ruin and recreate
principle*, Journal of Computational Physics 159, 2000): the jobs of a few servers are removed and inserted
again in a random order. An inserted job takes the configuration and the pieces of least cost plus dual price
of what it takes, so that it leaves room for jobs that need it more. Worse plans are accepted with a
probability that falls as in simulated annealing.

A job's pieces are found greedily, in three ways of which the best counts: equal pieces on the fewest servers
(Optimus' theorem 1); pieces as large as they fit; and the same with all parameter servers on the first.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...formulations.allocation.splits import STAYS
from ...formulations.common.compiled import compiled
from ...instances.common.arrays import Floats, Ints

EQUAL, FILLED, TOGETHER = 0, 1, 2
"""Ways to cut a job into pieces."""
ABSENT = -1
"""In place of a candidate: the job is not inserted."""


@dataclass(frozen=True)
class Candidates:
    """Configurations among which the search chooses; those of job j are `start[j]` to `start[j + 1]`.

    Attributes
    ----------
    ps, workers, split
        Shape (K,): p, w, and the least T, the number of servers of a measured speed (0: any), or −1 where the
        job stays. A job that is left out has no tasks.
    measured
        Whether `split` is a number of servers.
    base, slope
        Cost of a placement with T remote tasks is base + slope·T.
    low, price
        Least cost, and dual price of what it takes.
    per_ps, per_worker
        Shape (K, R).
    """

    start: Ints
    ps: Ints
    workers: Ints
    split: Ints
    measured: Ints
    base: Floats
    slope: Floats
    low: Floats
    price: Floats
    per_ps: Floats
    per_worker: Floats

    def arrays(self) -> tuple[Any, ...]:
        """Return the arrays in the order in which the compiled functions take them."""
        return tuple(vars(self).values())


@dataclass
class PlacementState:
    """A plan in arrays that the search changes.

    Attributes
    ----------
    chosen
        Shape (J,): candidate of each job.
    count, server, ps, workers
        Pieces of each job: their number, shape (J,); servers and tasks, shape (J, most pieces).
    free
        Shape (S, R).
    """

    chosen: Ints
    count: Ints
    server: Ints
    ps: Ints
    workers: Ints
    free: Floats

    def arrays(self) -> tuple[Any, ...]:
        """Return the arrays in the order in which the compiled functions take them."""
        return tuple(vars(self).values())

    def copy(self) -> PlacementState:
        """Return a copy that shares no array."""
        return copy.deepcopy(self)


@compiled
def _take(free: Floats, s: int, per_ps: Floats, per_worker: Floats, x: int, y: int, sign: float) -> None:
    """Take the demand of a piece from a server; with sign −1 give it back."""
    for r in range(free.shape[1]):
        free[s, r] -= sign * (x * per_ps[r] + y * per_worker[r])


@compiled
def _leftover(
    free: Floats, s: int, per_ps: Floats, per_worker: Floats, x: int, y: int, value: Floats
) -> float:
    """Return the value of what a server has left beside a piece; negative where the piece does not fit."""
    left = 0.0
    for r in range(free.shape[1]):
        rest = free[s, r] - (x * per_ps[r] + y * per_worker[r])
        if rest < 0.0:
            return -1.0
        left += value[r] * rest
    return left


@compiled
def _is_used(server: Ints, count: int, s: int) -> bool:
    """Return whether a server is among the first pieces of a job."""
    for i in range(count):  # noqa: SIM110 - `any` of a generator is not compiled
        if server[i] == s:
            return True
    return False


@compiled
def _equal_pieces(
    free: Floats,
    per_ps: Floats,
    per_worker: Floats,
    value: Floats,
    p: int,
    w: int,
    k: int,
    server: Ints,
    xs: Ints,
    ys: Ints,
) -> int:
    """Find k servers for k equal pieces, each with the least left over; return k, or 0 if there are none."""
    for i in range(k):
        x, y = p // k + (1 if i < p % k else 0), w // k + (1 if i < w % k else 0)
        best, least = -1, np.inf
        for s in range(free.shape[0]):
            left = _leftover(free, s, per_ps, per_worker, x, y, value)
            if 0.0 <= left < least and not _is_used(server, i, s):
                best, least = s, left
        if best < 0 or x + y == 0:
            return 0
        server[i], xs[i], ys[i] = best, x, y
    return k


@compiled
def _filled_pieces(
    free: Floats,
    per_ps: Floats,
    per_worker: Floats,
    value: Floats,
    p: int,
    w: int,
    together: bool,
    server: Ints,
    xs: Ints,
    ys: Ints,
) -> int:
    """Cut pieces as large as they fit, with parameter servers in proportion or all on the first.

    Returns the number of pieces, 0 if the servers are too full.
    """
    rest_p, rest_w, count = p, w, 0
    while rest_p + rest_w > 0:
        if count == len(server):
            return 0
        best, best_x, best_y, least = -1, 0, 0, np.inf
        for s in range(free.shape[0]):
            y = rest_w
            for r in range(free.shape[1]):
                if per_worker[r] > 0.0:
                    y = min(y, int(free[s, r] / per_worker[r]))
            left, x = -1.0, 0
            while True:
                x = rest_p if together or y == rest_w else min(rest_p, (p * y + w - 1) // w)
                left = _leftover(free, s, per_ps, per_worker, x, y, value)
                if left >= 0.0 or y == 0:
                    break
                y -= 1
            if y == 0:
                x = min(rest_p, 1)
                left = _leftover(free, s, per_ps, per_worker, x, 0, value)
            if left < 0.0 or x + y == 0 or _is_used(server, count, s):
                continue
            if y > best_y or (y == best_y and x > best_x) or (y == best_y and x == best_x and left < least):
                best, best_x, best_y, least = s, x, y, left
        if best < 0:
            return 0
        server[count], xs[count], ys[count] = best, best_x, best_y
        count, rest_p, rest_w = count + 1, rest_p - best_x, rest_w - best_y
    return count


@compiled
def _remote(count: int, xs: Ints, ys: Ints, p: int, w: int) -> int:
    """Return T of the first pieces."""
    remote = 0
    for i in range(count):
        if xs[i] > 0:
            remote = max(remote, w - ys[i])
        if ys[i] > 0:
            remote = max(remote, p - xs[i])
    return remote


@compiled
def _place(
    free: Floats,
    per_ps: Floats,
    per_worker: Floats,
    value: Floats,
    p: int,
    w: int,
    servers: int,
    least: int,
    found: tuple[Ints, Ints, Ints],
    trial: tuple[Ints, Ints, Ints],
) -> tuple[int, int]:
    """Find pieces for p parameter servers and w workers with few remote tasks.

    Parameters
    ----------
    servers
        The exact number of pieces; 0: any.
    least
        No split has fewer remote tasks.
    found, trial
        Servers and tasks of the pieces that are returned, and scratch space.

    Returns
    -------
    count, remote
        Number of pieces, 0 if none were found, and their T.
    """
    best, best_remote = 0, p + w + 1
    most = min(len(found[0]), p + w, free.shape[0])
    for way in range(3):
        if best > 0 and best_remote <= least:
            break
        count = 0
        if way == EQUAL:
            k = max(1, servers)
            while count == 0 and k <= (most if servers == 0 else min(servers, most)):
                count = _equal_pieces(free, per_ps, per_worker, value, p, w, k, *trial)
                k += 1
        elif way == FILLED or p > 0:
            count = _filled_pieces(free, per_ps, per_worker, value, p, w, way == TOGETHER, *trial)
        if count == 0 or (servers > 0 and count != servers):
            continue
        remote = _remote(count, trial[1], trial[2], p, w)
        if remote < best_remote:
            best, best_remote = count, remote
            for i in range(count):
                found[0][i], found[1][i], found[2][i] = trial[0][i], trial[1][i], trial[2][i]
    return best, best_remote


@compiled
def _insert(
    j: int,
    factor: float,
    candidates: tuple[Ints, Ints, Ints, Ints, Ints, Floats, Floats, Floats, Floats, Floats, Floats],
    current: tuple[Ints, Ints, Ints, Ints],
    value: Floats,
    state: tuple[Ints, Ints, Ints, Ints, Ints, Floats],
    scratch: tuple[Ints, Ints, Ints, Ints, Ints, Ints],
) -> float:
    """Insert a job with the candidate and pieces of least cost plus `factor` times its dual price.

    Returns the cost; infinite if nothing fits, and then the job stays absent.
    """
    start, ps, workers, split, measured, base, slope, low, price, per_ps, per_worker = candidates
    chosen, count, server, xs, ys, free = state
    found, trial = (scratch[0], scratch[1], scratch[2]), (scratch[3], scratch[4], scratch[5])
    best_total, best_cost = np.inf, np.inf
    for c in range(start[j], start[j + 1]):
        if low[c] + factor * price[c] >= best_total:
            continue
        p, w, pieces, remote = ps[c], workers[c], 0, 0
        if split[c] == STAYS:
            pieces = current[0][j]
            for i in range(pieces):
                x, y, s = current[2][j, i], current[3][j, i], current[1][j, i]
                if _leftover(free, s, per_ps[c], per_worker[c], x, y, value) < 0.0:
                    pieces = 0
                    break
                found[0][i], found[1][i], found[2][i] = s, x, y
        elif p + w > 0:
            exact, least = (split[c], 0) if measured[c] else (0, split[c])
            pieces, remote = _place(free, per_ps[c], per_worker[c], value, p, w, exact, least, found, trial)
        if pieces == 0 and p + w > 0:
            continue
        cost = base[c] + slope[c] * remote
        if cost + factor * price[c] < best_total:
            best_total, best_cost, chosen[j], count[j] = cost + factor * price[c], cost, c, pieces
            for i in range(pieces):
                server[j, i], xs[j, i], ys[j, i] = found[0][i], found[1][i], found[2][i]
    if best_total < np.inf:
        c = chosen[j]
        for i in range(count[j]):
            _take(free, server[j, i], per_ps[c], per_worker[c], xs[j, i], ys[j, i], 1.0)
    return best_cost


@compiled
def _remove(
    j: int, per_ps: Floats, per_worker: Floats, state: tuple[Ints, Ints, Ints, Ints, Ints, Floats]
) -> None:
    """Take a job from its servers."""
    chosen, count, server, xs, ys, free = state
    c = chosen[j]
    for i in range(count[j]):
        _take(free, server[j, i], per_ps[c], per_worker[c], xs[j, i], ys[j, i], -1.0)
    chosen[j], count[j] = ABSENT, 0


MAX_REMOVED = 12
"""Most jobs that are removed in one round."""
SINGLE_SHARE = 0.2
"""Share of the rounds in which jobs are removed without regard to servers."""


@compiled
def _random(seed: Ints) -> float:
    """Return the next number of a linear congruential generator, in [0, 1); it changes `seed`."""
    seed[0] = (seed[0] * 1103515245 + 12345) & 0x7FFFFFFF
    return float(seed[0] / 2147483648.0)


@compiled
def _ruined(seed: Ints, state: tuple[Ints, Ints, Ints, Ints, Ints, Floats], removed: Ints) -> int:
    """Choose the jobs to remove: those of a few servers, or any; absent ones too. Return their number."""
    chosen, count, server, free = state[0], state[1], state[2], state[5]
    jobs, number = len(chosen), 0
    most = len(removed)
    for j in range(jobs):
        if chosen[j] == ABSENT and number < most // 2:
            removed[number] = j
            number += 1
    if _random(seed) < SINGLE_SHARE:
        for _ in range(1 + int(3 * _random(seed))):
            j = int(jobs * _random(seed))
            if chosen[j] != ABSENT and number < most and not _is_used(removed, number, j):
                removed[number] = j
                number += 1
        return number
    for _ in range(1 + int(3 * _random(seed))):
        s = int(free.shape[0] * _random(seed))
        begin = int(jobs * _random(seed))
        for step in range(jobs):
            j = (begin + step) % jobs
            if number == most:
                return number
            if chosen[j] != ABSENT and _is_used(server[j], count[j], s) and not _is_used(removed, number, j):
                removed[number] = j
                number += 1
    return number


@compiled
def ruin_and_recreate(
    candidates: tuple[Ints, Ints, Ints, Ints, Ints, Floats, Floats, Floats, Floats, Floats, Floats],
    current: tuple[Ints, Ints, Ints, Ints],
    value: Floats,
    penalty: Floats,
    state: tuple[Ints, Ints, Ints, Ints, Ints, Floats],
    best: tuple[Ints, Ints, Ints, Ints, Ints, Floats],
    costs: tuple[Floats, Floats],
    seed: Ints,
    rounds: int,
    temperature: float,
) -> None:
    """Run rounds of ruin and recreate from `state`, and keep the best state met in `best`.

    Parameters
    ----------
    candidates, current
        Arrays of `Candidates`, and of the pieces with which jobs run now: number, server, tasks.
    value
        Value of what a server has left over, by resource.
    penalty
        Cost of each job where it is absent.
    costs
        Cost of each job in `state` and in `best`; changed.
    seed
        Shape (1,); changed.
    temperature
        A plan that is worse by this much is accepted with a probability of 1/e.
    """
    chosen, count, server, xs, ys, _ = state
    per_ps, per_worker = candidates[9], candidates[10]
    most = server.shape[1]
    removed, old = np.zeros(MAX_REMOVED, np.int64), np.zeros((MAX_REMOVED, 2), np.int64)
    pieces = np.zeros((MAX_REMOVED, 3, most), np.int64)
    before = np.zeros(MAX_REMOVED)
    scratch = (
        np.zeros(most, np.int64),
        np.zeros(most, np.int64),
        np.zeros(most, np.int64),
        np.zeros(most, np.int64),
        np.zeros(most, np.int64),
        np.zeros(most, np.int64),
    )
    cost, best_cost = costs
    total, least = cost.sum(), best_cost.sum()
    for _ in range(rounds):
        number = _ruined(seed, state, removed)
        lost = 0.0
        for i in range(number):
            j = removed[i]
            old[i, 0], old[i, 1], before[i] = chosen[j], count[j], cost[j]
            for q in range(count[j]):
                pieces[i, 0, q], pieces[i, 1, q], pieces[i, 2, q] = server[j, q], xs[j, q], ys[j, q]
            lost += cost[j]
            if chosen[j] != ABSENT:
                _remove(j, per_ps, per_worker, state)
        # Prices are a guide: with less of them jobs grow into what is left over.
        factor = 1.0 if _random(seed) < 0.5 else 1.2 * _random(seed)
        gained, shift = 0.0, int(number * _random(seed))
        for i in range(number):
            j = removed[(i + shift) % number]
            new = _insert(j, factor, candidates, current, value, state, scratch)
            cost[j] = new if new < np.inf else penalty[j]
            gained += cost[j]
        worse = gained - lost
        if worse <= 0.0 or worse < -temperature * np.log(max(_random(seed), 1e-12)):
            total += worse
            if total < least - 1e-9 * abs(least):
                least = total
                best[0][:], best[1][:] = chosen, count
                best[2][:], best[3][:], best[4][:] = server, xs, ys
                best_cost[:] = cost
            continue
        for i in range(number):
            j = removed[i]
            if chosen[j] != ABSENT:
                _remove(j, per_ps, per_worker, state)
        for i in range(number):
            j = removed[i]
            chosen[j], count[j], cost[j] = old[i, 0], old[i, 1], before[i]
            for q in range(count[j]):
                s, x, y = pieces[i, 0, q], pieces[i, 1, q], pieces[i, 2, q]
                server[j, q], xs[j, q], ys[j, q] = s, x, y
                _take(state[5], s, per_ps[chosen[j]], per_worker[chosen[j]], x, y, 1.0)


@compiled
def insert_all(
    order: Ints,
    factor: float,
    candidates: tuple[Ints, Ints, Ints, Ints, Ints, Floats, Floats, Floats, Floats, Floats, Floats],
    current: tuple[Ints, Ints, Ints, Ints],
    value: Floats,
    state: tuple[Ints, Ints, Ints, Ints, Ints, Floats],
) -> Floats:
    """Insert absent jobs in this order; return the cost of each, infinite for those that stay absent."""
    most = state[2].shape[1]
    scratch = (
        np.zeros(most, np.int64),
        np.zeros(most, np.int64),
        np.zeros(most, np.int64),
        np.zeros(most, np.int64),
        np.zeros(most, np.int64),
        np.zeros(most, np.int64),
    )
    cost = np.full(len(state[0]), np.inf)
    for j in order:
        cost[j] = _insert(j, factor, candidates, current, value, state, scratch)
    return cost
