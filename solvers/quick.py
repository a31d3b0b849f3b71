"""A plan by the quickest methods, which prove nothing: one is enough to refute that there is none."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

from ..formulations.common.formulation import Formulation
from ..formulations.consolidation.formulation import ConsolidationFormulation
from ..instances.common.errors import TooLargeError
from .common.base import Clock, Solver
from .common.options import SolveOptions
from .consolidation.keep_in_place import stay_put
from .registry import own_solvers
from .staging.heterps.provisioning import WAYS

QUICK = {
    "allocation": ("marginal-gain", "lagrangian"),
    "staging": ("single-type", "greedy"),
    "consolidation": ("first-fit-decreasing", "best-fit"),
}
"""In the order in which they are tried."""


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
    solvers = {solver.name: solver for solver in own_solvers() if formulation.kind in solver.kinds}
    for name in QUICK[formulation.kind]:
        solver = solvers[name]
        # Staging's methods find units in two ways.
        ways = WAYS if "provisioning" in solver.method_options else (None,)
        for way in ways:
            options = SolveOptions(method_options={} if way is None else {"provisioning": way})
            yield name, partial(_plan_of, solver, formulation, options, clock)
    if isinstance(formulation, ConsolidationFormulation):
        yield "leaving jobs where they run", partial(stay_put, formulation, clock)


def _plan_of(
    solver: Solver, formulation: Formulation[Any, Any], options: SolveOptions, clock: Clock
) -> Sequence[Any] | None:
    return solver.solve(formulation, options, clock).plan
