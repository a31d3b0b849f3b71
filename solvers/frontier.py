"""Search for a frontier of sizes: for each size that is solved, a plan and a bound of one objective.

What is possible on a size is possible on every larger one, so that the objective falls as the size rises.
"""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any

from ..instances.common.base import Instance
from .common.base import Clock
from .common.result import Limit, ObjectiveRecord, Result, SolveOptions
from .registry import find_solver
from .run import solve_with

SOLVES_PER_TIME_LIMIT = 8
"""One solve gets at most the time limit over this number, so that several sizes are solved."""
MAX_SIZES = 60
LEAST_GAIN_SHARE = 0.25
"""An interval of sizes is not divided if that can improve the error by less than this share of it."""


def error_of(points: list[tuple[float, float]], bounds: list[tuple[float, float]]) -> float:
    """Return the proven relative error ε of a frontier over all sizes from the smallest to the largest.

    Sizes are whole numbers. A bound holds for all smaller sizes too, and a plan for all larger ones. So
    between two sizes the value is at least the bound of the larger one, and the best point up to the smaller
    one counts.

    Parameters
    ----------
    points, bounds
        Sizes with the values of their plans, and sizes with bounds; in any order.
    """
    steps = sorted({size for size, _ in (*points, *bounds)})
    worst = 0.0
    for index, size in enumerate(steps):
        value = min((value for other, value in points if other <= size), default=float("inf"))
        larger = steps[min(index + 1, len(steps) - 1)]
        ahead = size if larger <= size + 1 else larger
        bound = max((bound for other, bound in bounds if other >= ahead), default=0.0)
        worst = max(worst, 1.0 if value == float("inf") else 1.0 - bound / value)
    return worst


@dataclass
class SizeSearch(ABC):
    """Solves an instance for one size after another, and keeps the results.

    Attributes
    ----------
    instance
        The instance, of any size.
    clock
        Of the whole search.
    solved, repeated
        Result of each size; sizes that were solved again since a part of the time was too short for them.
    """

    instance: Any
    options: SolveOptions
    clock: Clock
    solved: dict[float, Result] = field(default_factory=dict, kw_only=True)
    repeated: set[float] = field(default_factory=set, kw_only=True)

    @abstractmethod
    def of_size(self, size: float) -> Instance:
        """Return the instance of a size."""

    @abstractmethod
    def record(self, result: Result) -> ObjectiveRecord:
        """Return the objective that falls as the size rises."""

    def is_solved(self, size: float, result: Result) -> bool:
        """Return whether a result has a plan for a size."""
        del size
        return result.plan is not None

    def start(self, size: float) -> Result | None:
        """Return a result whose plan is feasible for a size, to start from; None if there is none."""
        del size
        return None

    def middle(self, a: float, b: float) -> float:
        """Return a size between two others that are not neighbours."""
        return min(max(math.floor(math.sqrt(a * b)), a + 1), b - 1)

    def run(self, low: float, high: float, error: float) -> Limit:
        """Solve sizes until the error is reached; return the limit that stopped the search."""
        for size in dict.fromkeys((low, high)):
            if not self._solve(size):
                return "time"
        while error_of(self.values(), self.bounds()) > error:
            middle = self._widest(error)
            if middle is None and not self._cut_off():
                return "none"
            if len(self.solved) >= MAX_SIZES:
                return "node"
            if self.clock.expired or not (self._repeat() if middle is None else self._solve(middle)):
                return "time"
        return "none"

    def _cut_off(self) -> list[float]:
        """Return the sizes that ended by their part of the time, the one of the largest gap first."""
        open_ = [size for size, result in self.solved.items() if result.limit == "time"]
        values, bounds = dict(self.values()), dict(self.bounds())
        return sorted(set(open_) - self.repeated, key=lambda size: bounds[size] / (values[size] or 1.0))

    def _repeat(self) -> bool:
        """Solve the size of the largest gap again, in all the time that is left; return whether it ended."""
        size = self._cut_off()[0]
        self.repeated.add(size)
        before, after = self.solved[size], self.result_of(size)
        if (self.record(after).certified_bound or 0.0) >= (self.record(before).certified_bound or 0.0):
            return self._keep(size, after)
        return True

    def _widest(self, error: float) -> float | None:
        """Return the size to solve next, which can lower the error most; None if only by little.

        The possible gain is the drop of the bound or of the value from the smaller to the larger size.
        """
        sizes, values, bounds = sorted(self.solved), dict(self.values()), dict(self.bounds())
        gains = [
            (max(bounds[a] - bounds[b], values[a] - values[b]) / values[a], self.middle(a, b))
            for a, b in itertools.pairwise(sizes)
            if b - a > 1
        ]
        gain, middle = max(gains, default=(0.0, 0.0))
        return middle if gain > error * LEAST_GAIN_SHARE else None

    def _solve(self, size: float) -> bool:
        """Solve the instance for one size; return whether a plan was found within the time limit."""
        return self._keep(size, self.solved.get(size) or self.result_of(size))

    def _keep(self, size: float, result: Result) -> bool:
        solved = self.is_solved(size, result)
        if solved:
            self.solved[size] = result
        return solved

    def result_of(self, size: float) -> Result:
        """Return the result of a solve for one size, in a part of the time."""
        instance, rest, limit = self.of_size(size), self.clock.remaining_s, None
        if self.options.time_limit_s is not None and rest is not None:
            part = rest if size in self.repeated else self.options.time_limit_s / SOLVES_PER_TIME_LIMIT
            limit = max(1.0, min(rest, part))
        known, exact = self.start(size), find_solver("exact", instance.kind)
        asked = self.options.model_copy(update={"time_limit_s": limit})
        asked = asked.starting_from(None if known is None else known.plan)
        result = solve_with(instance, exact, asked)
        if result.status == "unknown" and not self.clock.expired:
            # Loops are compiled once on a machine, which takes longer than a solve.
            asked = asked.model_copy(update={"time_limit_s": self.clock.remaining_s})
            result = solve_with(instance, exact, asked)
        # The plan to start from is that of another size, which is in the frontier itself.
        return result.model_copy(update={"options": result.options.starting_from(None)})

    def values(self) -> list[tuple[float, float]]:
        """Return each solved size with the value of its plan."""
        return [(size, self.record(result).value or 0.0) for size, result in self.solved.items()]

    def bounds(self) -> list[tuple[float, float]]:
        """Return each solved size with its certified bound."""
        return [(size, self.record(result).certified_bound or 0.0) for size, result in self.solved.items()]

    def best(self) -> list[tuple[float, Result]]:
        """Return the sizes with a better plan than all smaller ones, the largest first, and their results."""
        best: list[tuple[float, Result]] = []
        for size, result in sorted(self.solved.items(), key=lambda pair: pair[0]):
            if not best or (self.record(result).value or 0.0) < (self.record(best[-1][1]).value or 0.0):
                best.append((size, result))
        return best[::-1]

    def others(self) -> list[tuple[float, Result]]:
        """Return the other sizes that are solved, the largest first, and their results."""
        best = dict(self.best())
        return [(size, self.solved[size]) for size in sorted(self.solved, reverse=True) if size not in best]
