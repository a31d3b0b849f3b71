"""Assignment relaxation by task shape: a linear programme whose bound and prices start column generation.

Servers of a class are aggregated by their total capacity, and tasks of a shape by their number on each class.
The tasks of one shape on a server are limited by the number that fits without other shapes. This is the
relaxation of the assignment model, aggregated over equal servers. Its dual prices are feasible for all
patterns, so that the Lagrangian bound at these prices is no worse than its value (Geoffrion 1974). Where
classes are so many that the programme would be large, similar classes are aggregated, which weakens the bound
a little.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ....formulations.common.clock import check_time
from ....formulations.consolidation.certificate import MUST_PLACE
from ....formulations.consolidation.classes import (
    JOB_OBJECTIVES,
    MOVE_LIMIT,
    SERVER_COUNT_OBJECTIVES,
    JobClass,
)
from ....instances.common.arrays import Floats, offsets
from ...backends.highs import Columns, linear_optimum
from ..progress import SETTINGS
from .master import DualPrices, RestrictedMaster, server_groups

Entries = list[tuple[int, float]]


class AssignmentRelaxation:
    """Assignment relaxation for one objective: a linear programme aggregated over equal servers and tasks.

    Rows: supply of tasks of each group of each shape; capacity of each group of servers; groups of servers;
    classes of jobs; earlier goals; limits of tasks, and of capacity, for each server that is used.

    Parameters
    ----------
    levels
        Upper limits on earlier goals, in steps.
    """

    def __init__(self, master: RestrictedMaster, goal: str, levels: Mapping[str, float]) -> None:
        self.master, self.goal = master, goal
        self.levels = {name: most for name, most in levels.items() if name != MUST_PLACE}
        classes = self.classes = master.classes
        groups = [len(shape.demands) for shape in classes.task_shapes]
        self.supply = offsets(groups)
        resources, shapes = len(classes.units), len(classes.task_shapes)
        self.free = np.array([server.free for server in classes.servers], dtype=float).reshape(-1, resources)
        self.count = master.servers
        self.held = [self._held(k) for k in range(shapes)]
        self.groups = self._groups(max(SETTINGS.fewest_groups, SETTINGS.most_linked_rows // max(1, shapes)))
        self.capacity = int(self.supply[-1])
        self.server_row = self.capacity + resources * len(self.groups)
        self.job_row = self.server_row + len(self.groups)
        self.level_row = self.job_row + len(classes.jobs)
        self.rows = self.level_row + len(self.levels)
        self.columns = Columns()
        self._jobs()
        self._servers()

    def solve(self, time_limit_s: float | None = None) -> tuple[float, DualPrices] | None:
        """Return the optimal value, in steps of the objective, and dual prices; None if none is found."""
        columns, classes = self.columns, self.classes
        # HiGHS has no prices for a model without columns.
        if not columns.costs:
            columns.add(0.0, (), 0.0)
        low, high = np.full(self.rows, -np.inf), np.full(self.rows, np.inf)
        low[: self.capacity] = 0.0
        high[self.capacity : self.server_row] = np.ravel(
            [
                self.count[group] @ self.free[group] if len(group) > 1 else 0 * self.free[0]
                for group in self.groups
            ]
        )
        high[self.server_row : self.job_row] = [self.count[group].sum() for group in self.groups]
        high[self.job_row : self.level_row] = [len(job.members) for job in classes.jobs]
        must = np.array([job.must_place for job in classes.jobs], dtype=bool)
        low[self.job_row : self.level_row][must] = high[self.job_row : self.level_row][must]
        high[self.level_row : self.level_row + len(self.levels)] = list(self.levels.values())
        high[self.level_row + len(self.levels) :] = 0.0
        found = linear_optimum(columns.program((low, high)), time_limit_s)
        return None if found is None else (found.value, self._prices(found.prices))

    def _prices(self, duals: Floats) -> DualPrices:
        classes = self.classes
        earlier = {name: max(0.0, -float(duals[self.level_row + i])) for i, name in enumerate(self.levels)}
        single: list[Floats] = [
            np.maximum(duals[self.supply[k] : self.supply[k + 1]], 0.0) for k in range(len(classes.pieces))
        ]
        pairs = zip(classes.pieces, single, strict=True)
        pieces: list[Floats] = [np.asarray(counts @ price, dtype=float) for counts, price in pairs]
        # A piece that stays is worth the same tasks anywhere, and the moves that it saves.
        saved = earlier | {self.goal: 1.0}
        for job in classes.jobs:
            for current in job.current:
                base = job.parts[current.part].shape
                counts = classes.pieces[current.shape]
                worth = sum(
                    -saved.get(name, 0.0) * count for name, count in self._staying_counts(job).items()
                )
                pieces[current.shape] = counts @ single[base] + worth * current.staying(counts)
        servers = np.zeros(len(classes.servers))
        for number, group in enumerate(self.groups):
            servers[group] = max(0.0, -float(duals[self.server_row + number]))
        return DualPrices(
            tuple(pieces),
            servers,
            duals[self.job_row : self.level_row],
            earlier,
        )

    def _counted(self, counts: Mapping[str, float]) -> tuple[float, Entries]:
        """Return a column's coefficient in the objective, and its entries in rows of earlier objectives."""
        entries = [
            (self.level_row + i, counts[name]) for i, name in enumerate(self.levels) if counts.get(name)
        ]
        return counts.get(self.goal, 0.0), entries

    def _jobs(self) -> None:
        """Add the columns of placed jobs of each class, and of required jobs that are missing."""
        for c, job in enumerate(self.classes.jobs):
            cost, entries = self._counted(self._least(job))
            entries.append((self.job_row + c, 1.0))
            for part in job.parts:
                entries += [(int(self.supply[part.shape]) + g, -float(n)) for g, n in enumerate(part.tasks)]
            if self.classes.can_run(job):
                self.columns.add(cost, entries)
            if job.must_place and self.goal == MUST_PLACE:
                cost, entries = self._counted({MUST_PLACE: 1.0})
                self.columns.add(cost, [*entries, (self.job_row + c, 1.0)])

    def _least(self, job: JobClass) -> dict[str, float]:
        """Return a job's minimum contribution to each objective, in steps, over all numbers of servers."""
        steps = self.master.steps
        counts = {name: float(job.count(name, 1) / steps[name]) for name in JOB_OBJECTIVES}
        for name in SERVER_COUNT_OBJECTIVES:
            counts[name] = min(float(job.count(name, n) / steps[name]) for n in range(1, job.most + 1))
        if job.fewest is not None:
            counts["spread"] = 0.0  # no job uses fewer servers than it ever could
        return counts

    def _servers(self) -> None:
        """Add the columns of used servers in each group of classes, and of tasks of each shape on them."""
        classes = self.classes
        shapes = {pool: classes.shapes_of(pool) for pool in classes.pools}
        resources = self.free.shape[1]
        for number, group in enumerate(self.groups):
            check_time()
            opening = min(classes.servers[n].opening for n in group)
            cost, entries = self._counted({"servers": opening})
            entries.append((self.server_row + number, 1.0))
            rows = [self.capacity + number * resources + r for r in range(resources)]
            resource_rows = [rows]
            if len(group) > 1:
                # One row limits the total of the group, another each server by the largest.
                rows = [self.rows + r for r in range(resources)]
                self.rows += resources
                resource_rows.append(rows)
            entries += zip(rows, (-self.free[group].max(axis=0)).tolist(), strict=True)
            for k in shapes[classes.servers[group[0]].pool]:
                fitting_tasks = self.held[k][group]
                for g, (together, each) in enumerate(
                    zip(self.count[group] @ fitting_tasks, fitting_tasks.max(axis=0), strict=True)
                ):
                    if each:
                        entries.append((self.rows, -float(each)))
                        task = [*self._task(k, g, resource_rows), (self.rows, 1.0)]
                        self.columns.add(0.0, task, float(together))
                        self.rows += 1
            self.columns.add(cost, entries)
            for n in group:
                self._staying(n, resource_rows)

    def _held(self, k: int) -> Floats:
        """Return the tasks of each group of shape `k` that fit alone on a server, shape (classes, G)."""
        shape, most = self.classes.task_shapes[k], self.classes.slots[k].max(axis=0, initial=0)
        counts = np.empty((len(self.free), len(most)))
        for g, demand in enumerate(np.array(shape.demands, dtype=float).reshape(len(most), -1)):
            counts[:, g] = (self.free[:, demand > 0] // demand[demand > 0]).min(axis=1, initial=most[g])
        return counts

    def _groups(self, most: int) -> list[list[int]]:
        """Return the server classes, by index, in groups; similar ones are aggregated beyond `most`."""
        numbers = range(len(self.count))
        if len(numbers) <= most:
            return [[n] for n in numbers]
        free = np.maximum(self.count @ self.free, 1.0)
        sizes = [
            np.max(np.array(shape.demands) / free, axis=1, initial=0.0) for shape in self.classes.task_shapes
        ]
        return server_groups(self.classes, np.hstack(self.held), np.concatenate(sizes), most)

    def _task(self, k: int, group: int, resource_rows: Sequence[Sequence[int]]) -> Entries:
        """Return the entries (row, coefficient) of a task's column: its supply, its demand per resource."""
        demand = self.classes.task_shapes[k].demands[group]
        pairs = (pair for rows in resource_rows for pair in zip(rows, demand, strict=True))
        return [
            (int(self.supply[k]) + group, 1.0),
            *((row, float(amount)) for row, amount in pairs if amount),
        ]

    def _staying_counts(self, job: JobClass) -> dict[str, float]:
        """Return a staying task's contribution to each objective, in steps.

        What a job saves if none of its tasks moves is divided equally among these.
        """
        running = sum(sum(current.kept) for current in job.current)
        restart = float(job.restart / self.master.steps["value"])
        return {"migrations": -1.0, "value": -restart / running, MOVE_LIMIT: -float(job.can_stay) / running}

    def _staying(self, number: int, resource_rows: Sequence[Sequence[int]]) -> None:
        """Add the columns of the running tasks of a server class that may stay on it."""
        server = self.classes.servers[number]
        for job in self.classes.jobs:
            for current in job.current:
                residents = server.residents.count(current.shape) * len(server.members)
                cost, entries = self._counted(self._staying_counts(job))
                for g, kept in enumerate(current.kept if residents else ()):
                    task = self._task(job.parts[current.part].shape, g, resource_rows)
                    self.columns.add(cost, [*task, *entries], float(kept * residents))
