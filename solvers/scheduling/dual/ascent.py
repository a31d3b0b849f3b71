"""Subgradient ascent on prices of time (Polyak 1969; Held, Wolfe and Crowder 1974).

Each step goes along a mean of supergradients, as far as would reach a given share of the distance to the
value of a schedule that is known. The share shrinks where nothing better is found for a while.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ....formulations.common.clock import Clock
from ....formulations.common.tolerance import TIE
from ....formulations.scheduling.plan import SegmentTable
from ....formulations.scheduling.price_grid import PriceGrid
from ....instances.common.arrays import Floats
from ....instances.scheduling.instance import SchedulingInstance
from .evaluation import Evaluation, TimeDual
from .start import first_prices, time_grid

STALLS, DECAY = 12, 0.8
"""After so many steps without a better bound the share of the distance is multiplied by DECAY."""
LAST_SHARE = 2e-4
"""With a smaller share the ascent ends: it moves no more."""
BETTER = 1e-5
"""A bound counts as better from this much on, relatively."""
MEMORY = 0.5
"""Weight of the direction so far in the next one."""
MOST_STEPS = 5_000
"""It never took more than a thousand."""
LEAST_DISTANCE = 1e-4
"""The bound is taken to be no closer to the value of the schedule than this, relatively."""


@dataclass(frozen=True)
class TimePrices:
    """Prices, and what they prove.

    Attributes
    ----------
    grid
        The best prices that were found.
    bound
        On the mean completion time, in plain floating point [s].
    estimate
        No prices up to twice these prove more than this, but for the tolerance of the floats [s].
    ends_s
        C_j of the cheapest schedule of each job alone, shape (J,).
    evaluations
        How many times the dual function was evaluated.
    trace
        Seconds and the best bound, whenever the share shrank.
    """

    grid: PriceGrid
    bound: float
    estimate: float
    ends_s: Floats
    evaluations: int
    trace: list[tuple[float, float]] = field(default_factory=list)


def best_prices(
    instance: SchedulingInstance,
    segments: SegmentTable,
    value: float,
    clock: Clock,
    threads: int | None = None,
    cells: int | None = None,
    most_steps: int = MOST_STEPS,
) -> TimePrices:
    """Return the best prices that are found in time; at least those that a schedule suggests.

    Parameters
    ----------
    segments, value
        A feasible schedule, and its mean completion time [s].
    clock
        Asked before every evaluation.
    cells, most_steps
        Of the grid, and of the ascent.

    Raises
    ------
    OutOfTimeError
        If the loops are not compiled in the time of the enforced clock.
    """
    edges = time_grid(instance, segments, cells)
    ascent = _Ascent(TimeDual(instance, edges, threads), value)
    for price in first_prices(instance, segments, edges, ascent.dual.capacity):
        if clock.expired or ascent.is_over():
            break
        ascent.begin_at(price)
    while ascent.evaluations < most_steps and not ascent.is_over() and not clock.expired and ascent.step():
        if ascent.stalls == 0 and ascent.share < 1:
            ascent.trace.append((clock.elapsed_s, ascent.best.value))
    price = np.vstack([ascent.price, np.zeros((1, ascent.price.shape[1]))])
    return TimePrices(
        grid=PriceGrid(edges, price),
        bound=ascent.best.value,
        estimate=ascent.estimate(),
        ends_s=ascent.best.ends_s,
        evaluations=ascent.evaluations,
        trace=ascent.trace,
    )


class _Ascent:
    """The state of an ascent: the best prices, and those of the next step.

    Parameters
    ----------
    value
        Of a feasible schedule [s].
    """

    def __init__(self, dual: TimeDual, value: float) -> None:
        self.dual, self.value = dual, value
        self.price: Floats = np.zeros_like(dual.capacity)
        self.best = dual.evaluate(self.price)
        self.evaluations, self.share, self.stalls = 1, 1.0, 0
        self.trace: list[tuple[float, float]] = []
        self._next, self._at, self._direction = self.price, self.best, np.zeros_like(self.price)
        # Prices are measured by what a resource costs in all, so that its unit does not matter.
        units = dual.instance.capacity_over_time[1].max(axis=0)
        # What there never is of has no price.
        self._scale = np.zeros((len(dual.length_s), len(units)))
        self._scale[:, units > 0] = 1 / (dual.length_s[:, None] * units[units > 0] ** 2)
        self._older: tuple[float, float, Floats] | None = None
        self._forget()

    def begin_at(self, price: Floats) -> None:
        """Take these prices where they are better."""
        found = self._evaluate(price)
        if found.value > self.best.value:
            self.price, self.best = price, found
            self._next, self._at = price, found

    def is_over(self) -> bool:
        """Return whether more steps would bring nothing."""
        return self.share <= LAST_SHARE or self.best.value >= self.value * (1 - TIE)

    def step(self) -> bool:
        """Go a step; return whether there was a way up."""
        excess = self._at.excess
        scaled = np.where((self._next <= 0) & (excess < 0), 0.0, excess * self._scale)
        self._direction = MEMORY * self._direction + (1 - MEMORY) * scaled
        slope = float((self._direction * excess).sum())
        if slope <= 0:
            if not scaled.any():
                return False  # optimal: no excess where there is a price to change
            self._direction = scaled
            slope = float((scaled * excess).sum())
        distance = max(self.value - self._at.value, LEAST_DISTANCE * abs(self.value))
        step = self.share * distance * self.dual.total_weight / slope
        self._remember(step)
        self._next = np.maximum(self._next + step * self._direction, 0.0)
        self._at = self._evaluate(self._next)
        self.stalls += 1
        if self._at.value > self.best.value:
            if self._at.value > self.best.value + BETTER * abs(self.best.value):
                self.stalls = 0
            self.price, self.best = self._next, self._at
        if self.stalls >= STALLS:
            self.share *= DECAY
            self.stalls = 0
            self._next, self._at = self.price, self.best
            self._direction = np.zeros_like(self._direction)
        return True

    def _evaluate(self, price: Floats) -> Evaluation:
        self.evaluations += 1
        return self.dual.evaluate(price)

    def _forget(self) -> None:
        self._steps, self._costs, self._excess = 0.0, 0.0, np.zeros_like(self.price)
        self._since = self.evaluations

    def _remember(self, step: float) -> None:
        """Add the tangent L(μ) ≤ L(λ) + g·(μ − λ) of the prices at hand to the mean of the last ones."""
        if self.evaluations > 2 * self._since:
            self._older = (self._steps, self._costs, self._excess)
            self._forget()
        self._steps += step
        total = self.dual.total_weight
        at_zero = self._at.value - float((self._at.excess * self._next).sum()) / total
        self._costs += step * at_zero
        self._excess += step * self._at.excess / total

    def estimate(self) -> float:
        """Return the most that means of the tangents allow for prices up to twice the best ones."""
        found = np.inf
        for steps, costs, excess in filter(None, (self._older, (self._steps, self._costs, self._excess))):
            if steps > 0:
                most = float((np.maximum(excess, 0.0) * 2 * self.price).sum())
                found = min(found, (costs + most) / steps)
        return max(self.best.value, found) if np.isfinite(found) else self.best.value
