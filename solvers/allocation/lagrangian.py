"""The multiple-choice knapsack of an allocation, its Lagrangian dual, and bounds in exact arithmetic.

Allocation is a multiple-choice multi-dimensional knapsack (Sinha & Zoltners 1979):

    minimise Σ_k c_k x_k  subject to  Σ_{k of j} x_k = 1 for every job j,  Σ_k a_kr x_k ≤ b_r for every r

Its items are configurations, its classes are jobs. Methods relax it by dual prices, drop items from it and
hand the rest to a solver; every item remembers the index of its configuration.

The best dual prices are found by cutting planes (Kelley 1960). The Lagrangian dual

    L(λ) = Σ_j min_k (c_k + λ·a_k) − λ·b,  λ ≥ 0

is concave and piecewise linear, and an evaluation is one pass over the items. Kelley's method maximises the
minimum of the linear pieces seen so far. Three steps make it fast at scale: the prices of a sample of the
jobs, or those of an earlier instance, locate a box for the best ones; within a box few items can ever be
chosen, and many jobs have only one of these, so that only the first pass reads them all; and the box shrinks
to the prices at which the linear pieces still allow a better bound. Wherever it ends too early, it grows.

The Lagrangian bounds that methods claim hold in exact arithmetic. For dual prices λ ≥ 0, L(λ) = Σ_j
min_k (c_k + λ·a_k) − λ·b bounds every choice from below (Fisher 1981), and Σ_j min {λ·a_k : t_k < T} > λ·b
shows that no plan ends before T. Sums of floats are rounded; each side is moved by more than that, so that a
bound is never too high. The check has an implementation of its own, which shares nothing with this one; tests
compare them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ...formulations.allocation.configurations import Configurations, RowsByJob
from ...formulations.common.clock import time_is_up
from ...instances.common.arrays import Floats, Ints, narrow, offsets
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
    constant
        Cost of the jobs that are decided and have no items here; `limit` is what they leave.
    """

    cost: Floats
    demand: Floats
    limit: Floats
    configuration: Ints
    constant: float = 0.0

    @classmethod
    def of(cls, configs: Configurations, cost: Floats) -> MultipleChoice:
        """Return the knapsack problem of a whole configuration table, with the given cost of each row."""
        return cls(configs.start, cost, configs.demand, configs.limit, narrow(np.arange(len(cost))))

    def _priced(self, prices: Floats) -> Iterator[tuple[slice, Ints, Floats, Floats, Floats]]:
        """Yield blocks of jobs with the minimum of c_k + λ·a_k of each job.

        Before it are the slice of the block's items, each job's offset in them, and their demand and values.
        """
        for first in range(0, self.jobs, JOBS_AT_ONCE):
            ends = self.start[first : first + JOBS_AT_ONCE + 1]
            part, start = slice(int(ends[0]), int(ends[-1])), ends - ends[0]
            demand = self.demand[part]
            value = demand @ prices
            value += self.cost[part]
            yield part, start, demand, value, np.minimum.reduceat(value, start[:-1])

    def choose(self, prices: Floats) -> tuple[Floats, Ints]:
        """Return min_k (c_k + λ·a_k) of each job, and the first item that attains it; shapes (J,)."""
        least, chosen = [], []
        for part, start, _, value, low in self._priced(prices):
            least.append(low)
            chosen.append(part.start + _first_minima(value, low, start))
        return np.concatenate(least), np.concatenate(chosen)

    def choose_within(self, centre: Floats, half: Floats) -> tuple[Floats, Ints, NDArray[np.bool_]]:
        """Return what `choose` does at the centre of a box of prices, and what may be chosen in the box.

        Returns
        -------
        least, chosen, keep
            The flags `keep`, shape (K,), are of items that may be their job's cheapest at some prices.
        """
        all_least, all_chosen, keep = [], [], np.zeros(len(self.cost), dtype=bool)
        for part, start, demand, value, least in self._priced(centre):
            chosen = _first_minima(value, least, start)
            all_least.append(least)
            all_chosen.append(part.start + chosen)
            own, low = demand[chosen], least + 1e-9 * np.abs(least)
            # |Δa|·h is the most by which the difference of two priced costs changes within the box, and it is
            # at most the sum of both a·h: most items are left out by that alone.
            near = np.flatnonzero(value - demand @ half <= np.repeat(low + own @ half, np.diff(start)))
            job = np.searchsorted(start, near, side="right") - 1
            beyond = np.abs(demand[near] - own[job]) @ half
            keep[part.start + near[value[near] - beyond <= low[job]]] = True
        return np.concatenate(all_least), np.concatenate(all_chosen), keep

    def least_costs(self, prices: Floats) -> Floats:
        """Return min_k (c_k + λ·a_k) of each job, shape (J,)."""
        return np.concatenate([low for *_, low in self._priced(prices)])

    def reduced_costs(self, prices: Floats) -> Floats:
        """Return the reduced cost of each item: c_k + λ·a_k less the minimum of its job, shape (K,)."""
        reduced = np.empty(len(self.cost))
        for part, start, _, value, low in self._priced(prices):
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
        return MultipleChoice(
            offsets(counts), self.cost[keep], self.demand[keep], self.limit, self.configuration[keep]
        )

    def undecided(self, keep: NDArray[np.bool_]) -> MultipleChoice:
        """Return the problem restricted to the flagged items, without the jobs that have only one of them."""
        kept = self.only(keep)
        free = kept.counts > 1
        free[0] = True  # a problem has a job
        decided = kept.start[:-1][~free]
        rest = kept.of_jobs(free)
        limit, constant = self.limit - kept.take(decided), self.constant + kept.value(decided)
        return replace(rest, limit=limit, constant=constant)

    def of_jobs(self, chosen: NDArray[np.bool_]) -> MultipleChoice:
        """Return the problem of the flagged jobs alone, with all of the capacities."""
        rest = self.only(self.spread(chosen))
        # Jobs that are left out keep nothing, so that they start where the next one does.
        return replace(rest, start=np.unique(rest.start))

    def sample(self, jobs: Ints) -> MultipleChoice:
        """Return the knapsack problem of some jobs, with their proportional share of the capacities."""
        sampled = self.of_jobs(np.isin(np.arange(self.jobs), jobs))
        return replace(sampled, limit=self.limit * (len(jobs) / self.jobs))


