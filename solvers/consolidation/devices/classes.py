"""Equivalence classes of an instance with single devices: task kinds, server shapes, and equal jobs."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from ....formulations.common.clock import check_time
from ....formulations.common.objective import loosened
from ....formulations.consolidation.classes import common_divisor, exact_fraction
from ....formulations.consolidation.fewest_servers import tasks_on_devices
from ....formulations.consolidation.formulation import DeviceFormulation
from ....instances.common.arrays import Ints
from ....instances.consolidation.devices import DeviceDemand
from ....instances.consolidation.instance import Server
from ....instances.consolidation.job import GpuModels, PlacementJob, allows

LARGEST = 2**40
"""Largest number of units of a resource on a server; demands are rounded up, free amounts down."""


@dataclass(frozen=True)
class TaskKind:
    """Equivalence class of tasks: equal demands for resources and devices, equal allowed GPU models.

    Attributes
    ----------
    need
        Demand of each resource, in units.
    asks
        Demand for devices, by index of the device name.
    """

    need: tuple[int, ...]
    asks: tuple[tuple[int, DeviceDemand], ...]
    gpu_model: GpuModels


@dataclass(frozen=True)
class ServerShape:
    """Equivalence class of servers that differ in name and rack only, with their free resources in units."""

    server: Server
    members: tuple[int, ...]
    free: tuple[int, ...]


@dataclass(frozen=True)
class DeviceJobClass:
    """Equivalence class of jobs of equal demand and value, with (kind, number) of each group's tasks."""

    job: PlacementJob
    members: tuple[int, ...]
    groups: tuple[tuple[int, int], ...]


class Cluster:
    """Tables of an instance with single devices: task kinds, server shapes, and classes of equal jobs.

    Attributes
    ----------
    units
        Unit of each resource.
    hosts
        Whether a server of each shape can hold a task of each kind; shape (K, S).
    groups_of
        For each job, kind and number of the tasks of each group.
    """

    def __init__(self, formulation: DeviceFormulation) -> None:
        self.formulation, instance = formulation, formulation.instance
        self.servers = list(formulation.servers.values())
        self.resources = instance.resource_names
        self.names = list(dict.fromkeys(name for server in instance.servers for name in server.devices or {}))
        self.units = [self._unit(name) for name in self.resources]
        self.shapes = self._shapes()
        self.kinds: list[TaskKind] = []
        self.groups_of: list[tuple[tuple[int, int], ...]] = []
        self._tasks()
        self.classes = self._classes()
        self.hosts = np.array(
            [[self._hosts(kind, shape) for shape in self.shapes] for kind in self.kinds], dtype=bool
        ).reshape(len(self.kinds), len(self.shapes))

    def _unit(self, resource: str) -> Fraction:
        groups = {id(j.task_groups): j.task_groups for j in self.formulation.instance.jobs}.values()
        demands = {group.demand.get(resource, 0.0) for listed in groups for group in listed}
        largest = max(
            exact_fraction(server.capacity.get(resource, 0.0)) for server in self.formulation.instance.servers
        )
        return max(common_divisor(map(exact_fraction, demands)) or Fraction(1), largest / LARGEST)

    def _shapes(self) -> list[ServerShape]:
        members: dict[object, list[int]] = defaultdict(list)
        for n, server in enumerate(self.servers):
            devices = tuple(
                (name, states, repr((server.devices or {})[name].partitions))
                for name, states in sorted(server.device_states.items())
            )
            members[server.gpu_model, tuple(sorted(server.available.items())), devices].append(n)
        return [
            ServerShape(server, tuple(listed), self._free(server))
            for listed in members.values()
            for server in [self.servers[listed[0]]]
        ]

    def _free(self, server: Server) -> tuple[int, ...]:
        amounts = (loosened(server.available.get(name, 0.0)) for name in self.resources)
        return tuple(
            math.floor(exact_fraction(a) / unit) for a, unit in zip(amounts, self.units, strict=True)
        )

    def _tasks(self) -> None:
        kind_numbers: dict[TaskKind, int] = {}
        by_groups: dict[object, tuple[tuple[int, int], ...]] = {}
        for job in self.formulation.instance.jobs:
            key = id(job.task_groups), job.gpu_model
            if key not in by_groups:
                check_time()
                pairs_of_job = []
                for group in job.task_groups:
                    pairs = zip(self.resources, self.units, strict=True)
                    need = tuple(
                        math.ceil(exact_fraction(group.demand.get(name, 0.0)) / u) for name, u in pairs
                    )
                    asks = tuple(sorted((self.names.index(name), ask) for name, ask in group.asks.items()))
                    kind = TaskKind(need, asks, job.gpu_model)
                    pairs_of_job.append((kind_numbers.setdefault(kind, len(kind_numbers)), group.tasks))
                by_groups[key] = tuple(pairs_of_job)
            self.groups_of.append(by_groups[key])
        self.kinds = list(kind_numbers)

    def _classes(self) -> list[DeviceJobClass]:
        by_key: dict[object, tuple[PlacementJob, list[int]]] = {}
        for position, job in enumerate(self.formulation.instance.jobs):
            key = self.groups_of[position], job.worth, job.must_place
            by_key.setdefault(key, (job, []))[1].append(position)
        return [DeviceJobClass(job, tuple(ps), self.groups_of[ps[0]]) for job, ps in by_key.values()]

    def _hosts(self, kind: TaskKind, shape: ServerShape) -> bool:
        if not allows(kind.gpu_model, shape.server.gpu_model):
            return False
        if any(need > free for need, free in zip(kind.need, shape.free, strict=True)):
            return False
        for d, ask in kind.asks:
            devices = (shape.server.devices or {}).get(self.names[d])
            if devices is None:
                return False
            if not tasks_on_devices(ask, devices, shape.server.device_states[self.names[d]]):
                return False
        return True

    def matrix(self, rows: Sequence[tuple[int, ...]]) -> Ints:
        """Return tuples of resource amounts, in units, as an array of shape (N, R)."""
        return np.array(rows, dtype=np.int64).reshape(len(rows), len(self.resources))
