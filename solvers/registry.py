"""Registry of solvers by name: methods of each kind, MILP backends, plug-ins, and the alias `auto`.

`auto` runs the kind's `exact`, and falls back to the warm start if the answer of `exact` is wrong. Modules of
solvers are imported when the solvers of their kind are first asked for.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from functools import cache
from typing import Any

from ..formulations.common.formulation import Formulation
from ..formulations.registry import KINDS as FORMULATIONS
from ..instances.common.errors import OptionError, UnavailableError
from ..instances.common.kind import KindRegistry
from .backends import BACKENDS
from .common.base import Clock, Outcome, Solver
from .common.kind import SolverKind
from .common.result import SolveOptions
from .milp import Milp
from .plugins import plugin_solvers

KINDS: KindRegistry[SolverKind] = KindRegistry(__package__, FORMULATIONS.names)


class Auto(Solver[Any]):
    """Runs the exact method of the problem kind; returns the warm start if the method's answer is wrong."""

    name, kinds = "auto", KINDS.names
    proves = True
    features = frozenset({"warm_start"})
    what = "the kind's best proving method, which is 'exact'"

    def check_options(self, options: SolveOptions) -> None:
        """Check the general options; the method of the problem kind checks its own when it solves."""
        super().check_options(options.model_copy(update={"method_options": {}}))

    def solve(self, formulation: Formulation[Any, Any], options: SolveOptions, clock: Clock) -> Outcome:
        """Return the outcome of the exact method, or the warm start if that outcome is wrong."""
        prover = KINDS[formulation.kind].exact
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


def all_solvers(*kinds: str) -> tuple[Solver[Any], ...]:
    """Return the solvers of some kinds or of all, with all plug-ins and those whose library is missing."""
    return (*builtin_solvers(*kinds), *plugin_solvers(builtin_solvers))


@cache
def builtin_solvers(*kinds: str) -> tuple[Solver[Any], ...]:
    """Return the package's own solvers of some kinds or of all: `auto`, exact methods, then the others."""
    exact: list[Solver[Any]] = []
    others: list[Solver[Any]] = []
    modelled: list[str] = []
    for kind in kinds or KINDS.names:
        exact.append(KINDS[kind].exact)
        others += KINDS[kind].solvers
        modelled += [kind] if FORMULATIONS[kind].milp_model is not None else []
    models = [Milp(backend, tuple(modelled)) for backend in BACKENDS.values()] if modelled else []
    return (Auto(), *exact, *models, *others)


def solvers_for(kind: str, *, available: bool = False) -> list[Solver[Any]]:
    """Return the solvers of a problem kind; with `available`, only those that can run here."""
    return [s for s in all_solvers(kind) if kind in s.kinds and not (available and s.unavailable())]


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
    for solver in all_solvers(kind):
        if solver.name == wanted and kind in solver.kinds:
            reason = solver.unavailable()
            if reason:
                raise UnavailableError(f"solver {name!r} cannot be used here: {reason}")
            return solver
    names = [solver.name for solver in solvers_for(kind)]
    raise OptionError(
        f"no solver {name!r} for {kind}; {suggestion_text(name, names)}there are: {', '.join(names)}"
    )
