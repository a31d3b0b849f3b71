"""The plan of a consolidation: on which servers and devices each job runs, and the rules for named devices.

A plan says how many tasks stand on each server; from that, devices are chosen that each task holds. Every
task holds what it asks for, and no other task holds the same device, share or partition. Tasks of running
jobs that stay keep their server and, where moves between devices count, their devices.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer

from ...instances.common.errors import TooLargeError
from ...instances.common.fields import Flag, Model, Name, PositiveCount, Text
from ...instances.consolidation.devices import (
    WHOLE,
    DeviceDemand,
    Devices,
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
from ..common.objective import Violation

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


Holding = frozenset[tuple[str, HeldDevices]]
"""What one task holds: name of devices, and which ones in rising order."""


def holding(task: TaskDevices) -> Holding:
    """Return what a task holds in one way of writing it."""
    return frozenset(
        (name, at if isinstance(at, DeviceSlot) else tuple(sorted(at))) for name, at in task.items()
    )


def staying(group: Group, entry: JobPlacement, device_moves: bool | None) -> int:
    """Return how many tasks of a group are where they are now.

    Parameters
    ----------
    device_moves
        Whether a task has moved that is on other devices of its server, where it is said which it holds now.
    """
    placed, total = entry.tasks.get(group.name, {}), 0
    for server, count in group.current.items():
        now = (group.current_devices or {}).get(server) if device_moves and group.asks else None
        if now is None:
            # Tasks of a group are interchangeable: as many as are still there have not moved.
            total += min(count, placed.get(server, 0))
        else:
            held = (entry.devices or {}).get(group.name, {}).get(server, ())
            total += (Counter(map(holding, now)) & Counter(map(holding, held))).total()
    return total


MOST_TRIES = 500
"""Sets of tasks of one server of which it is tried whether all can hold what they hold now."""

Stay = tuple[int, TaskDevices]
"""A task that holds now what it may keep: its group on the server, and what it holds."""


@dataclass(frozen=True)
class _Tasks:
    """Tasks of one group on one server; `position` is that of the job in the plan."""

    position: int
    group: Group
    count: int

    def now(self, server: str) -> tuple[TaskDevices, ...]:
        """Return what tasks of the group hold now on the server, where that is said."""
        return (self.group.current_devices or {}).get(server, ())


def with_devices(
    jobs: Mapping[str, PlacementJob], servers: Mapping[str, Server], plan: Sequence[JobPlacement]
) -> list[JobPlacement] | None:
    """Return the plan with the devices of each task; None if some server's devices do not hold its tasks.

    As many tasks as possible hold what they hold now on their server, among `MOST_TRIES` sets of tasks.

    Raises
    ------
    TooLargeError
        If the search for the devices of a server takes too long.
    """
    there: dict[str, list[_Tasks]] = defaultdict(list)
    for position, entry in enumerate(plan):
        for group in jobs[entry.job].task_groups:
            for server, count in entry.tasks.get(group.name, {}).items():
                if group.asks:
                    there[server].append(_Tasks(position, group, count))
    named: dict[int, dict[str, dict[str, tuple[TaskDevices, ...]]]] = defaultdict(lambda: defaultdict(dict))
    for name, groups in there.items():
        held = _OnServer(servers[name], groups).most_kept()
        if held is None:
            return None
        for tasks, places in zip(groups, held, strict=True):
            named[tasks.position][tasks.group.name][name] = tuple(places)
    return [
        entry.model_copy(update={"devices": dict(named[position]) if position in named else None})
        for position, entry in enumerate(plan)
    ]


class _OnServer:
    """The tasks on one server, and which of them hold what they hold now."""

    def __init__(self, server: Server, groups: Sequence[_Tasks]) -> None:
        self.server, self.groups = server, groups
        self.tries = 0
        self.best: tuple[int, list[list[TaskDevices]]] = 0, []

    def most_kept(self) -> list[list[TaskDevices]] | None:
        """Return what each task of each group holds, with as many as it can be that keep what they hold.

        Tasks that keep theirs come first. First all are to keep theirs, then one more at a time, then depth
        first whatever could be more.
        """
        now = [tasks.now(self.server.name) for tasks in self.groups]
        first = [(g, held) for g, tasks in enumerate(self.groups) for held in now[g][: tasks.count]]
        found = self._with(first)
        if found is not None or not first:
            return found
        none = self._with(())
        if none is None:
            return None
        kept: tuple[Stay, ...] = ()
        self.best = 0, none
        stays = [(g, held) for g, listed in enumerate(now) for held in listed]
        for stay in stays:
            found = self._with((*kept, stay))
            if found is not None:
                kept = (*kept, stay)
                self.best = len(kept), found
        if len(kept) < len(first):
            self._search(stays, ())
        return self.best[1]

    def _search(self, stays: Sequence[Stay], kept: tuple[Stay, ...]) -> None:
        """Look for more tasks that keep what they hold, with or without the first of these."""
        if not stays or len(kept) + len(stays) <= self.best[0] or self.tries > MOST_TRIES:
            return
        self.tries += 1
        found = self._with((*kept, stays[0]))
        if found is not None:
            if len(kept) + 1 > self.best[0]:
                self.best = len(kept) + 1, found
            self._search(stays[1:], (*kept, stays[0]))
        self._search(stays[1:], kept)

    def _with(self, kept: Sequence[Stay]) -> list[list[TaskDevices]] | None:
        """Return what each task holds if some keep what they hold now; None if that cannot be."""
        keeping = Counter(g for g, _ in kept)
        if any(count > self.groups[g].count for g, count in keeping.items()):
            return None
        held: list[list[TaskDevices]] = [[] for _ in self.groups]
        for g, places in kept:
            held[g].append(places)
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
                for places in held[g]:
                    after = states_after(states, devices.partitions, ask, places[name])
                    if after is None:
                        return None
                    states = after
            packed = pack(states, devices.partitions, [ask for g, ask in asking for _ in rest[g]])
            if packed is None:
                return None
            for task, place in zip((task for g, _ in asking for task in rest[g]), packed, strict=True):
                task[name] = place
        return [[*before, *after] for before, after in zip(held, rest, strict=True)]


def kept_in_place(
    jobs: Mapping[str, PlacementJob], servers: Mapping[str, Server], plan: Sequence[JobPlacement]
) -> Sequence[JobPlacement]:
    """Return a feasible plan in which tasks keep the devices that they hold now, as far as it was said."""
    if not any(group.current_devices for job in jobs.values() for group in job.task_groups):
        return plan
    try:
        named = with_devices(jobs, servers, plan)
    except TooLargeError:
        return plan
    return plan if named is None or _stay(jobs, named) < _stay(jobs, plan) else named


def _stay(jobs: Mapping[str, PlacementJob], plan: Sequence[JobPlacement]) -> int:
    """Return how many tasks hold what they hold now."""
    return sum(staying(group, entry, True) for entry in plan for group in jobs[entry.job].task_groups)


def without_devices(plan: Sequence[JobPlacement]) -> list[JobPlacement]:
    """Return the plan as one of the pooled relaxation."""
    return [entry.model_copy(update={"devices": None}) for entry in plan]


Holdings = dict[tuple[str, str, int], list[tuple[str, DeviceDemand, HeldDevices]]]
"""Server, name and index of a device → job, what it asks for, and what it holds."""


def device_violations(
    jobs: Mapping[str, PlacementJob], servers: Mapping[str, Server], plan: Sequence[JobPlacement]
) -> list[Violation]:
    """Return every rule of devices that a plan breaks whose tasks stand on servers as they should."""
    found: list[Violation] = []
    holdings: Holdings = defaultdict(list)
    for entry in plan:
        job = jobs[entry.job]
        named = entry.devices or {}
        groups = {group.name: group for group in job.task_groups}
        for name in named.keys() - groups.keys():
            found.append(Violation("devices", f"job {job.name!r} has no group {name!r}"))
        for name, group in groups.items():
            there = entry.tasks.get(name, {})
            found += _task_violations(job.name, group, there, named.get(name, {}), servers, holdings)
    return found or list(_shared_wrongly(servers, holdings))


def _task_violations(
    job: str,
    group: Group,
    there: Mapping[str, int],
    named: Mapping[str, Sequence[Mapping[str, HeldDevices]]],
    servers: Mapping[str, Server],
    holdings: Holdings,
) -> Iterator[Violation]:
    """Yield what is wrong with what single tasks hold, and note the rest in the holdings."""
    for server in named.keys() - there.keys():
        yield Violation("devices", f"job {job!r} holds devices of {server!r}, where it has no task")
    for server, count in there.items():
        tasks = named.get(server, ())
        wanted = count if group.asks else 0
        if len(tasks) != wanted:
            what = f"job {job!r} names devices of {len(tasks)} tasks on {server!r}, not of {wanted}"
            yield Violation("devices", what)
            continue
        for held in tasks:
            for name in group.asks.keys() | held.keys():
                if name not in held:
                    yield Violation("devices", f"job {job!r}: a task on {server!r} holds no {name}")
                    continue
                ask, places = group.asks.get(name), held[name]
                fault = demand_mismatch(ask, places) or _place_fault(servers[server], name, ask, places)
                if fault is not None:
                    yield Violation("devices", f"job {job!r}: {name} of a task on {server!r} {fault}")
                elif ask is not None:
                    indices = [places.device] if isinstance(places, DeviceSlot) else places
                    for index in indices:
                        holdings[server, name, index].append((job, ask, places))


def _place_fault(server: Server, name: str, ask: DeviceDemand | None, places: HeldDevices) -> str | None:
    """Return why there is no such place; None if there is."""
    devices: Devices | None = (server.devices or {}).get(name)
    if devices is None:
        return "is none that the server has"
    indices = [places.device] if isinstance(places, DeviceSlot) else places
    if max(indices) >= devices.count:
        return f"is device {max(indices)}; the server has {devices.count}, from 0 on"
    if isinstance(places, DeviceSlot) and ask is not None:
        profiles = devices.partitions.profiles if devices.partitions else {}
        if ask.profile not in profiles:
            return f"is a {ask.profile}, which its devices do not have"
        if places.slot not in profiles[ask.profile].starts:
            return f"starts at slot {places.slot}, where no {ask.profile} may start"
    return None


def _shared_wrongly(servers: Mapping[str, Server], holdings: Holdings) -> Iterator[Violation]:
    """Yield the devices that are held by more than they can be."""
    for (server, name, index), holders in holdings.items():
        fault = _device_fault(servers[server], name, index, holders)
        if fault is not None:
            who = ", ".join(repr(job) for job, _, _ in holders[:4]) + (", …" if len(holders) > 4 else "")
            yield Violation(f"{name} {index} of server {server}", f"{fault}: {who}")


def _device_fault(
    server: Server, name: str, index: int, holders: Sequence[tuple[str, DeviceDemand, HeldDevices]]
) -> str | None:
    """Return why one device cannot be held like this."""
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
        taken = others.used
        for _, ask, place in holders:
            assert geometry is not None
            assert isinstance(place, DeviceSlot)
            mask = geometry.profiles[ask.profile].mask(place.slot)
            if taken & mask:
                return "partitions overlap"
            taken |= mask
    return None
