"""What parts of a placement add to each objective, as far as no other part changes it.

A part is a set of servers with the jobs that are on them alone. Objectives are sums over jobs and servers,
so a change of a part that makes no objective worse before one that it makes better is an improvement of the
plan. Only traffic is a largest value: there a part counts what exceeds the largest of the plan before.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ....instances.common.arrays import Flags, Floats, Ints
from .arrays import Pieces, PlacementArrays


class Losses:
    """Objectives, to be minimised, of parts of a placement.

    Parameters
    ----------
    arrays
        The placement; its formulation says which objectives count.
    """

    def __init__(self, arrays: PlacementArrays) -> None:
        self.arrays = arrays
        data, jobs = arrays.formulation, arrays.formulation.instance.jobs
        self.names = data.instance.objectives
        self._fewest = np.array([data.fewest(job) or 0 for job in jobs])
        self._preferred = np.array([data.instance.spread_of(job) == "preferred" for job in jobs])
        racks: dict[str, int] = {}
        self._rack = np.array([racks.setdefault(data.rack_of(name), len(racks)) for name in arrays.names])
        self._most_traffic = self._loads(arrays.start).max()
        self._read_current()
        if "slowdown" in self.names:
            self._read_speeds()
        self._of: dict[str, Callable[[Pieces, Ints, Ints, int], Floats]] = {
            "value": self._value,
            "spread": self._spread,
            "servers": self._servers,
            "racks": self._racks,
            "migrations": self._migrations,
            "slowdown": self._slowdown,
            "traffic": self._traffic,
        }

    def of(self, pieces: Pieces, row_of_job: Ints, row_of_server: Ints, rows: int) -> Floats:
        """Return what each part adds to each objective, shape (objectives, rows).

        Parameters
        ----------
        pieces
            All of the plan.
        row_of_job, row_of_server
            The part of each job and server, shapes (J,) and (N,); `rows` for those of no part.
        """
        count = rows + 1
        found = [self._of[name](pieces, row_of_job, row_of_server, count) for name in self.names]
        return np.array(found)[:, :rows]

    def _servers_of_jobs(self, pieces: Pieces) -> Ints:
        return np.asarray(np.bincount(pieces.job, minlength=len(self.arrays.units)), dtype=np.int64)

    def _value(self, pieces: Pieces, row_of_job: Ints, row_of_server: Ints, count: int) -> Floats:
        del row_of_server
        gained = np.where(self._servers_of_jobs(pieces) > 0, self.arrays.worth, 0.0)
        if self._restart.any():
            kept = self._kept(pieces)
            stay = np.bincount(pieces.job, kept, minlength=len(gained)) >= self._running
            gained = gained - np.where(stay, 0.0, self._restart)
        return -sums(row_of_job, gained, count)

    def _spread(self, pieces: Pieces, row_of_job: Ints, row_of_server: Ints, count: int) -> Floats:
        del row_of_server
        used = self._servers_of_jobs(pieces)
        extra = np.where(self._preferred & (used > 0), used - self._fewest, 0)
        return sums(row_of_job, extra, count)

    def _servers(self, pieces: Pieces, row_of_job: Ints, row_of_server: Ints, count: int) -> Floats:
        del row_of_job
        used = self.arrays.taken.copy()
        used[pieces.server] = True
        return sums(row_of_server, used, count)

    def _racks(self, pieces: Pieces, row_of_job: Ints, row_of_server: Ints, count: int) -> Floats:
        del row_of_server
        most = len(self._rack) + 1
        both = np.unique(pieces.job * most + self._rack[pieces.server]) // most
        extra = np.maximum(np.bincount(both, minlength=len(row_of_job)) - 1, 0)
        return sums(row_of_job, extra, count)

    def _read_current(self) -> None:
        """List the tasks of each job that are on a server now, with a key for job and server."""
        index = {name: n for n, name in enumerate(self.arrays.names)}
        now: dict[int, int] = {}
        self.home = np.full(len(self.arrays.units), -1)
        self._tasks_per_unit = np.ones(len(self.arrays.units), dtype=np.int64)
        for j, job in enumerate(self.arrays.formulation.instance.jobs):
            here: dict[int, int] = {}
            for group in job.task_groups:
                for name, tasks in group.current.items():
                    here[index[name]] = here.get(index[name], 0) + tasks
            now |= {j * len(index) + n: tasks for n, tasks in sorted(here.items())}
            self.home[j] = max(here, key=here.__getitem__, default=-1)
            if len(job.task_groups) > 1:
                self._tasks_per_unit[j] = sum(group.tasks for group in job.task_groups)
        self._now_key = np.array(list(now), dtype=np.int64)
        self._now_tasks = np.array(list(now.values()), dtype=np.int64)
        data = self.arrays.formulation
        self._restart = np.array([data.restarts.get(job.name, 0.0) for job in data.instance.jobs])
        self._running = np.bincount(
            self._now_key // len(index), self._now_tasks, minlength=len(self.arrays.units)
        )

    def _migrations(self, pieces: Pieces, row_of_job: Ints, row_of_server: Ints, count: int) -> Floats:
        del row_of_server
        if not len(self._now_key):
            return np.zeros(count)
        return -sums(row_of_job[pieces.job], self._kept(pieces), count)

    def _kept(self, pieces: Pieces) -> Ints:
        """Return how many tasks of each piece are where they are now."""
        key = pieces.job * len(self._rack) + pieces.server
        at = np.minimum(np.searchsorted(self._now_key, key), len(self._now_key) - 1)
        there = np.where(self._now_key[at] == key, self._now_tasks[at], 0)
        kept: Ints = np.minimum(pieces.units * self._tasks_per_unit[pieces.job], there)
        return kept

    def _read_speeds(self) -> None:
        """Tabulate the relative speed by number of servers; jobs with the same speeds share a row."""
        jobs = self.arrays.formulation.instance.jobs
        most = int(self.arrays.units.max(initial=0))
        rows: dict[object, int] = {}
        table: list[list[float]] = []
        self._speed_row = np.zeros(len(jobs), dtype=np.int64)
        for j, job in enumerate(jobs):
            key = tuple(sorted(job.speed_by_servers.items()))
            if key not in rows:
                rows[key] = len(table)
                table.append([1 - job.relative_speed(used) for used in range(most + 1)])
            self._speed_row[j] = rows[key]
        self._slower = np.array(table)
        self._slower[:, 0] = 0.0

    def _slowdown(self, pieces: Pieces, row_of_job: Ints, row_of_server: Ints, count: int) -> Floats:
        del row_of_server
        lost = self.arrays.worth * self._slower[self._speed_row, self._servers_of_jobs(pieces)]
        return sums(row_of_job, lost, count)

    def _loads(self, pieces: Pieces) -> Floats:
        amounts = self.arrays.rate[pieces.job] * pieces.units
        return self.arrays.load + np.bincount(pieces.server, amounts, minlength=len(self.arrays.load))

    def _traffic(self, pieces: Pieces, row_of_job: Ints, row_of_server: Ints, count: int) -> Floats:
        del row_of_job
        excess = np.zeros(count)
        np.maximum.at(excess, row_of_server, self._loads(pieces) - self._most_traffic)
        return excess


def sums(rows: Ints, figures: Floats | Ints | Flags, count: int) -> Floats:
    """Return the sum of the figures of each row."""
    return np.asarray(np.bincount(rows, figures, minlength=count), dtype=np.float64)
