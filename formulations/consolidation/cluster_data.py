"""Derived data of a consolidation instance, shared by its model, its check and its explanations.

A limit T on the traffic of every server becomes one more resource: each server has T less its existing
traffic free, and each task demands its own traffic. The least T with a feasible plan is the optimum.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from ...instances.common.arrays import Flags, Ints
from ...instances.consolidation.instance import ConsolidationInstance, Server
from ...instances.consolidation.job import GpuModels, Group, PlacementJob, allows
from ..common.clock import check_model_size
from ..common.objective import Objective, Sense, common_divisor, exact_fraction, loosened
from .classes import restart_loss
from .fewest_servers import Shapes, changed_groups, fewest_servers, shape_of

OBJECTIVE_SENSES: dict[str, tuple[Sense, str]] = {
    "value": ("max", "value"),
    "spread": ("min", "extra servers"),
    "servers": ("min", "servers"),
    "racks": ("min", "extra racks"),
    "stops": ("min", "jobs stopped"),
    "migrations": ("min", "tasks moved"),
    "slowdown": ("min", "value lost"),
    "traffic": ("min", "Gbit/s"),
    "imbalance": ("min", "Gbit/s"),
    "free": ("max", "freed"),
}


class ClusterData:
    """Servers and jobs of an instance, with data derived from them: eligibility, m_j, restart losses.

    Parameters
    ----------
    instance
        The validated instance; data derived from it are computed once and cached.
    """

    def __init__(self, instance: ConsolidationInstance) -> None:
        self.instance = instance
        self.servers = {server.name: server for server in instance.expanded_servers}
        self.jobs = {job.name: job for job in instance.jobs}
        self._fewest: dict[object, int | None] = {}
        self._eligible: dict[GpuModels, list[Server]] = {}
        self._shapes: dict[tuple[GpuModels, bool], Shapes] = {}

    @cached_property
    def objectives(self) -> tuple[Objective, ...]:
        """The objectives of the instance in their lexicographic order."""
        return tuple(Objective(name, *OBJECTIVE_SENSES[name]) for name in self.instance.objectives)

    @cached_property
    def groups(self) -> dict[tuple[str, str], Group]:
        """The groups of tasks by names of job and group."""
        return {(job.name, group.name): group for job in self.instance.jobs for group in job.task_groups}

    @cached_property
    def in_use(self) -> set[str]:
        """Names of the servers that count as used in every plan."""
        return {name for name, server in self.servers.items() if server.in_use}

    def eligible(self, job: PlacementJob) -> list[Server]:
        """Return the servers whose GPU model the job accepts."""
        if job.gpu_model not in self._eligible:
            self._eligible[job.gpu_model] = [
                s for s in self.servers.values() if allows(job.gpu_model, s.gpu_model)
            ]
        return self._eligible[job.gpu_model]

    def fewest(self, job: PlacementJob) -> int | None:
        """Return m_j, the minimum number of servers that hold the job; None if it can never run."""
        key = job.gpu_model, job.requests
        if key not in self._fewest:
            self._fewest[key] = self._fewest_servers(job)
        return self._fewest[key]

    def _fewest_servers(self, job: PlacementJob) -> int | None:
        return fewest_servers(job.task_groups, self.shapes(job.gpu_model))

    def shapes(self, gpu_model: GpuModels, free: bool = False) -> Shapes:
        """Count the servers of the given GPU models by capacity or, with `free`, by residual capacity."""
        key = gpu_model, free
        if key not in self._shapes:
            self._shapes[key] = Shapes(
                shape_of(server.available if free else server.capacity)
                for server in self.servers.values()
                if allows(gpu_model, server.gpu_model)
            )
        return self._shapes[key]

    @cached_property
    def distinct_jobs(self) -> list[tuple[PlacementJob, list[int]]]:
        """Jobs equal but for name, traffic and current placement: a representative and all their positions.

        Where moves count, jobs on one server now are equal if they have as many tasks there; a job on
        several servers, or with several groups, has no equal.
        """
        groups: dict[object, tuple[PlacementJob, list[int]]] = {}
        moving = self.instance.moves_count
        for position, job in enumerate(self.instance.jobs):
            key = (
                job.requests,
                job.worth,
                self.instance.requires(job),
                self.instance.spread_of(job),
                job.gpu_model,
                tuple(sorted(job.speed_by_servers.items())),
                self._placement_key(position, job) if moving else None,
            )
            groups.setdefault(key, (job, []))[1].append(position)
        return list(groups.values())

    def now(self, job: PlacementJob) -> dict[str, list[int]]:
        """Return the running tasks of a job by server and task group, on the servers that it may use."""
        by_server: dict[str, list[int]] = {}
        for g, group in enumerate(job.task_groups):
            for server, count in group.current.items():
                if allows(job.gpu_model, self.servers[server].gpu_model):
                    by_server.setdefault(server, [0] * len(job.task_groups))[g] = count
        return by_server

    @cached_property
    def releasable(self) -> dict[str, list[str]]:
        """The servers of each unit that the objective `free` can empty, by unit: a server, or a rack.

        Running tasks are on at least one of them, nothing unlisted is on any, and all have the GPU model.
        """
        aim, units = self.instance.free, dict[str, list[str]]()
        if aim is None:
            return units
        for name, server in self.servers.items():
            unit = name if aim.per == "server" else server.rack
            if unit is not None:
                units.setdefault(unit, []).append(name)
        return {
            unit: names
            for unit, names in units.items()
            if not self.occupied.isdisjoint(names)
            and self.in_use.isdisjoint(names)
            and all(aim.gpu_model in (None, self.servers[name].gpu_model) for name in names)
        }

    @property
    def most_freed(self) -> int:
        """The largest value of the objective `free`: the units wanted, if there are so many."""
        return min(self.instance.free.count, len(self.releasable)) if self.instance.free is not None else 0

    @cached_property
    def occupied(self) -> set[str]:
        """Names of the servers on which tasks of the listed jobs run now."""
        return {server for job in self.running for group in job.task_groups for server in group.current}

    def closed(self, server: str) -> bool:
        """Return whether running tasks may not move to a server, since it is empty and is to stay so."""
        aim = self.instance.free
        return not (aim is None or aim.into_empty or server in self.occupied or server in self.in_use)

    def _placement_key(self, position: int, job: PlacementJob) -> object:
        now = self.now(job)
        if len(now) > 1 or (now and len(job.task_groups) > 1):
            return position
        return *map(tuple, now.values()), job.is_running, self.can_stay(job), restart_loss(self.instance, job)

    def can_stay(self, job: PlacementJob) -> bool:
        """Return whether a job runs and all its running tasks are on servers that it may use."""
        running = [server for group in job.task_groups for server in group.current]
        return bool(running) and all(allows(job.gpu_model, self.servers[n].gpu_model) for n in running)

    @cached_property
    def running(self) -> list[PlacementJob]:
        """The jobs that have running tasks."""
        return [job for job in self.instance.jobs if job.is_running]

    @cached_property
    def running_tasks(self) -> int:
        """The number of tasks that run now."""
        return sum(group.running_tasks for job in self.running for group in job.task_groups)

    @cached_property
    def values_without_jobs(self) -> dict[str, Fraction]:
        """The value of objectives, in minimisation form, of the plan that places no job; 0 for the others."""
        return {
            "value": sum((restart_loss(self.instance, job) for job in self.running), Fraction(0)),
            "servers": Fraction(len(self.in_use)),
            "stops": Fraction(len(self.running)),
            "migrations": Fraction(self.running_tasks),
        }

    @property
    def moves(self) -> int | None:
        """The limit on moving jobs less the number of running jobs; None without a limit."""
        most = self.instance.max_moves
        return None if most is None else most - len(self.running)

    @cached_property
    def restarts(self) -> dict[str, float]:
        """Loss of `value` if a running job is moved or stopped, by job name; only losses other than 0."""
        costs = ((job.name, float(restart_loss(self.instance, job))) for job in self.running)
        return {name: cost for name, cost in costs if cost}

    def rack_of(self, server: str) -> str:
        """Return the rack of a server; one without a rack is a rack of its own."""
        rack = self.servers[server].rack
        return f"rack {rack}" if rack is not None else f"server {server}"


MAX_UNITS_PER_TASK = 2**30
"""Limit on the demand of a task, in units; beyond, units are larger."""
TRAFFIC_RESOURCE = ""
"""Name of the traffic resource; documents cannot use it for another resource."""


def traffic_step(instance: ConsolidationInstance) -> Fraction | None:
    """Return the greatest common divisor of all traffic [Gbit/s]; None if all is 0 or it is too small."""
    # Sums of multiples of a step are multiples of it, so that only these are limits worth asking for.
    amounts = {exact_fraction(server.traffic_gbit_per_s) for server in instance.servers}
    amounts |= {exact_fraction(g.traffic_gbit_per_s) for job in instance.jobs for g in job.task_groups}
    step = common_divisor(amounts)
    return step if step is not None and step * 10**6 > max(amounts) else None


def limit_traffic(instance: ConsolidationInstance, most: float) -> ConsolidationInstance:
    """Return the instance with traffic per server limited to `most` Gbit/s, as one more resource.

    Capacities exceed the total traffic, so that the fewest servers of a job stay the same.
    """
    everything = most + math.fsum(
        group.tasks * group.traffic_gbit_per_s for job in instance.jobs for group in job.task_groups
    )
    changed = changed_groups(instance, _group_with_traffic)
    return instance.model_copy(
        update={
            "servers": tuple(
                _limited_server(server, most, everything) for server in instance.expanded_servers
            ),
            "jobs": tuple(job.model_copy(update={"groups": groups}) for job, groups in changed),
            "objectives": tuple(name for name in instance.objectives if name != "traffic") or ("value",),
        }
    )


def _limited_server(server: Server, most: float, everything: float) -> Server:
    left = max(0.0, float(exact_fraction(most) - exact_fraction(server.traffic_gbit_per_s)))
    return server.model_copy(
        update={
            "capacity": {**server.capacity, TRAFFIC_RESOURCE: everything},
            "free": {**server.available, TRAFFIC_RESOURCE: left},
        }
    )


def _group_with_traffic(group: Group) -> Group:
    return group.model_copy(update={"demand": {**group.demand, TRAFFIC_RESOURCE: group.traffic_gbit_per_s}})


class RequiredTasks:
    """The tasks that every plan places, by shape: running ones by server, and those that have to start.

    Tasks of a shape have equal demands and accept the same GPU models, and all of them run, or all wait.
    Servers are in the order of the instance, resources in that of `resource_names`.

    Attributes
    ----------
    shapes
        Demand of a task, shape (R,), and GPU models of each shape, and whether its tasks wait. None where a
        job runs that need not be placed.
    starting
        Number of waiting tasks of each shape.
    groups
        Job, group and shape of all these tasks; once with its running tasks, once with its waiting ones.
    direct
        Whether only tasks on freed servers move.
    """

    def __init__(self, data: ClusterData) -> None:
        self.data = data
        self.direct = data.instance.free is not None and data.instance.free.direct
        self.position = {name: m for m, name in enumerate(data.servers)}
        self.starting = Counter[int]()
        self.groups: list[tuple[PlacementJob, Group, int]] = []
        names, numbers = data.instance.resource_names, dict[object, int]()
        complete = all(map(data.instance.requires, data.running))
        for job in data.instance.jobs if complete else ():
            for group in job.task_groups if data.instance.requires(job) else ():
                demand = tuple(exact_fraction(group.demand.get(name, 0.0)) for name in names)
                waiting = group.tasks - group.running_tasks
                for waits, present in ((False, group.current), (True, waiting)):
                    if not present:
                        continue
                    shape = numbers.setdefault((demand, job.gpu_model, waits), len(numbers))
                    self.groups.append((job, group, shape))
                    self.starting[shape] += waiting * waits
        self.shapes: list[Any] = list(numbers)

    @cached_property
    def resource_units(self) -> list[Fraction]:
        """The unit in which each resource is counted: the largest that divides all demands, if not too small.

        Demands and capacities are rounded down to units, so that what fits still seems to fit.
        """
        names = self.data.instance.resource_names
        by_resource = [[demand[r] for demand, *_ in self.shapes] or [Fraction(0)] for r in range(len(names))]
        return [max(common_divisor(a) or Fraction(1), max(a) / MAX_UNITS_PER_TASK) for a in by_resource]

    def _counted(self, amounts: Sequence[Fraction]) -> list[int]:
        return [math.floor(amount / unit) for amount, unit in zip(amounts, self.resource_units, strict=True)]

    @cached_property
    def demands(self) -> Ints:
        """The demand of a task of each shape, in units; shape (S, R)."""
        counted = [self._counted(demand) for demand, *_ in self.shapes]
        return np.array(counted, dtype=np.int64).reshape(-1, len(self.resource_units))

    @cached_property
    def units(self) -> list[list[int]]:
        """The servers of each unit that can be freed."""
        return [[self.position[name] for name in names] for names in self.data.releasable.values()]

    @cached_property
    def held(self) -> Ints:
        """The number of running tasks of each shape on each server; shape (M, S)."""
        held = np.zeros((len(self.position), len(self.shapes)), dtype=np.int64)
        for _, group, shape in self.groups:
            *_, waits = self.shapes[shape]
            for server, count in () if waits else group.current.items():
                held[self.position[server], shape] += count
        return held

    @cached_property
    def needed(self) -> Ints:
        """The number of tasks of each shape, running ones and those that have to start; shape (S,)."""
        waiting = [self.starting[s] for s in range(len(self.shapes))]
        needed: Ints = self.held.sum(axis=0) + np.array(waiting, dtype=np.int64)
        return needed

    @cached_property
    def capacity(self) -> Ints:
        """What a plan may use of each resource of each server, in units; shape (M, R).

        It has the tolerance of the check, and is cut to the demand of all tasks.
        """
        names, total = self.data.instance.resource_names, (self.needed @ self.demands).tolist()
        rows = [
            self._counted([exact_fraction(loosened(loosened(server.available.get(n, 0.0)))) for n in names])
            for server in self.data.servers.values()
        ]
        return np.array([list(map(min, row, total)) for row in rows], dtype=np.int64)

    @cached_property
    def room(self) -> Ints:
        """What of this the running tasks leave."""
        room: Ints = self.capacity - self.held @ self.demands
        return room

    @cached_property
    def destinations(self) -> Flags:
        """Whether a task of a shape can come to a server; shape (M, S).

        Where only tasks on freed servers move, it must fit into what is free now, otherwise into the server.

        Raises
        ------
        TooLargeError
            If there are too many shapes and servers.
        """
        check_model_size(self.demands.size * len(self.position), "the model of moves")
        limits = self.room if self.direct else self.capacity
        fits: Flags = np.all(self.demands <= limits[:, None, :], axis=2)
        closed = np.array([self.data.closed(name) for name in self.position])
        for s, (_, models, waits) in enumerate(self.shapes):
            fits[:, s] &= [allows(models, server.gpu_model) for server in self.data.servers.values()]
            fits[:, s] &= waits | ~closed
        return fits
