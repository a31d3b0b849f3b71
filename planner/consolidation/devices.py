"""Which single devices the tasks of a job hold, in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from ...formulations.consolidation.plan import JobPlacement
from ...instances.consolidation.devices import Ask, DeviceSlot, TaskDevices
from ...instances.consolidation.job import PlacementJob

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
