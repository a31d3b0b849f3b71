"""`auto`: an alias of the kind's `exact`, which falls back to the warm start if `exact` answers wrongly."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..formulations.common.formulation import Formulation
from .common.base import Clock, Outcome, Solver
from .common.options import SolveOptions


class Auto(Solver[Any]):
    """The exact method of the kind, or the warm start where the method's answer is wrong.

    Parameters
    ----------
    exact
        The method of each kind.
    """

    name = "auto"
    proves = True
    features = frozenset({"warm_start"})
    what = "the kind's best proving method, which is 'exact'"

    def __init__(self, exact: Mapping[str, Solver[Any]]) -> None:
        self.exact = exact
        self.kinds = tuple(exact)

    def check_options(self, options: SolveOptions) -> None:
        """Leave the options of the method to the method, which depends on the kind."""
        super().check_options(options.model_copy(update={"method_options": {}}))

    def solve(self, formulation: Formulation[Any, Any], options: SolveOptions, clock: Clock) -> Outcome:
        """Return the prover's answer; the warm start where the answer contradicts it."""
        prover = self.exact[formulation.kind]
        prover.check_options(options)
        outcome = prover.solve(formulation, options, clock)
        says = f"auto: {prover.name}"
        outcome.message = f"{says}; {outcome.message}" if outcome.message else says
        if options.warm_start is None:
            return outcome
        wrong = outcome.plan is not None and bool(formulation.violations(outcome.plan))
        if outcome.infeasible or wrong:
            answer = "that no plan exists" if outcome.infeasible else "a plan that fails verification"
            plan = formulation.parse_plan(options.warm_start)
            why = f"the warm start alone, because {prover.name} returned {answer}"
            return Outcome(plan, message=f"auto: {why}")
        return outcome
