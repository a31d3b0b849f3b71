"""A plan of staging as a table and as plain data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...formulations.staging.plan import Stage
from ...instances.staging.instance import StagingInstance
from ..output.text import TextColumn

MOST_RANGES = 6
"""Of the layers of a stage of a graph that a table shows."""


def layers_of(stage: Stage) -> str:
    """Return the layers of a stage as ranges, such as ``0–3``, or ``0–3, 7`` in a graph."""
    if stage.layers is None:
        return f"{stage.first_layer}–{stage.last_layer}"
    ranges: list[list[int]] = []
    for layer in stage.layers:
        if ranges and layer == ranges[-1][1] + 1:
            ranges[-1][1] = layer
        else:
            ranges.append([layer, layer])
    shown = [str(first) if first == last else f"{first}–{last}" for first, last in ranges[:MOST_RANGES]]
    return ", ".join(shown) + (f" … ({len(stage.layers)} layers)" if len(ranges) > MOST_RANGES else "")


def columns(entries: Sequence[Stage]) -> list[TextColumn[Stage]]:
    """Return the columns of the table."""
    return [
        ("stage", True, lambda stage: str(entries.index(stage))),
        ("layers", False, layers_of),
        ("type", False, lambda stage: stage.type),
        ("units", True, lambda stage: str(stage.units)),
    ]


def as_data(instance: StagingInstance, plan: Sequence[Stage]) -> dict[str, Any]:
    """Return the stages with the names of their layers."""
    names = [layer.name for layer in instance.layers]
    return {
        "stages": [
            {**stage.model_dump(), "layers": [names[layer] for layer in stage.members]} for stage in plan
        ]
    }
