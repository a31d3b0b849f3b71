"""Explanation of infeasibility: the exact search with one demand after another left out."""

from __future__ import annotations

import math
from collections.abc import Iterator

from ...formulations.common.objective import Diagnosis
from ...formulations.staging.formulation import StagingFormulation
from ...formulations.staging.graphs.formulation import formulation_of
from ...formulations.staging.plan import Stage
from ...formulations.staging.stage_times import layer_parts, parts_time_s
from ..common.base import Clock
from ..common.options import SolveOptions
from .graphs.dispatch import ExactOnGraphs

GAP = 1e-4
"""Relative optimality gap: a sentence needs no more digits."""
ROUNDED_DOWN = 1 - 1e-5
"""Advice is rounded to the side on which it works."""
MOST_NAMED = 5
"""Layers of a type that are listed by name."""


def diagnose(formulation: StagingFormulation, known: Diagnosis | None, clock: Clock) -> Diagnosis | None:
    """Return which of floor, cost limit and hourly budget is out of reach, and what can be reached.

    What counting has found comes first among the reasons, and last among the remedies.
    """
    found = [
        *_floor(formulation, clock),
        *_budget(formulation, "cost_limit_usd", "cost limit", clock),
        *_budget(formulation, "hourly_budget_usd", "hourly budget", clock),
    ]
    if not found:
        return known
    reasons, remedies = [line for lines, _ in found for line in lines], [remedy for _, remedy in found]
    if known is not None:
        reasons, remedies = [*known.reasons, *reasons], [*remedies, *known.remedies]
    return Diagnosis(reasons=tuple(reasons), remedies=tuple(remedies))


def _best(
    formulation: StagingFormulation, clock: Clock, **changes: float | str | None
) -> tuple[tuple[Stage, ...], StagingFormulation] | None:
    """Return the best plan of a changed instance, if one was found in time."""
    changed = formulation_of(formulation.instance.model_copy(update=changes))
    if clock.expired or changed.elementary_infeasibility() is not None:
        return None
    outcome = ExactOnGraphs().solve(changed, SolveOptions(gap=GAP), Clock(clock.remaining_s))
    return None if outcome.plan is None else (tuple(outcome.plan), changed)


def _floor(formulation: StagingFormulation, clock: Clock) -> Iterator[tuple[list[str], str]]:
    """Yield the highest throughput within the limits, its slowest stage, and layers too slow even alone."""
    instance = formulation.instance
    floor = instance.throughput_floor_samples_per_s
    if floor is None:
        return
    found = _best(formulation, clock, objective="throughput", throughput_floor_samples_per_s=None)
    if found is None:
        return
    # Without the floor itself: what the other demands allow at most.
    plan, changed = found
    best = changed.evaluate(plan)[0]
    if best >= floor:
        return
    slowest = max(plan, key=lambda stage: changed.stage_time_s([stage]))
    budgets = instance.hourly_budget_usd is not None or instance.cost_limit_usd is not None
    within = "limits and budgets" if budgets else "the limits"
    named = instance.layers[slowest.first_layer].name, instance.layers[slowest.last_layer].name
    layers = f"layer {named[0]!r}" if named[0] == named[1] else f"layers {named[0]!r} to {named[1]!r}"
    if slowest.layers is not None and len(slowest.layers) > 1:
        layers = f"{len(slowest.layers)} layers, such as {named[0]!r},"
    reason = (
        f"the highest throughput within {within} is {best:g} samples/s, and the floor is {floor:g}; "
        f"{layers} on {slowest.units} {slowest.type} would be the slowest stage"
    )
    remedy = f"lower the floor to {best * ROUNDED_DOWN:g} samples/s, or raise limits or budgets"
    yield [reason, *too_slow(formulation)], remedy


def too_slow(formulation: StagingFormulation) -> list[str]:
    """Return for each type which layers cannot keep the floor, even alone on all its units."""
    instance, lines = formulation.instance, []
    for hardware in instance.types:
        units = math.inf if hardware.limit is None else hardware.limit
        times = ((layer, parts_time_s(layer_parts(layer, hardware.name), units)) for layer in instance.layers)
        slow = [repr(layer.name) for layer, time in times if time > formulation.latest_s]
        if slow:
            more = f" and {len(slow) - MOST_NAMED} more" if len(slow) > MOST_NAMED else ""
            units_text = "any number of" if hardware.limit is None else f"all {hardware.limit}"
            lines.append(
                f"on {units_text} {hardware.name}, too slow for the floor even alone: "
                + ", ".join(slow[:MOST_NAMED])
                + more
            )
    return lines


def _budget(
    formulation: StagingFormulation, field: str, what: str, clock: Clock
) -> Iterator[tuple[list[str], str]]:
    """Yield the amount that the cheapest plan takes without a limit on money, if that exceeds the limit."""
    limit = getattr(formulation.instance, field)
    if limit is None:
        return
    found = _best(formulation, clock, objective="cost", **{field: None})
    if found is None:
        return
    plan, changed = found
    rate = changed.rate_usd_per_hour(plan)
    unit = "USD" if field == "cost_limit_usd" else "USD/h"
    need = changed.evaluate(plan)[0] if field == "cost_limit_usd" else rate
    if need > limit:
        reason = f"without the {what} of {limit:g} {unit} the cheapest plan takes {need:g} {unit}"
        yield [reason], f"raise the {what} to {need / ROUNDED_DOWN:g} {unit}"
