"""A feasible plan by the quickest heuristics: one refutes the claim that none exists."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

from ..formulations.common.formulation import Formulation
from ..instances.common.errors import TooLargeError
from .common.base import Clock, Solver
from .common.kind import Search
from .common.options import SolveOptions
from .registry import KINDS


class Found(NamedTuple):
    """A feasible plan, and the method that found it."""

    method: str
    plan: Sequence[Any]


def find_plan(formulation: Formulation[Any, Any], patience_s: float) -> Found | None:
    """Return a feasible plan if one of the quick methods finds any; every constraint is checked."""
    kind, clock = KINDS[formulation.kind], Clock(patience_s)
    # Of this package alone, for plug-ins have no place in a check.
    solvers = {solver.name: solver for solver in (kind.exact, *kind.solvers)}
    methods: list[tuple[str, Search]] = [
        (name, partial(_plan_of, solvers[name], dict(settings))) for name, settings in kind.quick
    ]
    for method, search in [*methods, *kind.more_quick.items()]:
        if clock.expired:
            return None
        try:
            plan = search(formulation, clock)
            if plan is not None and not formulation.violations(plan):
                return Found(method, plan)
        except TooLargeError:
            continue
    return None


def _plan_of(
    solver: Solver[Any], settings: dict[str, Any], formulation: Formulation[Any, Any], clock: Clock
) -> Sequence[Any] | None:
    return solver.solve(formulation, SolveOptions(method_options=settings), clock).plan
