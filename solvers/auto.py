"""`auto`: the kind's heuristic for a first plan, then the method that proves most often."""

from __future__ import annotations

from typing import Any

from ..formulations.base import Formulation
from ..instances.errors import TooLargeError
from .base import Clock, Outcome, Solver
from .options import SolveOptions

HEURISTICS = {"consolidation": "best-fit"}
PROVERS = {
    "allocation": ("exact",),
    "staging": ("exact",),
    "consolidation": ("cp-sat", "milp:highs", "milp:cbc"),
}
"""In order of preference; the first that can be used here is taken. `exact` finds its own first plan."""

HEURISTIC_SHARE = 0.2
"""The heuristic may take this share of the time, and at most `HEURISTIC_S` seconds."""
HEURISTIC_S = 10.0


class Auto(Solver):
    """Start from the heuristic's plan and prove the optimum, as far as the time allows."""

    name = "auto"
    kinds = ("allocation", "staging", "consolidation")
    proves = True
    features = frozenset({"warm_start"})
    what = "the kind's best proving method, from a heuristic's plan where it finds none itself"

    def solve(self, formulation: Formulation[Any, Any], options: SolveOptions, clock: Clock) -> Outcome:
        """Return the prover's plan and bound; the heuristic's plan where the prover has none."""
        from .registry import solvers_for

        usable = {solver.name: solver for solver in solvers_for(formulation.kind, available=True)}
        prover = next(usable[name] for name in PROVERS[formulation.kind] if name in usable)
        plan, origin = _first(formulation, options, clock, usable.get(HEURISTICS.get(formulation.kind, "")))
        start = None if plan is None else tuple(entry.model_dump() for entry in plan)
        try:
            second = prover.solve(formulation, options.model_copy(update={"warm_start": start}), clock)
        except TooLargeError as error:
            if plan is None:
                raise
            return Outcome(plan, message=f"auto: {origin} alone, because for {prover.name}: {error}")
        second.message = f"auto: {prover.name}" + (f" from {origin}" if start else "")
        wrong = second.plan is not None and bool(formulation.violations(second.plan))
        if plan is not None and (second.infeasible or wrong):
            says = "that no plan exists" if second.infeasible else "a plan that fails verification"
            return Outcome(plan, message=f"auto: {origin} alone, because {prover.name} returned {says}")
        if second.plan is None and not second.infeasible:
            second.plan = plan
        return second


def _first(
    formulation: Formulation[Any, Any], options: SolveOptions, clock: Clock, heuristic: Solver | None
) -> tuple[Any, str]:
    """Return a first plan, which may be none, and where it is from."""
    if options.warm_start is not None:
        return formulation.parse_plan(options.warm_start), "the warm start"
    if heuristic is None:
        return None, ""
    plan = heuristic.solve(formulation, options, Clock(_patience(clock))).plan
    good = plan is not None and not formulation.violations(plan)
    return plan if good else None, f"the plan of {heuristic.name}"


def _patience(clock: Clock) -> float:
    """Return the seconds that the heuristic may take."""
    left = clock.remaining_s
    return HEURISTIC_S if left is None else min(HEURISTIC_S, HEURISTIC_SHARE * left)
