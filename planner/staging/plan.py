"""A plan of staging as a table and as plain data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...formulations.staging.plan import Stage
from ...instances.staging.instance import StagingInstance
from ..output.text import TextColumn


def columns(entries: Sequence[Stage]) -> list[TextColumn[Stage]]:
    """Return the columns of the table."""
    return [
        ("stage", True, lambda stage: str(entries.index(stage))),
        ("layers", False, lambda stage: f"{stage.first_layer}–{stage.last_layer}"),
        ("type", False, lambda stage: stage.type),
        ("units", True, lambda stage: str(stage.units)),
    ]


def as_data(instance: StagingInstance, plan: Sequence[Stage]) -> dict[str, Any]:
    """Return the stages with the names of their layers."""
    names = [layer.name for layer in instance.layers]
    return {
        "stages": [
            {**stage.model_dump(), "layers": names[stage.first_layer : stage.last_layer + 1]}
            for stage in plan
        ]
    }
