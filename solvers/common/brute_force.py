"""Enumeration of all plans: the base class of every kind's brute force, and its size limit."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

from ...formulations.common.formulation import Formulation
from ...instances.common.errors import TooLargeError
from .base import Clock, FormulationT_contra, Outcome, Solver
from .result import SolveOptions

MAX_DECISIONS = 200
"""Largest number of decisions; each is a recursive call, and Python limits their depth."""


def refuse_many(count: int, what: str) -> None:
    """Raise `TooLargeError` if an instance has too many decisions to be enumerated.

    Raises
    ------
    TooLargeError
        If the count exceeds the limit.
    """
    if count > MAX_DECISIONS:
        raise TooLargeError(
            f"brute-force is for tiny instances: there are {count:,} {what}, and at most {MAX_DECISIONS} are "
            "allowed; use --solver exact"
        )


class Enumeration:
    """State of an enumeration: the incumbent, and whether the time limit stopped it."""

    def __init__(self, formulation: Formulation[Any, Any], clock: Clock) -> None:
        self.formulation, self.clock = formulation, clock
        self.best: tuple[tuple[float, ...], tuple[Any, ...]] | None = None
        self.out_of_time = False

    def over(self) -> bool:
        """Return whether the time limit is reached, so that the enumeration has to stop."""
        self.out_of_time = self.out_of_time or self.clock.expired
        return self.out_of_time

    def judge(self, plan: Sequence[Any]) -> None:
        """Update the incumbent if a complete plan is feasible and lexicographically better."""
        if not self.formulation.violations(plan):
            values = self.formulation.evaluate(plan)
            if self.best is None or self.formulation.precedes(values, self.best[0]):
                self.best = values, tuple(plan)


class BruteForce(Solver[FormulationT_contra]):
    """Enumerates all plans of an instance, or as many as the time limit allows."""

    name = "brute-force"
    proves = True

    @abstractmethod
    def enumerate(self, formulation: FormulationT_contra, search: Enumeration) -> None:
        """Pass every plan that may be optimal to `search.judge`."""

    def solve(self, formulation: FormulationT_contra, options: SolveOptions, clock: Clock) -> Outcome:
        """Return the optimal plan with its values as bounds, or the best one within the time limit."""
        del options
        search = Enumeration(formulation, clock)
        self.enumerate(formulation, search)
        if search.best is None:
            return Outcome(limit="time") if search.out_of_time else Outcome(infeasible=True)
        values, plan = search.best
        return Outcome(plan, limit="time") if search.out_of_time else Outcome(plan, values)
