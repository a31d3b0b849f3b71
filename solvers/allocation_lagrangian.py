"""`lagrangian`: prices, rounding and local search; a bound and a good plan without any integer program."""

from __future__ import annotations

from typing import Any

from ..formulations.allocation import AllocationFormulation
from ..formulations.base import Formulation
from .allocation_makespan import round_makespan
from .allocation_total import round_total
from .base import Clock, Outcome, Solver
from .options import SolveOptions


class AllocationLagrangian(Solver):
    """The Lagrangian dual gives prices; the plan is rounded from them, repaired and improved."""

    name = "lagrangian"
    kinds = ("allocation",)
    features = frozenset({"warm_start"})
    what = "Lagrangian prices, rounding and local search; a certified bound, no integer program"

    def solve(self, formulation: Formulation[Any, Any], options: SolveOptions, clock: Clock) -> Outcome:
        """Return a plan, the bound of the prices and a certificate."""
        assert isinstance(formulation, AllocationFormulation)
        build_s = clock.elapsed_s
        makespan = formulation.instance.objective == "makespan"
        outcome = (round_makespan if makespan else round_total)(formulation, options, clock)
        outcome.build_s = build_s
        return outcome
