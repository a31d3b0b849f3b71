"""Which single devices the tasks of a job hold, in words; and devices as amounts beside other resources."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from ...formulations.consolidation.plan import JobPlacement
from ...instances.consolidation.devices import WHOLE, Ask, Device, Devices, DeviceSlot, TaskDevices
from ...instances.consolidation.job import Group, PlacementJob
from ...instances.consolidation.server import Server

MOST_TASKS = 4
"""Tasks on one server whose devices are listed."""


def in_words(tasks: Sequence[TaskDevices], asks: Mapping[str, Ask] | None = None) -> str:
    """Return the devices that tasks on one server hold, such as ``gpu 0+1; gpu 2 slot 4``.

    Parameters
    ----------
    asks
        What each task asks for, where shares and profiles are to be said too, as in ``gpu 0 (46 %)``.
    """
    known = asks or {}
    parts = [
        ", ".join(_held(name, held) + _part(known.get(name)) for name, held in task.items())
        for task in tasks[:MOST_TASKS]
    ]
    return "; ".join(parts) + (f"; {len(tasks) - MOST_TASKS} more" if len(tasks) > MOST_TASKS else "")


def _held(name: str, held: tuple[int, ...] | DeviceSlot) -> str:
    if isinstance(held, DeviceSlot):
        return f"{name} {held.device} slot {held.slot}"
    return f"{name} {'+'.join(map(str, held))}"


def _part(ask: Ask | None) -> str:
    if ask is None or ask.whole:
        return ""
    return f" ({ask.profile or f'{ask.share / 10:g} %'})"


def partitions(entries: Iterable[JobPlacement], jobs: Mapping[str, PlacementJob]) -> dict[str, Counter[str]]:
    """Return server → how many partitions of each profile these entries of a plan hold there."""
    found: dict[str, Counter[str]] = {}
    for entry in entries:
        for group in jobs[entry.job].task_groups:
            profiles = [ask.profile for ask in group.asks.values() if ask.profile]
            for server, count in entry.tasks.get(group.name, {}).items() if profiles else ():
                found.setdefault(server, Counter()).update(dict.fromkeys(profiles, count))
    return found


def beside(devices: Mapping[str, Mapping[str, Sequence[TaskDevices]]] | None, group: str, server: str) -> str:
    """Return the devices of a group's tasks on a server in brackets; nothing where there are none."""
    tasks = (devices or {}).get(group, {}).get(server)
    return f" ({in_words(tasks)})" if tasks else ""


def capacity_of(server: Server) -> dict[str, float]:
    """Return what a server has, devices by their number."""
    return {**server.capacity, **{name: float(of.count) for name, of in (server.devices or {}).items()}}


def available_of(server: Server) -> dict[str, float]:
    """Return what a plan may use of a server; of a device that others share, what they leave."""
    left = {
        name: sum(_left(state, of) for state in server.device_states[name])
        for name, of in (server.devices or {}).items()
    }
    return {**server.available, **left}


def _left(state: Device, of: Devices) -> float:
    if state.mode == "parted" and of.partitions is not None:
        return 1.0 - state.used.bit_count() / of.partitions.slots
    return {"free": 1.0, "shared": 1.0 - state.used / WHOLE}.get(state.mode, 0.0)


def demand_of(group: Group, server: Server) -> dict[str, float]:
    """Return what a task takes on a server; of devices their number, or its part of one."""
    if not group.asks:
        return group.demand
    return {**group.demand, **{name: _size(ask, name, server) for name, ask in group.asks.items()}}


def _size(ask: Ask, name: str, server: Server) -> float:
    devices = (server.devices or {}).get(name)
    if ask.profile and devices is not None and devices.partitions is not None:
        return devices.partitions.profiles[ask.profile].size / devices.partitions.slots
    return ask.thousandths / WHOLE
