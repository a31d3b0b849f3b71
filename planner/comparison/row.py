"""One line of a comparison: a solver on an instance."""

from __future__ import annotations

from ...instances.common.base import ProblemKind
from ...instances.common.fields import Model
from ...solvers.common.result import Limit, Status, status_text
from .measures import Measures


class ComparisonRow(Model):
    """One solver on one instance.

    Attributes
    ----------
    instance, file
        What the instance is called, with its file where another has the same name; and that file.
    objective_name, unit, objective, bound, gap
        Of the first objective at which plans of the instance differ, else of the last: the same for all its
        rows.
    gap_to_best_bound
        How far the plan is at most from the optimum, by the best bounds of all solvers.
    gap_to_best_plan
        How much worse the plan is than the best of all solvers; 0 for that one.
    best
        Whether no other solver found a plan that is better by more than the requested gap.
    runtime_s
        Wall-clock seconds of the solve, or until its process died or was killed.
    only_claimed
        Whether `optimal` rests on a bound of the solver that our own check does not prove.
    measures
        What the kind of the instance says of the plan beside its objective; None if it says nothing.
    """

    instance: str
    file: str | None = None
    kind: ProblemKind
    solver: str
    status: Status
    limit: Limit = "none"
    objective_name: str | None = None
    unit: str | None = None
    objective: float | None = None
    bound: float | None = None
    gap: float | None = None
    gap_to_best_bound: float | None = None
    gap_to_best_plan: float | None = None
    best: bool = False
    runtime_s: float = 0.0
    message: str | None = None
    only_claimed: bool = False
    measures: Measures | None = None

    @property
    def objective_title(self) -> str | None:
        """The objective with its unit."""
        name, unit = self.objective_name, self.unit
        return name if unit in (None, name) else f"{name} [{unit}]"

    @property
    def status_text(self) -> str:
        """The status in words, as the result itself says it."""
        return status_text(self.status, self.limit, self.only_claimed)
