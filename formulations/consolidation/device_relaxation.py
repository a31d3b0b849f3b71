"""The pooled relaxation of single devices, and the fewest servers m_j of a job whose tasks ask for devices.

The pooled relaxation: the devices of a server as one amount, of which tasks take parts. Whatever devices
tasks hold, together they hold no more than there is. So the instance in which `gpu` is a resource, a share is
a fraction of one, and a partition is its part of the slots has all plans of the instance with devices, and
more. Partitions of one profile are counted as well: no device has more than so many.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from ...instances.common.errors import TooLargeError
from ...instances.consolidation.devices import WHOLE, Ask, Device, Devices, pack
from ...instances.consolidation.instance import ConsolidationInstance, Server
from ...instances.consolidation.job import Group
from ..common.clock import check_time
from ..common.tolerance import within
from .fewest_servers import tasks_that_fit

FINEST = 10**6
"""Parts of a device in which parts that have no decimals are rounded, so that more seems to fit."""


def pooled(instance: ConsolidationInstance) -> ConsolidationInstance:
    """Return the instance in which the devices of a server are an amount."""
    sizes = _sizes(instance)
    known: dict[int, tuple[Group, ...]] = {}
    jobs = []
    for job in instance.jobs:
        groups = known.get(id(job.task_groups))
        if groups is None:
            groups = known[id(job.task_groups)] = tuple(_group(group, sizes) for group in job.task_groups)
        plain = {"devices": None, "share": None, "profile": None, "current_devices": None}
        several = job.groups is not None
        fields = {"groups": groups} if several else {"task_demand": groups[0].demand}
        jobs.append(job.model_copy(update={**plain, **fields, "value": job.worth}))
    servers = tuple(_server(server, sizes) for server in instance.servers)
    return instance.model_copy(update={"servers": servers, "jobs": tuple(jobs), "device_moves": None})


def counter(name: str, profile: str) -> str:
    """Return the name of the resource that counts the partitions of one profile."""
    return f"{profile} of {name}"


def _sizes(instance: ConsolidationInstance) -> dict[tuple[str, str], float]:
    """Return for each profile that is asked for the least part of a device that it takes anywhere."""
    asked = {
        (name, ask.profile)
        for job in instance.jobs
        for group in job.task_groups
        for name, ask in group.asks.items()
        if ask.profile
    }
    found: dict[tuple[str, str], float] = {}
    for server in instance.servers:
        for name, devices in (server.devices or {}).items():
            for wanted, profile in (devices.partitions.profiles if devices.partitions else {}).items():
                if (name, wanted) in asked and devices.partitions is not None:
                    part = math.floor(FINEST * profile.size / devices.partitions.slots) / FINEST
                    found[name, wanted] = min(part, found.get((name, wanted), 1.0))
    return found


def _group(group: Group, sizes: Mapping[tuple[str, str], float]) -> Group:
    if not group.asks:
        return group
    demand = dict(group.demand)
    for name, ask in group.asks.items():
        demand[name] = sizes[name, ask.profile] if ask.profile else ask.thousandths / WHOLE
        if ask.profile:
            demand[counter(name, ask.profile)] = 1.0
    plain = {"devices": None, "share": None, "profile": None, "current_devices": None}
    return group.model_copy(update={"demand": demand, **plain})


def _server(server: Server, counted: Iterable[tuple[str, str]]) -> Server:
    if not server.devices:
        return server
    capacity, free = dict(server.capacity), dict(server.available)
    for name, devices in server.devices.items():
        states = server.device_states[name]
        capacity[name] = float(devices.count)
        free[name] = math.fsum(_left(state, devices) for state in states)
        for of, profile in counted:
            if of == name and devices.partitions is not None and profile in devices.partitions.profiles:
                most = devices.partitions.most(profile)
                capacity[counter(name, profile)] = float(most * devices.count)
                there = sum(
                    devices.partitions.most(profile, state.used if state.mode == "parted" else 0)
                    for state in states
                    if state.mode in ("free", "parted")
                )
                free[counter(name, profile)] = float(there)
    return server.model_copy(update={"capacity": capacity, "free": free, "devices": None})


def _left(state: Device, devices: Devices) -> float:
    """Return the part of a device that is free."""
    if state.mode == "parted" and devices.partitions is not None:
        slots = devices.partitions.slots
        return math.ceil(FINEST * (slots - state.used.bit_count()) / slots) / FINEST
    if state.mode == "shared":
        return (WHOLE - state.used) / WHOLE
    return 1.0 if state.mode == "free" else 0.0


MOST_PATTERNS = 20_000
"""Ways to load one server, and tasks of each group that are left, that are looked at."""


def tasks_on(server: Server, group: Group, free: bool = False) -> int:
    """Return how many tasks of one group an otherwise empty server holds.

    Parameters
    ----------
    free
        Count only what is free now, not all that the server has.
    """
    amounts = server.available if free else server.capacity
    fit = tasks_that_fit(amounts, group.demand, group.tasks)
    for name, ask in group.asks.items():
        devices = (server.devices or {}).get(name)
        if devices is None:
            return 0
        states = server.device_states[name] if free else (Device(),) * devices.count
        fit = min(fit, instances_of(ask, devices, states))
    return fit


def instances_of(ask: Ask, devices: Devices, states: Sequence[Device]) -> int:
    """Return how many tasks that ask for this hold devices in these states."""
    unused = sum(state.mode == "free" for state in states)
    if ask.whole:
        return unused // ask.whole
    if ask.share:
        lefts = (WHOLE - state.used for state in states if state.mode == "shared")
        return unused * (WHOLE // ask.share) + sum(left // ask.share for left in lefts)
    if devices.partitions is None:
        return 0
    most = unused * devices.partitions.most(ask.profile)
    masks = (state.used for state in states if state.mode == "parted")
    return most + sum(devices.partitions.most(ask.profile, mask) for mask in masks)


def alike(servers: Iterable[Server]) -> list[tuple[Server, int]]:
    """Return one of the servers that have the same, and how many they are."""
    found: Counter[tuple[object, ...]] = Counter()
    first: dict[tuple[object, ...], Server] = {}
    for server in servers:
        devices = tuple(
            (name, had.count, had.partitions.model_dump_json() if had.partitions else None)
            for name, had in sorted((server.devices or {}).items())
        )
        key = (tuple(sorted(server.capacity.items())), devices)
        found[key] += 1
        first.setdefault(key, server)
    return [(first[key], count) for key, count in found.items()]


def fewest_on_devices(groups: Sequence[Group], servers: Sequence[tuple[Server, int]]) -> int | None:
    """Return how many of the servers hold all tasks at least, None if all together do not.

    Parameters
    ----------
    servers
        One of those that have the same, and how many they are.

    Raises
    ------
    TooLargeError
        If a job with several groups has too many ways to be placed.
    """
    if len(groups) == 1:
        holds = [(tasks_on(server, groups[0]), count) for server, count in servers]
        left, used = groups[0].tasks, 0
        for each, count in sorted(holds, reverse=True):
            if not each or left <= 0:
                break
            taken = min(count, math.ceil(left / each))
            left, used = left - taken * each, used + taken
        return used if left <= 0 else None
    return _for_groups(groups, servers)


def _for_groups(groups: Sequence[Group], servers: Sequence[tuple[Server, int]]) -> int | None:
    """Return the fewest servers by dynamic programming over the tasks of each group that are left."""
    all_tasks = tuple(group.tasks for group in groups)
    if math.prod(count + 1 for count in all_tasks) > MOST_PATTERNS:
        raise TooLargeError("a job with so many tasks in groups that hold devices is too large")
    need = {all_tasks: 0}
    for server, count in servers:
        patterns = _patterns(server, groups)
        for _ in range(min(count, sum(all_tasks)) if patterns else 0):
            better = dict(need)
            for left, used in need.items():
                for pattern in patterns:
                    check_time()
                    after = tuple(max(0, a - b) for a, b in zip(left, pattern, strict=True))
                    if used + 1 < better.get(after, math.inf):
                        better[after] = used + 1
            if better == need:
                break
            need = better
    return need.get((0,) * len(groups))


def _patterns(server: Server, groups: Sequence[Group]) -> list[tuple[int, ...]]:
    """Return the sets of tasks that the server holds and to which no task can be added."""
    ranges = [range(tasks_on(server, group) + 1) for group in groups]
    if math.prod(map(len, ranges)) > MOST_PATTERNS:
        raise TooLargeError("a job with so many tasks in groups that hold devices is too large")
    held = {counts for counts in itertools.product(*ranges) if any(counts) and _holds(server, groups, counts)}
    return [
        counts
        for counts in held
        if not any((*counts[:g], counts[g] + 1, *counts[g + 1 :]) in held for g in range(len(counts)))
    ]


def _holds(server: Server, groups: Sequence[Group], counts: Sequence[int]) -> bool:
    check_time()
    for name in {name for group in groups for name in group.demand}:
        amounts = (count * g.demand.get(name, 0.0) for g, count in zip(groups, counts, strict=True))
        if not within(math.fsum(amounts), server.capacity.get(name, 0.0)):
            return False
    for name, devices in (server.devices or {}).items():
        asks = [
            g.asks[name]
            for g, count in zip(groups, counts, strict=True)
            if name in g.asks
            for _ in range(count)
        ]
        if pack((Device(),) * devices.count, devices.partitions, asks) is None:
            return False
    return True
