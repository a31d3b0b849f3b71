"""The check of certificates of placements on single devices: prices by shape of server."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from pydantic import ValidationError

from ....instances.consolidation.instance import ConsolidationInstance
from ...common.objective import Objective
from ...common.tolerance import agree
from ..classes import exact
from ..devices.device_prices import PRICED_BY_SHAPE, DeviceCertificate, PricedGoal
from .device_bound import ShapeBound, jobs_alike, rounded, shapes_of

ROUNDING = Fraction(1, 10**12)
"""Relative, by which levels of earlier objectives are loosened for the rounding of doubles."""


def read_device_certificate(instance: ConsolidationInstance, data: Any) -> DeviceCertificate | str:
    """Return the certificate, or what is wrong with its form."""
    try:
        certificate = DeviceCertificate.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    shapes = len(shapes_of(instance))
    for goal in certificate.devices:
        if len(goal.shapes) != shapes:
            return f"the prices of {goal.objective} are of {len(goal.shapes)} shapes of servers, not {shapes}"
    return certificate


def shape_bounds(
    instance: ConsolidationInstance,
    objectives: Sequence[Objective],
    goals: Sequence[PricedGoal],
    values: Sequence[float] | None,
    known: Sequence[float | None],
) -> list[float | None]:
    """Return the bounds that prices by shape prove, None where they prove none.

    A bound that needs the values of earlier objectives counts only if these are proven but for the last.

    Parameters
    ----------
    values
        Of the plan that the prices came with; None if there is no plan.
    known
        Bounds that are proven otherwise.
    """
    by_name: dict[str, PricedGoal] = {goal.objective: goal for goal in goals}
    shapes, jobs = shapes_of(instance), jobs_alike(instance)
    levels: dict[str, Fraction] = {}
    found: list[float | None] = []
    certain = True
    for index, objective in enumerate(objectives):
        goal = by_name.get(objective.name)
        bound = None
        if goal is not None and set(goal.multipliers) <= set(levels):
            least = ShapeBound(shapes, jobs, goal).value(levels)
            if least is not None:
                least = rounded(instance, objective.name, least)
                bound = float(-least if objective.name == "value" else least)
        found.append(bound)
        if values is None:
            continue
        if certain and objective.name in PRICED_BY_SHAPE:
            reached = exact(values[index]) * (-1 if objective.name == "value" else 1)
            levels[objective.name] = reached + abs(reached) * ROUNDING
        best = objective.tighter(known[index], bound)
        certain = certain and best is not None and agree(best, values[index])
    return found
