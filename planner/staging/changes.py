"""What a plan of staging changes against another one: stages and units."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ...formulations.staging.plan import Stage
from ...instances.common.errors import OptionError
from ...instances.staging.instance import StagingInstance
from ..changes import Amount, Changes, changed
from ..reports.text import counted, listed


def changes(instance: StagingInstance, before: Sequence[Stage] | None, after: Sequence[Stage]) -> Changes:
    """Return what becomes different between two plans.

    Raises
    ------
    OptionError
        Without a plan before: an instance of staging does not say what runs now.
    """
    if before is None:
        raise OptionError("an instance of staging does not say what runs now; give two results to compare")
    old, new = ({f"stage {s}": _told(stage) for s, stage in enumerate(plan)} for plan in (before, after))
    found, stay = changed(old, new, "change")
    units = [Counter[str](), Counter[str]()]
    for count, plan in zip(units, (before, after), strict=True):
        for stage in plan:
            count[stage.type] += stage.units
    amounts = [
        Amount(f"units of {kind.name}", units[0][kind.name], units[1][kind.name], kind.limit)
        for kind in instance.types
        if units[0][kind.name] or units[1][kind.name]
    ]
    return Changes("stage", found, stay, 0, amounts)


def answer(instance: StagingInstance, plan: Sequence[Stage]) -> str:
    """Return what the plan consists of, in a sentence."""
    del instance
    units = Counter[str]()
    for stage in plan:
        units[stage.type] += stage.units
    used = listed([f"{count:,} × {name}" for name, count in units.most_common()])
    return f"{counted(len(plan), 'stage')} on {used}."


def _told(stage: Stage) -> str:
    """Return layers, type and units; layers of a graph that are not consecutive are counted."""
    first, last = stage.first_layer, stage.last_layer
    layers = f"layer {first}" if first == last else f"layers {first}–{last}"
    if stage.layers is not None and len(stage.layers) <= last - first:
        layers = f"{len(stage.layers)} layers from {first} to {last}"
    return f"{layers} on {stage.units} × {stage.type}"
