"""Registry of solvers by name: methods of each kind, MILP backends, plug-ins, and the alias `auto`.

`auto` runs the kind's `exact`, and falls back to the warm start if the answer of `exact` is wrong.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from ..formulations.common.formulation import Formulation
from ..instances.common.errors import OptionError, UnavailableError
from .allocation.kind import ALLOCATION
from .backends import BACKENDS
from .common.base import Clock, Outcome, Solver
from .common.kind import SolverKind
from .common.result import SolveOptions
from .consolidation.kind import CONSOLIDATION
from .milp import Milp
from .plugins import plugin_solvers
from .scheduling.kind import scheduling
from .staging.kind import STAGING


class Auto(Solver[Any]):
    """Runs the exact method of the problem kind; returns the warm start if the method's answer is wrong.

    Parameters
    ----------
    exact
        The exact method of each kind.
    """

    name = "auto"
    proves = True
    features = frozenset({"warm_start"})
    what = "the kind's best proving method, which is 'exact'"

    def __init__(self, exact: Mapping[str, Solver[Any]]) -> None:
        self.exact = exact
        self.kinds = tuple(exact)

    def check_options(self, options: SolveOptions) -> None:
        """Check the general options; the method of the problem kind checks its own when it solves."""
        super().check_options(options.model_copy(update={"method_options": {}}))

    def solve(self, formulation: Formulation[Any, Any], options: SolveOptions, clock: Clock) -> Outcome:
        """Return the outcome of the exact method, or the warm start if that outcome is wrong."""
        prover = self.exact[formulation.kind]
        prover.check_options(options)
        outcome = prover.solve(formulation, options, clock)
        prefix = f"auto: {prover.name}"
        outcome.message = f"{prefix}; {outcome.message}" if outcome.message else prefix
        if options.warm_start is None:
            return outcome
        violated = outcome.plan is not None and bool(formulation.violations(outcome.plan))
        if outcome.infeasible or violated:
            answer = "that no plan exists" if outcome.infeasible else "a plan that fails verification"
            plan = formulation.parse_plan(options.warm_start)
            why = f"the warm start alone, because {prover.name} returned {answer}"
            return Outcome(plan, message=f"auto: {why}")
        return outcome


KINDS: dict[str, SolverKind] = {
    "allocation": ALLOCATION,
    "staging": STAGING,
    "consolidation": CONSOLIDATION,
    "scheduling": scheduling(ALLOCATION.exact, "allocation"),
}


@cache
def all_solvers() -> tuple[Solver[Any], ...]:
    """Return all registered solvers, including plug-ins and those whose library is not installed."""
    own = builtin_solvers()
    return (*own, *plugin_solvers({solver.name for solver in own}))


@cache
def builtin_solvers() -> tuple[Solver[Any], ...]:
    """Return the solvers of this package: `auto`, then exact methods, then the others per problem kind."""
    return (
        Auto({name: kind.exact for name, kind in KINDS.items()}),
        *(kind.exact for kind in KINDS.values()),
        *(Milp(backend) for backend in BACKENDS.values()),
        *(solver for kind in KINDS.values() for solver in kind.solvers),
    )


def solvers_for(kind: str, *, available: bool = False) -> list[Solver[Any]]:
    """Return the solvers of a problem kind; with `available`, only those that can run here."""
    return [s for s in all_solvers() if kind in s.kinds and not (available and s.unavailable())]


def suggestion_text(name: str, names: Sequence[str]) -> str:
    """Return the question `did you mean …?` with the most similar known name, or an empty text."""
    near = difflib.get_close_matches(name, names, n=1)
    return f"did you mean {near[0]!r}? " if near else ""


def find_solver(name: str, kind: str) -> Solver[Any]:
    """Return the solver with this name for a problem kind.

    Raises
    ------
    OptionError
        If there is none of this name for the kind.
    UnavailableError
        If it cannot be used here.
    """
    wanted = "milp:highs" if name == "milp" else name
    candidates = solvers_for(kind)
    for solver in candidates:
        if solver.name == wanted:
            reason = solver.unavailable()
            if reason:
                raise UnavailableError(f"solver {name!r} cannot be used here: {reason}")
            return solver
    names = [solver.name for solver in candidates]
    raise OptionError(
        f"no solver {name!r} for {kind}; {suggestion_text(name, names)}there are: {', '.join(names)}"
    )
