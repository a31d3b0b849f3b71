"""Which single devices the tasks of a job hold, in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...instances.consolidation.devices import DeviceSlot, TaskDevices

MOST_TASKS = 4
"""Tasks on one server whose devices are listed."""


def in_words(tasks: Sequence[TaskDevices]) -> str:
    """Return the devices that tasks on one server hold, such as ``gpu 0, 1; gpu 2 slot 4``."""
    parts = [", ".join(_held(name, held) for name, held in task.items()) for task in tasks[:MOST_TASKS]]
    return "; ".join(parts) + (f"; {len(tasks) - MOST_TASKS} more" if len(tasks) > MOST_TASKS else "")


def _held(name: str, held: tuple[int, ...] | DeviceSlot) -> str:
    if isinstance(held, DeviceSlot):
        return f"{name} {held.device} slot {held.slot}"
    return f"{name} {'+'.join(map(str, held))}"


def beside(devices: Mapping[str, Mapping[str, Sequence[TaskDevices]]] | None, group: str, server: str) -> str:
    """Return the devices of a group's tasks on a server in brackets; nothing where there are none."""
    tasks = (devices or {}).get(group, {}).get(server)
    return f" ({in_words(tasks)})" if tasks else ""
