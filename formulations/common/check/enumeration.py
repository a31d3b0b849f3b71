"""An exhaustive search of the checker's own: is there a choice of rows below a cutoff that keeps the limits?

Jobs are decided one after another; a state is what the jobs decided so far take and cost. A state goes
where prices on what is left prove that it cannot end below the cutoff, and of states that take the same
only the cheapest stays. Nothing here comes from a solver: several price vectors around the given one are
tried on every state, and any of them may rule it out. All comparisons leave a margin for rounding, on the
side that keeps states.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ....instances.common.arrays import Floats, Ints
from ..clock import check_time

MOST_STATES = 2_000_000
"""States after one job, before any is ruled out; the search gives up beyond."""
MOST_WORK = 150_000_000
"""Bounds evaluated in all, which takes a second or two."""
ALL_VECTORS_EVERY = 4
"""Jobs; in between, only the price vectors are tried that ruled something out the last time."""
MARGIN = 1e-12
"""Relative to the sum of everything that is added up."""
FACTORS = (0.0, 0.5, 0.8, 0.9, 1.1, 1.25, 2.0)
"""What single prices, and all prices together, are multiplied by."""


@dataclass(frozen=True)
class Choices:
    """What is left of a multiple-choice problem: rows of job j are `start[j]` to `start[j + 1]`.

    Attributes
    ----------
    start, cost, demand, limit
        Shapes (J + 1,), (K,), (K, R), (R,).
    """

    start: Ints
    cost: Floats
    demand: Floats
    limit: Floats


def none_below(choices: Choices, prices: Floats, cutoff: float) -> bool | None:
    """Return whether no choice within the limits costs less than the cutoff.

    Parameters
    ----------
    prices
        λ ≥ 0, shape (R,); any are right, good ones make it fast.

    Returns
    -------
    answer
        True if it is proven, False if there is such a choice within rounding, None if the search gave up.
    """
    if (np.diff(choices.start) == 0).any():
        return True
    priced = prices > 0
    if priced.any() and not priced.all():
        # Without the limits that have no price there are more choices: a proof for these is one for all.
        fewer = Choices(choices.start, choices.cost, choices.demand[:, priced], choices.limit[priced])
        if _search(fewer, prices[priced], cutoff):
            return True
    return _search(choices, prices, cutoff)


def _search(choices: Choices, prices: Floats, cutoff: float) -> bool | None:
    """Look through the choices, job by job; the answer is that of `none_below`."""
    counts = np.diff(choices.start)
    size = float(np.maximum.reduceat(np.abs(choices.cost), choices.start[:-1]).sum()) + abs(cutoff)
    most = np.maximum.reduceat(choices.demand, choices.start[:-1], axis=0).sum(axis=0) + choices.limit
    weights, vectors = multipliers(prices)
    margins = MARGIN * (weights * size + vectors @ most) + 1e-280
    choices, cutoff = _without_fixed(choices, counts, cutoff)
    room = weights * cutoff + vectors @ choices.limit + margins
    order = _order(choices, prices)
    left = _least_left(choices, weights, vectors, order)
    taken, spent, work = np.zeros((1, len(choices.limit))), np.zeros(1), 0
    useful = np.ones(len(weights), dtype=bool)
    if not len(order):
        return bool((left[0] > room).any())
    for place, job in enumerate(order.tolist()):
        rows = slice(int(choices.start[job]), int(choices.start[job + 1]))
        check_time()
        if len(spent) * (rows.stop - rows.start) > MOST_STATES:
            return None
        taken = (taken[:, None, :] + choices.demand[rows]).reshape(-1, taken.shape[1])
        spent = (spent[:, None] + choices.cost[rows]).ravel()
        whole = place % ALL_VECTORS_EVERY == 0 or place == len(order) - 1
        for m in range(len(weights)) if whole else np.flatnonzero(useful).tolist():
            work += len(spent)
            beyond = weights[m] * spent + taken @ vectors[m] > room[m] - left[place + 1, m]
            useful[m] = bool(beyond.any()) or not m
            if useful[m]:
                taken, spent = taken[~beyond], spent[~beyond]
        taken, spent = cheapest_states(taken, spent)
        if not len(spent):
            return True
        if work > MOST_WORK:
            return None
    return False


def _without_fixed(choices: Choices, counts: Ints, cutoff: float) -> tuple[Choices, float]:
    """Return the problem of the jobs that have a choice, less what the others take and cost."""
    fixed = choices.start[:-1][counts == 1]
    free = np.repeat(counts > 1, counts)
    start = np.concatenate([[0], np.cumsum(counts[counts > 1])])
    limit = choices.limit - choices.demand[fixed].sum(axis=0)
    left = Choices(start, choices.cost[free], choices.demand[free], limit)
    return left, cutoff - math.fsum(choices.cost[fixed])


def multipliers(prices: Floats) -> tuple[Floats, Floats]:
    """Return weights of the cost, shape (M,), and prices, shape (M, R), of the bounds that are tried."""
    limits = len(prices)
    found = [(1.0, prices)]
    for factor in FACTORS:
        found.append((1.0, prices * factor))
        for r in range(limits):
            changed = prices.copy()
            changed[r] *= factor
            found.append((1.0, changed))
    found += [(0.0, unit) for unit in np.eye(limits)]  # each limit by itself
    found.append((0.0, prices))
    return np.array([weight for weight, _ in found]), np.array([vector for _, vector in found])


def _order(choices: Choices, prices: Floats) -> Ints:
    """Return the jobs with the nearest alternatives first: where later ones deviate, it costs too much."""
    value = choices.cost + choices.demand @ prices
    second = np.empty(len(choices.start) - 1)
    for job in range(len(second)):
        own = np.sort(value[choices.start[job] : choices.start[job + 1]])
        second[job] = own[1] - own[0] if len(own) > 1 else -1.0
    return np.argsort(second, kind="stable")


def _least_left(choices: Choices, weights: Floats, vectors: Floats, order: Ints) -> Floats:
    """Return the least that the jobs from each place on add to every bound, shape (J + 1, M)."""
    total = np.zeros((len(order) + 1, len(weights)))
    if not len(order):
        return total
    value = choices.cost[:, None] * weights + choices.demand @ vectors.T
    least = np.minimum.reduceat(value, choices.start[:-1], axis=0)[order]
    total[:-1] = np.cumsum(least[::-1], axis=0)[::-1]
    return total


def cheapest_states(taken: Floats, spent: Floats) -> tuple[Floats, Floats]:
    """Return of the states that take the same the cheapest; under one limit, also none that takes more."""
    if len(spent) < 2:
        return taken, spent
    order = np.lexsort((spent, *taken.T))
    taken, spent = taken[order], spent[order]
    new = np.ones(len(spent), dtype=bool)
    if taken.shape[1] > 1:
        new[1:] = (taken[1:] != taken[:-1]).any(axis=1)
    else:
        new[1:] = spent[1:] < np.minimum.accumulate(spent)[:-1]
    return taken[new], spent[new]
