"""A plan by the quickest methods, which prove nothing: one is enough to refute that there is none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ..formulations.base import Formulation
from ..formulations.consolidation import ConsolidationFormulation
from ..instances.errors import TooLargeError
from .base import Clock
from .consolidation_stay import stay_put
from .options import SolveOptions
from .registry import find_solver

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
    for name in QUICK[formulation.kind]:
        solver = find_solver(name, formulation.kind)
        for settings in _settings(solver.method_options):
            if clock.expired:
                return None
            try:
                plan = solver.solve(formulation, SolveOptions(method_options=settings), clock).plan
            except TooLargeError:
                continue
            if plan is not None and not formulation.violations(plan):
                return Found(name, plan)
    if isinstance(formulation, ConsolidationFormulation) and not clock.expired:
        plan = stay_put(formulation, clock)
        if plan is not None and not formulation.violations(plan):
            return Found("leaving jobs where they run", plan)
    return None


def _settings(options: Any) -> list[dict[str, Any]]:
    """Return the settings to try a method with: staging's methods find units in two ways."""
    return [{}, {"provisioning": "exact"}] if "provisioning" in options else [{}]
