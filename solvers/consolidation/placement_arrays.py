"""A placement as arrays for compiled loops: demands by job class, pieces of jobs on servers, and what waits.

A job with one group has as many units as tasks. A job with several groups is one unit, all of it on one
server; if the plan has it on several servers, it is fixed there and reduces the free capacity. The units of a
job on one server are a piece. Jobs that differ in nothing but their names form a class.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ...formulations.common.clock import check_time
from ...formulations.common.objective import TIE_TOLERANCE
from ...formulations.consolidation.formulation import ConsolidationFormulation
from ...formulations.consolidation.plan import JobPlacement, Plan, entry_of, placed_tasks
from ...instances.common.arrays import Flags, Floats, Ints, offsets, run_of_each
from ...instances.common.fields import Fields
from ...instances.consolidation.job import Group, PlacementJob

LOSSES = (
    "missing",
    "value",
    "spread",
    "servers",
    "racks",
    "stops",
    "migrations",
    "slowdown",
    "traffic",
    "load",
    "moved",
)
"""What a placement loses: required jobs that are missing; objectives, to be minimised; unequal loads; and
running jobs that move or stop."""
MISSING, VALUE, SPREAD, SERVERS, RACKS, STOPS, MIGRATIONS, SLOWDOWN, TRAFFIC, LOAD, MOVED = range(len(LOSSES))
SCARCITY_POWER = 8
"""Power of a resource's total demand, relative to the capacity, in its weight."""
LATE_SHARE = 0.5
"""Share of steps in which jobs go back to where they run, where moves count less than used servers."""
MUST = 2
"""Priority of jobs that must be placed."""
CURSOR, NEAR, REMOVED, INSERTED, ENTRIES, ACTIVE, HOMEWARD = range(7)
"""Indices into `SearchState.counts`."""


class ClusterArrays(NamedTuple):
    """Constant data: N servers with R resources, and J jobs in C classes.

    Attributes
    ----------
    order
        Losses in lexicographic order: missing jobs, objectives, and unequal loads where used servers count.
    unit_loss
        A typical loss of each sort, to which temperatures refer; (LOSSES,).
    counts_servers
        Whether used servers are an objective.
    home_share
        Share of the steps in which jobs go back to where they run now, if they can.
    most_moved
        Limit on running jobs that move or stop.
    free
        Capacity of each server for movable jobs, (N, R).
    by_scale, scarcity
        Reciprocal of each resource's mean capacity, and the weight of its scarcity, at most 1; (R,).
    taken, rack, load
        Whether a server counts as used in every plan, its rack, and its fixed traffic [Gbit/s]; (N,).
    most_traffic
        Traffic of a server beyond which it counts as a loss [Gbit/s].
    demand, units, most, kind
        Of each class: demand of a unit, (C, R), number of units, largest number of servers, and row of
        `allowed`; (C,).
    allowed
        Eligible servers, (K, N).
    worth, priority, only_used, fewest, rate
        Of each class: value, rank of insertion, whether a job may not open a server, m_j if each further
        server counts, else −1, and traffic of a unit; (C,).
    slower
        Value that a job of each class loses on 0, 1, … servers, (C, U + 1).
    of_class, first_of_class
        Class of each job, (J,); the waiting jobs of class c are in a list from first_of_class[c], (C + 1,).
    first_piece
        The pieces of job j are at first_piece[j]:first_piece[j + 1], (J + 1,).
    owner
        The job of each piece, (P,).
    first_home, home, home_tasks
        Servers on which tasks of job j run now, at first_home[j]:first_home[j + 1], and how many there.
    first_resident, resident
        Jobs with tasks that run on server n now, at first_resident[n]:first_resident[n + 1].
    unit_tasks, running, restart
        Tasks of a unit of each job, its running tasks, and its loss of value unless all stay; (J,).
    """

    order: Ints
    unit_loss: Floats
    counts_servers: bool
    home_share: float
    most_moved: int
    free: Floats
    by_scale: Floats
    scarcity: Floats
    taken: Flags
    rack: Ints
    load: Floats
    most_traffic: float
    demand: Floats
    units: Ints
    most: Ints
    kind: Ints
    allowed: Flags
    worth: Floats
    priority: Ints
    only_used: Flags
    fewest: Ints
    rate: Floats
    slower: Floats
    of_class: Ints
    first_of_class: Ints
    first_piece: Ints
    owner: Ints
    first_home: Ints
    home: Ints
    home_tasks: Ints
    first_resident: Ints
    resident: Ints
    unit_tasks: Ints
    running: Ints
    restart: Floats


