"""Naming devices: from how many tasks stand on each server to which devices each of them holds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from ....instances.common.errors import TooLargeError
from ....instances.common.geometries import Geometry
from ....instances.consolidation.devices import Ask, Device
from ....instances.consolidation.instance import PlacementJob, Server
from ....instances.consolidation.packing import Held, occupied, pack
from ..plan import JobPlacement


def with_devices(
    jobs: Mapping[str, PlacementJob], servers: Mapping[str, Server], plan: Sequence[JobPlacement]
) -> list[JobPlacement] | None:
    """Return the plan with the devices of each task; None if some server's devices do not hold its tasks.

    Tasks that stay on a server hold what they hold now, where this leaves devices for all others.

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
        states, asks = servers[server].device_states[name], [ask for *_, ask in listed]
        now = [_now(jobs[plan[p].job], group, server, task, name) for p, group, task, _ in listed]
        places = _beside(states, devices.partitions, asks, now) if any(now) else None
        if places is None:
            places = pack(states, devices.partitions, asks)
        if places is None:
            return None
        for (position, group_name, task, _), place in zip(listed, places, strict=True):
            held[position, group_name, server, task][name] = place
    return [_named(jobs[entry.job], entry, position, held) for position, entry in enumerate(plan)]


def _now(job: PlacementJob, group: str, server: str, task: int, name: str) -> Held | None:
    """Return what a task of a group on a server holds now; None where that is not said."""
    named = next(g.current_devices for g in job.task_groups if g.name == group) or {}
    tasks = named.get(server, ())
    return tasks[task].get(name) if task < len(tasks) else None


def _beside(
    states: Sequence[Device], geometry: Geometry | None, asks: Sequence[Ask], now: Sequence[Held | None]
) -> list[Held] | None:
    """Return what each task holds where some hold what they hold now; None if the others do not fit then."""
    left: list[Device] | None = list(states)
    for ask, held in zip(asks, now, strict=True):
        if held is not None and left is not None:
            left = occupied(left, geometry, ask, held)
    if left is None:
        return None
    rest = pack(left, geometry, [ask for ask, held in zip(asks, now, strict=True) if held is None])
    if rest is None:
        return None
    others = iter(rest)
    return [next(others) if held is None else held for held in now]


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


def kept_in_place(
    jobs: Mapping[str, PlacementJob], servers: Mapping[str, Server], plan: Sequence[JobPlacement]
) -> Sequence[JobPlacement]:
    """Return a feasible plan in which tasks keep the devices that they hold now, as far as it was said."""
    if not any(group.current_devices for job in jobs.values() for group in job.task_groups):
        return plan
    try:
        return with_devices(jobs, servers, plan) or plan
    except TooLargeError:
        return plan


def without_devices(plan: Sequence[JobPlacement]) -> list[JobPlacement]:
    """Return the plan as one of the pooled relaxation."""
    return [entry.model_copy(update={"devices": None}) for entry in plan]
