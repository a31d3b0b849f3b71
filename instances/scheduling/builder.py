"""Builder of scheduling instances, one call for each server, event or job."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from ..common.kind import Builder, Rows
from .instance import SchedulingInstance
from .kind import SCHEDULING


class Scheduling(Builder[SchedulingInstance]):
    """Builds a scheduling instance: ``Scheduling(gpu=8).add_job("bert", {"gpu": 4}, 7200, arrival_s=60)``.

    Parameters
    ----------
    name, objective, preemption, restart_s, lease_s, evict, checkpoint_s, skew_threshold, tenant_shares
        Fields of `SchedulingInstance`.
    resources
        Amount of each resource of the cluster as one pool; none if servers are added.
    """

    KIND = SCHEDULING

    def __init__(
        self,
        name: str = "scheduling",
        *,
        objective: str | None = None,
        preemption: str | None = None,
        restart_s: float | None = None,
        lease_s: float | None = None,
        evict: str | None = None,
        checkpoint_s: float | None = None,
        skew_threshold: float | None = None,
        tenant_shares: Mapping[str, float] | None = None,
        **resources: float,
    ) -> None:
        super().__init__(
            name,
            objective=objective,
            preemption=preemption,
            restart_s=restart_s,
            lease_s=lease_s,
            evict=evict,
            checkpoint_s=checkpoint_s,
            skew_threshold=skew_threshold,
            tenant_shares=tenant_shares,
            resources=resources,
        )
        self._lists |= {"servers": [], "events": []}

    def add_server(
        self, name: str, capacity: Mapping[str, float], *, count: int | None = None, rack: str | None = None
    ) -> Self:
        """Add a server, or `count` identical ones, in place of resources as one pool."""
        return self._add("servers", {"name": name, "capacity": capacity, "count": count, "rack": rack})

    def add_event(self, at_s: float, **fields: Any) -> Self:
        """Add an event of the cluster, with fields of `ClusterEvent`: `change`, `fails`, …."""
        return self._add("events", {"at_s": at_s, **fields})

    def add_job(
        self,
        name: str,
        demand: Mapping[str, float] | None = None,
        duration_s: float | None = None,
        *,
        arrival_s: float | None = None,
        **fields: Any,
    ) -> Self:
        """Add a job: rigid with a duration, malleable with `work` and `speeds` or `variants`.

        Parameters
        ----------
        demand
            Demand of one task for each resource.
        fields
            Other fields of `SchedulingJob`, such as `tasks`, `weight` or `tenant`.
        """
        given = {"name": name, "demand": demand, "duration_s": duration_s, "arrival_s": arrival_s}
        return self._add("jobs", {**given, **fields})

    def add_jobs(self, rows: Rows) -> Self:
        """Add jobs given as in a document."""
        return self._add_all("jobs", rows)
