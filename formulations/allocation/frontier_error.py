"""The proven error of a set of points: an ε-approximation of the Pareto front over a whole grid of clusters.

A plan of step y is one of every step above, so the best known value at step x is v(x) = min {v_i : y_i ≤ x}.
A bound of step z holds for every plan of the steps below, so the best known bound is
B(x) = max {B_k : z_k ≥ x}. For every step x up to the last one, a plan of x therefore has a mean completion
time of at least B(x), and there is a point that costs no more than x with v(x). The relative improvement
that a plan can still have is

    ε = max_x 1 − B(x)/v(x) = max_k 1 − B(z_k)/v(the step after z_{k−1}),

because between two steps with bounds B does not change and v is largest at the lowest. Where x has no point
below, B(x) must be infinite: it is proven that there is no plan.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from .cluster_grid import ZERO, ClusterGrid

ROUNDING = 1e-9
"""A bound this close to the value, relatively, is the value."""
WRONG = 1e-6
"""A bound that exceeds the value of a plan by more than this, relatively, is wrong."""


@dataclass(frozen=True)
class Interval:
    """Steps from `low` to `high`, for all of which the bound of `high` is the best known.

    Attributes
    ----------
    point
        Step of the best plan that all of them can have; None if there is none.
    value, bound
        Of that plan, infinite without one; and below which no plan is, infinite if there is none.
    """

    low: Fraction
    high: Fraction
    point: Fraction | None
    value: float
    bound: float

    @property
    def error(self) -> float:
        """The relative improvement that a plan can still have; infinite if that is not known."""
        if math.isinf(self.value):
            return 0.0 if math.isinf(self.bound) else math.inf
        if self.bound >= self.value * (1 - ROUNDING):
            return 0.0
        return 1 - max(self.bound, 0.0) / self.value

    @property
    def contradicts(self) -> bool:
        """Whether the bound excludes the plan, so that it must be wrong."""
        return self.bound > self.value * (1 + WRONG)


def intervals(
    grid: ClusterGrid, values: Mapping[Fraction, float], bounds: Mapping[Fraction, float]
) -> list[Interval]:
    """Return the intervals of the whole grid, from the cheapest.

    Parameters
    ----------
    values
        Of a plan of each of some steps.
    bounds
        Of some steps; infinite where there is no plan.
    """
    known = dict(bounds)
    # Without a bound of the last step the steps below it have at least the trivial one.
    known.setdefault(grid.last, 0.0)
    best: dict[Fraction, float] = {}
    bound = -math.inf
    for step in sorted(known, reverse=True):
        best[step] = bound = max(bound, known[step])
    at = sorted(values)
    least: list[tuple[float, Fraction | None]] = [(math.inf, None)]
    for step in at:
        least.append((values[step], step) if values[step] < least[-1][0] else least[-1])
    found, low = [], ZERO
    for high in sorted(best):
        value, point = least[bisect.bisect_right(at, low)]
        found.append(Interval(low, high, point, value, best[high]))
        if high >= grid.last:
            break
        low = grid.next(high)
    return found


def proven_error(
    grid: ClusterGrid, values: Mapping[Fraction, float], bounds: Mapping[Fraction, float]
) -> float | None:
    """Return ε of the module's docstring; None if some step may have a plan and has no point."""
    worst = max(interval.error for interval in intervals(grid, values, bounds))
    return None if math.isinf(worst) else worst
