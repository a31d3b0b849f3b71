"""What a solve of `exact` knows so far: the incumbent, bounds, and the prices that prove them."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from ...formulations.consolidation.classes import Classes
from ...formulations.consolidation.formulation import ConsolidationFormulation
from ...formulations.consolidation.plan import JobPlacement
from ..common.base import Outcome
from ..common.news import tell
from ..common.result import Limit
from ..common.stopping import keep
from .objective_steps import ROUNDING, reached_level

CLOSE = 1e-9
"""Values this close, relatively, are the same."""


def is_reached(value: float, bound: float) -> bool:
    """Return whether a value, to be minimised, is as good as its bound."""
    return value <= bound + CLOSE * max(1.0, abs(value))


@dataclass
class Progress:
    """The incumbent and what is proven about it.

    Attributes
    ----------
    values
        Objectives of the incumbent.
    bounds
        Of each objective that was looked at, in its own terms.
    goals
        Prices of each goal, for the certificate.
    traffic
        Prices that prove that traffic has to be more than a limit.
    needs_columns
        Whether the incumbent is not one of the pattern formulation, whose columns may not hold it.
    """

    formulation: ConsolidationFormulation
    plan: Sequence[JobPlacement] | None = None
    values: tuple[float, ...] = ()
    bounds: list[float | None] = field(default_factory=list)
    goals: list[dict[str, Any]] = field(default_factory=list)
    infeasible: bool = False
    traffic: dict[str, Any] | None = None
    needs_columns: bool = False
    limit: Limit = "none"
    notes: list[str] = field(default_factory=list)

    def start_from(self, warm_start: Any) -> None:
        """Take a given plan for the incumbent."""
        self.plan = self.formulation.parse_plan(warm_start)
        self.values = self.formulation.evaluate(self.plan)
        self.needs_columns = True

    def offer(self, plan: Sequence[JobPlacement]) -> tuple[float, ...] | None:
        """Update the incumbent if a plan improves it; return the plan's values if it is feasible."""
        if self.formulation.violations(plan):
            return None
        values = self.formulation.evaluate(plan)
        if self.plan is None or self.formulation.precedes(values, self.values):
            self.plan, self.values = plan, values
            self.tell()
            keep(self.formulation, self.so_far)
        return values

    def so_far(self) -> Outcome:
        """Return the incumbent and its certificate; bounds may be in the making."""
        return Outcome(self.plan, certificate=self.certificate())

    def tell(self) -> None:
        """Tell of the first objective that is not proven, or the last one."""
        if self.plan is not None:
            objectives = self.formulation.objectives
            at = min(len(self.proven(0.0)), len(objectives) - 1)
            tell(objectives[at], self.values[at], self.bounds[at] if at < len(self.bounds) else None)

    def proven(self, most_gap: float) -> list[float]:
        """Return the values of the first objectives of the incumbent, as far as bounds prove them."""
        if self.plan is None:
            return []
        proven = []
        known = zip(self.formulation.objectives, self.values, self.bounds, strict=False)
        for objective, value, bound in known:
            gap = objective.gap(value, bound)
            if value != bound and (gap is None or gap > most_gap):
                break
            proven.append(value)
        return proven

    def add_elementary(self) -> None:
        """Add the bounds that counting gives, as long as the incumbent reaches them."""
        if self.plan is None:
            return
        elementary = self.formulation.elementary_bounds()
        for known, value in list(zip(elementary, self.values, strict=True))[len(self.bounds) :]:
            if known != value:
                break
            self.bounds.append(known)

    def tighten(self, others: Sequence[float | None]) -> None:
        """Take the tighter of these bounds and those that are known."""
        both = itertools.zip_longest(self.bounds, others)
        self.bounds = [
            objective.tighter(known, more)
            for objective, (known, more) in zip(self.formulation.objectives, both, strict=False)
        ]

    def forget_beyond(
        self, classes: Classes, levels: Mapping[str, Fraction], values: Sequence[float] | None
    ) -> None:
        """Forget the bounds that depend on more than a plan of the pattern formulation proves.

        After an objective that is not proven, the next one still has a bound, for its optimum is among
        the plans that are as good in the first; but the one after that has none.

        The pattern formulation counts pieces as servers. Where spreading is worth something, two pieces of
        a job on one server are worth less than it believes, and its level is one that no plan may reach.

        Parameters
        ----------
        levels
            Of the objectives that are settled, as the pattern formulation believes.
        values
            Of its plan; None if that is not feasible.
        """
        if values is None:
            self.bounds = self.bounds[:1]
            return
        bounds = self.bounds
        for index, (objective, value) in enumerate(zip(self.formulation.objectives, values, strict=True)):
            if index >= len(bounds):
                return
            if objective.name in levels:
                reached, believed = reached_level(classes, objective.name, value), levels[objective.name]
                if reached > believed + ROUNDING * abs(believed):
                    self.bounds = bounds[: index + 1]
                    return
            bound = bounds[index]
            if bound is None or abs(value - bound) > CLOSE * abs(value):
                self.bounds = bounds[: index + 2]
                return

    def certificate(self) -> dict[str, Any] | None:
        """Return what was found out as the check reads it."""
        found: dict[str, Any] = {"goals": self.goals}
        if self.traffic is not None:
            found["traffic"] = self.traffic
        return found if self.goals or self.traffic else None
