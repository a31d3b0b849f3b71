"""The proven error of a frontier: how much better a plan may be than the points that were found.

A grid is a finite sequence of rising steps, such as clusters or sizes. A plan of a step is one of every
higher step, so the least value V(x) does not rise along the grid, and a bound of a step holds for all steps
below. The proven error of a set of points is an ε-approximation of the Pareto front over the whole grid. The
best known value at step x is v(x) = min {v_i : y_i ≤ x}, the best known bound B(x) = max {B_k : z_k ≥ x}.
For every step x up to the last one, a plan of x has a value of at least B(x), and there is a point at or
below x with v(x). The relative improvement that a plan can still have is

    ε = max_x 1 − B(x)/v(x) = max_k 1 − B(z_k)/v(the step after z_{k−1}),

because between two steps with bounds B does not change and v is largest at the lowest. Where x has no point
below, B(x) must be infinite: it is proven that there is no plan.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

EQUALITY_TOLERANCE = 1e-9
"""Relative gap below which a bound counts as equal to the value."""
CONTRADICTION_TOLERANCE = 1e-6
"""Relative excess of a bound over the value of a plan from which the bound is wrong."""


@dataclass(frozen=True)
class Sizes:
    """The grid of the whole numbers from one to another."""

    first: float
    last: float

    def next(self, step: float) -> float:
        """Return the next larger number."""
        return step + 1


@dataclass(frozen=True)
class Interval:
    """Interval of steps of a grid, `low` to `high`, with one best known bound, that of `high`.

    Attributes
    ----------
    point
        Step of the best known plan that is feasible for all of them; None if there is none.
    value, bound
        Value of that plan, infinite without one; lower bound on all plans, infinite if there is no plan.
    """

    low: Any
    high: Any
    point: Any
    value: float
    bound: float

    @property
    def error(self) -> float:
        """The relative gap between the best plan's value and the bound; infinite if it is unknown."""
        if math.isinf(self.value):
            return 0.0 if math.isinf(self.bound) else math.inf
        if self.bound >= self.value * (1 - EQUALITY_TOLERANCE):
            return 0.0
        return 1 - max(self.bound, 0.0) / self.value

    @property
    def contradicts(self) -> bool:
        """Whether the bound exceeds the value of the plan, so that it must be wrong."""
        return self.bound > self.value * (1 + CONTRADICTION_TOLERANCE)


def intervals(grid: Any, values: Mapping[Any, float], bounds: Mapping[Any, float]) -> list[Interval]:
    """Return the intervals of constant best known bound that cover the whole grid, by rising step.

    Parameters
    ----------
    grid
        Has a `first` and a `last` step, and the `next` one of each.
    values
        Value of a plan, by step.
    bounds
        Lower bound, by step; infinite where there is no plan.
    """
    # Without a bound for the last step, the trivial bound 0 holds there.
    known = {grid.last: 0.0, **bounds}
    highs, at = sorted(known), sorted(values)
    best = [*accumulate((known[step] for step in reversed(highs)), max)][::-1]
    least: list[Any] = [*accumulate(at, lambda a, b: b if values[b] < values[a] else a)]
    found, low = [], grid.first
    for high, bound in zip(highs, best, strict=True):
        point = least[below - 1] if (below := bisect.bisect_right(at, low)) else None
        found.append(Interval(low, high, point, math.inf if point is None else values[point], bound))
        if high >= grid.last:
            break
        low = grid.next(high)
    return found


def proven_error(grid: Any, values: Mapping[Any, float], bounds: Mapping[Any, float]) -> float | None:
    """Return the proven error ε of a set of Pareto points; None if a step may have a plan but no point."""
    worst = max(interval.error for interval in intervals(grid, values, bounds))
    return None if math.isinf(worst) else worst


def undominated(values: Mapping[Any, float]) -> list[Any]:
    """Return the steps whose value is less than that of every lower step, from the lowest to the highest."""
    steps: list[Any] = []
    for step in sorted(values):
        if not steps or values[step] < values[steps[-1]] * (1 - EQUALITY_TOLERANCE):
            steps.append(step)
    return steps