class SearchState(NamedTuple):
    """A placement of the movable jobs, and the working memory of a step.

    Attributes
    ----------
    counts
        Next random number; servers, removed jobs, inserted jobs and entries of the step; active classes.
    left, traffic
        Residual capacity, (N, R), and traffic, (N,), of each server.
    pieces
        Number of pieces of each job, 0 if it is not placed; (J,).
    server, units
        Of each piece, (P,).
    head, following, before
        The pieces of each server as a linked list: the first one, (N,), the next and the one before, (P,);
        −1 at the ends.
    queue, waiting
        Waiting jobs by class, (J,), and their number for each class, (C,).
    active, active_at
        Classes with waiting jobs, and the place of each class there; (C,).
    draws
        Random numbers from [0, 1) that are used in turn, shape (DRAWS,).
    weights
        Weight of each resource, by its unit, (R,).
    near, penalty, room
        Servers of the step, the penalty of a job there, and how many units of a job fit; (MAX_NEAR,).
    at
        Place of each server among these, −1 for others; (N,).
    removed, inserted
        Jobs that the step removed, and waiting jobs that it inserted; (J,).
    old_pieces, old_server, old_units
        The pieces of the removed jobs before: their number, (J,), servers and units, (P,).
    entry, key
        What is to be inserted, a job or a class c of waiting jobs as −1 − c, by ascending key.
    loss, total
        Losses by the step, and those of the whole placement; (LOSSES,).
    """

    counts: Ints
    left: Floats
    traffic: Floats
    pieces: Ints
    server: Ints
    units: Ints
    head: Ints
    following: Ints
    before: Ints
    queue: Ints
    waiting: Ints
    active: Ints
    active_at: Ints
    draws: Floats
    weights: Floats
    near: Ints
    penalty: Floats
    room: Ints
    at: Ints
    removed: Ints
    inserted: Ints
    old_pieces: Ints
    old_server: Ints
    old_units: Ints
    entry: Ints
    key: Floats
    loss: Floats
    total: Floats


