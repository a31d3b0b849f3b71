"""Linear relaxation that aggregates servers of equal shape, and its dual prices, with single devices.

The classes are kinds of tasks, shapes of servers, and equal jobs.

Variables
    z_j    placed jobs of a class;  x_gs tasks of a group on servers of a shape;
    n_s    used servers of a shape;
    y_sdp  devices in one state on them with one pattern of contents
Constraints
    all tasks of a placed job are assigned;  resources of each shape;  shares of each size, partitions of
    each profile, and whole devices are covered by patterns;  each device has one pattern at most

Patterns of one device are found by column generation (Gilmore & Gomory 1961), shares by a knapsack of 1000
thousandths over their common divisor. The certificate holds the dual prices.
"""

from __future__ import annotations

import math
import operator
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from ....formulations.common.clock import check_time
from ....formulations.common.objective import common_divisor, exact_fraction, loosened
from ....formulations.consolidation.certificate import MAX_PRICE
from ....formulations.consolidation.fewest_servers import tasks_on_devices
from ....formulations.consolidation.formulation import DeviceFormulation
from ....instances.common.arrays import Floats
from ....instances.common.fields import Fields
from ....instances.common.hardware import Geometry
from ....instances.consolidation.devices import WHOLE, Device, DeviceDemand, Devices
from ....instances.consolidation.instance import Server
from ....instances.consolidation.job import GpuModels, PlacementJob, allows
from ...backends.base import BackendError
from ...backends.highs import Columns, highs_with_settings, linear_program, run_to_optimum
from ...common.base import Clock

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
            ServerShape(server, tuple(listed), self._units(map(loosened, amounts), math.floor))
            for listed in members.values()
            for server in [self.servers[listed[0]]]
            for amounts in [[server.available.get(name, 0.0) for name in self.resources]]
        ]

    def _units(self, amounts: Iterable[float], rounded: Callable[[Fraction], int]) -> tuple[int, ...]:
        """Return amounts of the resources in their units."""
        pairs = zip(amounts, self.units, strict=True)
        return tuple([rounded(exact_fraction(amount) / unit) for amount, unit in pairs])

    def _tasks(self) -> None:
        kind_numbers: dict[TaskKind, int] = {}
        by_groups: dict[object, tuple[tuple[int, int], ...]] = {}
        for job in self.formulation.instance.jobs:
            key = id(job.task_groups), job.gpu_model
            if key not in by_groups:
                check_time()
                pairs_of_job = []
                for group in job.task_groups:
                    amounts = [group.demand.get(name, 0.0) for name in self.resources]
                    need = self._units(amounts, math.ceil)
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
        if any(map(operator.gt, kind.need, shape.free)):
            return False
        for d, ask in kind.asks:
            name, devices, states = self.names[d], shape.server.devices or {}, shape.server.device_states
            if name not in devices or not tasks_on_devices(ask, devices[name], states[name]):
                return False
        return True


MAX_ROUNDS = 60
MAX_COLUMNS = 400_000
IMPROVEMENT_TOLERANCE = 1e-7
"""Least relative amount by which a new pattern's value must exceed its device's price."""

Pattern = tuple[tuple[DeviceDemand, int], ...]
"""Contents of one device: demands of tasks, and the number of each."""


@dataclass
class ShapeRelaxation:
    """Solution of the linear relaxation by server shape for one objective.

    Attributes
    ----------
    value
        Optimum of the goal, to be minimised.
    worth
        Dual cost of a task of each kind on each shape; shape (K, S), infinite where it does not fit.
    goal
        The dual prices in the format of the certificate.
    """

    value: float
    worth: Floats
    goal: Fields


def priced_demand(ask: DeviceDemand) -> DeviceDemand:
    """Return the unit demand that has a price: one device for whole devices, else the demand itself."""
    return DeviceDemand(whole=1) if ask.whole else ask


