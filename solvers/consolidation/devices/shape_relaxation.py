"""Linear relaxation that aggregates servers of equal shape, and its dual prices.

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
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ....formulations.consolidation.certificate import MAX_PRICE
from ....instances.common.arrays import Floats, Ints
from ....instances.common.hardware import Geometry
from ....instances.consolidation.devices import WHOLE, Device, DeviceDemand
from ...backends.base import BackendError
from ...backends.highs import highs_with_settings, linear_program
from ...common.base import Clock
from .classes import Cluster

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
    tasks
        Tasks of each kind on each shape; shape (K, S).
    worth
        Dual cost of a task of each kind on each shape; shape (K, S), infinite where it does not fit.
    goal
        The dual prices in the format of the certificate.
    """

    value: float
    tasks: Floats
    worth: Floats
    goal: dict[str, Any]


class _MatrixBuilder:
    """Builder of the relaxation's sparse matrix, with columns in the order z, x, n, y.

    Attributes
    ----------
    rows, columns, values
        Entries of the matrix.
    first_resource, first_ask, first_device, first_level
        First rows of each type of inequality; before them are equations, one for each group of tasks.
    x_of
        Columns of the tasks of each kind on each shape.
    """

    def __init__(self, program: ShapeProgram) -> None:
        self.program, self.cluster = program, program.cluster
        self.rows: list[int] = []
        self.columns: list[int] = []
        self.values: list[float] = []
        self.x_of: dict[tuple[int, int], list[int]] = defaultdict(list)
        self.first_resource = sum(len(alike.groups) for alike in self.cluster.classes)
        self.first_ask = self.first_resource + len(self.cluster.resources) * len(self.cluster.shapes)
        self.first_device = self.first_ask + len(program.asks)
        self.first_level = self.first_device + len(program.states)

    def add(self, row: int, column: int, value: float) -> None:
        """Add a coefficient to the sparse matrix."""
        self.rows.append(row)
        self.columns.append(column)
        self.values.append(value)

    def matrix(self, rows: int) -> tuple[Ints, Ints, Floats]:
        """Return starts, column indices and values of the matrix in compressed sparse rows."""
        order = np.lexsort((self.columns, self.rows))
        starts = np.searchsorted(np.array(self.rows)[order], np.arange(rows + 1))
        return starts, np.array(self.columns)[order], np.array(self.values)[order]

    def tasks(self) -> int:
        """Add the columns of tasks on server shapes; return the next free column."""
        column, group = len(self.cluster.classes), 0
        for c, alike in enumerate(self.cluster.classes):
            for k, tasks in alike.groups:
                self.add(group, c, -float(tasks))
                for s in np.flatnonzero(self.cluster.hosts[k]).tolist():
                    self.add(group, column, 1.0)
                    self.x_of[k, s].append(column)
                    self._add_demand(k, s, column)
                    column += 1
                group += 1
        return column

    def _add_demand(self, k: int, s: int, column: int) -> None:
        """Add the demand of one task of kind `k` on server shape `s` to the rows of resources and devices."""
        kind = self.cluster.kinds[k]
        for r, need in enumerate(kind.need):
            if need:
                row = self.first_resource + s * len(kind.need) + r
                self.add(row, column, need / self.program.scale[r])
        for d, ask in kind.asks:
            row = self.first_ask + self.program.asks[s, d, priced_demand(ask)]
            self.add(row, column, float(ask.whole or 1))

    def servers(self, column: int) -> int:
        """Add the columns of used servers of each shape, with capacities; return the next free column."""
        for s, shape in enumerate(self.cluster.shapes):
            for r, free in enumerate(shape.free):
                row = self.first_resource + s * len(shape.free) + r
                self.add(row, column + s, -free / self.program.scale[r])
        return column + len(self.cluster.shapes)

    def devices(self, first_n: int, column: int) -> int:
        """Add the columns of device patterns; return the total number of columns."""
        for i, (s, _, _, count) in enumerate(self.program.states):
            self.add(self.first_device + i, first_n + s, -float(count))
            for pattern in self.program.patterns[i]:
                for row, value in self.pattern(i, pattern):
                    self.add(row, column, value)
                column += 1
        return column

    def pattern(self, state: int, pattern: Pattern) -> list[tuple[int, float]]:
        """Return the matrix entries (row, coefficient) of a device pattern's column."""
        s, d, _, _ = self.program.states[state]
        contents = [(self.first_ask + self.program.asks[s, d, ask], -float(n)) for ask, n in pattern]
        return [*contents, (self.first_device + state, 1.0)]


