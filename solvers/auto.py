"""`auto`: the kind's heuristic for a first plan, then the method that proves most often."""

from __future__ import annotations

from typing import Any

from ..formulations.base import Formulation
from .base import Clock, Outcome, Solver
from .options import SolveOptions

HEURISTICS = {"allocation": "marginal-gain", "staging": "greedy", "consolidation": "best-fit"}
PROVERS = {
    "allocation": ("milp:highs", "cp-sat", "milp:cbc"),
    "staging": ("milp:highs", "milp:cbc", "cp-sat"),
    "consolidation": ("cp-sat", "milp:highs", "milp:cbc"),
}
"""In order of preference; the first that can be used here is taken."""


class Auto(Solver):
    """Start from the heuristic's plan and prove the optimum, as far as the time allows."""

    name = "auto"
    kinds = ("allocation", "staging", "consolidation")
    proves = True
    what = "heuristic first, then the kind's best proving method from its plan"

    def solve(self, formulation: Formulation[Any, Any], options: SolveOptions, clock: Clock) -> Outcome:
        """Return the better plan of the two, with the bound of the second."""
        from .registry import solvers_for

        usable = {solver.name: solver for solver in solvers_for(formulation.kind, available=True)}
        heuristic = usable[HEURISTICS[formulation.kind]]
        first = heuristic.solve(formulation, options, clock)
        plan = first.plan if first.plan is not None and not formulation.violations(first.plan) else None
        prover = next((usable[name] for name in PROVERS[formulation.kind] if name in usable), None)
        if prover is None or clock.expired:
            first.limit = "time" if clock.expired else first.limit
            first.message = f"auto: {heuristic.name} alone"
            return first
        start = None if plan is None else tuple(entry.model_dump() for entry in plan)
        second = prover.solve(formulation, options.model_copy(update={"warm_start": start}), clock)
        second.message = f"auto: {prover.name}" + (f" from the plan of {heuristic.name}" if start else "")
        if second.plan is None and not second.infeasible:
            second.plan = plan
        return second