def _first_minima(value: Floats, low: Floats, start: Ints) -> Ints:
    """Return the first item of each job whose value is the job's minimum."""
    reached = np.flatnonzero(value == np.repeat(low, np.diff(start)))
    return reached[np.searchsorted(reached, start[:-1])]


JOBS_PER_SAMPLED_JOB = 8
"""One job in so many is in the sample."""
FEWEST_JOBS_SAMPLED = 8000
"""Problems with fewer jobs are solved without a sample."""
SAMPLE_ERROR = 16.0
"""Half the width of the box around the prices of n sampled jobs, relatively and in units of 1/√n."""
SAMPLE_TOLERANCE = 1e-7
"""Least relative accuracy of the prices of a sample."""
LEAST_PRICE_SHARE = 0.01
"""A price counts as at least what makes its capacity worth this share of all, where a box is laid around."""
START_ERROR = 0.05
"""Half the width of the box around the prices of an earlier problem, relatively."""
BOX_GROWTH, MOST_GROWTHS = 8.0, 2
"""How much a box grows beyond which prices are better, and how often one around earlier prices does."""
LEAST_WORTH = 1e-3
"""All capacities count as worth at least this share of the least total cost, where a box is laid around."""
MOST_SHRUNK = 16
"""Most resources with which a box shrinks, since each takes two linear programmes."""
SHRUNK_ENOUGH = 0.25
"""Relative volume of a box from which on items are left out anew."""
CUTS_PER_RESOURCE = 2
"""Cuts that are kept for the next search, for each resource and one more."""
MAX_ROUNDS = 400
"""Evaluations of L in one box."""
TOLERANCE = 1e-10
"""Relative distance to the best bound at which prices count as best."""


