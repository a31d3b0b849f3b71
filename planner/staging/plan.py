"""A plan of staging as a table and as plain data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...formulations.staging.plan import Stage
from ...instances.staging.instance import StagingInstance
from ..kind import Columns


def columns(entries: Sequence[Stage]) -> Columns:
    """Return the columns of the table."""
    del entries
    return [("stage", True), ("layers", False), ("type", False), ("units", True)]


def rows(entries: Sequence[Stage]) -> list[list[str]]:
    """Return the cells of the table."""
    return [
        [str(index), f"{stage.first_layer}–{stage.last_layer}", stage.type, str(stage.units)]
        for index, stage in enumerate(entries)
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
