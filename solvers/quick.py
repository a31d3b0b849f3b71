"""A feasible plan by the quickest heuristics: one refutes the claim that none exists."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

from ..formulations.common.formulation import Formulation
from ..instances.common.errors import TooLargeError
from .common.base import Clock, Solver
from .common.options import SolveOptions
from .registry import KINDS


class Found(NamedTuple):
    """A feasible plan, and the method that found it."""

    method: str
    plan: Sequence[Any]


def find_plan(formulation: Formulation[Any, Any], patience_s: float) -> Found | None:
    """Return a feasible plan if one of the quick methods finds any; every constraint is checked."""
    clock = Clock(patience_s)
    for method, search in _searches(formulation, clock):
        if clock.expired:
            return None
        try:
            plan = search()
            if plan is not None and not formulation.violations(plan):
                return Found(method, plan)
        except TooLargeError:
            continue
    return None


def _searches(
    formulation: Formulation[Any, Any], clock: Clock
) -> Iterator[tuple[str, Callable[[], Sequence[Any] | None]]]:
    """Yield the quick methods: of this package alone, for plug-ins have no place in a check."""
    kind = KINDS[formulation.kind]
    solvers = {solver.name: solver for solver in (kind.exact, *kind.solvers)}
    for name, settings in kind.quick:
        options = SolveOptions(method_options=dict(settings))
        yield name, partial(_plan_of, solvers[name], formulation, options, clock)
    yield from kind.more_quick(formulation, clock)


def _plan_of(
    solver: Solver[Any], formulation: Formulation[Any, Any], options: SolveOptions, clock: Clock
) -> Sequence[Any] | None:
    return solver.solve(formulation, options, clock).plan