@dataclass(frozen=True)
class Dual:
    """Dual prices of the resource capacities, and their Lagrangian bound.

    Attributes
    ----------
    prices
        λ, shape (R,).
    bound
        L(λ), in plain floating point.
    cuts
        Prices at which L was evaluated and which decide where its maximum is, the best first.
    unbounded
        Whether L exceeds what any choice can cost, so that none keeps the limits.
    """

    prices: Floats
    bound: float
    cuts: tuple[Floats, ...] = ()
    unbounded: bool = False


def best_prices(
    problem: MultipleChoice, clock: Clock, tolerance: float = TOLERANCE, start: Sequence[Floats] = ()
) -> Dual:
    """Return dual prices that maximise the Lagrangian bound L(λ), or the best found in the time limit.

    Parameters
    ----------
    tolerance
        Relative distance to the best possible bound at which to stop.
    start
        Cuts of an earlier, similar problem.
    """
    half = _scale(problem)
    centre = np.zeros(len(half))
    if start:
        centre, half = _box(problem, start[0], START_ERROR, half)
    elif problem.jobs >= FEWEST_JOBS_SAMPLED:
        count = problem.jobs // JOBS_PER_SAMPLED_JOB
        jobs = np.random.default_rng(0).choice(problem.jobs, count, replace=False)
        rough = best_prices(problem.sample(jobs), clock, max(tolerance, SAMPLE_TOLERANCE))
        if not rough.unbounded:
            # Prices of n sampled jobs deviate from those of all by O(1/√n).
            centre, half = _box(problem, rough.prices, SAMPLE_ERROR / math.sqrt(count), half)
    search = _PriceSearch(problem, clock, tolerance)
    for growths in itertools.count():
        edge = search.run(centre, half, start[1:])
        best = search.best
        if best.unbounded or clock.expired or not edge.any():
            return replace(best, cuts=search.deciding_cuts())
        if start and growths == MOST_GROWTHS:  # the prices of then tell nothing about those of now
            break
        centre, half = best.prices, np.where(edge, BOX_GROWTH * half, half)
    return best_prices(problem, clock, tolerance)


def _scale(problem: MultipleChoice) -> Floats:
    """Return dual prices (R,) at which each capacity is valued at the largest item cost × number of jobs."""
    costs = max(float(np.abs(problem.cost).max()) * problem.jobs, 1e-300)
    limit = np.maximum(problem.limit, np.max(problem.demand, axis=0))
    return costs / np.where(limit > 0, limit, costs)


def _box(problem: MultipleChoice, centre: Floats, error: float, widest: Floats) -> tuple[Floats, Floats]:
    """Return centre and half widths of a box around prices with a relative error, shapes (R,).

    A price counts as at least so much that its capacity is worth a small share of all capacities.
    """
    centre = np.minimum(centre, widest)
    worth = max(float(centre @ problem.limit), LEAST_WORTH * float(problem.least(problem.cost).sum()))
    least = widest.copy()
    if worth > 0:
        np.divide(LEAST_PRICE_SHARE * worth, problem.limit, out=least, where=problem.limit > 0)
    return centre, np.minimum(error * np.maximum(centre, least), widest)


