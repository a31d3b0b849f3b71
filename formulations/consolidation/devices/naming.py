"""Naming devices: from how many tasks stand on each server to which devices each of them holds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from ....instances.consolidation.devices import Ask
from ....instances.consolidation.instance import PlacementJob, Server
from ..plan import JobPlacement
from .packing import Held, pack


def with_devices(
    jobs: Mapping[str, PlacementJob], servers: Mapping[str, Server], plan: Sequence[JobPlacement]
) -> list[JobPlacement] | None:
    """Return the plan with the devices of each task; None if some server's devices do not hold its tasks.

    Raises
    ------
    TooLargeError
        If the search for the devices of a server takes too long.
    """
    tasks: dict[tuple[str, str], list[tuple[int, str, int, Ask]]] = defaultdict(list)
    for position, entry in enumerate(plan):
        for group in jobs[entry.job].task_groups:
            for server, count in entry.tasks.get(group.name, {}).items():
                for name, ask in group.asks.items():
                    tasks[server, name] += [(position, group.name, task, ask) for task in range(count)]
    held: dict[tuple[int, str, str, int], dict[str, Held]] = defaultdict(dict)
    for (server, name), listed in tasks.items():
        devices = (servers[server].devices or {}).get(name)
        if devices is None:
            return None
        states = servers[server].device_states[name]
        places = pack(states, devices.partitions, [ask for *_, ask in listed])
        if places is None:
            return None
        for (position, group_name, task, _), place in zip(listed, places, strict=True):
            held[position, group_name, server, task][name] = place
    return [_named(jobs[entry.job], entry, position, held) for position, entry in enumerate(plan)]


def _named(
    job: PlacementJob,
    entry: JobPlacement,
    position: int,
    held: Mapping[tuple[int, str, str, int], dict[str, Held]],
) -> JobPlacement:
    named = {
        group.name: {
            server: tuple(held[position, group.name, server, task] for task in range(count))
            for server, count in entry.tasks.get(group.name, {}).items()
        }
        for group in job.task_groups
        if group.asks and entry.tasks.get(group.name)
    }
    return entry.model_copy(update={"devices": named or None})


def without_devices(plan: Sequence[JobPlacement]) -> list[JobPlacement]:
    """Return the plan as one of the pooled relaxation."""
    return [entry.model_copy(update={"devices": None}) for entry in plan]
