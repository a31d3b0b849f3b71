"""The linear programme by shape: a bound, and prices of tasks to begin column generation with.

Servers of a class count by their sum of capacities, and tasks of a shape by their number on each class. What
a server holds of one shape is limited by what it would hold of that shape alone. This is the relaxation of
the assignment model, summed up over equal servers. Its dual prices are feasible for all patterns, so that the
Lagrangian bound at these prices is no worse than its value (Geoffrion 1974).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from ....formulations.common.clock import check_time
from ....formulations.consolidation.certificate import MUST_PLACE
from ....formulations.consolidation.classes import BY_SERVERS, ClassTable, JobClass
from ....instances.common.arrays import Floats
from ...backends.base import BackendError
from ...backends.highs_mip import linear_program, solver_with
from ..settings import SETTINGS
from .master import DualPrices, RestrictedMaster

Entries = list[tuple[int, float]]


@dataclass
class _Columns:
    """Columns of the linear programme: cost, most and entries of each."""

    costs: list[float] = field(default_factory=list)
    most: list[float] = field(default_factory=list)
    starts: list[int] = field(default_factory=lambda: [0])
    rows: list[int] = field(default_factory=list)
    values: list[float] = field(default_factory=list)

    def add(self, cost: float, entries: Iterable[tuple[int, float]], most: float = np.inf) -> None:
        """Add a column of non-negative values; entries of one row add up."""
        total: dict[int, float] = {}
        for row, value in entries:
            total[row] = total.get(row, 0.0) + value
        self.rows += total.keys()
        self.values += total.values()
        self.costs.append(cost)
        self.most.append(most)
        self.starts.append(len(self.rows))


class LpByShape:
    """The linear programme by shape of one goal.

    Rows: supply of tasks of each group of each shape; capacity of each class of servers; classes of servers;
    classes of jobs; earlier goals; limits of tasks for each server that is used.

    Parameters
    ----------
    levels
        The most that earlier goals may be, in steps.
    """

    def __init__(self, master: RestrictedMaster, goal: str, levels: Mapping[str, float]) -> None:
        self.master, self.goal = master, goal
        self.levels = {name: most for name, most in levels.items() if name != MUST_PLACE}
        classes = self.classes = master.classes
        groups = [len(shape.demands) for shape in classes.task_shapes]
        self.supply = np.concatenate([[0], np.cumsum(groups)]).astype(int)
        resources = len(classes.units)
        self.capacity = int(self.supply[-1])
        self.server_row = self.capacity + resources * len(classes.servers)
        self.job_row = self.server_row + len(classes.servers)
        self.level_row = self.job_row + len(classes.jobs)
        self.rows = self.level_row + len(self.levels)
        self.columns = _Columns()
        self._jobs()
        self._servers()

    def solve(self, time_limit_s: float | None = None) -> tuple[float, DualPrices] | None:
        """Return the value, in steps of the goal, and dual prices; None if no solution is found."""
        import highspy

        columns, classes = self.columns, self.classes
        # HiGHS has no prices for a model without columns.
        if not columns.costs:
            needed = any(job.must_place for job in classes.jobs)
            return None if needed else (0.0, self._prices(np.zeros(self.rows)))
        low, high = np.full(self.rows, -np.inf), np.full(self.rows, np.inf)
        low[: self.capacity] = 0.0
        high[self.capacity : self.server_row] = 0.0
        high[self.server_row : self.job_row] = [len(server.members) for server in classes.servers]
        high[self.job_row : self.level_row] = [len(job.members) for job in classes.jobs]
        must = np.array([job.must_place for job in classes.jobs], dtype=bool)
        low[self.job_row : self.level_row][must] = high[self.job_row : self.level_row][must]
        high[self.level_row : self.level_row + len(self.levels)] = list(self.levels.values())
        high[self.level_row + len(self.levels) :] = 0.0
        most = np.array(columns.most)
        matrix = (
            np.array(columns.starts, dtype=np.int32),
            np.array(columns.rows, dtype=np.int32),
            np.array(columns.values),
        )
        model = linear_program(np.array(columns.costs), (np.zeros(len(most)), most), (low, high), matrix)
        settings = {} if time_limit_s is None else {"time_limit": time_limit_s}
        highs = solver_with(settings, BackendError)
        highs.passModel(model)
        highs.run()
        if highs.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            return None
        return float(highs.getInfo().objective_function_value), self._prices(
            np.array(highs.getSolution().row_dual)
        )

    def _prices(self, duals: Floats) -> DualPrices:
        classes = self.classes
        earlier = {name: max(0.0, -float(duals[self.level_row + i])) for i, name in enumerate(self.levels)}
        single: list[Floats] = [
            np.maximum(duals[self.supply[k] : self.supply[k + 1]], 0.0) for k in range(len(classes.pieces))
        ]
        pairs = zip(classes.pieces, single, strict=True)
        pieces: list[Floats] = [np.asarray(counts @ price, dtype=float) for counts, price in pairs]
        # A piece that stays is worth the same tasks anywhere, and the moves that it saves.
        saved = {"migrations": 1.0} if self.goal == "migrations" else earlier
        for job in classes.jobs:
            for current in job.current:
                base = job.parts[current.part].shape
                counts = classes.pieces[current.shape]
                stays = np.minimum(counts, np.array(current.kept)).sum(axis=1)
                pieces[current.shape] = counts @ single[base] + saved.get("migrations", 0.0) * stays
        return DualPrices(
            tuple(pieces),
            np.maximum(-duals[self.server_row : self.job_row], 0.0),
            duals[self.job_row : self.level_row],
            earlier,
        )

    def _counted(self, counts: Mapping[str, float]) -> tuple[float, Entries]:
        """Return the cost of a column, and its entries in the rows of earlier goals."""
        entries = [
            (self.level_row + i, counts[name]) for i, name in enumerate(self.levels) if counts.get(name)
        ]
        return counts.get(self.goal, 0.0), entries

    def _jobs(self) -> None:
        """Add jobs of each class that are placed, and those that are missing."""
        for c, job in enumerate(self.classes.jobs):
            cost, entries = self._counted(self._least(job))
            entries.append((self.job_row + c, 1.0))
            possible = True
            for part in job.parts:
                possible &= bool(len(self.classes.slots[part.shape]))
                entries += [(int(self.supply[part.shape]) + g, -float(n)) for g, n in enumerate(part.tasks)]
            if possible:
                self.columns.add(cost, entries)
            if job.must_place and self.goal == MUST_PLACE:
                cost, entries = self._counted({MUST_PLACE: 1.0})
                self.columns.add(cost, [*entries, (self.job_row + c, 1.0)])

    def _least(self, job: JobClass) -> dict[str, float]:
        """Return what a job counts at least in each goal, in steps, on however many servers."""
        steps = self.master.steps
        counts = {"value": float(job.count("value", 1) / steps["value"])}
        for name in BY_SERVERS:
            counts[name] = min(float(job.count(name, n) / steps[name]) for n in range(1, job.most + 1))
        if job.fewest is not None:
            counts["spread"] = 0.0  # no job uses fewer servers than it ever could
        return counts

    def _servers(self) -> None:
        """Add servers of each class that are used, and tasks of each shape on them."""
        classes = self.classes
        shapes = {pool: classes.shapes_of(pool) for pool in classes.pools}
        # Limits for each server that is used need a row each; where these are too many, all servers count.
        linked = len(classes.servers) * len(classes.task_shapes) <= SETTINGS.most_linked_rows
        for number, server in enumerate(classes.servers):
            check_time()
            cost, entries = self._counted({"servers": 1.0})
            entries.append((self.server_row + number, 1.0))
            first = self.capacity + number * len(server.free)
            entries += [(first + r, -float(amount)) for r, amount in enumerate(server.free)]
            for k in shapes[server.pool]:
                for g, held in enumerate(_alone(classes, k, server.free)):
                    if not held:
                        continue
                    task = self._task(k, g, first)
                    most = np.inf if linked else held * len(server.members)
                    if linked:
                        entries.append((self.rows, -float(held)))
                        task.append((self.rows, 1.0))
                        self.rows += 1
                    self.columns.add(0.0, task, most)
            self.columns.add(cost, entries)
            self._staying(number, first)

    def _task(self, k: int, group: int, first: int) -> Entries:
        """Return the entries of a task: its supply, and what it takes of the capacity of a class."""
        demand = self.classes.task_shapes[k].demands[group]
        return [
            (int(self.supply[k]) + group, 1.0),
            *((first + r, float(amount)) for r, amount in enumerate(demand) if amount),
        ]

    def _staying(self, number: int, first: int) -> None:
        """Add the tasks of a class that may stay where they are."""
        server = self.classes.servers[number]
        for job in self.classes.jobs:
            for current in job.current:
                there = server.residents.count(current.shape) * len(server.members)
                cost, entries = self._counted({"migrations": -1.0})
                for g, kept in enumerate(current.kept if there else ()):
                    task = self._task(job.parts[current.part].shape, g, first)
                    self.columns.add(cost, [*task, *entries], float(kept * there))


def _alone(classes: ClassTable, k: int, free: tuple[int, ...]) -> list[int]:
    """Return how many tasks of each group of a shape a server holds, were they alone."""
    most = classes.slots[k].max(axis=0, initial=0).tolist()
    return [
        min([count, *(amount // need for amount, need in zip(free, demand, strict=True) if need)])
        for count, demand in zip(most, classes.task_shapes[k].demands, strict=True)
    ]
