"""The Lagrangian dual of a multiple-choice knapsack: best prices by cutting planes.

    L(λ) = Σ_j min_k (c_k + λ·a_k) − λ·b,  λ ≥ 0

is concave and piecewise linear, and an evaluation is one pass over the rows. Kelley's method maximises the
lower envelope of the pieces seen so far. What keeps it fast at scale: the prices of a sample of the jobs
tell in which box the best ones lie, and within a box few rows can ever be chosen, so that only the first
pass reads them all.
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

SAMPLE_SHARE = 8
"""One job in so many is in the sample."""
FEWEST_SAMPLED = 8000
"""Problems with fewer jobs are solved without a sample."""
SAMPLE_ERROR = 4.0
"""Half the width of the box around the prices of n sampled jobs, relatively and in units of 1/√n."""
GROWTH = 8.0
"""How much a box grows at whose edge the prices lie."""
MOST_ROUNDS = 400
TIGHT = 1e-10
"""Relative distance to the best bound at which prices count as best."""


@dataclass(frozen=True)
class Dual:
    """Prices and what they are worth.

    Attributes
    ----------
    prices
        λ, shape (R,).
    bound
        L(λ), in plain floating point.
    chosen
        Row of each job with the least priced cost, shape (J,).
    unbounded
        Whether L exceeds what any choice of rows can cost, so that none keeps the limits.
    """

    prices: Floats
    bound: float
    chosen: Ints
    unbounded: bool = False


def best_prices(problem: MultipleChoice, clock: Clock, tolerance: float = TIGHT) -> Dual:
    """Return the best prices, or the best that were found when the time was up.

    Parameters
    ----------
    tolerance
        Relative distance to the best possible bound at which to stop.
    """
    scale = _scale(problem)
    centre, half = np.zeros(len(scale)), scale
    if problem.jobs >= FEWEST_SAMPLED:
        count = problem.jobs // SAMPLE_SHARE
        jobs = np.sort(np.random.default_rng(0).choice(problem.jobs, count, replace=False))
        rough = best_prices(problem.sample(jobs), clock, max(tolerance, 1e-7))
        if not rough.unbounded:
            centre = rough.prices
            half = SAMPLE_ERROR / math.sqrt(count) * np.maximum(centre, 1e-3 * scale)
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
    envelope = _Envelope(problem.limit)
    while True:
        least, rows = problem.choose(centre)
        best = envelope.add(problem, centre, least, rows)
        active = problem.only(_can_win(problem, centre, half, least, rows))
        best, edge = _kelley(active, envelope, best, half, most, clock, tolerance)
        if best.unbounded or clock.expired or not edge.any():
            return best
        centre, half = best.prices, np.where(edge, GROWTH * half, half)


def _can_win(
    problem: MultipleChoice, centre: Floats, half: Floats, least: Floats, rows: Ints
) -> NDArray[np.bool_]:
    """Return which rows may cost less than their job's best row at some prices of the box."""
    keep = np.empty(len(problem.cost), dtype=bool)
    for part, jobs, start in problem.parts():
        counts = np.diff(start)
        beyond = np.abs(problem.demand[part] - np.repeat(problem.demand[rows[jobs]], counts, axis=0)) @ half
        value = problem.demand[part] @ centre
        value += problem.cost[part]
        low = np.repeat(least[jobs], counts)
        keep[part] = value - beyond <= low + 1e-9 * np.abs(low)
    keep[rows] = True
    return keep


class _Envelope(Envelope):
    """The pieces of L seen so far: L(λ) ≤ constant_i + λ·slope_i, whichever rows were left out."""

    def __init__(self, limit: Floats) -> None:
        super().__init__()
        self.limit = limit

    def add(self, problem: MultipleChoice, prices: Floats, least: Floats, rows: Ints) -> Dual:
        """Remember the piece that is lowest at these prices."""
        self.constants.append(problem.value(rows))
        self.slopes.append(problem.take(rows) - self.limit)
        return Dual(prices, math.fsum(least) - float(prices @ self.limit), problem.row[rows])


def _kelley(
    problem: MultipleChoice,
    envelope: _Envelope,
    best: Dual,
    half: Floats,
    most: float,
    clock: Clock,
    tolerance: float,
) -> tuple[Dual, NDArray[np.bool_]]:
    """Maximise L in the box around `best`; return the best prices, and where they lie at the box's edge."""
    low, high = np.maximum(best.prices - half, 0.0), best.prices + half
    for _ in range(MOST_ROUNDS):
        prices, above = envelope.highest(best.prices, best.bound, low, high)
        if above <= tolerance * abs(best.bound) or clock.expired:
            break
        found = envelope.add(problem, prices, *problem.choose(prices))
        if found.bound > best.bound:
            best = found
        if best.bound > most + 1e-6 * abs(most):
            return Dual(best.prices, best.bound, best.chosen, unbounded=True), np.zeros(len(half), dtype=bool)
    reach = 1e-6 * half
    edge = (best.prices >= high - reach) | ((best.prices <= low + reach) & (low > 0))
    return best, edge
