"""Why a job is left out whose tasks ask for single devices."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import cached_property

from ....instances.consolidation.devices import Device, occupied
from ....instances.consolidation.job import Group, PlacementJob
from ..cluster_data import ClusterData
from ..explain import Reasons
from ..fewest_servers import tasks_that_fit
from ..plan import JobPlacement
from .fewest import instances_of

ROOM = "left out although there is room"
"""How a reason begins where the sum of the devices leaves room."""
APART = "waits: beside the placed jobs no single devices hold its tasks, though their sum would"


class DeviceReasons(Reasons):
    """Says why jobs wait: by what the sum of the devices leaves, then by single devices.

    Parameters
    ----------
    data, relaxed
        The instance, and its pooled relaxation.
    """

    def __init__(self, data: ClusterData, relaxed: ClusterData, plan: Sequence[JobPlacement]) -> None:
        super().__init__(relaxed, plan)
        self.on_devices = data

    def _beside(self, job: PlacementJob) -> str:
        reason = super()._beside(job)
        asked = self.on_devices.jobs[job.name]
        if not reason.startswith(ROOM) or all(self._holds(asked, group) for group in asked.task_groups):
            return reason
        return APART

    def _holds(self, job: PlacementJob, group: Group) -> bool:
        """Return whether what the plan leaves holds all tasks of one group, were it alone."""
        left = group.tasks
        for server in self.on_devices.eligible(job):
            amounts, states = self._after[server.name]
            fit = tasks_that_fit(amounts, group.demand, left)
            for name, ask in group.asks.items():
                devices = (server.devices or {}).get(name)
                fit = min(fit, instances_of(ask, devices, states[name]) if devices is not None else 0)
            left -= fit
            if left <= 0:
                return True
        return False

    @cached_property
    def _after(self) -> dict[str, tuple[dict[str, float], dict[str, list[Device]]]]:
        """What the plan leaves of the resources of each server, and the states of its devices."""
        found = {
            name: (defaultdict(float, server.available), {k: [*v] for k, v in server.device_states.items()})
            for name, server in self.on_devices.servers.items()
        }
        for entry in self.plan:
            for group in self.on_devices.jobs[entry.job].task_groups:
                for server, count in entry.tasks.get(group.name, {}).items():
                    for resource, amount in group.demand.items():
                        found[server][0][resource] -= count * amount
                for server, tasks in (entry.devices or {}).get(group.name, {}).items():
                    had = self.on_devices.servers[server].devices or {}
                    for name, places in (pair for held in tasks for pair in held.items()):
                        states, geometry = found[server][1][name], had[name].partitions
                        after = occupied(states, geometry, group.asks[name], places)
                        found[server][1][name] = states if after is None else after
        return {name: (dict(amounts), states) for name, (amounts, states) in found.items()}
