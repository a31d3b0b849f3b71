"""What a plan of consolidation consists of: where each job runs."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer

from ...instances.common.fields import Flag, Model, Name, PositiveCount, Text
from ...instances.consolidation.devices import OnServers
from ...instances.consolidation.job import ONLY_GROUP, PlacementJob

Placed = dict[Name, PositiveCount]
Action = Literal["start", "keep", "move", "stop", "wait"]
Placement = dict[str, dict[str, int]]
"""Group name → server name → tasks."""


class JobPlacement(Model):
    """Where one job runs.

    Attributes
    ----------
    servers
        Server → number of tasks; for a job with several groups it is empty and `groups` says it for each.
    reason
        Why the job is not placed.
    action
        What the plan means for the job, where any job says where it runs now: `start` and `wait` for those
        that do not run, `keep`, `move` and `stop` for those that do.
    devices
        Group → server → what each task there holds of single devices; None where no task asks for any. The
        group of a job that has only one is called `tasks`.
    """

    job: Name
    placed: Flag = True
    servers: Placed = Field(default_factory=dict)
    groups: dict[Name, Placed] | None = None
    reason: Text | None = None
    action: Action | None = None
    devices: dict[Name, OnServers] | None = None

    @model_serializer(mode="wrap")
    def _as_before(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out devices where there are none, so that plans without them keep their form and hash."""
        data: dict[str, Any] = handler(self)
        if self.devices is None:
            data.pop("devices", None)
        return data

    @property
    def tasks(self) -> Placement:
        """Tasks by group and server."""
        if self.groups is not None:
            return self.groups
        return {ONLY_GROUP: self.servers} if self.servers else {}

    @property
    def used_servers(self) -> set[str]:
        """The servers that hold a task of the job."""
        return {server for placed in self.tasks.values() for server in placed}


def entry_of(job: PlacementJob, tasks: Placement) -> JobPlacement:
    """Return the plan entry of a job with these tasks; empty tasks mean that it is not placed."""
    filled = {g: {n: count for n, count in placed.items() if count} for g, placed in tasks.items()}
    if not any(filled.values()):
        return JobPlacement(job=job.name, placed=False)
    if job.groups is not None:
        return JobPlacement(job=job.name, groups=filled)
    return JobPlacement(job=job.name, servers=filled[ONLY_GROUP])
