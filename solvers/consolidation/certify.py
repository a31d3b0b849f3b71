"""Certificates for placements: dual prices for the plans of `exact` and of methods that have no prices."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from ...formulations.consolidation.certificate import MUST_PLACE, PRICED
from ...formulations.consolidation.formulation import ConsolidationFormulation
from ..common.base import Clock, Outcome
from ..common.options import SolveOptions
from .patterns.column_generation import Program, certified
from .patterns.master import RestrictedMaster
from .patterns.plan_of_columns import add_plan_columns
from .progress import SETTINGS, reached_level


def certify(formulation: ConsolidationFormulation, outcome: Outcome, clock: Clock) -> None:
    """Add prices for each objective of the outcome's plan, or such as prove that there is none.

    Raises
    ------
    TooLargeError
        If servers and jobs are too diverse for classes, or there is no time for them.
    """
    patience = clock.at_most(SETTINGS.certificate_patience_s)
    with patience.enforced():
        goals = _goals(formulation, outcome, patience)
    if goals:
        outcome.certificate = {"goals": goals}
        if outcome.plan is not None and outcome.prices is None:
            outcome.prices = formulation.prices(outcome.certificate, outcome.plan)


def _goals(formulation: ConsolidationFormulation, outcome: Outcome, clock: Clock) -> list[dict[str, Any]]:
    """Return prices for the goals of an outcome; none if there is nothing to be certified."""
    options, master = SolveOptions(), RestrictedMaster(formulation.classes)
    if outcome.infeasible:
        return infeasibility(master, options, clock)
    if outcome.plan is None or formulation.violations(outcome.plan):
        return []
    values = formulation.evaluate(outcome.plan)
    # With the plan's own columns the relaxation is feasible at the plan's levels.
    add_plan_columns(formulation, master, outcome.plan)
    return certified_goals(formulation, master, values, options, clock)


def certified_goals(
    formulation: ConsolidationFormulation,
    master: RestrictedMaster,
    values: Sequence[float],
    options: SolveOptions,
    clock: Clock,
    known: Sequence[dict[str, Any]] = (),
) -> list[dict[str, Any]]:
    """Return prices for every objective that has any, with what a plan reaches in the earlier ones kept.

    Parameters
    ----------
    known
        Prices that there are already.
    """
    goals = {goal["objective"]: goal for goal in known}
    program = Program(master, options, clock)
    program.levels[MUST_PLACE] = Fraction(0)
    for objective, value in zip(formulation.objectives, values, strict=True):
        if objective.name not in PRICED:
            continue
        if objective.name not in goals and not clock.expired:
            relaxed = program.relax(objective.name)
            if relaxed.prices is not None:
                goals[objective.name] = certified(master, objective.name, relaxed.prices)
        program.levels[objective.name] = reached_level(master.classes, objective.name, value)
    return list(goals.values())


def infeasibility(master: RestrictedMaster, options: SolveOptions, clock: Clock) -> list[dict[str, Any]]:
    """Return prices that prove that not all jobs that must be placed can be; nothing if there are none."""
    relaxed = Program(master, options, clock).relax(MUST_PLACE)
    if relaxed.prices is None:
        return []
    return [certified(master, MUST_PLACE, relaxed.prices)]
