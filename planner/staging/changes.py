"""Changes of a staging: scenario changes of its data, and differences between two plans."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ...formulations.staging.stages import Stage
from ...instances.common.errors import OptionError
from ...instances.staging.instance import StagingInstance
from ..changes import Amount, Changes, ScenarioChange, changes_of, of_field, of_rows
from ..reports.text import counted, listed


def what_if(instance: StagingInstance) -> dict[str, ScenarioChange]:
    """Return the types of scenario change by key, such as `limit` or `budget`."""
    del instance
    return {
        "limit": of_rows("limit=TYPE:UNITS", "types", "type", "limit"),
        "price": of_rows("price=TYPE:USD_PER_HOUR", "types", "type", "price_usd_per_hour"),
        "floor": of_field("floor=SAMPLES_PER_S", "throughput_floor_samples_per_s"),
        "cost": of_field("cost=USD", "cost_limit_usd"),
        "budget": of_field("budget=USD_PER_HOUR", "hourly_budget_usd"),
    }


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
    units = [Counter[str](), Counter[str]()]
    for count, plan in zip(units, (before, after), strict=True):
        for stage in plan:
            count[stage.type] += stage.units
    amounts = [
        Amount(f"units of {kind.name}", units[0][kind.name], units[1][kind.name], kind.limit)
        for kind in instance.types
        if units[0][kind.name] or units[1][kind.name]
    ]
    return changes_of("stage", "change", old, new, amounts)


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
