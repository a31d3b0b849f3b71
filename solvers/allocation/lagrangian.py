"""The multiple-choice knapsack of an allocation, its Lagrangian dual, and bounds in exact arithmetic.

Allocation is a multiple-choice multi-dimensional knapsack (Sinha & Zoltners 1979):

    minimise Σ_k c_k x_k  subject to  Σ_{k of j} x_k = 1 for every job j,  Σ_k a_kr x_k ≤ b_r for every r

Its items are configurations, its classes are jobs. Methods relax it by dual prices, drop items from it and
hand the rest to a solver; every item remembers the index of its configuration.

The best dual prices are found by cutting planes (Kelley 1960). The Lagrangian dual

    L(λ) = Σ_j min_k (c_k + λ·a_k) − λ·b,  λ ≥ 0

is concave and piecewise linear, and an evaluation is one pass over the items. Kelley's method maximises the
minimum of the linear pieces seen so far. Two steps make it fast at scale: the prices of a sample of the jobs
locate a box for the best ones, and within a box few items can ever be chosen, so that only the first pass
reads them all. Wherever the box ends too early, it grows.

The Lagrangian bounds that methods claim hold in exact arithmetic. For dual prices λ ≥ 0, L(λ) = Σ_j
min_k (c_k + λ·a_k) − λ·b bounds every choice from below (Fisher 1981), and Σ_j min {λ·a_k : t_k < T} > λ·b
shows that no plan ends before T. Sums of floats are rounded; each side is moved by more than that, so that a
bound is never too high. The check has an implementation of its own, which shares nothing with this one; tests
compare them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ...formulations.allocation.configurations import Configurations, RowsByJob
from ...formulations.common.clock import time_is_up
from ...instances.common.arrays import Floats, Ints
from ..backends.highs import CuttingPlaneModel
from ..common.base import Clock

JOBS_AT_ONCE = 4096
"""Jobs of a part: some hundred thousand items, which fit in a processor's cache."""


@dataclass(frozen=True, eq=False)
class MultipleChoice(RowsByJob):
    """Multiple-choice knapsack as arrays: one item (configuration) per job, within resource capacities.

    Items of job j are `start[j]` to `start[j + 1]`, and every job has an item.

    Attributes
    ----------
    cost, demand
        Shapes (K,) and (K, R).
    limit
        Shape (R,).
    configuration
        Shape (K,): index of each item in the configuration table.
    """

    cost: Floats
    demand: Floats
    limit: Floats
    configuration: Ints

    @classmethod
    def of(cls, configs: Configurations, cost: Floats) -> MultipleChoice:
        """Return the knapsack problem of a whole configuration table, with the given cost of each row."""
        return cls(configs.start, cost, configs.demand, configs.limit, np.arange(len(cost)))

    def parts(self) -> Iterator[tuple[slice, slice, Ints]]:
        """Yield blocks of jobs: slice of items, slice of jobs, and each job's offset in the block's items."""
        for first in range(0, self.jobs, JOBS_AT_ONCE):
            start = self.start[first : first + JOBS_AT_ONCE + 1]
            items = slice(int(start[0]), int(start[-1]))
            yield items, slice(first, first + len(start) - 1), start - start[0]

    def _priced(self, prices: Floats) -> Iterator[tuple[slice, Ints, Floats, Floats]]:
        """Yield blocks of jobs with c_k + λ·a_k of their items, and the minimum of each job."""
        for part, _, start in self.parts():
            value = self.demand[part] @ prices
            value += self.cost[part]
            yield part, start, value, np.minimum.reduceat(value, start[:-1])

    def choose(self, prices: Floats) -> tuple[Floats, Ints]:
        """Return min_k (c_k + λ·a_k) of each job, and the first item that attains it; shapes (J,)."""
        least, chosen = [], []
        for part, start, value, low in self._priced(prices):
            reached = np.flatnonzero(value == np.repeat(low, np.diff(start)))
            least.append(low)
            chosen.append(part.start + reached[np.searchsorted(reached, start[:-1])])
        return np.concatenate(least), np.concatenate(chosen)

    def least_costs(self, prices: Floats) -> Floats:
        """Return min_k (c_k + λ·a_k) of each job, shape (J,)."""
        return np.concatenate([low for *_, low in self._priced(prices)])

    def reduced_costs(self, prices: Floats) -> Floats:
        """Return the reduced cost of each item: c_k + λ·a_k less the minimum of its job, shape (K,)."""
        reduced = np.empty(len(self.cost))
        for part, start, value, low in self._priced(prices):
            reduced[part] = value - np.repeat(low, np.diff(start))
        return reduced

    def take(self, items: Ints) -> Floats:
        """Return the total demand of the given items, shape (R,)."""
        total: Floats = self.demand[items].sum(axis=0)
        return total

    def fits(self, items: Ints) -> bool:
        """Return whether the given items together are within all capacities."""
        return bool((self.take(items) <= self.limit).all())

    def value(self, items: Ints) -> float:
        """Return the total cost of the given items."""
        return math.fsum(self.cost[items])

    @cached_property
    def largest_value(self) -> float:
        """The largest total cost of any choice of one item per job."""
        return math.fsum(self.most(self.cost))

    def only(self, keep: NDArray[np.bool_]) -> MultipleChoice:
        """Return the knapsack problem restricted to the flagged items.

        `choose` needs an item of every job.
        """
        counts = np.add.reduceat(keep, self.start[:-1], dtype=np.int64)
        start = np.concatenate([[0], np.cumsum(counts)])
        return MultipleChoice(start, self.cost[keep], self.demand[keep], self.limit, self.configuration[keep])

    def sample(self, jobs: Ints) -> MultipleChoice:
        """Return the knapsack problem of some jobs, with their proportional share of the capacities."""
        keep = np.zeros(self.jobs, dtype=bool)
        keep[jobs] = True
        sampled = self.only(self.spread(keep))
        # Jobs outside the sample keep nothing, so that they start where the next one does.
        return replace(sampled, start=np.unique(sampled.start), limit=self.limit * (len(jobs) / self.jobs))


