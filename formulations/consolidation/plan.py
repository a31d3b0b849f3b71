"""The plan of a consolidation instance: servers and devices of each job, and the constraints on devices.

A plan has the number of tasks of each group on each server; the devices of each task are derived from it.
Every task holds the devices that it requests, and no other task holds the same device, share or partition.
Tasks of running jobs that stay keep their server and, where moves between devices count, their devices.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from ...instances.common.errors import TooLargeError, some
from ...instances.common.fields import Flag, Name, PositiveCount, Text
from ...instances.consolidation.devices import (
    WHOLE,
    DeviceDemand,
    DeviceSlot,
    HeldDevices,
    OnServers,
    TaskDevices,
    demand_mismatch,
    pack,
    states_after,
)
from ...instances.consolidation.instance import Server
from ...instances.consolidation.job import ONLY_GROUP, Group, PlacementJob
from ..common.formulation import PlanEntry
from ..common.objective import Violation

Placed = dict[Name, PositiveCount]
Action = Literal["start", "keep", "move", "stop", "wait"]
Placement = dict[str, dict[str, int]]
"""Group name → server name → tasks."""


class JobPlacement(PlanEntry):
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

    omitted = "devices"

    job: Name
    placed: Flag = True
    servers: Placed = Field(default_factory=dict)
    groups: dict[Name, Placed] | None = None
    reason: Text | None = None
    action: Action | None = None
    devices: dict[Name, OnServers] | None = None

    @property
    def tasks(self) -> Placement:
        """Number of tasks of the job, by task group and server."""
        if self.groups is not None:
            return self.groups
        return {ONLY_GROUP: self.servers} if self.servers else {}

    @property
    def used_servers(self) -> set[str]:
        """Names of the servers that hold a task of the job."""
        return {server for placed in self.tasks.values() for server in placed}


JobsByName = Mapping[str, PlacementJob]
ServersByName = Mapping[str, Server]
Plan = Sequence[JobPlacement]
"""The entries of a plan, or some of them."""


def placed_tasks(
    jobs: JobsByName, plan: Iterable[JobPlacement]
) -> Iterator[tuple[JobPlacement, Group, str, int]]:
    """Yield entry, group, server and number of the tasks of a plan, for each server that holds some."""
    for entry in plan:
        for group in jobs[entry.job].task_groups:
            for server, count in entry.tasks.get(group.name, {}).items():
                yield entry, group, server, count


def entry_of(job: PlacementJob, tasks: Placement) -> JobPlacement:
    """Return the plan entry of a job from its tasks by task group and server; not placed without tasks."""
    filled = {g: {n: count for n, count in placed.items() if count} for g, placed in tasks.items()}
    if not any(filled.values()):
        return JobPlacement(job=job.name, placed=False)
    if job.groups is not None:
        return JobPlacement(job=job.name, groups=filled)
    return JobPlacement(job=job.name, servers=filled[ONLY_GROUP])


DeviceAssignment = frozenset[tuple[str, HeldDevices]]
"""Device assignment of one task: name of the devices, and their indices in rising order."""


def canonical_assignment(task: TaskDevices) -> DeviceAssignment:
    """Return the devices that a task holds in canonical (hashable, sorted) form."""
    return frozenset(
        (name, at if isinstance(at, DeviceSlot) else tuple(sorted(at))) for name, at in task.items()
    )


def staying_tasks(group: Group, entry: JobPlacement, device_moves: bool | None) -> int:
    """Return the number of tasks of a task group that keep their server and, if it counts, their devices.

    Parameters
    ----------
    device_moves
        Whether a task on other devices of its server has moved, where its current devices are known.
    """
    placed, total = entry.tasks.get(group.name, {}), 0
    for server, count in group.current.items():
        now = (group.current_devices or {}).get(server) if device_moves and group.asks else None
        if now is None:
            # Tasks of a group are interchangeable: as many as are still there have not moved.
            total += min(count, placed.get(server, 0))
        else:
            devices = (entry.devices or {}).get(group.name, {}).get(server, ())
            total += (
                Counter(map(canonical_assignment, now)) & Counter(map(canonical_assignment, devices))
            ).total()
    return total


MAX_TRIES = 500
"""Limit on the sets of tasks of one server that are tested for keeping their current devices."""

KeptDevices = tuple[int, TaskDevices]
"""A running task that may keep its devices: number of its group on the server, and its devices."""


@dataclass(frozen=True)
class _GroupOnServer:
    """The tasks of one task group of a job on one server."""

    job: str
    group: Group
    count: int


def assign_devices(jobs: JobsByName, servers: ServersByName, plan: Plan) -> list[JobPlacement] | None:
    """Return the plan with the devices of each task; None if the devices of a server do not suffice.

    As many tasks as possible keep their current devices, among a limited number of sets of tasks.

    Raises
    ------
    TooLargeError
        If the search for the devices of a server takes too long.
    """
    by_server: dict[str, list[_GroupOnServer]] = defaultdict(list)
    for entry, group, server, count in placed_tasks(jobs, plan):
        if group.asks:
            by_server[server].append(_GroupOnServer(entry.job, group, count))
    named: dict[str, dict[str, dict[str, tuple[TaskDevices, ...]]]] = defaultdict(lambda: defaultdict(dict))
    for name, groups in by_server.items():
        assignment = _DeviceAssignmentSearch(servers[name], groups).most_kept()
        if assignment is None:
            return None
        for tasks, places in zip(groups, assignment, strict=True):
            named[tasks.job][tasks.group.name][name] = tuple(places)
    return [
        entry.model_copy(update={"devices": dict(named[entry.job]) if entry.job in named else None})
        for entry in plan
    ]


class _DeviceAssignmentSearch:
    """Search for a device assignment on one server in which most tasks keep their current devices."""

    def __init__(self, server: Server, groups: Sequence[_GroupOnServer]) -> None:
        self.server, self.groups = server, groups
        self.tries = 0

    def most_kept(self) -> list[list[TaskDevices]] | None:
        """Return the devices of each task, by task group, with as many as possible kept; None if infeasible.

        Tasks that keep their devices come first. The search tries to keep the devices of all tasks, then adds
        one task at a time, then enumerates larger sets depth first.
        """
        # The current devices of the running tasks; none where they are unknown.
        now = [(tasks.group.current_devices or {}).get(self.server.name, ()) for tasks in self.groups]
        first = [(g, devices) for g, tasks in enumerate(self.groups) for devices in now[g][: tasks.count]]
        assignment = self._assignment(first)
        if assignment is not None or not first:
            return assignment
        without_stays = self._assignment(())
        if without_stays is None:
            return None
        kept: tuple[KeptDevices, ...] = ()
        self.best: tuple[int, list[list[TaskDevices]]] = 0, without_stays
        stays = [(g, devices) for g, listed in enumerate(now) for devices in listed]
        for stay in stays:
            assignment = self._assignment((*kept, stay))
            if assignment is not None:
                kept = (*kept, stay)
                self.best = len(kept), assignment
        if len(kept) < len(first):
            self._search(stays, ())
        return self.best[1]

    def _search(self, stays: Sequence[KeptDevices], kept: tuple[KeptDevices, ...]) -> None:
        """Search depth first for a larger set of tasks that keep their devices; the result is `best`."""
        if not stays or len(kept) + len(stays) <= self.best[0] or self.tries > MAX_TRIES:
            return
        self.tries += 1
        assignment = self._assignment((*kept, stays[0]))
        if assignment is not None:
            if len(kept) + 1 > self.best[0]:
                self.best = len(kept) + 1, assignment
            self._search(stays[1:], (*kept, stays[0]))
        self._search(stays[1:], kept)

    def _assignment(self, kept: Sequence[KeptDevices]) -> list[list[TaskDevices]] | None:
        """Return the devices of each task if the tasks `kept` keep theirs; None if that is infeasible."""
        keeping = Counter(g for g, _ in kept)
        if any(count > self.groups[g].count for g, count in keeping.items()):
            return None
        assigned: list[list[TaskDevices]] = [[] for _ in self.groups]
        for g, places in kept:
            assigned[g].append(places)
        rest: list[list[dict[str, HeldDevices]]] = [
            [{} for _ in range(tasks.count - keeping[g])] for g, tasks in enumerate(self.groups)
        ]
        for name in dict.fromkeys(name for tasks in self.groups for name in tasks.group.asks):
            devices = (self.server.devices or {}).get(name)
            if devices is None:
                return None
            states = [*self.server.device_states[name]]
            asking = [
                (g, tasks.group.asks[name]) for g, tasks in enumerate(self.groups) if name in tasks.group.asks
            ]
            for g, ask in asking:
                for places in assigned[g]:
                    after = states_after(states, devices.partitions, ask, places[name])
                    if after is None:
                        return None
                    states = after
            packed = pack(states, devices.partitions, [ask for g, ask in asking for _ in rest[g]])
            if packed is None:
                return None
            for task, place in zip((task for g, _ in asking for task in rest[g]), packed, strict=True):
                task[name] = place
        return [[*before, *after] for before, after in zip(assigned, rest, strict=True)]


def keep_current_devices(jobs: JobsByName, servers: ServersByName, plan: Plan) -> Plan:
    """Reassign the devices of a plan so that as many tasks as possible keep their current ones."""
    if not any(group.current_devices for job in jobs.values() for group in job.task_groups):
        return plan
    try:
        named = assign_devices(jobs, servers, plan)
    except TooLargeError:
        return plan
    return plan if named is None or _staying_total(jobs, named) < _staying_total(jobs, plan) else named


def _staying_total(jobs: JobsByName, plan: Plan) -> int:
    """Return the number of tasks of a plan that keep their current server and devices."""
    return sum(staying_tasks(group, entry, True) for entry in plan for group in jobs[entry.job].task_groups)


def without_devices(plan: Plan) -> list[JobPlacement]:
    """Return the plan without device assignments, as a plan of the pooled relaxation."""
    return [entry.model_copy(update={"devices": None}) for entry in plan]


TasksByDevice = dict[tuple[str, str, int], list[tuple[str, DeviceDemand, HeldDevices]]]
"""Server, name and index of a device → job, its request, and the devices that it holds."""


def device_violations(jobs: JobsByName, servers: ServersByName, plan: Plan) -> list[Violation]:
    """Return every violation of the constraints on devices by a plan that is otherwise feasible."""
    violations: list[Violation] = []
    holdings: TasksByDevice = defaultdict(list)
    for entry in plan:
        job = jobs[entry.job]
        named = entry.devices or {}
        groups = {group.name: group for group in job.task_groups}
        for name in named.keys() - groups.keys():
            violations.append(Violation("devices", f"job {job.name!r} has no group {name!r}"))
        for name, group in groups.items():
            tasks_by_server = entry.tasks.get(name, {})
            violations += _task_violations(
                job.name, group, tasks_by_server, named.get(name, {}), servers, holdings
            )
    return violations or list(_device_conflicts(servers, holdings))


def _task_violations(
    job: str,
    group: Group,
    tasks_by_server: Mapping[str, int],
    named: Mapping[str, Sequence[Mapping[str, HeldDevices]]],
    servers: ServersByName,
    holdings: TasksByDevice,
) -> Iterator[Violation]:
    """Yield the violations by single tasks of a task group; add valid assignments to `holdings`."""
    for server in named.keys() - tasks_by_server.keys():
        yield Violation("devices", f"job {job!r} holds devices of {server!r}, where it has no task")
    for server, count in tasks_by_server.items():
        tasks = named.get(server, ())
        wanted = count if group.asks else 0
        if len(tasks) != wanted:
            what = f"job {job!r} names devices of {len(tasks)} tasks on {server!r}, not of {wanted}"
            yield Violation("devices", what)
            continue
        for assignment in tasks:
            for name in group.asks.keys() | assignment.keys():
                if name not in assignment:
                    yield Violation("devices", f"job {job!r}: a task on {server!r} holds no {name}")
                    continue
                ask, places = group.asks.get(name), assignment[name]
                fault = demand_mismatch(ask, places) or _missing_device_text(
                    servers[server], name, ask, places
                )
                if fault is not None:
                    yield Violation("devices", f"job {job!r}: {name} of a task on {server!r} {fault}")
                elif ask is not None:
                    indices = [places.device] if isinstance(places, DeviceSlot) else places
                    for index in indices:
                        holdings[server, name, index].append((job, ask, places))


def _missing_device_text(
    server: Server, name: str, ask: DeviceDemand | None, places: HeldDevices
) -> str | None:
    """Return why the requested devices do not exist on the server; None if they do."""
    devices = (server.devices or {}).get(name)
    if devices is None:
        return "is none that the server has"
    indices = [places.device] if isinstance(places, DeviceSlot) else places
    if max(indices) >= devices.count:
        return f"is device {max(indices)}; the server has {devices.count}, from 0 on"
    if isinstance(places, DeviceSlot) and ask is not None:
        profiles = devices.profiles
        if ask.profile not in profiles:
            return f"is a {ask.profile}, which its devices do not have"
        if places.slot not in profiles[ask.profile].starts:
            return f"starts at slot {places.slot}, where no {ask.profile} may start"
    return None


def _device_conflicts(servers: ServersByName, holdings: TasksByDevice) -> Iterator[Violation]:
    """Yield a violation for each device whose tasks exceed it or exclude each other."""
    for (server, name, index), holders in holdings.items():
        fault = _conflict_text(servers[server], name, index, holders)
        if fault is not None:
            who = some((repr(job) for job, _, _ in holders), 4)
            yield Violation(f"{name} {index} of server {server}", f"{fault}: {who}")


def _conflict_text(
    server: Server, name: str, index: int, holders: Sequence[tuple[str, DeviceDemand, HeldDevices]]
) -> str | None:
    """Return why one device cannot hold its tasks together; None if it can."""
    others = server.device_states[name][index]
    modes = {"whole" if ask.whole else "shared" if ask.share else "parted" for _, ask, _ in holders}
    if others.mode != "free":
        modes.add(others.mode)
    if len(modes) > 1:
        return f"a device is one of whole, shared and partitioned, not {' and '.join(sorted(modes))}"
    if modes == {"whole"} and len(holders) + (others.mode == "whole") > 1:
        return "a whole device is held twice"
    if modes == {"shared"}:
        total = others.used + sum(ask.share for _, ask, _ in holders)
        if total > WHOLE:
            return f"shares of {total} thousandths are more than one device"
    if modes == {"parted"}:
        geometry = (server.devices or {})[name].partitions
        occupied_slots = others.used
        for _, ask, place in holders:
            assert geometry is not None
            assert isinstance(place, DeviceSlot)
            mask = geometry.profiles[ask.profile].mask(place.slot)
            if occupied_slots & mask:
                return "partitions overlap"
            occupied_slots |= mask
    return None
