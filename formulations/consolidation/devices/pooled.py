"""The pooled relaxation: the devices of a server as one amount, of which tasks take parts.

Whatever devices tasks hold, together they hold no more than there is. So the instance in which `gpu` is a
resource, a share is a fraction of one, and a partition is its part of the slots has all plans of the instance
with devices, and more. Partitions of one profile are counted as well: no device has more than so many.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from ....instances.consolidation.devices import WHOLE, Device, Devices
from ....instances.consolidation.instance import ConsolidationInstance, Server
from ....instances.consolidation.job import Group

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
