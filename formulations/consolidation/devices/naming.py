"""Naming devices: from how many tasks stand on each server to which devices each of them holds."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ....instances.common.errors import TooLargeError
from ....instances.consolidation.devices import Held, TaskDevices, occupied, pack
from ....instances.consolidation.instance import Server
from ....instances.consolidation.job import Group, PlacementJob
from ..plan import JobPlacement
from .staying import staying

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
        rest: list[list[dict[str, Held]]] = [
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
                    after = occupied(states, devices.partitions, ask, places[name])
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
