"""Which tasks stay where they are: on their server and, where moves between devices count, on these."""

from __future__ import annotations

from collections import Counter

from ....instances.consolidation.devices import DeviceSlot, Held, TaskDevices
from ....instances.consolidation.job import Group
from ..plan import JobPlacement

Holding = frozenset[tuple[str, Held]]
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
