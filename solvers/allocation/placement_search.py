"""Placement of jobs on servers: greedy pieces, and ruin and recreate with the choice of configurations.

Ruin and recreate (Schrimpf et al., *Record breaking optimization results using the ruin and recreate
principle*, Journal of Computational Physics 159, 2000): the jobs of a few servers are removed and inserted
again in a random order. An inserted job takes the configuration and the pieces of least cost plus dual price
of what it takes, so that it leaves room for jobs that need it more. Worse plans are accepted with a
probability that falls as in simulated annealing.

A job's pieces are found greedily, in four ways of which the best counts: equal pieces on the fewest servers
(Optimus' theorem 1); pieces as large as they fit, with parameter servers in proportion to the workers, or all
on the first server, or where workers leave room.

In arrays a piece is (server, parameter servers, workers), and the demand of a configuration has a row for a
parameter server and a row for a worker.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...formulations.allocation.splits import STAYS
from ...formulations.common.compiled import compiled
from ...instances.common.arrays import Floats, Ints

EQUAL, FILLED, TOGETHER, BESIDE = 0, 1, 2, 3
"""Ways to cut a job into pieces."""
WAYS = 4
"""Number of ways that are tried; with 1 only equal pieces."""
ABSENT = -1
"""In place of a candidate: the job is not inserted."""
MAX_REMOVED = 12
"""Most jobs that are removed in one round."""
SINGLE_SHARE = 0.2
"""Share of the rounds in which jobs are removed without regard to servers."""

Arrays = tuple[Any, ...]
"""Several arrays that belong together."""


class Candidates(NamedTuple):
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
    demand, usd
        Shape (K, 2, R); what the configuration costs per hour where there is a budget, shape (K,).
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
    demand: Floats
    usd: Floats


class PlacementState(NamedTuple):
    """A plan in arrays that the search changes.

    Attributes
    ----------
    chosen
        Shape (J,): candidate of each job.
    number, pieces
        Pieces of each job: their number, shape (J,), and shape (J, most pieces, 3).
    free, usd
        Shape (S, R); what is left of the hourly budget, shape (1,), infinite without one.
    """

    chosen: Ints
    number: Ints
    pieces: Ints
    free: Floats
    usd: Floats


@compiled
def _take(j: int, candidates: Candidates, state: PlacementState, sign: float) -> None:
    """Take what a job's candidate needs from its servers and the budget; with sign −1 give it back."""
    chosen, count, pieces, free, left = state
    demand = candidates.demand[chosen[j]]
    for i in range(count[j]):
        for r in range(free.shape[1]):
            amount = pieces[j, i, 1] * demand[0, r] + pieces[j, i, 2] * demand[1, r]
            free[pieces[j, i, 0], r] -= sign * amount
    left[0] -= sign * candidates.usd[chosen[j]]


@compiled
def _leftover(free: Floats, demand: Floats, value: Floats, s: int, x: int, y: int) -> float:
    """Return the value of what a server has left beside a piece; infinite where the piece does not fit."""
    left = 0.0
    for r in range(free.shape[1]):
        rest = free[s, r] - (x * demand[0, r] + y * demand[1, r])
        if rest < 0.0:
            return np.inf
        left += value[r] * rest
    return left


@compiled
def _is_among(numbers: Ints, count: int, number: int) -> bool:
    """Return whether a number is among the first of a list."""
    for i in range(count):  # noqa: SIM110 - `any` of a generator is not compiled
        if numbers[i] == number:
            return True
    return False


@compiled
def _equal_pieces(free: Floats, demand: Floats, value: Floats, p: int, w: int, k: int, pieces: Ints) -> int:
    """Find k servers for k equal pieces, each with the least left over; return k, or 0 if there are none."""
    # The first pieces have the tasks that are left over, of both sorts; with few tasks no piece is empty.
    shift = k - w % k if k > max(p, w) else 0
    for i in range(k):
        x, y = p // k + (1 if i < p % k else 0), w // k + (1 if 0 <= i - shift < w % k else 0)
        best, least = -1, np.inf
        for s in range(free.shape[0]):
            left = _leftover(free, demand, value, s, x, y)
            if left < least and not _is_among(pieces[:, 0], i, s):
                best, least = s, left
        if best < 0 or x + y == 0:
            return 0
        pieces[i, 0], pieces[i, 1], pieces[i, 2] = best, x, y
    return k


