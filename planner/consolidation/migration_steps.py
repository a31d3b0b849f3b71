"""What scripts have to know of a consolidation plan: where jobs run, and whether single devices have room."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence, Set

from ...formulations.common.objective import within
from ...formulations.consolidation.cluster_data import ClusterData
from ...formulations.consolidation.formulation import freed_units
from ...formulations.consolidation.plan import Action, JobPlacement, Plan
from ...instances.common.errors import TooLargeError, some
from ...instances.consolidation.devices import WHOLE, DeviceDemand, HeldDevices, pack, states_after
from ...instances.consolidation.instance import ConsolidationInstance, Server
from ...instances.consolidation.job import PlacementJob
from ..migration.steps import Fits, Held, Migration, MovingJob
from .plan import named_jobs, tasks_now


def action_in(entry: JobPlacement) -> Action:
    """Return the action of a plan entry; `start` or `wait` if none is set."""
    return entry.action or ("start" if entry.placed else "wait")


def migration_of(instance: ConsolidationInstance, entries: Plan) -> Migration:
    """Return what a script has to know of all entries of a plan."""
    jobs = named_jobs(instance)
    return Migration(
        title=instance.name,
        name=f"plan-{instance.sha256()[:12]}",
        jobs=[_moving_job(instance, jobs[entry.job], entry) for entry in entries],
        fits=_fits_of(instance),
        emptied=emptied_servers(instance, entries),
        notes=list(not_planned_notes(instance, entries)),
        stay=[job.name for job in instance.jobs if instance.stays(job)],
        instead="; --format slurm-options writes options of sbatch",
    )


NEVER_FITS = "never fits"
"""Beginning of the reason of a job that fits on no server."""


def _moving_job(instance: ConsolidationInstance, job: PlacementJob, entry: JobPlacement) -> MovingJob:
    groups = job.task_groups
    known = {group.name: group.current_devices for group in groups if group.current_devices}
    others = any((entry.devices or {}).get(name) != devices for name, devices in known.items())
    gpus = sum(g.tasks * (g.demand.get("gpu", 0.0) + g.gpu_thousandths / WHOLE) for g in groups)
    never = (entry.reason or "").startswith(NEVER_FITS)
    return MovingJob(
        name=job.name,
        action=action_in(entry),
        now=tasks_now(job),
        planned=entry.tasks,
        groups=[group.name for group in groups],
        size=(gpus, sum(group.tasks for group in groups)),
        workload=job.workload,
        gives_way=action_in(entry) == "keep" and others,
        never_starts=never and not _may_start_in_part(instance, job),
        holds_devices=bool(entry.devices),
    )


def _may_start_in_part(instance: ConsolidationInstance, job: PlacementJob) -> bool:
    """Return whether a single task of a job has room on an empty server, of whatever GPU model."""
    return any(
        all(server.capacity.get(name, 0.0) >= amount for name, amount in group.demand.items())
        for group in job.task_groups
        for server in instance.servers
    )


def emptied_servers(instance: ConsolidationInstance, entries: Plan) -> list[str]:
    """Return the names of the servers that a plan empties on purpose: those drained, and those freed."""
    names = set(instance.drained)
    if instance.free is not None:
        data = ClusterData(instance)
        names |= {server for unit in freed_units(data, entries) for server in data.releasable[unit]}
    return sorted(names)


def not_planned_notes(instance: ConsolidationInstance, entries: Plan) -> Iterator[str]:
    """Yield a note on each server that is to be empty, on which something runs that is not planned."""
    emptied = {*emptied_servers(instance, entries)}
    for server in instance.expanded_servers if any(server.others for server in instance.servers) else ():
        if server.others and (server.name in emptied or not any(server.available.values())):
            yield (
                f"still on {server.name}, not planned: {some(server.others)}; it is empty when these have "
                "ended, or were moved"
            )


def _fits_of(instance: ConsolidationInstance) -> Fits:
    """Return the function that says whether a server has room for tasks."""
    data = ClusterData(instance)

    def fits(name: str, held: Held, moved: Set[str], unsettled: Set[str]) -> bool:
        """Return whether a server has capacity for its tasks; tasks on unknown devices may use any."""
        server = data.servers[name]
        used: dict[str, list[float]] = defaultdict(list)
        asked: dict[str, list[tuple[DeviceDemand, HeldDevices | None]]] = defaultdict(list)
        for (job, label), count in held.items():
            group = data.groups[job, label]
            for resource, amount in group.demand.items():
                used[resource].append(count * amount)
            known = () if job in moved else (group.current_devices or {}).get(name, ())
            for device, ask in group.asks.items():
                # A cluster manager chooses the devices of what it starts.
                places = [task.get(device) for task in known] or [None] * count
                asked[device] += [(ask, place) for place in places]
        if not all(within(math.fsum(each), server.available.get(key, 0.0)) for key, each in used.items()):
            return False
        try:
            return all(_fits_devices(server, key, tasks) for key, tasks in asked.items())
        except (TooLargeError, RecursionError):
            # The check of the plan has found room once all are in their places.
            return unsettled.isdisjoint(job for job, _ in held)

    return fits


def _fits_devices(
    server: Server, name: str, tasks: Sequence[tuple[DeviceDemand, HeldDevices | None]]
) -> bool:
    """Return whether a server's devices of one name can hold tasks, some of them on given devices."""
    devices = (server.devices or {}).get(name)
    if devices is None:
        return False
    left = list(server.device_states[name])
    for ask, place in tasks:
        if place is not None:
            after = states_after(left, devices.partitions, ask, place)
            if after is None:
                return False
            left = after
    return pack(left, devices.partitions, [ask for ask, place in tasks if place is None]) is not None
