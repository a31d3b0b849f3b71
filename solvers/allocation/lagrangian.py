"""The Lagrangian dual of a multiple-choice knapsack: best dual prices by cutting planes (Kelley 1960).

    L(λ) = Σ_j min_k (c_k + λ·a_k) − λ·b,  λ ≥ 0

is concave and piecewise linear, and an evaluation is one pass over the items. Kelley's method maximises the
minimum of the linear pieces seen so far. Two steps make it fast at scale: the prices of a sample of the jobs
locate a box for the best ones, and within a box few items can ever be chosen, so that only the first pass
reads them all. Wherever the box ends too early, it grows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...instances.common.arrays import Floats, Ints
from ..backends.cutting_planes import Envelope
from ..common.base import Clock
from .knapsack import MultipleChoice


@dataclass(frozen=True)
class KelleySettings:
    """Constants of the cutting-plane method.

    Attributes
    ----------
    jobs_per_sampled_job
        One job in so many is in the sample.
    fewest_jobs_sampled
        Problems with fewer jobs are solved without a sample.
    sample_error
        Half the width of the box around the prices of n sampled jobs, relatively and in units of 1/√n.
    sample_tolerance
        Least relative accuracy of the prices of a sample.
    least_price_share
        A price counts as at least this share of its scale where the box is laid around it.
    box_growth
        How much a box grows at whose edge the prices lie.
    most_rounds
        Evaluations of L in one box.
    tolerance
        Relative distance to the best bound at which prices count as best.
    """

    jobs_per_sampled_job: int = 8
    fewest_jobs_sampled: int = 8000
    sample_error: float = 4.0
    sample_tolerance: float = 1e-7
    least_price_share: float = 1e-3
    box_growth: float = 8.0
    most_rounds: int = 400
    tolerance: float = 1e-10


SETTINGS = KelleySettings()


@dataclass(frozen=True)
class Dual:
    """Dual prices and their bound.

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


def best_prices(problem: MultipleChoice, clock: Clock, tolerance: float = SETTINGS.tolerance) -> Dual:
    """Return the best dual prices, or the best that were found when the time was up.

    Parameters
    ----------
    tolerance
        Relative distance to the best possible bound at which to stop.
    """
    scale = _scale(problem)
    centre, half = np.zeros(len(scale)), scale
    if problem.jobs >= SETTINGS.fewest_jobs_sampled:
        count = problem.jobs // SETTINGS.jobs_per_sampled_job
        jobs = np.sort(np.random.default_rng(0).choice(problem.jobs, count, replace=False))
        rough = best_prices(problem.sample(jobs), clock, max(tolerance, SETTINGS.sample_tolerance))
        if not rough.unbounded:
            centre = rough.prices
            # Prices of n sampled jobs deviate from those of all by O(1/√n).
            least = SETTINGS.least_price_share * scale
            half = SETTINGS.sample_error / math.sqrt(count) * np.maximum(centre, least)
    return _within_growing_boxes(problem, centre, half, clock, tolerance)


def _scale(problem: MultipleChoice) -> Floats:
    """Return a price of each limit at which it weighs as much as all costs together."""
    costs = float(np.abs(problem.cost).max()) * problem.jobs
    limit = np.maximum(problem.limit, problem.demand.max(axis=0))
    scale = np.ones(len(limit))
    np.divide(max(costs, 1e-300), limit, out=scale, where=limit > 0)
    return scale


def _within_growing_boxes(
    problem: MultipleChoice, centre: Floats, half: Floats, clock: Clock, tolerance: float
) -> Dual:
    """Maximise L in a box, and in a larger one around the best prices while they lie at its edge."""
    most = math.fsum(np.maximum.reduceat(problem.cost, problem.start[:-1]))
    pieces = _Pieces(problem.limit)
    while True:
        least, chosen = problem.choose(centre)
        best = pieces.add(problem, centre, least, chosen)
        active = problem.only(_can_win(problem, centre, half, least, chosen))
        best, edge = _kelley(active, pieces, best, half, most, clock, tolerance)
        if best.unbounded or clock.expired or not edge.any():
            return best
        centre, half = best.prices, np.where(edge, SETTINGS.box_growth * half, half)


def _can_win(
    problem: MultipleChoice, centre: Floats, half: Floats, least: Floats, chosen: Ints
) -> NDArray[np.bool_]:
    """Return which items may cost less than their job's chosen item at some prices of the box."""
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


class _Pieces(Envelope):
    """The linear pieces of L seen so far: L(λ) ≤ constant_i + λ·slope_i, whichever items are left out."""

    def __init__(self, limit: Floats) -> None:
        super().__init__()
        self.limit = limit

    def add(self, problem: MultipleChoice, prices: Floats, least: Floats, chosen: Ints) -> Dual:
        """Add the piece that is lowest at these prices."""
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
    """Maximise L in the box around `best`; return the best prices, and where they lie at the box's edge."""
    low, high = np.maximum(best.prices - half, 0.0), best.prices + half
    for _ in range(SETTINGS.most_rounds):
        prices, above = pieces.highest(best.prices, best.bound, low, high)
        if above <= tolerance * abs(best.bound) or clock.expired:
            break
        found = pieces.add(problem, prices, *problem.choose(prices))
        if found.bound > best.bound:
            best = found
        if best.bound > most + 1e-6 * abs(most):
            return Dual(best.prices, best.bound, best.chosen, unbounded=True), np.zeros(len(half), dtype=bool)
    at_edge = 1e-6 * half
    edge = (best.prices >= high - at_edge) | ((best.prices <= low + at_edge) & (low > 0))
    return best, edge