@compiled
def _filled_pieces(
    free: Floats, demand: Floats, value: Floats, p: int, w: int, way: int, pieces: Ints
) -> int:
    """Cut pieces as large as they fit, with parameter servers in one of three ways.

    Returns the number of pieces, 0 if the servers are too full.
    """
    rest_p, rest_w, count = p, w, 0
    while rest_p + rest_w > 0:
        if count == len(pieces):
            return 0
        best, best_x, best_y, least = -1, 0, 0, np.inf
        for s in range(free.shape[0]):
            y = rest_w
            for r in range(free.shape[1]):
                if demand[1, r] > 0.0:
                    y = min(y, int(free[s, r] / demand[1, r]))
            x = rest_p if way != FILLED or y == rest_w else min(rest_p, (p * y + w - 1) // w)
            left = _leftover(free, demand, value, s, x, y)
            while left == np.inf and x + y > 0:
                if way == BESIDE or y == 0:
                    x, y = (x - 1, y) if x > 0 else (x, y - 1)
                else:
                    y -= 1
                    x = rest_p if way == TOGETHER else min(rest_p, (p * y + w - 1) // w)
                    x = min(rest_p, 1) if y == 0 else x
                left = _leftover(free, demand, value, s, x, y)
            larger = y > best_y or (y == best_y and (x > best_x or (x == best_x and left < least)))
            if left < np.inf and x + y > 0 and larger and not _is_among(pieces[:, 0], count, s):
                best, best_x, best_y, least = s, x, y, left
        if best < 0:
            return 0
        pieces[count, 0], pieces[count, 1], pieces[count, 2] = best, best_x, best_y
        count, rest_p, rest_w = count + 1, rest_p - best_x, rest_w - best_y
    return count


@compiled
def _place(
    free: Floats,
    demand: Floats,
    value: Floats,
    p: int,
    w: int,
    servers: int,
    least: int,
    ways: int,
    scratch: Ints,
) -> tuple[int, int]:
    """Find pieces for p parameter servers and w workers with few remote tasks, in `scratch[0]`.

    Parameters
    ----------
    servers
        The exact number of pieces; 0: any.
    least
        No split has fewer remote tasks.

    Returns
    -------
    count, remote
        Number of pieces, 0 if none were found, and their T.
    """
    best, best_remote = 0, p + w + 1
    found, trial = scratch[0], scratch[1]
    most = min(len(found), p + w, free.shape[0])
    for way in range(ways):
        if best > 0 and best_remote <= least:
            break
        count = 0
        if way == EQUAL:
            k = max(1, servers)
            while count == 0 and k <= (most if servers == 0 else min(servers, most)):
                count = _equal_pieces(free, demand, value, p, w, k, trial)
                k += 1
        elif way == FILLED or p > 0:
            count = _filled_pieces(free, demand, value, p, w, way, trial)
        if count == 0 or (servers > 0 and count != servers):
            continue
        remote = 0
        for i in range(count):
            if trial[i, 1] > 0:
                remote = max(remote, w - trial[i, 2])
            if trial[i, 2] > 0:
                remote = max(remote, p - trial[i, 1])
        if remote < best_remote:
            best, best_remote = count, remote
            found[:count] = trial[:count]
    return best, best_remote


@compiled
def _insert(
    j: int,
    factor: float,
    candidates: Candidates,
    current: Arrays,
    value: Floats,
    state: PlacementState,
    ways: int,
    scratch: Ints,
) -> float:
    """Insert a job with the candidate and pieces of least cost plus `factor` times its dual price.

    Returns the cost; infinite if nothing fits, and then the job stays absent.
    """
    start, ps, workers, split, measured, base, slope, low, price, demand, usd = candidates
    chosen, count, pieces, free, left = state
    best, best_cost = np.inf, np.inf
    for c in range(start[j], start[j + 1]):
        if low[c] + factor * price[c] >= best or usd[c] > left[0]:
            continue
        p, w, number, remote = ps[c], workers[c], 0, 0
        if split[c] == STAYS:
            number = current[0][j]
            scratch[0, :number] = current[1][j, :number]
            for i in range(number):
                now = scratch[0, i]
                if _leftover(free, demand[c], value, now[0], now[1], now[2]) == np.inf:
                    number = 0
        elif p + w > 0:
            exact, least = (split[c], 0) if measured[c] else (0, split[c])
            number, remote = _place(free, demand[c], value, p, w, exact, least, ways, scratch)
        if number == 0 and p + w > 0:
            continue
        cost = base[c] + slope[c] * remote
        if cost + factor * price[c] < best:
            best, best_cost, chosen[j], count[j] = cost + factor * price[c], cost, c, number
            pieces[j, :number] = scratch[0, :number]
    if best < np.inf:
        _take(j, candidates, state, 1.0)
    return best_cost


@compiled
def _remove(j: int, candidates: Candidates, state: PlacementState) -> None:
    """Take a job from its servers."""
    if state.chosen[j] != ABSENT:
        _take(j, candidates, state, -1.0)
    state.chosen[j], state.number[j] = ABSENT, 0


@compiled
def insert_all(
    order: Ints, candidates: Candidates, current: Arrays, value: Floats, state: PlacementState, ways: int
) -> Floats:
    """Insert absent jobs in this order; return the cost of each, infinite for those that stay absent.

    Parameters
    ----------
    state
        Is changed.
    current
        Number of the pieces with which each job runs now, and the pieces.
    value
        Value of what a server has left over, by resource.
    ways
        Number of ways in which pieces are cut: `WAYS`, or 1 for equal pieces only.
    """
    scratch = np.zeros((2, *state.pieces.shape[1:]), np.int64)
    cost = np.full(len(state.chosen), np.inf)
    for j in order:
        cost[j] = _insert(j, 1.0, candidates, current, value, state, ways, scratch)
    return cost


@compiled
def _random(seed: Ints) -> float:
    """Return the next number of a linear congruential generator, in [0, 1); it changes `seed`."""
    seed[0] = (seed[0] * 1103515245 + 12345) & 0x7FFFFFFF
    return float(seed[0] / 2147483648.0)


@compiled
def _ruined(seed: Ints, state: PlacementState, removed: Ints) -> int:
    """Choose the jobs to remove: those of a few servers, or any; absent ones too. Return their number."""
    chosen, count, pieces, free, _ = state
    jobs, number, most = len(chosen), 0, len(removed)
    for j in range(jobs):
        if chosen[j] == ABSENT and number < most // 2:
            removed[number] = j
            number += 1
    single = _random(seed) < SINGLE_SHARE
    for _ in range(1 + int(3 * _random(seed))):
        s, begin = int(free.shape[0] * _random(seed)), int(jobs * _random(seed))
        for step in range(1 if single else jobs):
            j = (begin + step) % jobs
            there = single or _is_among(pieces[j, :, 0], count[j], s)
            if number < most and chosen[j] != ABSENT and there and not _is_among(removed, number, j):
                removed[number] = j
                number += 1
    return number


@compiled
def ruin_and_recreate(
    candidates: Candidates,
    current: Arrays,
    value: Floats,
    penalty: Floats,
    state: PlacementState,
    best: PlacementState,
    costs: Arrays,
    seed: Ints,
    rounds: int,
    temperature: float,
) -> None:
    """Run rounds of ruin and recreate from `state`, and keep the best state met in `best`.

    Parameters
    ----------
    candidates, current, value
        As in `insert_all`.
    penalty
        Cost of each job where it is absent.
    costs
        Cost of each job in `state` and in `best`; changed.
    seed
        Shape (1,); changed.
    temperature
        A plan that is worse by this much is accepted with a probability of 1/e.
    """
    chosen, count, pieces = state.chosen, state.number, state.pieces
    removed, before = np.zeros(MAX_REMOVED, np.int64), np.zeros(MAX_REMOVED)
    old = np.zeros((MAX_REMOVED, 2), np.int64)
    old_pieces = np.zeros((MAX_REMOVED, *pieces.shape[1:]), np.int64)
    scratch = np.zeros((2, *pieces.shape[1:]), np.int64)
    cost, best_cost = costs
    total, least = cost.sum(), best_cost.sum()
    for _ in range(rounds):
        number = _ruined(seed, state, removed)
        worse = 0.0
        for i in range(number):
            j = removed[i]
            old[i, 0], old[i, 1], before[i], old_pieces[i] = chosen[j], count[j], cost[j], pieces[j]
            worse -= cost[j]
            _remove(j, candidates, state)
        # Prices are a guide: with less of them jobs grow into what is left over.
        factor = 1.0 if _random(seed) < 0.5 else 1.2 * _random(seed)
        shift = int(number * _random(seed))
        for i in range(number):
            j = removed[(i + shift) % number]
            new = _insert(j, factor, candidates, current, value, state, WAYS, scratch)
            cost[j] = new if new < np.inf else penalty[j]
            worse += cost[j]
        if worse <= 0.0 or worse < -temperature * np.log(max(_random(seed), 1e-12)):
            total += worse
            if total < least - 1e-9 * abs(least):
                least = total
                best.chosen[:], best.number[:], best.pieces[:], best_cost[:] = chosen, count, pieces, cost
            continue
        for i in range(number):
            _remove(removed[i], candidates, state)
        for i in range(number):
            j = removed[i]
            chosen[j], count[j], cost[j], pieces[j] = old[i, 0], old[i, 1], before[i], old_pieces[i]
            if chosen[j] != ABSENT:
                _take(j, candidates, state, 1.0)