class PlacementArrays:
    """Converts an instance and a plan to arrays, and pieces back to a plan.

    Attributes
    ----------
    movable
        Jobs that are not fixed, (J,).
    cluster
        The constant data.
    """

    def __init__(self, formulation: ConsolidationFormulation, plan: Plan) -> None:
        self.formulation = formulation
        self._jobs, self._servers = formulation.instance.jobs, list(formulation.servers.values())
        self._index = {server.name: n for n, server in enumerate(self._servers)}
        self._resources = formulation.instance.resource_names
        self._entries = {entry.job: entry for entry in plan}
        self.movable = np.array(
            [len(job.task_groups) == 1 or len(self._entries[job.name].used_servers) < 2 for job in self._jobs]
        )
        classes = self._classes()
        self._first = [members[0] for members in classes]
        members = np.array([len(alike) for alike in classes])
        of_class = np.zeros(len(self._jobs), dtype=np.int64)
        of_class[[j for alike in classes for j in alike]] = np.repeat(np.arange(len(classes)), members)
        by_server, by_class = self._by_server(), self._by_class()
        demand = members * by_class["units"] @ by_class["demand"]
        scarcity = demand / np.maximum(by_server["free"].sum(axis=0), TIE_TOLERANCE)
        first_piece = offsets(np.minimum(by_class["most"], by_class["units"])[of_class])
        names, limit = formulation.instance.objectives, formulation.instance.max_moves
        unit_loss = np.ones(len(LOSSES))
        unit_loss[[VALUE, SLOWDOWN]] = by_class["worth"][of_class].mean()
        unit_loss[[MISSING, TRAFFIC, LOAD]] = 0.0
        self.cluster = ClusterArrays(
            order=np.array(
                [
                    MISSING,
                    *(LOSSES.index(name) for name in names if name in LOSSES),
                    *([LOAD] if "servers" in names else []),
                ]
            ),
            unit_loss=unit_loss,
            counts_servers="servers" in names,
            home_share=_home_share(formulation),
            most_moved=len(self._jobs) if limit is None else limit,
            most_traffic=math.inf,
            scarcity=(scarcity / max(scarcity.max(), TIE_TOLERANCE)) ** SCARCITY_POWER,
            of_class=of_class,
            first_of_class=offsets(members),
            first_piece=first_piece,
            owner=run_of_each(first_piece),
            **by_server,
            **by_class,
            **self._by_job(),
        )

    def _classes(self) -> list[list[int]]:
        """Return the positions of the jobs of each class: jobs alike in all, traffic too."""
        classes: dict[object, list[int]] = {}
        for number, (_, members) in enumerate(self.formulation.distinct_jobs):
            check_time()
            for j in members:
                rates = tuple(group.traffic_gbit_per_s for group in self._jobs[j].task_groups)
                classes.setdefault((number, rates, bool(self.movable[j])), []).append(j)
        return list(classes.values())

    def _by_server(self) -> Fields:
        """Return the arrays by server; fixed jobs reduce the free capacity."""
        data, servers = self.formulation, self._servers
        free = np.array([[server.available.get(name, 0.0) for name in self._resources] for server in servers])
        taken = np.array([bool(server.in_use) for server in servers])
        load = np.array([server.traffic_gbit_per_s for server in servers])
        fixed = [self._entries[self._jobs[j].name] for j in np.flatnonzero(~self.movable).tolist()]
        for _, group, name, count in placed_tasks(data.jobs, fixed):
            n = self._index[name]
            taken[n] = True
            load[n] += count * group.traffic_gbit_per_s
            free[n] -= count * self._demand(group)
        racks: dict[str, int] = {}
        mean = np.where(free.any(axis=0), np.abs(free).mean(axis=0), 1.0)
        rack = np.array([racks.setdefault(data.rack_of(name), len(racks)) for name in self._index])
        return {"free": free, "by_scale": 1.0 / mean, "taken": taken, "load": load, "rack": rack}

    def _by_class(self) -> Fields:
        """Return the arrays by class of jobs."""
        data, first = self.formulation, [self._jobs[j] for j in self._first]
        units = np.array([1 if len(job.task_groups) > 1 else job.task_groups[0].tasks for job in first])
        fewest = np.array([data.fewest(job) or 0 for job in first])
        rule = np.array([data.instance.spread_of(job) for job in first])
        movable = self.movable[self._first]
        worth = np.array([job.worth for job in first], dtype=float)
        must = np.array([data.instance.requires(job) for job in first])
        names, most_units = data.instance.objectives, int(units.max())
        # A job that adds nothing must not make a server used.
        leading = [name for name in names if name in ("value", "servers")]
        gains = (worth > 0) & (leading[:1] == ["value"])
        models: dict[object, int] = {}
        kind = np.array([models.setdefault(job.gpu_model, len(models)) for job in first])
        allowed = np.zeros((len(models), len(self._servers)), dtype=bool)
        for job, row in zip(first, kind.tolist(), strict=True):
            allowed[row, [self._index[server.name] for server in data.eligible(job)]] = True
        speeds = [[job.relative_speed(used) for used in range(1, most_units + 1)] for job in first]
        slower = np.zeros((len(first), most_units + 1))
        slower[:, 1:] = worth[:, None] * (1.0 - np.array(speeds))
        return {
            "demand": np.array([self._of_unit(job, self._demand) for job in first]),
            "rate": np.array([self._of_unit(job, lambda group: group.traffic_gbit_per_s) for job in first]),
            "units": units,
            "most": movable * np.where((fewest > 0) & (rule != "required"), units, np.minimum(units, fewest)),
            "fewest": np.where((fewest > 0) & (rule == "preferred"), fewest, -1),
            "worth": worth,
            "priority": np.where(must & movable, MUST, 1 * gains),
            "only_used": ~gains & ~must & ("servers" in names),
            "slower": slower,
            "kind": kind,
            "allowed": allowed,
        }

    def _by_job(self) -> Fields:
        """Return the arrays by job, of what runs now."""
        homes = [self._home(job) if self.movable[j] else {} for j, job in enumerate(self._jobs)]
        home = np.array([n for tasks in homes for n in tasks], dtype=np.int64)
        count = np.array([len(tasks) for tasks in homes])
        restarts = self.formulation.restarts
        return {
            "first_home": offsets(count),
            "home": home,
            "home_tasks": np.array([n for tasks in homes for n in tasks.values()], dtype=np.int64),
            "first_resident": np.searchsorted(np.sort(home), np.arange(len(self._servers) + 1)),
            "resident": np.repeat(np.arange(len(homes)), count)[np.argsort(home, kind="stable")],
            "unit_tasks": np.array([int(self._of_unit(job, lambda _: 1)) for job in self._jobs]),
            "running": np.array([sum(tasks.values()) for tasks in homes]),
            "restart": np.array([restarts.get(job.name, 0.0) for job in self._jobs]),
        }

    def _demand(self, group: Group) -> Floats:
        return np.array([group.demand.get(name, 0.0) for name in self._resources])

    @staticmethod
    def _of_unit(job: PlacementJob, of_task: Callable[[Group], Any]) -> Any:
        """Return the sum of a figure over the tasks of one unit of a job."""
        several = len(job.task_groups) > 1
        return sum((group.tasks if several else 1) * of_task(group) for group in job.task_groups)

    def _on_servers(self, job: PlacementJob) -> dict[int, list[int]]:
        """Return the tasks of each group of a job on each server in the plan, in the order of servers."""
        entry = self._entries[job.name]
        return {
            self._index[name]: [entry.tasks.get(group.name, {}).get(name, 0) for group in job.task_groups]
            for name in sorted(entry.used_servers, key=self._index.__getitem__)
        }

    def _home(self, job: PlacementJob) -> dict[int, int]:
        """Return the number of running tasks of a job by server."""
        tasks: dict[int, int] = defaultdict(int)
        for group in job.task_groups:
            for name, count in group.current.items():
                tasks[self._index[name]] += count
        return tasks

    def pieces(self) -> tuple[Ints, Ints, Ints]:
        """Return the plan as pieces: how many of each job, (J,), and the server and units of each, (P,)."""
        counts = np.zeros(len(self._jobs), dtype=np.int64)
        server, units = np.zeros((2, len(self.cluster.owner)), dtype=np.int64)
        for j in np.flatnonzero(self.movable).tolist():
            for n, tasks in self._on_servers(self._jobs[j]).items():
                p = self.cluster.first_piece[j] + counts[j]
                server[p], units[p] = n, tasks[0] if len(tasks) == 1 else 1
                counts[j] += 1
        return counts, server, units

    def plan(self, counts: Ints, server: Ints, units: Ints) -> list[JobPlacement]:
        """Return the plan with these pieces; fixed jobs keep their entries."""
        entries = []
        for j, job in enumerate(self._jobs):
            entry, first = self._entries[job.name], int(self.cluster.first_piece[j])
            if self.movable[j]:
                pieces, several = range(first, first + int(counts[j])), len(job.task_groups) > 1
                groups = {
                    group.name: {
                        self._servers[server[p]].name: group.tasks if several else int(units[p])
                        for p in pieces
                    }
                    for group in job.task_groups
                }
                # What has not moved stays the entry that it was.
                entry = entry if entry.placed and entry.tasks == groups else entry_of(job, groups)
            entries.append(entry)
        return entries


def _home_share(formulation: ConsolidationFormulation) -> float:
    """Return the share of steps in which jobs go back to where they run: the later moves count, the fewer."""
    names, instance = formulation.instance.objectives, formulation.instance
    if not instance.moves_count:
        return 0.0
    last = not formulation.restarts and instance.max_moves is None and "servers" in names
    return LATE_SHARE if last and "migrations" in names[names.index("servers") :] else 1.0
