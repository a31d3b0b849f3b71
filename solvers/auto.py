"""`auto`: the kind's exact method, which finds its own first plan."""

from __future__ import annotations

from typing import Any

from ..formulations.common.formulation import Formulation
from .common.base import Clock, Outcome, Solver
from .common.options import SolveOptions

PROVER = "exact"


class Auto(Solver):
    """Prove the optimum, as far as the time allows."""

    name = "auto"
    kinds = ("allocation", "staging", "consolidation")
    proves = True
    features = frozenset({"warm_start"})
    what = f"the kind's best proving method, which is {PROVER!r}"

    def check_options(self, options: SolveOptions) -> None:
        """Leave the options of the method to the prover, which depends on the kind."""
        super().check_options(options.model_copy(update={"method_options": {}}))

    def solve(self, formulation: Formulation[Any, Any], options: SolveOptions, clock: Clock) -> Outcome:
        """Return the prover's answer; the warm start where the answer contradicts it."""
        from .registry import find_solver

        prover = find_solver(PROVER, formulation.kind)
        prover.check_options(options)
        outcome = prover.solve(formulation, options, clock)
        says = f"auto: {PROVER}"
        outcome.message = f"{says}; {outcome.message}" if outcome.message else says
        if options.warm_start is None:
            return outcome
        wrong = outcome.plan is not None and bool(formulation.violations(outcome.plan))
        if outcome.infeasible or wrong:
            answer = "that no plan exists" if outcome.infeasible else "a plan that fails verification"
            plan = formulation.parse_plan(options.warm_start)
            return Outcome(plan, message=f"auto: the warm start alone, because {PROVER} returned {answer}")
        return outcome
