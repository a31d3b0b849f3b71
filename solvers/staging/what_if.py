"""Sensitivity to the limits: the optimum again, with one limit after another lifted."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...formulations.staging.formulation import StagingFormulation
from ...formulations.staging.graph_formulation import formulation_of
from ...formulations.staging.plan import Stage

Solve = Callable[[StagingFormulation], Sequence[Stage] | None]


def what_if(formulation: StagingFormulation, plan: Sequence[Stage], solve: Solve) -> str:
    """Return a sentence on the optimum without the limit of each type that is used up.

    Parameters
    ----------
    plan
        The best plan within all limits.
    solve
        Returns the best plan of a changed instance, or None if there was no time for it.
    """
    instance, objective = formulation.instance, formulation.objectives[0]
    value, found = formulation.evaluate(plan)[0], []
    for index, hardware in enumerate(instance.types):
        if hardware.limit is None or _units(plan, hardware.name) < hardware.limit:
            continue
        free = hardware.model_copy(update={"limit": None})
        types = (*instance.types[:index], free, *instance.types[index + 1 :])
        other = formulation_of(instance.model_copy(update={"types": types}))
        best = solve(other)
        if best is None:
            found.append(f"{hardware.name}: no time to tell")
            continue
        more, gain = _units(best, hardware.name) - hardware.limit, abs(other.evaluate(best)[0] - value)
        useful = more > 0 and objective.better(other.evaluate(best)[0], value)
        unit = f" {objective.unit} {'less' if objective.sense == 'min' else 'more'}"
        found.append(
            f"{hardware.name}: {more} more units, {gain:.6g}{unit}" if useful else f"{hardware.name}: nothing"
        )
    if not found:
        return "no type is used up, so more units of one would change nothing"
    return "what more units would bring, one type at a time: " + "; ".join(found)


def _units(plan: Sequence[Stage], name: str) -> int:
    return sum(stage.units for stage in plan if stage.type == name)
