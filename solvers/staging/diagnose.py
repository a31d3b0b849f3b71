"""Explanation of infeasibility: the exact search with one constraint relaxed at a time."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from ...formulations.common.objective import Diagnosis
from ...formulations.staging.formulation import StagingFormulation, formulation_of
from ...formulations.staging.stages import Plan, Stage, layer_names_text, parts_time_s, units_of
from ...instances.common.errors import TooLargeError
from ...instances.common.fields import Fields
from ...instances.staging.instance import Layer, StageType, StagingInstance
from ..common.base import Clock
from ..common.result import SolveOptions
from .graph_exact import ExactOnGraphs

GAP = 1e-4
"""Relative optimality gap of the searches, whose values are printed with few digits."""
FEASIBLE_SIDE_FACTOR = 1 - 1e-5
"""Factor by which suggested values are rounded to the feasible side."""
ANY_PLAN_GAP = 0.5
"""Relative optimality gap where any feasible plan will do."""
MEMORY_RATIO = 1.02
"""Ratio of sufficient to insufficient memory at which the search for the least memory ends."""

Cause = tuple[list[str], str]
"""Reasons for infeasibility, and a remedy."""


def diagnose(formulation: StagingFormulation, known: Diagnosis | None, clock: Clock) -> Diagnosis | None:
    """Return the constraints that make an instance infeasible, and the changes that make it feasible.

    The floor, the limits on money, the stage rule and memory are relaxed one at a time, and limits on units
    where none of these explains it. What combinatorial bounds have found comes first among the reasons, and
    last among the remedies.
    """
    causes = [
        *_floor_cause(formulation, clock),
        *_budget_cause(formulation, "cost_limit_usd", "cost limit", "USD", clock),
        *_budget_cause(formulation, "hourly_budget_usd", "hourly budget", "USD/h", clock),
        *_stage_rule_cause(formulation, clock),
        *_memory_cause(formulation, clock),
    ]
    causes = causes or [*_unit_limits_cause(formulation, clock)] or [*_remaining_causes(formulation, clock)]
    if not causes:
        return known
    reasons, remedies = [line for lines, _ in causes for line in lines], [remedy for _, remedy in causes]
    if known is not None:
        reasons, remedies = [*known.reasons, *reasons], [*remedies, *known.remedies]
    return Diagnosis(reasons=tuple(reasons), remedies=tuple(remedies))


def _best_plan(
    formulation: StagingFormulation, clock: Clock, gap: float = GAP, **changes: Any
) -> tuple[tuple[Stage, ...], StagingFormulation] | None:
    """Return the best plan of an instance with changed fields, and its formulation; None if none is found."""
    changed = formulation_of(formulation.instance.model_copy(update=changes))
    if clock.expired or changed.elementary_infeasibility() is not None:
        return None
    try:
        outcome = ExactOnGraphs().solve(changed, SolveOptions(gap=gap), Clock(clock.remaining_s))
    except TooLargeError:
        return None  # or out of time: what was found before it still holds
    return None if outcome.plan is None else (tuple(outcome.plan), changed)


def _any_plan(formulation: StagingFormulation, clock: Clock, **changes: Any) -> tuple[Stage, ...] | None:
    """Return a feasible plan of an instance with changed fields, None if none is found."""
    best = _best_plan(formulation, clock, ANY_PLAN_GAP, objective="cost", **changes)
    return None if best is None else best[0]


def _layers_text(instance: StagingInstance, stage: Stage) -> str:
    """Return a text that names the layers of a stage of a plan."""
    layers: list[Layer] = [instance.layers[index] for index in stage.members]
    if len(layers) == 1:
        return f"layer {layers[0].name!r}"
    if stage.layers is not None:
        return f"{len(layers)} layers, such as {layers[0].name!r},"
    return f"layers {layers[0].name!r} to {layers[-1].name!r}"


def _floor_cause(formulation: StagingFormulation, clock: Clock) -> Iterator[Cause]:
    """Yield the throughput floor as a cause of infeasibility, if no plan within the limits reaches it."""
    instance = formulation.instance
    floor = instance.throughput_floor_samples_per_s
    if floor is None:
        return
    relaxed = _best_plan(formulation, clock, objective="throughput", throughput_floor_samples_per_s=None)
    if relaxed is None:
        return
    # Without the floor itself: what the other demands allow at most.
    plan, changed = relaxed
    best = changed.evaluate(plan)[0]
    if best >= floor:
        return
    times = changed.times_of_stages_s(plan)
    slowest = plan[times.index(max(times))]
    budgets = instance.hourly_budget_usd is not None or instance.cost_limit_usd is not None
    within = "limits and budgets" if budgets else "the limits"
    reason = (
        f"the highest throughput within {within} is {best:g} samples/s, and the floor is {floor:g}; "
        f"{_layers_text(instance, slowest)} on {slowest.units} {slowest.type} would be the slowest stage"
    )
    remedy = f"lower the floor to {best * FEASIBLE_SIDE_FACTOR:g} samples/s, or raise limits or budgets"
    yield [reason, *slow_layer_notes(formulation)], remedy


def slow_layer_notes(formulation: StagingFormulation) -> list[str]:
    """Return messages that name the layers too slow for the floor even alone on all units of a type."""
    instance = formulation.instance
    types: dict[tuple[int, ...], list[str]] = {}
    for t, hardware in enumerate(instance.types):
        limit = formulation.hardware.limit[t]
        slow = [
            index
            for index, parts in enumerate(formulation.parts[:, t].tolist())
            if parts_time_s(parts, limit) > formulation.latest_s
        ]
        if slow:
            units_text = "any number of" if hardware.limit is None else f"all {hardware.limit}"
            types.setdefault(tuple(slow), []).append(f"{units_text} {hardware.name}")
    return [
        f"on {' or '.join(names)}, too slow for the floor even alone: "
        + layer_names_text([instance.layers[index] for index in slow])
        for slow, names in types.items()
    ]


def _budget_cause(
    formulation: StagingFormulation, field: str, what: str, unit: str, clock: Clock
) -> Iterator[Cause]:
    """Yield the cost limit or hourly budget as a cause of infeasibility, if the cheapest plan exceeds it."""
    limit = getattr(formulation.instance, field)
    if limit is None:
        return
    without: Fields = {field: None}
    relaxed = _best_plan(formulation, clock, objective="cost", **without)
    if relaxed is None:
        return
    plan, changed = relaxed
    need = changed.evaluate(plan)[0] if unit == "USD" else changed.rate_usd_per_hour(plan)
    if need > limit:
        reason = f"without the {what} of {limit:g} {unit} the cheapest plan takes {need:g} {unit}"
        yield [reason], f"raise the {what} to {need / FEASIBLE_SIDE_FACTOR:g} {unit}"


def _stage_rule_cause(formulation: StagingFormulation, clock: Clock) -> Iterator[Cause]:
    """Yield the stage rule as a cause of infeasibility, if equal types of neighbours allow a plan."""
    if formulation.instance.stage_rule == "free_cuts":
        return
    plan = _any_plan(formulation, clock, stage_rule="free_cuts")
    if plan is not None and formulation.violations(plan):
        stages = f"{len(plan)} stages on {', '.join(dict.fromkeys(stage.type for stage in plan))}"
        reason = (
            "the stage rule maximal_runs allows no two neighbouring stages of one type; with free_cuts there "
            f"is a plan, {stages}"
        )
        yield [reason], "set stage_rule to free_cuts (at import: --stage-rule free_cuts)"


def _memory_cause(formulation: StagingFormulation, clock: Clock) -> Iterator[Cause]:
    """Yield memory as a cause of infeasibility, with about the minimum GiB per unit that allows a plan."""
    instance = formulation.instance
    checked = any(one.memory_gib is not None for one in instance.types)
    plan = _any_plan(formulation, clock, types=_with_memory(instance, math.inf)) if checked else None
    if plan is None:
        return
    too_little, enough = 1.0, max(_memory_ratios(instance, plan))
    while enough > MEMORY_RATIO * too_little and not clock.expired:
        between = math.sqrt(too_little * enough)
        other = _any_plan(formulation, clock, types=_with_memory(instance, between))
        if other is None:
            too_little = between
        else:
            plan, enough = other, max(_memory_ratios(instance, other))
    over = list(zip(_memory_ratios(instance, plan), plan, strict=True))
    memory_gib = {one.name: one.memory_gib for one in instance.types if one.memory_gib is not None}
    needs: dict[str, float] = {}
    for times, stage in over:
        if times > 1:
            needs[stage.type] = max(needs.get(stage.type, 0.0), times * memory_gib[stage.type])
    if not needs:
        return
    worst = max(over, key=lambda pair: pair[0])[1]
    reason = (
        f"memory is too small: for {_layers_text(instance, worst)} a unit of {worst.type} needs "
        f"{needs[worst.type]:g} GiB and has {memory_gib[worst.type]:g}, in a plan that breaks no other demand"
    )
    enough_memory = " and ".join(
        f"{name} to {gib / FEASIBLE_SIDE_FACTOR:g} GiB" for name, gib in needs.items()
    )
    yield [reason], f"raise the memory of {enough_memory}"


def _with_memory(instance: StagingInstance, times: float) -> tuple[StageType, ...]:
    """Return the hardware types with their memory multiplied by a factor; unlimited if that is infinite."""
    return tuple(
        one
        if one.memory_gib is None
        else one.model_copy(update={"memory_gib": None if math.isinf(times) else times * one.memory_gib})
        for one in instance.types
    )


def _memory_ratios(instance: StagingInstance, plan: Plan) -> list[float]:
    """Return the memory need of each stage over that of a unit of its type; 0 where it is not checked."""
    gib = {one.name: one.memory_gib or math.inf for one in instance.types}
    return [
        math.fsum(instance.layers[index].memory_on(stage.type) for index in stage.members) / gib[stage.type]
        for stage in plan
    ]


def _unit_limits_cause(formulation: StagingFormulation, clock: Clock) -> Iterator[Cause]:
    """Yield the limits on units as a cause of infeasibility, if there is a plan that exceeds only these."""
    limits = {one.name: one.limit for one in formulation.instance.types if one.limit is not None}
    free = tuple(one.model_copy(update={"limit": None}) for one in formulation.instance.types)
    plan = _any_plan(formulation, clock, types=free) if limits else None
    used = units_of(plan or ())
    over = {name: units for name, units in used.items() if units > limits.get(name, math.inf)}
    if over:
        usage = " and ".join(f"{units} {name} of {limits[name]}" for name, units in over.items())
        reason = f"with any number of units there is a plan, and it takes {usage}"
        yield [reason], "raise the limit of " + " and ".join(f"{name} to {n}" for name, n in over.items())


def _remaining_causes(formulation: StagingFormulation, clock: Clock) -> Iterator[Cause]:
    """Yield the causes of infeasibility that remain without throughput floor, cost limit and budget."""
    fields = {
        "throughput_floor_samples_per_s": "the floor",
        "cost_limit_usd": "the cost limit",
        "hourly_budget_usd": "the hourly budget",
    }
    left_out = {
        field: what for field, what in fields.items() if getattr(formulation.instance, field) is not None
    }
    free = dict.fromkeys(left_out)
    if not left_out or _any_plan(formulation, clock, **free) is not None:
        return
    diagnosis = diagnose(formulation_of(formulation.instance.model_copy(update=free)), None, clock)
    if diagnosis is not None:
        without = f"even without {' and '.join(left_out.values())}, "
        yield [without + reason for reason in diagnosis.reasons], "; ".join(diagnosis.remedies)
