"""Dual prices of scarce units within one interval of the stage time: a Lagrangian dual over paths.

    D(y) = min over paths of Σ (cost + y·consumption) − y·limit,  y ≥ 0

is concave, and an evaluation is one shortest path (Handler & Zang 1980), so cutting planes (Kelley 1960) need
some dozens of paths. With costs left out, any y with D(y) > 0 proves that the units do not suffice at all.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ...instances.common.arrays import Floats, Ints
from ..backends.cutting_planes import Envelope
from ..common.base import Clock
from .intervals import Interval, Segments


@dataclass(frozen=True)
class DualSettings:
    """Tuning of the cutting-plane method.

    Attributes
    ----------
    box_growth
        Factor by which the box of prices grows if the best ones lie at its edge.
    rounding_margin
        Relative to what is added up.
    most_rounds
        Evaluations of D.
    tolerance
        Relative distance to the best possible bound at which prices count as best.
    of_width
        In an interval whose target is out of reach they count as best at this part of its relative width: the
        interval is split, and its parts improve them.
    """

    box_growth: float = 8.0
    rounding_margin: float = 1e-13
    most_rounds: int = 300
    tolerance: float = 1e-7
    of_width: float = 0.05


SETTINGS = DualSettings()


@dataclass(frozen=True)
class DualSolution:
    """Dual prices, the bound that they prove, and the paths of all evaluations.

    Attributes
    ----------
    prices
        Shape (R,).
    bound
        D at these prices; infinite if there is no path at all.
    paths
        The segments of each path, latest last.
    """

    prices: Floats
    bound: float
    paths: list[Ints]


def solve_dual(segments: Segments, interval: Interval, target: float, clock: Clock) -> DualSolution:
    """Return the best dual prices of an interval, or the first that prove the target.

    Parameters
    ----------
    target
        A bound of this is enough.
    """
    oracle = _Oracle(segments, interval)
    best = oracle.at(interval.prices)
    # The prices of the interval that was split are a good start, and may also be worse than none.
    if interval.prices.any():
        best = max(best, oracle.at(np.zeros_like(interval.prices)), key=lambda answer: answer[1])
    reference = target if interval.counts_cost and math.isfinite(target) else max(1.0, abs(best[1]))
    # The box of prices: at its edge all units of a limit are worth four times the target.
    high = np.maximum(4 * reference / np.maximum(segments.limits.capacity, 1.0), 2 * best[0])
    width = (interval.high - interval.low) / max(interval.high, 1e-300)
    rough = max(SETTINGS.tolerance, SETTINGS.of_width * width)
    for _ in range(SETTINGS.most_rounds):
        if best[1] >= target or clock.expired or math.isinf(best[1]):
            break
        prices, above = oracle.envelope.highest(*best, np.zeros_like(high), high)
        # `above`: by how much D can still rise within the box.
        enough = rough if best[1] + above < target else SETTINGS.tolerance
        if above <= enough * max(abs(best[1]), reference):
            edge = best[0] >= high * (1 - 1e-6)
            if not edge.any() or high.max() > 1e12 * reference:
                break
            # The best prices may lie beyond the box.
            high = np.where(edge, SETTINGS.box_growth * high, high)
            continue
        best = max(best, oracle.at(prices), key=lambda answer: answer[1])
    return DualSolution(best[0], best[1], oracle.paths)


class _Oracle:
    """Evaluates D, and keeps the supergradient and the path of each evaluation."""

    def __init__(self, segments: Segments, interval: Interval) -> None:
        self.segments, self.interval = segments, interval
        self.envelope = Envelope()
        self.paths: list[Ints] = []

    def at(self, prices: Floats) -> tuple[Floats, float]:
        """Return the prices and D there."""
        segments, interval = self.segments, self.interval
        weight = segments.weight(interval, prices)
        shortest, arrival = segments.graph.forward(weight[None])
        if math.isinf(shortest[0]):
            return prices, math.inf
        path = segments.graph.cheapest(weight, arrival[0])
        self.paths.append(path)
        self.envelope.constants.append(float(interval.cost[path].sum()))
        consumption = segments.consumption(path, interval.units[path])
        self.envelope.slopes.append(consumption - segments.limits.capacity)
        spare = float(prices @ segments.limits.capacity)
        return prices, float(shortest[0]) - spare - SETTINGS.rounding_margin * (
            abs(float(shortest[0])) + spare
        )
