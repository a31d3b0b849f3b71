"""What a plan of consolidation consists of: where each job runs."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from ...instances.common.fields import Flag, Model, Name, PositiveCount, Text
from ...instances.consolidation.instance import ONLY_GROUP, PlacementJob

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
    """

    job: Name
    placed: Flag = True
    servers: Placed = Field(default_factory=dict)
    groups: dict[Name, Placed] | None = None
    reason: Text | None = None
    action: Action | None = None

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
