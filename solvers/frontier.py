"""Search for a frontier: solve a step of a grid, bound it, and refine, until the error is proven.

What is possible on a step is possible on every higher one, so that the objective falls as steps rise
(`formulations/common/frontier.py`).
"""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from ..formulations.common.frontier import Sizes, proven_error, undominated
from ..instances.common.base import Instance
from ..instances.common.errors import OutOfTimeError
from ..instances.common.fields import Fields
from .common.base import Clock
from .common.conclude import library_versions
from .common.result import Limit, ObjectiveRecord, Result, SolveOptions
from .registry import find_solver
from .run import solve_with

SOLVES_PER_TIME_LIMIT = 8
"""One solve gets at most the time limit over this number, so that several sizes are solved."""
LEAST_GAIN_SHARE = 0.25
"""An interval of sizes is not divided if that can improve the error by less than this share of it."""


def run_facts(instance: Instance, options: SolveOptions, error: float, clock: Clock) -> Fields:
    """Return the fields of a frontier that say of which instance it is, and how it was searched."""
    return {
        "instance": instance.name,
        "instance_sha256": instance.sha256(),
        "error": error,
        "options": options,
        "runtime_s": clock.elapsed_s,
        "versions": library_versions(),
    }


@dataclass
class FrontierSearch(ABC):
    """Solves one step of a grid after another.

    Attributes
    ----------
    instance, grid
        The instance, and the steps that are looked at.
    options
        Time limit of the whole search; threads, seed and gap of each solve.
    error
        The requested ε.
    limit
        What stopped the search.
    """

    instance: Any
    grid: Any
    options: SolveOptions
    error: float
    clock: Clock
    limit: Limit = field(default="none", kw_only=True)

    @abstractmethod
    def begin(self) -> None:
        """Solve the steps from which the search starts, such as the first and the last one."""

    @abstractmethod
    def next_step(self) -> Any | None:
        """Return the step to solve next, None if none can lower the error; too many set the limit `node`."""

    @abstractmethod
    def solve(self, step: Any) -> None:
        """Solve a step, or solve it again in all the time that is left."""

    @abstractmethod
    def values(self) -> Mapping[Any, float]:
        """Return the value of the best plan of each step that has one."""

    @abstractmethod
    def bounds(self) -> Mapping[Any, float]:
        """Return the certified bound of each step that was solved."""

    def is_stopped(self) -> bool:
        """Return whether a limit has stopped the search; the one that did is kept in `limit`."""
        if self.clock.expired and self.limit == "none":
            self.limit = "time"
        return self.limit != "none"

    def run(self) -> None:
        """Solve steps until the error is proven, or a limit stops the search."""
        try:
            self.begin()
            while self.limit == "none" and (step := self.next_step()) is not None and not self.is_stopped():
                self.solve(step)
        except KeyboardInterrupt:
            self.limit = "interrupt"
        except OutOfTimeError:
            self.limit = "time"

    def proven(self) -> float | None:
        """Return the error that values and bounds prove, None if they prove none."""
        return proven_error(self.grid, self.values(), self.bounds())

    def facts(self) -> Fields:
        """Return the fields that the frontiers of all kinds have, but for the points."""
        proven = self.proven()
        status = "complete" if proven is not None and proven <= self.error else "partial"
        said = {"status": status, "limit": self.limit, "certified_error": proven}
        return run_facts(self.instance, self.options, self.error, self.clock) | said


