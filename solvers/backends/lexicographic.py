"""Lexicographic optimisation: one objective after another, each fixed at its optimum before the next."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

from ...formulations.common.formulation import Formulation
from ...instances.common.errors import OutOfTimeError
from ..common.base import Clock, Outcome
from ..common.result import SolveOptions
from .base import Answer


class LexicographicSearch(ABC):
    """Optimises the objectives of a model on one library, in their order.

    Parameters
    ----------
    model
        Has `objectives`, and `decode`, which turns a function from variable to value into a plan.
    """

    def __init__(self, model: Any, options: SolveOptions, clock: Clock) -> None:
        self.model, self.options, self.clock = model, options, clock

    @abstractmethod
    def optimise(self, target: Any, plan: Sequence[Any] | None) -> Answer:
        """Optimise an objective, from a plan if there is one; the bound is in the plan's unit."""

    @abstractmethod
    def fix(self, target: Any, value: float, values: Callable[[Any], Any] | None) -> None:
        """Constrain an objective to a value of the plan's objective, where variables have these values."""

    def run(self, formulation: Formulation[Any, Any], backend: str, settled: Sequence[float] = ()) -> Outcome:
        """Optimise one objective after another; return the outcome with plan and bounds.

        Parameters
        ----------
        backend
            The library with its version.
        settled
            Values of the first objectives, which are fixed; no bounds are returned for them.
        """
        bounds: list[float | None] = [None] * len(settled)
        outcome = Outcome(bounds=bounds, backend=backend, build_s=self.clock.elapsed_s)
        if self.options.warm_start is not None:
            outcome.plan = formulation.parse_plan(self.options.warm_start)
        for target, value in zip(self.model.objectives, settled, strict=False):
            self.fix(target, value, None)
        for index, target in list(enumerate(self.model.objectives))[len(settled) :]:
            if self.clock.expired:
                outcome.limit = "time"
                break
            try:
                answer = self.optimise(target, outcome.plan)
            except OutOfTimeError:  # there is no time to give the library the model
                outcome.limit = "time"
                break
            outcome.limit = answer.limit
            if answer.infeasible:
                outcome.infeasible = index == 0
                outcome.plan = outcome.plan if index else None
                break
            bounds.append(answer.bound)
            if answer.values is None:
                break
            with Clock().enforced():  # a plan that was found is not lost, however late it is
                outcome.plan = self.model.decode(answer.values)
                if formulation.violations(outcome.plan):
                    break  # the caller reports which
                value = formulation.evaluate(outcome.plan)[index]
            outcome.trace.append((self.clock.elapsed_s, value, answer.bound))
            gap = target.objective.gap(value, answer.bound)
            if outcome.limit != "none" and (gap is None or gap > self.options.gap):
                break
            self.fix(target, value, answer.values)
        return outcome
