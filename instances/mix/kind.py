"""Registration of mix instances: data model, builder, and a tiny example."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from ..common.kind import Builder, InstanceKind, Rows
from .generate import generate_mix
from .instance import MixInstance

MIX = InstanceKind(
    model=MixInstance,
    lists=("types", "hardware", "configurations"),
    tiny=lambda: generate_mix(2, 2, 3, load=4),
)


class Mix(Builder[MixInstance]):
    """Builds a mix instance: groups of jobs that share devices, or replicas that serve requests.

    ``Mix().add_requests("chat", 5).add_hardware("h100", 6.88).add_replica("h100", {"chat": 3.1})``

    Parameters
    ----------
    fields
        Other fields of `MixInstance`, such as `budget_usd_per_hour` or `must_run`.
    """

    KIND = MIX

    def __init__(self, name: str = "mix", **fields: Any) -> None:
        super().__init__(name, **fields)

    def add_jobs(self, name: str, count: int, **fields: Any) -> Self:
        """Add a type of job, of which there are so many, with other fields of `MixType`."""
        return self._add("types", {"name": name, "count": count, **fields})

    def add_requests(self, name: str, requests_per_s: float, **fields: Any) -> Self:
        """Add a type of request, with other fields of `MixType`."""
        return self._add("types", {"name": name, "requests_per_s": requests_per_s, **fields})

    def add_hardware(
        self, name: str, price_usd_per_hour: float | None = None, limit: int | None = None, **fields: Any
    ) -> Self:
        """Add a model of device, with other fields of `MixHardware`."""
        given = {"name": name, "price_usd_per_hour": price_usd_per_hour, "limit": limit}
        return self._add("hardware", {**given, **fields})

    def add_group(self, hardware: str, progress: Mapping[str, float], **fields: Any) -> Self:
        """Add a group of jobs, one of each type unless `jobs` says how many, with the progress of each."""
        given = {"hardware": hardware, "progress": progress, "jobs": dict.fromkeys(progress, 1)}
        return self._add("configurations", {**given, **fields})

    def add_replica(self, hardware: str, requests_per_s: Mapping[str, float], **fields: Any) -> Self:
        """Add a replica, with how many requests of each type it serves in a second, if only of that type."""
        given = {"hardware": hardware, "requests_per_s": requests_per_s}
        return self._add("configurations", {**given, **fields})

    def add_configurations(self, rows: Rows) -> Self:
        """Add configurations given as in a document."""
        return self._add_all("configurations", rows)
