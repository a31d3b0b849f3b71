"""The state that the searches for a least total time and for a least makespan share."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

from ...formulations.allocation.certificate import certificate
from ...formulations.allocation.formulation import AllocationFormulation
from ...instances.common.arrays import Floats, Ints
from ..common.base import Clock, Outcome
from ..common.news import tell
from ..common.options import SolveOptions
from ..common.result import Limit
from ..common.stopping import keep
from .knapsack import MultipleChoice


class IncumbentSearch(ABC):
    """Incumbent, bound, and the trace of both.

    Parameters
    ----------
    cost
        Of each configuration in the knapsack problem.

    Attributes
    ----------
    incumbent, value
        Configuration of each job in the best plan, None without one; and the plan's value.
    bound
        No plan has a lower value.
    """

    def __init__(
        self, formulation: AllocationFormulation, options: SolveOptions, clock: Clock, cost: Floats
    ) -> None:
        self.formulation, self.options, self.clock = formulation, options, clock
        self.configs = formulation.configurations
        self.problem = MultipleChoice.of(self.configs, cost)
        self.incumbent: Ints | None = None
        self.value, self.bound = math.inf, 0.0
        self.limit: Limit = "none"
        self.message: str | None = None
        self.trace: list[tuple[float, float | None, float | None]] = []

    @abstractmethod
    def value_of(self, chosen: Ints) -> float:
        """Return the value of a choice of one configuration of each job."""

    @property
    def proven(self) -> bool:
        """Whether plan and bound are as close as was asked."""
        return self.incumbent is not None and self.value - self.bound <= self.options.gap * abs(self.value)

    def note(self) -> None:
        """Add a line to the trace."""
        value = None if self.incumbent is None else self.value
        bound = self.bound if math.isfinite(self.bound) else None
        self.trace.append((self.clock.elapsed_s, value, bound))
        tell(self.formulation.objectives[0], value, bound)

    def update_incumbent(self, chosen: Ints | None) -> None:
        """Replace the incumbent by a choice of one configuration of each job that is feasible and better."""
        if chosen is not None and len(chosen) == self.problem.jobs and self.problem.fits(chosen):
            value = self.value_of(chosen)
            if value < self.value:
                self.incumbent, self.value = chosen, value
                self.note()
                keep(self.formulation, self.so_far)

    def so_far(self) -> Outcome:
        """Return the incumbent and the bound."""
        assert self.incumbent is not None
        return Outcome(self.formulation.plan_of(self.incumbent), (self.bound,), trace=self.trace)

    def take_warm_start(self) -> None:
        """Begin with the plan that was given, if any."""
        if self.options.warm_start is not None:
            plan = self.formulation.parse_plan(self.options.warm_start)
            self.update_incumbent(self.formulation.indices_of(plan))

    def concluded(self, prices: Floats, impossible: bool) -> Outcome:
        """Return incumbent, bound and the certificate of these dual prices; no bound if there is no plan."""
        return Outcome(
            None if self.incumbent is None else self.formulation.plan_of(self.incumbent),
            () if impossible else (self.bound,),
            limit="none" if impossible else self.limit,
            infeasible=impossible,
            certificate=certificate(self.configs.resources, prices, None if impossible else self.bound),
            trace=self.trace,
            message=self.message,
        )
