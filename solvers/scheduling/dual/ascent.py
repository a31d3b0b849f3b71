"""Subgradient ascent on prices of time (Polyak 1969; Held, Wolfe and Crowder 1974).

Each step goes along a mean of supergradients, as far as would reach a given share of the distance to the
value of a schedule that is known. The share shrinks where nothing better is found for a while.

Too much use at a time is a reason to raise prices before and after it too, since jobs can move. So
supergradients are smoothed over neighbouring cells at first: the direction d solves (D + s² K) d = g, where D
is the measure of the cells and K has the squared differences of neighbours, s cells far. The distance shrinks
with the share; any fixed positive definite matrix leaves the ascent what it is.
"""

from __future__ import annotations

import contextlib
import itertools
from dataclasses import dataclass, field

import numpy as np
from scipy.linalg import solveh_banded

from ....formulations.common.clock import Clock
from ....formulations.common.tolerance import TIE
from ....formulations.scheduling.certificate import PriceGrid
from ....formulations.scheduling.plan import SegmentTable
from ....instances.common.arrays import Floats
from ....instances.scheduling.instance import SchedulingInstance
from .evaluation import Evaluation, TimeDual
from .start import FACTORS, first_prices, time_grid

STALLS, DECAY = 12, 0.8
"""After so many steps without a better bound the share of the distance is multiplied by DECAY."""
FIRST_SHARE = 0.5
"""Of the distance at the start: prices by a schedule are good enough not to need larger steps."""
LAST_SHARE = 2e-4
"""With a smaller share the ascent ends: it moves no more."""
BETTER = 1e-5
"""A bound counts as better from this much on, relatively."""
SMOOTH_CELLS, SMOOTH_DECAY, LEAST_SMOOTH = 20.0, 0.5, 0.3
"""How many cells far a step is smoothed at first, what that is multiplied by with the share, and its end."""
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
    _begin(ascent, first_prices(instance, segments, edges, ascent.dual.capacity), clock)
    while ascent.evaluations < most_steps and not ascent.is_over() and not clock.expired and ascent.step():
        if ascent.stalls == 0 and ascent.share < FIRST_SHARE:
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


def _begin(ascent: _Ascent, prices: tuple[list[Floats], list[Floats]], clock: Clock) -> None:
    """Take the best of the prices to begin with."""
    by_delay, by_waiting = prices
    for price in itertools.chain(by_delay, by_waiting):
        if clock.expired or ascent.is_over():
            return
        ascent.begin_at(price)
    best = ascent.price
    for factor in FACTORS if best.any() else ():
        if clock.expired or ascent.is_over():
            return
        ascent.begin_at(factor * best)


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
        self.evaluations, self.share, self.stalls = 1, FIRST_SHARE, 0
        self.smooth_cells = SMOOTH_CELLS
        self.trace: list[tuple[float, float]] = []
        self._next, self._at, self._direction = self.price, self.best, np.zeros_like(self.price)
        # Prices are measured by what a resource costs in all, so that its unit does not matter.
        units = dual.instance.capacity_over_time[1].max(axis=0)
        self._measure: Floats = dual.length_s[:, None] * units**2
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
        scaled = self._smoothed(np.where((self._next <= 0) & (excess < 0), 0.0, excess))
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
            self.smooth_cells *= SMOOTH_DECAY
            self.stalls = 0
            self._next, self._at = self.price, self.best
            self._direction = np.zeros_like(self._direction)
        return True

    def _smoothed(self, excess: Floats) -> Floats:
        """Return the direction of a supergradient; 0 where that is 0, which holds prices at 0."""
        moves = (excess != 0) & (self._measure > 0)  # what there never is of has no price
        found = np.divide(excess, self._measure, out=np.zeros_like(excess), where=moves)
        if self.smooth_cells < LEAST_SMOOTH:
            return found
        for r in np.flatnonzero(moves.any(axis=0)):
            own = moves[:, r]
            tie = self.smooth_cells**2 * self._measure[:, r].mean() * (own[1:] & own[:-1])
            bands = np.zeros((2, len(own)))
            bands[0, 1:] = -tie
            bands[1] = np.where(own, self._measure[:, r], 1.0)
            bands[1, 1:] += tie
            bands[1, :-1] += tie
            # Where doubles lose the shortest cells beside the longest, this resource is not smoothed.
            with contextlib.suppress(np.linalg.LinAlgError):
                found[own, r] = solveh_banded(bands, np.where(own, excess[:, r], 0.0))[own]
        return found

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