class _PriceSearch:
    """Cutting-plane method in a box of prices (Kelley 1960): the cuts, and the best prices so far.

    A cut L(λ) ≤ constant_i + λ·slope_i holds at all prices, even if items are left out.

    Attributes
    ----------
    box
        Least and highest prices, both (R,), between which the best of the first box lie.
    active
        The problem with the items that may be chosen within the box.
    """

    def __init__(self, problem: MultipleChoice, clock: Clock, tolerance: float) -> None:
        self.problem, self.clock, self.tolerance = problem, clock, tolerance
        self.model = CuttingPlaneModel()
        self.evaluated: list[Floats] = []
        self.best = Dual(np.zeros(len(problem.limit)), -math.inf)
        self.shrinks = problem.jobs >= FEWEST_JOBS_SAMPLED and len(problem.limit) <= MOST_SHRUNK

    def run(self, centre: Floats, half: Floats, others: Sequence[Floats] = ()) -> NDArray[np.bool_]:
        """Maximise L(λ) in a box of prices; return flags of the prices that should be beyond its ends, (R,).

        Parameters
        ----------
        others
            Prices at which L is evaluated first.
        """
        low, high = self.box = np.maximum(centre - half, 0.0), centre + half
        self.active, most = self.problem, self.problem.largest_value
        self._restrict(centre, math.inf)
        for prices in others:
            self._evaluate(np.clip(prices, *self.box))
        for count in range(1, MAX_ROUNDS + 1):
            prices, above = self.model.maximize(self.best.prices, self.best.bound, *self.box)
            if above <= self.enough or self.clock.expired:
                break
            self._evaluate(prices)
            if self.best.bound > most + 1e-6 * abs(most):
                self.best = replace(self.best, unbounded=True)
                return np.zeros(len(half), dtype=bool)
            if self.shrinks and count % (2 * len(half)) == 0:
                self._restrict(self.best.prices, SHRUNK_ENOUGH)
        # The cuts are concave together: where a larger box brings them nothing, none does.
        best, reach = self.best.prices, BOX_GROWTH * half
        ends = np.maximum(best - reach, 0.0), best + reach
        prices, above = self.model.maximize(best, self.best.bound, *ends)
        beyond: NDArray[np.bool_] = np.abs(prices - np.clip(prices, low, high)) > 1e-6 * half
        return beyond & (above > self.enough)

    @property
    def enough(self) -> float:
        """How much better a bound may be than the best one where the search ends."""
        return self.tolerance * min(abs(self.best.bound), self.problem.largest_value)

    def _restrict(self, centre: Floats, enough: float) -> None:
        """Shrink the box to where the cuts allow a better bound; drop items if it is so much smaller."""
        former = self.box
        if self.shrinks and self.evaluated:
            self.box = self.model.level_box(self.best.prices, self.best.bound, *former)
        low, high = self.box
        if np.prod((high - low) / np.maximum(former[1] - former[0], 1e-300)) < enough:
            least, chosen, keep = self.active.choose_within(centre, np.maximum(high - centre, centre - low))
            self._add(centre, least, chosen)
            self.active = self.active.undecided(keep)

    def _evaluate(self, prices: Floats) -> None:
        """Evaluate L at prices, and add the cut."""
        self._add(prices, *self.active.choose(prices))

    def _add(self, prices: Floats, least: Floats, chosen: Ints) -> None:
        """Add the cut at prices where these items are chosen; keep the prices if they are the best."""
        problem = self.active
        self.model.constants.append(problem.constant + problem.value(chosen))
        self.model.slopes.append(problem.take(chosen) - problem.limit)
        self.evaluated.append(prices)
        bound = problem.constant + math.fsum(least) - float(prices @ problem.limit)
        if bound > self.best.bound:
            self.best = Dual(prices, bound)

    def deciding_cuts(self) -> tuple[Floats, ...]:
        """Return the best prices, and those whose cuts are lowest there."""
        heights = np.array(self.model.constants) + np.array(self.model.slopes) @ self.best.prices
        order = np.argsort(heights, kind="stable")[: CUTS_PER_RESOURCE * (len(self.best.prices) + 1)]
        return self.best.prices, *(self.evaluated[i] for i in order.tolist())


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
    least = _least_sum(problem, prices)
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
        return _least_sum(in_time, prices) > limit

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
    """Return the sum over jobs of min_k (c_k + λ·a_k), rounded down."""
    return math.fsum(problem.least_costs(prices)) * (1 - ROUNDING)


def _priced_limit(problem: MultipleChoice, prices: Floats) -> float:
    """Return λ·b, the value of the capacities at the dual prices, rounded up."""
    return math.fsum((prices * problem.limit).tolist()) * (1 + ROUNDING) + UNDERFLOW
