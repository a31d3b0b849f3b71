"""Migration steps from the current placement to a plan, ordered so that no server is overloaded.

A job is stopped and placed as a whole. Each job to be moved is stopped only when its new place is free
beside what then still runs; where jobs wait for each other's places, the smallest is stopped first. The
steps are independent of the cluster manager. The shell functions that the scripts of both managers call
are read here too.
"""

from __future__ import annotations

import heapq
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from ...formulations.common.objective import within
from ...formulations.consolidation.cluster_data import ClusterData
from ...formulations.consolidation.formulation import freed_units
from ...formulations.consolidation.plan import Action, JobPlacement, Placement
from ...instances.common.errors import TooLargeError, some
from ...instances.consolidation.devices import WHOLE, DeviceDemand, HeldDevices, pack, states_after
from ...instances.consolidation.instance import ConsolidationInstance, Server
from ...instances.consolidation.job import PlacementJob


@dataclass(frozen=True)
class Step:
    """One step of a migration, for one job: hold, stop, place or release it.

    Parameters
    ----------
    do
        `hold`: a waiting job is kept from starting; `stop`: a running job leaves its servers and is held;
        `place`: a held job starts on these servers; `release`: a held job may start wherever there is
        room.
    tasks
        Tasks by group and server that the job leaves, or that are placed.
    early
        Whether the job is stopped before its new place is free, because others wait for its old one.
    """

    do: Literal["hold", "stop", "place", "release"]
    job: str
    tasks: Placement = field(default_factory=dict)
    early: bool = False

    @property
    def servers(self) -> list[str]:
        """The distinct servers of the tasks."""
        return list(dict.fromkeys(server for placed in self.tasks.values() for server in placed))


def action_in(entry: JobPlacement) -> Action:
    """Return the action of a plan entry; `start` or `wait` if none is set."""
    return entry.action or ("start" if entry.placed else "wait")


def tasks_now(job: PlacementJob) -> Placement:
    """Return the number of running tasks of a job by task group and server."""
    return {group.name: dict(group.current) for group in job.task_groups if group.current}


def steps(instance: ConsolidationInstance, entries: Sequence[JobPlacement]) -> list[Step]:
    """Return the ordered migration steps from the current placement to a plan; empty if nothing changes.

    Parameters
    ----------
    entries
        All entries of a plan that has been verified.

    Raises
    ------
    ValueError
        If the servers do not hold what the plan places.
    """
    by_action: dict[Action, list[JobPlacement]] = defaultdict(list)
    for entry in entries:
        by_action[action_in(entry)].append(entry)
    waiting, stopped = by_action["wait"], by_action["stop"]
    if not (by_action["start"] or by_action["move"] or stopped):
        return []
    order = _Order(instance, entries)
    # Who is to wait must not take a place on which the plan counts either.
    ordered = [Step("hold", entry.job) for entry in entries if action_in(entry) in ("start", "wait")]
    ordered += [order.stop(entry.job) for entry in stopped]
    ordered += order.placing()
    return ordered + [Step("release", entry.job) for entry in (*stopped, *waiting)]


def emptied_servers(instance: ConsolidationInstance, entries: Sequence[JobPlacement]) -> list[str]:
    """Return the names of the servers that a plan empties on purpose: those drained, and those freed."""
    names = set(instance.drained)
    if instance.free is not None:
        data = ClusterData(instance)
        names |= {server for unit in freed_units(data, entries) for server in data.releasable[unit]}
    return sorted(names)


def not_planned_notes(instance: ConsolidationInstance, entries: Sequence[JobPlacement]) -> Iterator[str]:
    """Yield a note on each server that is to be empty, on which something runs that is not planned."""
    emptied = {*emptied_servers(instance, entries)}
    for server in instance.expanded_servers if any(server.others for server in instance.servers) else ():
        if server.others and (server.name in emptied or not any(server.available.values())):
            yield (
                f"still on {server.name}, not planned: {some(server.others)}; it is empty when these have "
                "ended, or were moved"
            )


def drain_lines(servers: Sequence[str]) -> Iterator[str]:
    """Yield the first steps of a script: the servers that are to be empty take no more tasks."""
    for number, server in enumerate(servers, start=1):
        yield f"step {number} 'drain {server}: it takes no more tasks'"
        yield f"drain {server}"


