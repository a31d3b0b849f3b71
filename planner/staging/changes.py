"""Changes of a staging: scenario changes of its data, and differences between two plans."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from ...formulations.staging.stages import Stage
from ...instances.common.errors import OptionError
from ...instances.staging.instance import StagingInstance
from ..changes import Amount, Changes, ScenarioChange, amount, changed, matching, named_amount, rows_of
from ..reports.text import counted, listed


def what_if(instance: StagingInstance) -> dict[str, ScenarioChange]:
    """Return the types of scenario change by key, such as `limit` or `budget`."""
    del instance
    return {
        "limit": ScenarioChange("limit=TYPE:UNITS", _of_types("limit")),
        "price": ScenarioChange("price=TYPE:USD_PER_HOUR", _of_types("price_usd_per_hour")),
        "floor": ScenarioChange("floor=SAMPLES_PER_S", _of_plan("throughput_floor_samples_per_s")),
        "cost": ScenarioChange("cost=USD", _of_plan("cost_limit_usd")),
        "budget": ScenarioChange("budget=USD_PER_HOUR", _of_plan("hourly_budget_usd")),
    }


def _of_plan(field: str) -> Callable[[StagingInstance, str], dict[str, Any]]:
    return lambda instance, text: {field: amount(text, getattr(instance, field))}


def _of_types(field: str) -> Callable[[StagingInstance, str], dict[str, Any]]:
    def fields(instance: StagingInstance, text: str) -> dict[str, Any]:
        pattern, value = named_amount(text)
        rows = rows_of(instance, "types")
        chosen = matching(pattern, [row["name"] for row in rows], "type")
        return {
            "types": [
                {**row, field: amount(value, row.get(field))} if row["name"] in chosen else row
                for row in rows
            ]
        }

    return fields


def changes(instance: StagingInstance, before: Sequence[Stage] | None, after: Sequence[Stage]) -> Changes:
    """Return the stages that differ between two plans, and the units of each hardware type.

    Raises
    ------
    OptionError
        If `before` is None: staging instances do not describe a running plan.
    """
    if before is None:
        raise OptionError("an instance of staging does not say what runs now; give two results to compare")
    old, new = (
        {f"stage {s}": _stage_text(stage) for s, stage in enumerate(plan)} for plan in (before, after)
    )
    changed_stages, stay = changed(old, new, "change")
    units = [Counter[str](), Counter[str]()]
    for count, plan in zip(units, (before, after), strict=True):
        for stage in plan:
            count[stage.type] += stage.units
    amounts = [
        Amount(f"units of {kind.name}", units[0][kind.name], units[1][kind.name], kind.limit)
        for kind in instance.types
        if units[0][kind.name] or units[1][kind.name]
    ]
    return Changes("stage", changed_stages, stay, 0, amounts)


def answer(instance: StagingInstance, plan: Sequence[Stage]) -> str:
    """Return a one-sentence summary of a plan: its number of stages, and units by hardware type."""
    del instance
    units = Counter[str]()
    for stage in plan:
        units[stage.type] += stage.units
    used = listed([f"{count:,} × {name}" for name, count in units.most_common()])
    return f"{counted(len(plan), 'stage')} on {used}."


def _stage_text(stage: Stage) -> str:
    """Return a stage's layers, hardware type and units as text.

    Non-consecutive layers of a graph are counted.
    """
    first, last = stage.first_layer, stage.last_layer
    layers = f"layer {first}" if first == last else f"layers {first}–{last}"
    if stage.layers is not None and len(stage.layers) <= last - first:
        layers = f"{len(stage.layers)} layers from {first} to {last}"
    return f"{layers} on {stage.units} × {stage.type}"