JOBS_PER_SAMPLED_JOB = 8
"""One job in so many is in the sample."""
FEWEST_JOBS_SAMPLED = 8000
"""Problems with fewer jobs are solved without a sample."""
SAMPLE_ERROR = 4.0
"""Half the width of the box around the prices of n sampled jobs, relatively and in units of 1/√n."""
SAMPLE_TOLERANCE = 1e-7
"""Least relative accuracy of the prices of a sample."""
LEAST_PRICE_SHARE = 1e-3
"""A price counts as at least this share of its scale where the box is laid around it."""
BOX_GROWTH = 8.0
"""How much a box grows at whose edge the prices lie."""
MAX_ROUNDS = 400
"""Evaluations of L in one box."""
TOLERANCE = 1e-10
"""Relative distance to the best bound at which prices count as best."""


@dataclass(frozen=True)
class Dual:
    """Dual prices of the resource capacities, their Lagrangian bound, and the items that attain it.

    Attributes
    ----------
    prices
        λ, shape (R,).
    bound
        L(λ), in plain floating point.
    chosen
        Configuration of each job that attains the minimum, shape (J,).
    unbounded
        Whether L exceeds what any choice can cost, so that none keeps the limits.
    """

    prices: Floats
    bound: float
    chosen: Ints
    unbounded: bool = False


def best_prices(problem: MultipleChoice, clock: Clock, tolerance: float = TOLERANCE) -> Dual:
    """Return dual prices that maximise the Lagrangian bound L(λ), or the best found in the time limit.

    Parameters
    ----------
    tolerance
        Relative distance to the best possible bound at which to stop.
    """
    scale = _scale(problem)
    centre, half = np.zeros(len(scale)), scale
    if problem.jobs >= FEWEST_JOBS_SAMPLED:
        count = problem.jobs // JOBS_PER_SAMPLED_JOB
        jobs = np.sort(np.random.default_rng(0).choice(problem.jobs, count, replace=False))
        rough = best_prices(problem.sample(jobs), clock, max(tolerance, SAMPLE_TOLERANCE))
        if not rough.unbounded:
            centre = rough.prices
            # Prices of n sampled jobs deviate from those of all by O(1/√n).
            least = LEAST_PRICE_SHARE * scale
            half = SAMPLE_ERROR / math.sqrt(count) * np.maximum(centre, least)
    return _within_growing_boxes(problem, centre, half, clock, tolerance)


def _scale(problem: MultipleChoice) -> Floats:
    """Return dual prices (R,) at which each capacity is valued at the largest item cost × number of jobs."""
    costs = float(np.abs(problem.cost).max()) * problem.jobs
    limit = np.maximum(problem.limit, problem.demand.max(axis=0))
    scale = np.ones(len(limit))
    np.divide(max(costs, 1e-300), limit, out=scale, where=limit > 0)
    return scale


def _within_growing_boxes(
    problem: MultipleChoice, centre: Floats, half: Floats, clock: Clock, tolerance: float
) -> Dual:
    """Maximise L(λ) in a box of prices, which grows around the best prices while they lie at its edge."""
    pieces = _Pieces(problem.limit)
    while True:
        least, chosen = problem.choose(centre)
        best = pieces.add(problem, centre, least, chosen)
        active = problem.only(_may_be_chosen(problem, centre, half, least, chosen))
        best, edge = _kelley(active, pieces, best, half, problem.largest_value, clock, tolerance)
        if best.unbounded or clock.expired or not edge.any():
            return best
        centre, half = best.prices, np.where(edge, BOX_GROWTH * half, half)