def reopen_lines(servers: Sequence[str]) -> Iterator[str]:
    """Yield the first steps of the way back: the servers that were to be empty take tasks again."""
    yield from (f"reopen {server}" for server in servers)


class _ClusterState:
    """The placement of jobs on servers at one point of the migration.

    Attributes
    ----------
    places
        Placement of each job.
    moved
        Jobs that have been stopped, so that their devices are no longer known.
    unsettled
        Running jobs that are to be stopped.
    """

    def __init__(self, instance: ConsolidationInstance) -> None:
        self.jobs = {job.name: job for job in instance.jobs}
        self.servers = {server.name: server for server in instance.expanded_servers}
        self.places: dict[str, Placement] = {}
        self.moved: set[str] = set()
        self.unsettled: set[str] = set()
        self._held: dict[str, dict[tuple[str, str], int]] = defaultdict(dict)
        for job in instance.jobs:
            self.put(job.name, tasks_now(job))

    def put(self, job: str, tasks: Placement) -> None:
        """Place a job's tasks on servers, without a check of capacity."""
        self.places[job] = tasks
        for group, placed in tasks.items():
            for server, count in placed.items():
                self._held[server][job, group] = count

    def take(self, job: str) -> Placement:
        """Remove a job from its servers, and return its placement."""
        tasks = self.places.pop(job, {})
        for group, placed in tasks.items():
            for server in placed:
                del self._held[server][job, group]
        return tasks

    def blocking_jobs(self, servers: Iterable[str]) -> set[str]:
        """Return the jobs with tasks on these servers that are still to be stopped."""
        return {job for server in servers for job, _ in self._held[server] if job in self.unsettled}

    def without_room(self, job: str, tasks: Placement) -> str | None:
        """Return a server that cannot hold a job's new tasks in place of its current ones, else None."""
        was_moved, now = job in self.moved, self.take(job)
        self.moved.add(job)
        self.put(job, tasks)
        touched = dict.fromkeys(server for placed in tasks.values() for server in placed)
        full_server = next((server for server in touched if not self._holds(self.servers[server])), None)
        self.take(job)
        self.put(job, now)
        if not was_moved:
            self.moved.discard(job)
        return full_server

    def _holds(self, server: Server) -> bool:
        """Return whether a server has capacity for its tasks; tasks on unknown devices may use any."""
        used: dict[str, list[float]] = defaultdict(list)
        asked: dict[str, list[tuple[DeviceDemand, HeldDevices | None]]] = defaultdict(list)
        for (job, name), count in self._held[server.name].items():
            group = next(group for group in self.jobs[job].task_groups if group.name == name)
            for resource, amount in group.demand.items():
                used[resource].append(count * amount)
            known = () if job in self.moved else (group.current_devices or {}).get(server.name, ())
            for device, ask in group.asks.items():
                # A cluster manager chooses the devices of what it starts.
                places = [task.get(device) for task in known] or [None] * count
                asked[device] += [(ask, place) for place in places]
        if not all(within(math.fsum(each), server.available.get(name, 0.0)) for name, each in used.items()):
            return False
        try:
            return all(_fits_devices(server, name, tasks) for name, tasks in asked.items())
        except (TooLargeError, RecursionError):
            # The check of the plan has found room once all are in their places.
            return self.unsettled.isdisjoint(job for job, _ in self._held[server.name])


def _fits_devices(
    server: Server, name: str, tasks: Sequence[tuple[DeviceDemand, HeldDevices | None]]
) -> bool:
    """Return whether a server's devices of one name can hold tasks, some of them on given devices."""
    devices = (server.devices or {}).get(name)
    if devices is None:
        return False
    left = list(server.device_states[name])
    for ask, place in tasks:
        if place is not None:
            after = states_after(left, devices.partitions, ask, place)
            if after is None:
                return False
            left = after
    return pack(left, devices.partitions, [ask for ask, place in tasks if place is None]) is not None


