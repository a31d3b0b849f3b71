"""Enumeration of all plans: what every kind's brute force shares, and the size at which it refuses."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

from ...formulations.common.formulation import Formulation
from ...instances.common.errors import TooLargeError
from .base import Clock, FormulationT_contra, Outcome, Solver
from .result import SolveOptions

MOST = 200
"""Decisions, each a recursive call; Python cannot nest calls much deeper."""


def refuse_many(count: int, what: str) -> None:
    """Refuse an instance that is too large to be enumerated.

    Raises
    ------
    TooLargeError
        If there are too many of something.
    """
    if count > MOST:
        raise TooLargeError(
            f"brute-force is for tiny instances: there are {count:,} {what}, and at most {MOST} are allowed; "
            "use --solver exact"
        )


class Enumeration:
    """The best plan so far, and whether the time was up before all were seen."""

    def __init__(self, formulation: Formulation[Any, Any], clock: Clock) -> None:
        self.formulation, self.clock = formulation, clock
        self.best: tuple[tuple[float, ...], tuple[Any, ...]] | None = None
        self.out_of_time = False

    def over(self) -> bool:
        """Return whether the time is up; what is left of the search is left out."""
        self.out_of_time = self.out_of_time or self.clock.expired
        return self.out_of_time

    def judge(self, plan: Sequence[Any]) -> None:
        """Keep a complete plan if it is feasible and the best; `evaluate` itself says how good it is."""
        if not self.formulation.violations(plan):
            values = self.formulation.evaluate(plan)
            if self.best is None or self.formulation.precedes(values, self.best[0]):
                self.best = values, tuple(plan)


class BruteForce(Solver[FormulationT_contra]):
    """Enumerates all plans, or as many as the time allows."""

    name = "brute-force"
    proves = True

    @abstractmethod
    def enumerate(self, formulation: FormulationT_contra, search: Enumeration) -> None:
        """Let the search judge every plan that may be the best."""

    def solve(self, formulation: FormulationT_contra, options: SolveOptions, clock: Clock) -> Outcome:
        """Return the best plan; its values are bounds if all plans were seen."""
        del options
        search = Enumeration(formulation, clock)
        self.enumerate(formulation, search)
        if search.best is None:
            return Outcome(limit="time") if search.out_of_time else Outcome(infeasible=True)
        values, plan = search.best
        return Outcome(plan, limit="time") if search.out_of_time else Outcome(plan, values)