def _may_be_chosen(
    problem: MultipleChoice, centre: Floats, half: Floats, least: Floats, chosen: Ints
) -> NDArray[np.bool_]:
    """Return flags of the items that may be their job's cheapest at some prices in the box, shape (K,)."""
    keep = np.empty(len(problem.cost), dtype=bool)
    for part, jobs, start in problem.parts():
        counts = np.diff(start)
        # |Δa|·h is the most by which the difference of two priced costs changes within the box.
        beyond = np.abs(problem.demand[part] - np.repeat(problem.demand[chosen[jobs]], counts, axis=0)) @ half
        value = problem.demand[part] @ centre
        value += problem.cost[part]
        low = np.repeat(least[jobs], counts)
        keep[part] = value - beyond <= low + 1e-9 * np.abs(low)
    keep[chosen] = True
    return keep


class _Pieces(CuttingPlaneModel):
    """Cutting planes of L, one per evaluation: L(λ) ≤ constant_i + λ·slope_i, even if items are left out."""

    def __init__(self, limit: Floats) -> None:
        super().__init__()
        self.limit = limit

    def add(self, problem: MultipleChoice, prices: Floats, least: Floats, chosen: Ints) -> Dual:
        """Add the cutting plane of L at these prices; return the prices with their Lagrangian bound."""
        self.constants.append(problem.value(chosen))
        self.slopes.append(problem.take(chosen) - self.limit)
        return Dual(prices, math.fsum(least) - float(prices @ self.limit), problem.configuration[chosen])


def _kelley(
    problem: MultipleChoice,
    pieces: _Pieces,
    best: Dual,
    half: Floats,
    most: float,
    clock: Clock,
    tolerance: float,
) -> tuple[Dual, NDArray[np.bool_]]:
    """Maximise L(λ) in the box around `best`; return the best prices, and flags of those at its edge."""
    low, high = np.maximum(best.prices - half, 0.0), best.prices + half
    for _ in range(MAX_ROUNDS):
        prices, above = pieces.maximize(best.prices, best.bound, low, high)
        if above <= tolerance * abs(best.bound) or clock.expired:
            break
        dual = pieces.add(problem, prices, *problem.choose(prices))
        if dual.bound > best.bound:
            best = dual
        if best.bound > most + 1e-6 * abs(most):
            return Dual(best.prices, best.bound, best.chosen, unbounded=True), np.zeros(len(half), dtype=bool)
    at_edge = 1e-6 * half
    edge = (best.prices >= high - at_edge) | ((best.prices <= low + at_edge) & (low > 0))
    return best, edge


ROUNDING = 1e-13
"""Relative error margin, more than a thousand roundings of single products and sums."""
UNDERFLOW = 1e-280
"""Absolute error margin for products of tiny figures."""


def knapsack_bound(problem: MultipleChoice, prices: Floats) -> float:
    """Return the Lagrangian bound L(λ) on the total cost, rounded down; negative prices count as 0.

    Parameters
    ----------
    prices
        λ, shape (R,).
    """
    prices = np.maximum(prices, 0.0)
    least = _least_sum(problem, prices) * (1 - ROUNDING)
    return least - _priced_limit(problem, prices) if prices.any() else least


def makespan_bound(configs: Configurations, prices: Floats) -> float:
    """Return the largest time in seconds before which the prices prove that no plan ends.

    The bisection over the completion times ends early where the time is up.

    Returns
    -------
    bound
        Seconds; infinite where there is no plan at all.
    """
    prices = np.maximum(prices, 0.0)
    if not configs.counts.all():
        return math.inf
    problem = MultipleChoice.of(configs, np.zeros(len(configs.time_s)))
    limit = _priced_limit(problem, prices)

    def excluded(time_s: float) -> bool:
        in_time = replace(problem, cost=np.where(configs.time_s < time_s, 0.0, math.inf))
        return _least_sum(in_time, prices) * (1 - ROUNDING) > limit

    if excluded(math.inf):
        return math.inf
    times = np.unique(configs.time_s)
    slowest_alone = float(configs.least(configs.time_s).max())
    low, high = int(np.searchsorted(times, slowest_alone)), len(times)
    while low + 1 < high and not time_is_up():
        middle = (low + high) // 2
        low, high = (middle, high) if excluded(float(times[middle])) else (low, middle)
    return float(times[low])


def _least_sum(problem: MultipleChoice, prices: Floats) -> float:
    """Return the sum over jobs of min_k (c_k + λ·a_k)."""
    least = problem.least_costs(prices)
    return math.fsum(math.fsum(least[jobs]) for _, jobs, _ in problem.parts())


def _priced_limit(problem: MultipleChoice, prices: Floats) -> float:
    """Return λ·b, the value of the capacities at the dual prices, rounded up."""
    return math.fsum((prices * problem.limit).tolist()) * (1 + ROUNDING) + UNDERFLOW