class _Order:
    """Computes the order in which a migration stops and places jobs within the servers' capacity."""

    def __init__(self, instance: ConsolidationInstance, entries: Sequence[JobPlacement]) -> None:
        self.now = _ClusterState(instance)
        self.rank = {entry.job: position for position, entry in enumerate(entries)}
        self.targets = {e.job: e.tasks for e in entries if action_in(e) in ("start", "move")}
        self.leaving = {e.job for e in entries if action_in(e) in ("move", "stop")}
        # These are restarted only where others need the devices that they have now.
        kept = (entry for entry in entries if action_in(entry) == "keep")
        self.kept = {entry.job: entry.tasks for entry in kept if self._has_other_devices(entry)}
        self.now.unsettled = self.leaving | self.kept.keys()

    def _has_other_devices(self, entry: JobPlacement) -> bool:
        groups = self.now.jobs[entry.job].task_groups
        known = {group.name: group.current_devices for group in groups if group.current_devices}
        return any((entry.devices or {}).get(name) != devices for name, devices in known.items())

    def stop(self, job: str, early: bool = False) -> Step:
        """Remove a job from its servers, and return the migration step that stops it."""
        self.leaving.discard(job)
        self.now.unsettled.discard(job)
        self.now.moved.add(job)
        return Step("stop", job, self.now.take(job), early)

    def placing(self) -> Iterator[Step]:
        """Yield migration steps (stop, place) until every job has its planned placement.

        Raises
        ------
        ValueError
            If the servers do not hold what the plan places.
        """
        ready = [self._turn(job) for job in self.targets]
        heapq.heapify(ready)
        blocked: dict[str, list[str]] = {}
        while self.targets:
            if ready:
                job = heapq.heappop(ready)[-1]
                if job not in self.targets:
                    continue
                full = self.now.without_room(job, self.targets[job])
                if full is not None:
                    blocked.setdefault(full, []).append(job)
                    continue
                left = [self.stop(job)] if job in self.leaving else []
                self.now.put(job, self.targets.pop(job))
                yield from (*left, Step("place", job, self.now.places[job]))
            else:
                job = self._to_stop(blocked)
                self.targets.setdefault(job, self.kept.pop(job, {}))
                left = [self.stop(job, early=True)]
                heapq.heappush(ready, self._turn(job))
                yield from left
            freed = {server for step in left for server in step.servers}
            for server in freed & blocked.keys():
                for name in blocked.pop(server):
                    heapq.heappush(ready, self._turn(name))

    def _turn(self, job: str) -> tuple[int, int, str]:
        """Return the heap key of a job to place: stopped jobs first, then running ones, then others."""
        first = 0 if job in self.now.moved else 1 if job in self.leaving else 2
        return first, self.rank[job], job

    def _to_stop(self, blocked: Iterable[str]) -> str:
        """Return the job to stop early on full servers: fewest GPUs first, jobs to be kept last."""
        able = self.now.blocking_jobs(blocked)
        if not able:
            raise ValueError(f"the servers do not hold what the plan places: {', '.join(blocked)}")
        return min(able, key=lambda job: (job in self.kept, *self._size(job)))

    def _size(self, job: str) -> tuple[float, int, int]:
        groups = self.now.jobs[job].task_groups
        gpus = sum(g.tasks * (g.demand.get("gpu", 0.0) + g.gpu_thousandths / WHOLE) for g in groups)
        return gpus, sum(group.tasks for group in groups), self.rank[job]


HERE = Path(__file__).parent
SCRIPT_USAGE = """
#   bash plan.sh check   changes nothing: {check}
#   bash plan.sh print   changes nothing: writes every command
#   bash plan.sh run     checks, then takes the steps in their order, and stops at the first that fails
#   bash plan.sh run 3   goes on with step 3
#   bash plan.sh back    the way back: what ran returns to its {places}, what waited waits as before
#"""
"""How a script is called, for the comments at its head."""


def shell_script(manager: str, functions: Mapping[str, Iterable[str]], end: str, main: str) -> Iterator[str]:
    """Yield the lines of a script below its settings, of which the first are functions of both managers.

    Parameters
    ----------
    manager
        `slurm` or `kubernetes`, whose own functions follow.
    functions
        Commands of the functions that carry out this plan, by name.
    end, main
        Last command of each of these functions; and the program.
    """
    for name in ("steps", manager):
        yield from (HERE / f"{name}.sh").read_text(encoding="utf-8").rstrip("\n").split("\n")
        yield ""
    for name, lines in functions.items():
        yield from (f"{name}() {{", *(f"  {line}" for line in (*lines, end)), "}", "")
    yield from main.strip("\n").split("\n")


def plan_name(instance: ConsolidationInstance) -> str:
    """Return the name of a plan, after which scripts name the folder for what was there before."""
    return f"plan-{instance.sha256()[:12]}"