def priced_demand(ask: DeviceDemand) -> DeviceDemand:
    """Return the unit demand that has a price: one device for whole devices, else the demand itself."""
    return DeviceDemand(whole=1) if ask.whole else ask


class ShapeProgram:
    """The linear relaxation by server shape, solved for one objective after the other.

    Attributes
    ----------
    patterns
        Device patterns so far, for each shape, device name and device state.
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

    def geometry(self, s: int, d: int) -> Geometry | None:
        """Return the partition geometry of a device name on a server shape; None if not partitionable."""
        devices = (self.cluster.shapes[s].server.devices or {}).get(self.cluster.names[d])
        return devices.partitions if devices is not None else None

    def _first(self, s: int, d: int, state: Device) -> list[Pattern]:
        """Return the initial patterns of a device: for each demand, as many tasks as the device holds."""
        patterns: list[Pattern] = []
        for shape, name, ask in self.asks:
            if (shape, name) != (s, d):
                continue
            most = 0
            if ask.whole and state.mode == "free":
                most = 1
            elif ask.share and state.mode in ("free", "shared"):
                most = (WHOLE - state.used) // ask.share
            elif ask.profile and state.mode in ("free", "parted"):
                geometry = self.geometry(s, d)
                most = geometry.most(ask.profile, state.used) if geometry else 0
            if most:
                patterns.append(((ask, most),))
        return patterns

    def solve(self, goal: str, levels: Mapping[str, float], clock: Clock) -> ShapeRelaxation | None:
        """Return the relaxation of an objective with bounds on earlier ones; None if none was solved.

        Parameters
        ----------
        levels
            Limits on earlier goals, to be minimised.
        """
        import highspy

        best: ShapeRelaxation | None = None
        layout = _MatrixBuilder(self)
        model = self._model(layout, goal, levels)
        if model is None:
            return None
        highs = highs_with_settings({}, BackendError)
        highs.passModel(model)
        for _ in range(MAX_ROUNDS):
            if clock.expired:
                break
            if clock.remaining_s is not None:
                highs.setOptionValue("time_limit", highs.getRunTime() + clock.remaining_s)
            highs.run()
            if highs.getModelStatus() != highspy.HighsModelStatus.kOptimal:
                break
            best, paid = self._read(goal, levels, highs, layout)
            added = self._price(paid)
            if not added:
                break
            for state, pattern in added:
                rows, values = zip(*layout.pattern(state, pattern), strict=True)
                highs.addCol(0.0, 0.0, highs.inf, len(rows), np.array(rows, dtype=np.int32), np.array(values))
        return best

    def _model(self, layout: _MatrixBuilder, goal: str, levels: Mapping[str, float]) -> Any | None:
        """Return the linear programme over the device patterns so far; None if it has too many columns."""
        first_n = layout.tasks()
        first_y = layout.servers(first_n)
        columns = layout.devices(first_n, first_y)
        if columns > MAX_COLUMNS:
            return None
        cluster, worth = self.cluster, self._values()
        classes, shapes = len(cluster.classes), len(cluster.shapes)
        cost, lower, upper = np.zeros(columns), np.zeros(columns), np.full(columns, np.inf)
        if goal == "value":
            cost[:classes] = worth
        else:
            cost[first_n:first_y] = 1.0
        rows = layout.first_level + len(levels)
        least, most = np.full(rows, -np.inf), np.zeros(rows)
        least[: layout.first_resource] = 0.0
        for row, level in enumerate(levels.values(), start=layout.first_level):
            for c, each in enumerate(worth.tolist()):
                layout.add(row, c, each)
            most[row] = level
        upper[:classes] = [len(alike.members) for alike in cluster.classes]
        lower[:classes] = [len(alike.members) * alike.job.must_place for alike in cluster.classes]
        upper[first_n : first_n + shapes] = [len(shape.members) for shape in cluster.shapes]
        return linear_program(cost, (lower, upper), (least, most), layout.matrix(rows), by_rows=True)

    def _values(self) -> Floats:
        return np.array([-alike.job.worth for alike in self.cluster.classes])

    def _read(
        self, goal: str, levels: Mapping[str, float], highs: Any, layout: _MatrixBuilder
    ) -> tuple[ShapeRelaxation, list[tuple[float, dict[DeviceDemand, float]]]]:
        """Return the solution, and for each device state its dual price and those of its contents."""
        cluster, shapes = self.cluster, len(self.cluster.shapes)
        solution = highs.getSolution()
        columns = np.array(solution.col_value)
        # Rows are upper limits, so that duals are never positive but for rounding.
        duals = np.minimum(MAX_PRICE, np.maximum(0.0, -np.array(solution.row_dual)))
        of_ask: dict[tuple[int, int], dict[DeviceDemand, float]] = defaultdict(dict)
        for (s, d, ask), row in self.asks.items():
            of_ask[s, d][ask] = float(duals[layout.first_ask + row])
        per_shape = duals[layout.first_resource : layout.first_ask].reshape(shapes, len(cluster.resources))
        unit = per_shape / np.array(self.scale)
        tasks = np.zeros((len(cluster.kinds), shapes))
        worth = np.full((len(cluster.kinds), shapes), np.inf)
        for (k, s), x_columns in layout.x_of.items():
            tasks[k, s] = columns[x_columns].sum()
            kind = cluster.kinds[k]
            price_of_task = float(unit[s] @ np.array(kind.need))
            for d, ask in kind.asks:
                price_of_task += (ask.whole or 1) * of_ask[s, d][priced_demand(ask)]
            worth[k, s] = price_of_task
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
        multipliers = {name: float(duals[layout.first_level + i]) for i, name in enumerate(levels)}
        certificate_goal = {"objective": goal, "shapes": prices, "multipliers": multipliers}
        device_prices = [
            (float(duals[layout.first_device + row]), of_ask[s, d])
            for row, (s, d, _, _) in enumerate(self.states)
        ]
        value = float(highs.getInfo().objective_function_value)
        return ShapeRelaxation(value, tasks, worth, certificate_goal), device_prices

    def _price(
        self, device_prices: Sequence[tuple[float, dict[DeviceDemand, float]]]
    ) -> list[tuple[int, Pattern]]:
        """Add each device state's best pattern if its reduced cost is negative; return (state, pattern)."""
        added: list[tuple[int, Pattern]] = []
        known: dict[object, Pattern] = {}
        for i, ((s, d, state, _), (price, prices)) in enumerate(zip(self.states, device_prices, strict=True)):
            geometry = self.geometry(s, d)
            key = (state, tuple(sorted(prices.items())), id(geometry))
            if key not in known:
                known[key] = best_pattern(state, prices, geometry)
            pattern = known[key]
            worth = math.fsum(prices[ask] * times for ask, times in pattern)
            if worth > price + IMPROVEMENT_TOLERANCE * max(1e-3, price) and pattern not in self.patterns[i]:
                self.patterns[i][pattern] = None
                added.append((i, pattern))
        return added


def _device_prices(prices: Mapping[DeviceDemand, float]) -> dict[str, Any]:
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
    sizes, worth = np.array([ask.share // unit for ask in asks]), np.array([prices[ask] for ask in asks])
    best = np.zeros(capacity // unit + 1)
    last = np.full(len(best), -1)
    for cell in range(1, len(best)):
        fit = int(np.searchsorted(sizes, cell, side="right"))
        best[cell], last[cell] = best[cell - 1], -2
        if fit:
            totals = best[cell - sizes[:fit]] + worth[:fit]
            which = int(totals.argmax())
            if totals[which] > best[cell]:
                best[cell], last[cell] = totals[which], which
    counts: Counter[DeviceDemand] = Counter()
    cell = len(best) - 1
    while cell > 0:
        if last[cell] == -2:
            cell -= 1
        else:
            counts[asks[last[cell]]] += 1
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