@dataclass
class SizeSearch(FrontierSearch):
    """Search over whole numbers, of which each is an instance of its own.

    Attributes
    ----------
    most_sizes
        Number of sizes after which the search stops.
    also
        Sizes that are solved and listed in any case, beside the smallest and the largest, which are solved.
    solved, repeated
        Result of each size; sizes that were solved again since a part of the time was too short for them.
    """

    most_sizes: ClassVar[int] = 60
    grid: Sizes
    also: Sequence[float] = field(default=(), kw_only=True)
    solved: dict[float, Result] = field(default_factory=dict, kw_only=True)
    repeated: set[float] = field(default_factory=set, kw_only=True)

    @abstractmethod
    def of_size(self, size: float) -> Instance:
        """Return the instance of a size."""

    def record(self, result: Result) -> ObjectiveRecord:
        """Return the objective that falls as the size rises; by default the first."""
        return result.objectives[0]

    def figures(self, result: Result) -> tuple[float, float]:
        """Return the value of that objective, and its certified bound; infinite if there is no plan."""
        record = self.record(result)
        return record.value or 0.0, record.certified_bound or 0.0

    def is_solved(self, size: float, result: Result) -> bool:
        """Return whether a result has a plan for a size."""
        del size
        return result.plan is not None

    def start(self, size: float) -> Result | None:
        """Return a result whose plan is feasible for a size, to start from; None if there is none."""
        del size
        return None

    def begin(self) -> None:
        """Solve the smallest and the largest size, and those that are solved in any case."""
        for size in (self.grid.first, self.grid.last, *self.also):
            if size not in self.solved and self.limit == "none":
                self.solve(size)

    def values(self) -> dict[float, float]:
        """Return each solved size with the value of its plan."""
        return {size: self.figures(result)[0] for size, result in self.solved.items()}

    def bounds(self) -> dict[float, float]:
        """Return each solved size with its certified bound."""
        return {size: self.figures(result)[1] for size, result in self.solved.items()}

    def proven(self) -> float | None:
        """Return the error that is proven, None unless the smallest and the largest size are solved."""
        return super().proven() if {self.grid.first, self.grid.last} <= self.solved.keys() else None

    def next_step(self) -> float | None:
        """Return the size that can lower the error most, else one that ended by its part of the time."""
        values, bounds, proven = self.values(), self.bounds(), self.proven()
        if proven is not None and proven <= self.error:
            return None
        gains = [
            (_possible_gain(values, bounds, a, b), _middle(a, b))
            for a, b in itertools.pairwise(sorted(self.solved))
            if b - a > 1
        ]
        gain, step = max(gains, default=(0.0, None))
        if gain <= self.error * LEAST_GAIN_SHARE:
            cut_off = [size for size, result in self.solved.items() if result.limit == "time"]
            open_ = set(cut_off) - self.repeated
            step = min(open_, key=lambda size: bounds[size] / (values[size] or 1.0), default=None)
        if step is not None and len(self.solved) >= self.most_sizes:
            self.limit = "node"
        return step

    def solve(self, step: float) -> None:
        """Solve a size; one solved before gets all the time that is left, and keeps the better bound."""
        before = self.solved.get(step)
        if before is not None:
            self.repeated.add(step)
        result = self.result_of(step)
        worse = before is not None and self.figures(result)[1] < self.bounds()[step]
        if worse:
            return
        if self.is_solved(step, result):
            self.solved[step] = result
        elif self.limit == "none":
            self.limit = "time"

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
        if result.limit == "interrupt":  # it stops the search too, and not this size alone
            self.limit = "interrupt"
        # The plan to start from is that of another size, which is in the frontier itself.
        return result.model_copy(update={"options": result.options.starting_from(None)})

    def ranked(self) -> tuple[list[float], list[float]]:
        """Return the sizes with a better plan than all smaller ones, and the others, the largest first.

        Sizes of `also` that have a plan are among the first.
        """
        values, best = self.values(), {*undominated(self.values()), *self.also}
        best = {size for size in best if values.get(size, math.inf) < math.inf}
        return sorted(best, reverse=True), sorted(self.solved.keys() - best, reverse=True)


def _possible_gain(values: Mapping[float, float], bounds: Mapping[float, float], a: float, b: float) -> float:
    """Return the drop of the bound or of the value between two sizes, as a share of the value of the smaller.

    It is infinite if only the larger one has a plan, because then nothing is known of those between them.
    """
    if math.isinf(values[a]):
        return 0.0 if math.isinf(values[b]) else math.inf
    return max(bounds[a] - bounds[b], values[a] - values[b]) / (values[a] or 1.0)


def _middle(a: float, b: float) -> float:
    """Return a size between two others of one sign that are not neighbours, in equal ratios to both."""
    return min(max(math.copysign(math.floor(math.sqrt(a * b)), a), a + 1), b - 1)
