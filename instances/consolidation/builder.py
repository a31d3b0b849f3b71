"""Builder of consolidation instances, one call for each server or job."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from ..common.kind import Builder, Rows
from .instance import ConsolidationInstance
from .kind import CONSOLIDATION


class Consolidation(Builder[ConsolidationInstance]):
    """Builds a consolidation instance.

    Parameters
    ----------
    fields
        Fields of `ConsolidationInstance`, such as `objectives`.
    """

    KIND = CONSOLIDATION

    def __init__(self, name: str = "consolidation", **fields: Any) -> None:
        super().__init__(name, **fields)

    def add_server(
        self,
        name: str,
        capacity: Mapping[str, float] | None = None,
        *,
        count: int | None = None,
        **fields: Any,
    ) -> Self:
        """Add a server, or `count` identical ones, with other fields of `Server` such as `gpu_model`."""
        return self._add("servers", {"name": name, "capacity": capacity, "count": count, **fields})

    def add_servers(self, rows: Rows) -> Self:
        """Add servers given as in a document."""
        return self._add_all("servers", rows)

    def add_job(
        self,
        name: str,
        tasks: int | None = None,
        task_demand: Mapping[str, float] | None = None,
        **fields: Any,
    ) -> Self:
        """Add a job of identical tasks, with other fields of `PlacementJob` such as `value` or `groups`."""
        return self._add("jobs", {"name": name, "tasks": tasks, "task_demand": task_demand, **fields})

    def add_jobs(self, rows: Rows) -> Self:
        """Add jobs given as in a document."""
        return self._add_all("jobs", rows)
