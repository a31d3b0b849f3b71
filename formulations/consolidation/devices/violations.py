"""What a plan on named devices must keep: every task holds what it asks for, and nobody else holds that."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from ....instances.consolidation.devices import WHOLE, Ask, Devices, DeviceSlot, Held, form_fault
from ....instances.consolidation.instance import Server
from ....instances.consolidation.job import Group, PlacementJob
from ...common.objective import Violation
from ..plan import JobPlacement

Holdings = dict[tuple[str, str, int], list[tuple[str, Ask, Held]]]
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
    named: Mapping[str, Sequence[Mapping[str, Held]]],
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
                fault = form_fault(ask, places) or _place_fault(servers[server], name, ask, places)
                if fault is not None:
                    yield Violation("devices", f"job {job!r}: {name} of a task on {server!r} {fault}")
                elif ask is not None:
                    indices = [places.device] if isinstance(places, DeviceSlot) else places
                    for index in indices:
                        holdings[server, name, index].append((job, ask, places))


def _place_fault(server: Server, name: str, ask: Ask | None, places: Held) -> str | None:
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
    server: Server, name: str, index: int, holders: Sequence[tuple[str, Ask, Held]]
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