class ShapeProgram:
    """The linear relaxation by server shape, solved for one objective after the other.

    Rows are inequalities, but for the first: equations, one for each group of tasks of a class of jobs.

    Attributes
    ----------
    patterns
        Device patterns so far, for each shape, device name and device state.
    first_resource, first_ask, first_device, first_level
        First rows of each type of inequality.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.scale = [max(1, *(s.free[r] for s in cluster.shapes)) for r in range(len(cluster.resources))]
        self.states: list[tuple[int, int, Device, int]] = []
        for s, shape in enumerate(cluster.shapes):
            for d, name in enumerate(cluster.names):
                for state, count in Counter(shape.server.device_states.get(name, ())).items():
                    if state.mode != "whole":
                        self.states.append((s, d, state, count))
        self.asks: dict[tuple[int, int, DeviceDemand], int] = {}
        for k, kind in enumerate(cluster.kinds):
            for d, ask in kind.asks:
                for s in np.flatnonzero(cluster.hosts[k]).tolist():
                    self.asks.setdefault((s, d, priced_demand(ask)), len(self.asks))
        self.patterns: list[dict[Pattern, None]] = [
            dict.fromkeys(self._first(s, d, state)) for s, d, state, _ in self.states
        ]
        self.first_resource = sum(len(alike.groups) for alike in cluster.classes)
        self.first_ask = self.first_resource + len(cluster.resources) * len(cluster.shapes)
        self.first_device = self.first_ask + len(self.asks)
        self.first_level = self.first_device + len(self.states)

    def _devices(self, s: int, d: int) -> Devices:
        """Return the devices of a name that servers of a shape have."""
        return (self.cluster.shapes[s].server.devices or {})[self.cluster.names[d]]

    def _first(self, s: int, d: int, state: Device) -> list[Pattern]:
        """Return the initial patterns of a device: for each demand, as many tasks as the device holds."""
        asks = (ask for *at, ask in self.asks if at == [s, d])
        held = ((ask, tasks_on_devices(ask, self._devices(s, d), (state,))) for ask in asks)
        return [((ask, most),) for ask, most in held if most]

    def solve(self, goal: str, levels: Mapping[str, float], clock: Clock) -> ShapeRelaxation | None:
        """Return the relaxation of an objective with bounds on earlier ones; None if none was solved.

        Parameters
        ----------
        levels
            Limits on earlier goals, to be minimised.
        """
        best: ShapeRelaxation | None = None
        columns = self._columns(goal, len(levels))
        if len(columns.costs) > MAX_COLUMNS:
            return None
        rows = self.first_level + len(levels)
        least = np.full(rows, -np.inf)
        least[: self.first_resource] = 0.0
        most = np.concatenate([np.zeros(self.first_level), [*levels.values()]])
        low, high = np.zeros(len(columns.costs)), np.array(columns.most)
        must = np.array([alike.job.must_place for alike in self.cluster.classes], dtype=bool)
        low[: len(must)] = high[: len(must)] * must
        model = linear_program(np.array(columns.costs), (low, high), (least, most), columns.matrix)
        highs = highs_with_settings({}, BackendError)
        highs.passModel(model)
        for _ in range(MAX_ROUNDS):
            if clock.expired or not run_to_optimum(highs, clock):
                break
            best, paid = self._read(goal, levels, highs)
            added = self._price(paid)
            if not added:
                break
            for state, pattern in added:
                at, values = zip(*self._entries(state, pattern), strict=True)
                highs.addCol(0.0, 0.0, highs.inf, len(at), np.array(at, dtype=np.int32), np.array(values))
        return best

    def _columns(self, goal: str, levels: int) -> Columns:
        """Return the columns of jobs, tasks, used servers and device patterns, in this order.

        Parameters
        ----------
        levels
            Number of rows that limit earlier goals: only values of jobs do.
        """
        cluster, columns, group = self.cluster, Columns(), 0
        for alike in cluster.classes:
            worth = -alike.job.worth
            entries = [(group + g, -float(tasks)) for g, (_, tasks) in enumerate(alike.groups)]
            entries += [(self.first_level + i, worth) for i in range(levels)]
            columns.add(worth if goal == "value" else 0.0, entries, len(alike.members))
            group += len(alike.groups)
        groups = [k for alike in cluster.classes for k, _ in alike.groups]
        for group, k in enumerate(groups):
            for s in np.flatnonzero(cluster.hosts[k]).tolist():
                columns.add(0.0, [(group, 1.0), *self._demand(k, s)])
        resources = len(cluster.resources)
        for s, shape in enumerate(cluster.shapes):
            first = self.first_resource + s * resources
            entries = [(first + r, -free / self.scale[r]) for r, free in enumerate(shape.free)]
            entries += [
                (self.first_device + i, -float(count))
                for i, (of_shape, _, _, count) in enumerate(self.states)
                if of_shape == s
            ]
            columns.add(0.0 if goal == "value" else 1.0, entries, len(shape.members))
        for state, patterns in enumerate(self.patterns):
            for pattern in patterns:
                columns.add(0.0, self._entries(state, pattern))
        return columns

    def _demand(self, k: int, s: int) -> list[tuple[int, float]]:
        """Return the entries (row, coefficient) of the resources and devices of a task on a server shape."""
        kind = self.cluster.kinds[k]
        first = self.first_resource + s * len(kind.need)
        return [
            *((first + r, need / self.scale[r]) for r, need in enumerate(kind.need) if need),
            *(
                (self.first_ask + self.asks[s, d, priced_demand(a)], float(a.whole or 1))
                for d, a in kind.asks
            ),
        ]

    def _entries(self, state: int, pattern: Pattern) -> list[tuple[int, float]]:
        """Return the entries (row, coefficient) of the column of a device pattern."""
        s, d, _, _ = self.states[state]
        contents = [(self.first_ask + self.asks[s, d, ask], -float(n)) for ask, n in pattern]
        return [*contents, (self.first_device + state, 1.0)]

    def _read(
        self, goal: str, levels: Mapping[str, float], highs: Any
    ) -> tuple[ShapeRelaxation, list[tuple[float, dict[DeviceDemand, float]]]]:
        """Return the solution, and for each device state its dual price and those of its contents."""
        cluster, shapes = self.cluster, len(self.cluster.shapes)
        solution = highs.getSolution()
        # Rows are upper limits, so that duals are never positive but for rounding.
        duals = np.minimum(MAX_PRICE, np.maximum(0.0, -np.array(solution.row_dual)))
        of_ask: dict[tuple[int, int], dict[DeviceDemand, float]] = defaultdict(dict)
        for (s, d, ask), row in self.asks.items():
            of_ask[s, d][ask] = float(duals[self.first_ask + row])
        per_shape = duals[self.first_resource : self.first_ask].reshape(shapes, len(cluster.resources))
        unit = per_shape / np.array(self.scale)
        worth = np.full((len(cluster.kinds), shapes), np.inf)
        for k, s in np.argwhere(cluster.hosts).tolist():
            kind = cluster.kinds[k]
            worth[k, s] = float(unit[s] @ np.array(kind.need))
            for d, ask in kind.asks:
                worth[k, s] += (ask.whole or 1) * of_ask[s, d][priced_demand(ask)]
        prices = [
            {
                "resources": {
                    name: min(MAX_PRICE, float(unit[s, r] / cluster.units[r]))
                    for r, name in enumerate(cluster.resources)
                    if unit[s, r] > 0
                },
                "devices": {
                    cluster.names[d]: _device_prices(of_ask[s, d]) for d in range(len(cluster.names))
                },
            }
            for s in range(shapes)
        ]
        multipliers = {name: float(duals[self.first_level + i]) for i, name in enumerate(levels)}
        certificate_goal = {"objective": goal, "shapes": prices, "multipliers": multipliers}
        device_prices = [
            (float(duals[self.first_device + row]), of_ask[s, d])
            for row, (s, d, _, _) in enumerate(self.states)
        ]
        value = float(highs.getInfo().objective_function_value)
        return ShapeRelaxation(value, worth, certificate_goal), device_prices

    def _price(
        self, device_prices: Sequence[tuple[float, dict[DeviceDemand, float]]]
    ) -> list[tuple[int, Pattern]]:
        """Add each device state's best pattern if its reduced cost is negative; return (state, pattern)."""
        added: list[tuple[int, Pattern]] = []
        known: dict[object, Pattern] = {}
        for i, ((s, d, state, _), (price, prices)) in enumerate(zip(self.states, device_prices, strict=True)):
            geometry = self._devices(s, d).partitions
            key = (state, tuple(sorted(prices.items())), id(geometry))
            if key not in known:
                known[key] = best_pattern(state, prices, geometry)
            pattern = known[key]
            worth = math.fsum(prices[ask] * times for ask, times in pattern)
            if worth > price + IMPROVEMENT_TOLERANCE * max(1e-3, price) and pattern not in self.patterns[i]:
                self.patterns[i][pattern] = None
                added.append((i, pattern))
        return added


