"""Implicit enumeration of a multiple-choice knapsack: the proof that no feasible choice is below a cutoff.

Dynamic programming over the jobs. A state is the resources used and the cost of the jobs decided so far. A
state is pruned if a Lagrangian bound on the remaining jobs proves that it cannot end below the cutoff; among
states of equal use only the cheapest stays (dominance; Kellerer, Pferschy, Pisinger, Knapsack Problems,
2004, chapter 11). Only the check uses it, and it shares no code with a solver: it tries several price
vectors around the given one, and any of them may prune. All comparisons leave a margin for rounding, on the
side that keeps states.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ...instances.common.arrays import Floats, Ints
from .clock import check_time

MAX_STATES = 2_000_000
"""States after one job, before pruning; the search gives up beyond."""
MAX_BOUNDS = 150_000_000
"""Bounds evaluated in all, which takes a second or two; the search gives up beyond."""
ALL_VECTORS_EVERY = 4
"""Number of jobs; in between, only the price vectors that pruned a state the last time are tried."""
MARGIN = 1e-12
"""Rounding error allowed for, relative to the sum of all summands."""
FACTORS = (0.0, 0.5, 0.8, 0.9, 1.1, 1.25, 2.0)
"""Multipliers of each single price and of all prices together."""


@dataclass(frozen=True)
class Choices:
    """A multiple-choice knapsack: the configurations of job j are `start[j]` to `start[j + 1]`.

    Attributes
    ----------
    start, cost, demand, limit
        Shapes (J + 1,), (K,), (K, R), (R,).
    """

    start: Ints
    cost: Floats
    demand: Floats
    limit: Floats


def no_choice_below(choices: Choices, prices: Floats, cutoff: float) -> bool | None:
    """Return whether it is proven that no feasible combination of configurations costs less than the cutoff.

    Parameters
    ----------
    prices
        Dual prices λ ≥ 0, shape (R,); any are valid, good ones make it fast.

    Returns
    -------
    answer
        True if it is proven, False if there is such a choice within rounding, None if the search gave up.
    """
    if not (np.diff(choices.start) == 0).any():
        choices = _affordable(choices, cutoff)
    if (np.diff(choices.start) == 0).any():
        return True  # a job without a configuration: there is no choice at all
    priced = prices > 0
    if priced.any() and not priced.all():
        # Without the limits that have no price there are more choices: a proof for these is one for all.
        fewer = Choices(choices.start, choices.cost, choices.demand[:, priced], choices.limit[priced])
        if _search(fewer, prices[priced], cutoff):
            return True
    return _search(choices, prices, cutoff)


def _affordable(choices: Choices, cutoff: float) -> Choices:
    """Return the knapsack without configurations too expensive even with the cheapest of all other jobs.

    Their large costs would widen the rounding margin of the search, which is relative to the largest sum.
    """
    start, sizes = choices.start[:-1], np.diff(choices.start)
    cheapest = np.minimum.reduceat(choices.cost, start)
    margin = MARGIN * (float(np.abs(cheapest).sum()) + abs(cutoff)) + 1e-280
    keep = choices.cost <= np.repeat(cutoff - math.fsum(cheapest) + cheapest + margin, sizes)
    counts = np.add.reduceat(keep, start, dtype=np.int64)
    offsets = np.concatenate([[0], np.cumsum(counts)])
    return Choices(offsets, choices.cost[keep], choices.demand[keep], choices.limit)


def _search(choices: Choices, prices: Floats, cutoff: float) -> bool | None:
    """Enumerate states job by job; return whether it is proven that none ends below the cutoff.

    None if the limit on states or bounds was reached.
    """
    # The margin covers the largest sum that any state or bound can add up.
    size = float(np.maximum.reduceat(np.abs(choices.cost), choices.start[:-1]).sum()) + abs(cutoff)
    most = np.maximum.reduceat(choices.demand, choices.start[:-1], axis=0).sum(axis=0) + choices.limit
    weights, vectors = bound_multipliers(prices)
    margins = MARGIN * (weights * size + vectors @ most) + 1e-280
    order = _job_order(choices, prices)
    # Jobs without a choice come first.
    decided = choices.start[order[: np.sum(np.diff(choices.start) == 1)]]
    taken, spent = choices.demand[decided].sum(axis=0)[None], np.zeros(1)
    # Capacity of the aggregated row of each price vector: a state beyond it cannot end below the cutoff.
    # What is decided is summed exactly: the margin does not cover the rounding of a sum over very many jobs.
    room = weights * (cutoff - math.fsum(choices.cost[decided])) + vectors @ choices.limit + margins
    if len(decided) == len(order):
        return bool((vectors @ taken[0] > room).any())
    left = _least_remaining(choices, weights, vectors, order)
    useful, bounds = np.ones(len(weights), dtype=bool), 0
    for place, job in enumerate(order.tolist()[len(decided) :], len(decided)):
        rows = slice(int(choices.start[job]), int(choices.start[job + 1]))
        check_time()
        if len(spent) * (rows.stop - rows.start) > MAX_STATES:
            return None
        taken = (taken[:, None, :] + choices.demand[rows]).reshape(-1, taken.shape[1])
        spent = (spent[:, None] + choices.cost[rows]).ravel()
        whole = place % ALL_VECTORS_EVERY == 0 or place == len(order) - 1
        for m in range(len(weights)) if whole else np.flatnonzero(useful).tolist():
            bounds += len(spent)
            beyond = weights[m] * spent + taken @ vectors[m] > room[m] - left[place + 1, m]
            useful[m] = bool(beyond.any()) or not m  # the given prices are always tried
            if useful[m]:
                taken, spent = taken[~beyond], spent[~beyond]
        taken, spent = cheapest_states(taken, spent)
        if not len(spent):
            return True
        if bounds > MAX_BOUNDS:
            return None
    return False


def bound_multipliers(prices: Floats) -> tuple[Floats, Floats]:
    """Return the cost weights (M,) and resource price vectors (M, R) of the Lagrangian bounds to try."""
    each, vectors = np.eye(len(prices)), [prices]
    for factor in FACTORS:
        vectors += [prices * factor, *np.where(each, prices * factor, prices)]
    candidates = [(1.0, *vector.tolist()) for vector in vectors]
    candidates += [(0.0, *vector.tolist()) for vector in (*each, prices)]  # each limit by itself
    distinct = np.array(list(dict.fromkeys(candidates)))
    return distinct[:, 0], distinct[:, 1:]


def _job_order(choices: Choices, prices: Floats) -> Ints:
    """Return the jobs by rising difference in reduced cost between their two best configurations."""
    counts, value = np.diff(choices.start), choices.cost + choices.demand @ prices
    value = value[np.lexsort((value, np.repeat(np.arange(len(counts)), counts)))]
    second, several = np.full(len(counts), -1.0), counts > 1
    best = choices.start[:-1][several]
    second[several] = value[best + 1] - value[best]
    return np.argsort(second, kind="stable")


def _least_remaining(choices: Choices, weights: Floats, vectors: Floats, order: Ints) -> Floats:
    """Return the minimum contribution of the jobs from each position on to each bound, shape (J + 1, M)."""
    total = np.zeros((len(order) + 1, len(weights)))
    value = choices.cost[:, None] * weights + choices.demand @ vectors.T
    least = np.minimum.reduceat(value, choices.start[:-1], axis=0)[order]
    total[:-1] = np.cumsum(least[::-1], axis=0)[::-1]
    return total


def cheapest_states(taken: Floats, spent: Floats) -> tuple[Floats, Floats]:
    """Return resource use and cost of the non-dominated states of the dynamic programme.

    These are the cheapest of equal use or, with one resource, of no larger use.
    """
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