def _device_prices(prices: Mapping[DeviceDemand, float]) -> Fields:
    return {
        "whole": prices.get(DeviceDemand(whole=1), 0.0),
        # Keys are text, as in JSON, so that a stored certificate is the same.
        "shares": {str(ask.share): p for ask, p in prices.items() if ask.share and p > 0},
        "profiles": {ask.profile: p for ask, p in prices.items() if ask.profile and p > 0},
    }


def best_pattern(state: Device, prices: Mapping[DeviceDemand, float], geometry: Geometry | None) -> Pattern:
    """Return the contents of a device of maximum total price: shares or partitions, not whole devices."""
    best: Pattern = ()
    if state.mode in ("free", "shared"):
        best = _best_shares(WHOLE - state.used, {a: p for a, p in prices.items() if a.share and p > 0})
    if state.mode in ("free", "parted") and geometry is not None:
        parts = {ask: p for ask, p in prices.items() if ask.profile and p > 0}
        best = max(
            best,
            _best_partitions(state.used, parts, geometry),
            key=lambda p: sum(prices[a] * n for a, n in p),
        )
    return best


def _best_shares(capacity: int, prices: Mapping[DeviceDemand, float]) -> Pattern:
    """Return the shares of a device of maximum total price, by an unbounded knapsack."""
    if not prices:
        return ()
    unit = math.gcd(*(ask.share for ask in prices))
    asks = sorted(prices, key=lambda ask: ask.share)
    # The first item is one unit that is left free.
    sizes = np.array([1, *(ask.share // unit for ask in asks)])
    worth = np.array([0.0, *(prices[ask] for ask in asks)])
    best = np.zeros(capacity // unit + 1)
    last = np.zeros(len(best), dtype=np.int64)
    for cell in range(1, len(best)):
        fit = int(np.searchsorted(sizes, cell, side="right"))
        totals = best[cell - sizes[:fit]] + worth[:fit]
        last[cell] = totals.argmax()
        best[cell] = totals[last[cell]]
    counts, cell = Counter[DeviceDemand](), len(best) - 1
    while cell > 0:
        if last[cell]:
            counts[asks[last[cell] - 1]] += 1
        cell -= int(sizes[last[cell]])
    return tuple(sorted(counts.items()))


def _best_partitions(used_slots: int, prices: Mapping[DeviceDemand, float], geometry: Geometry) -> Pattern:
    """Return the partitions of a device of maximum total price, by dynamic programming over its slots."""
    best: list[tuple[float, tuple[DeviceDemand, ...]]] = [(0.0, ())] * (geometry.slots + 1)
    for slot in range(geometry.slots - 1, -1, -1):
        best[slot] = best[slot + 1]
        for ask, price in prices.items():
            profile = geometry.profiles.get(ask.profile)
            if profile is None or slot not in profile.starts or used_slots & profile.mask(slot):
                continue
            worth, after = best[slot + profile.size]
            if worth + price > best[slot][0]:
                best[slot] = worth + price, (*after, ask)
    return tuple(sorted(Counter(best[0][1]).items()))
