"""A placement as arrays: demands, capacities, pieces of jobs on servers, and contributions to objectives.

A job with one group has as many units as tasks. A job with several groups is one unit, all of it on one
server; if the plan has it on several servers, it is fixed there and reduces the free capacity.

A part of a placement is a set of servers with the jobs that are on them alone. Objectives are sums over jobs
and servers, so a lexicographic improvement of a part improves the plan. Only traffic is a maximum: there a
part counts the excess over the largest traffic of the plan before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ....formulations.common.clock import check_time
from ....formulations.consolidation.formulation import ConsolidationFormulation
from ....formulations.consolidation.plan import JobPlacement, entry_of
from ....instances.common.arrays import Flags, Floats, Ints
from ....instances.consolidation.job import PlacementJob


@dataclass(frozen=True)
class Pieces:
    """Numbers of units (tasks, or a whole job) on servers: arrays with an entry per job and server.

    Attributes
    ----------
    job, server, units
        Of each piece, shape (P,).
    """

    job: Ints
    server: Ints
    units: Ints

    def where(self, kept: Flags) -> Pieces:
        """Return the job–server entries selected by a mask, shape (P,)."""
        return Pieces(self.job[kept], self.server[kept], self.units[kept])

    def and_more(self, more: Pieces) -> Pieces:
        """Return the union of these job–server entries and those of other jobs, sorted by job."""
        job = np.concatenate([self.job, more.job])
        order = np.argsort(job, kind="stable")
        server, units = np.append(self.server, more.server), np.append(self.units, more.units)
        return Pieces(job[order], server[order], units[order])


class PlacementArrays:
    """Arrays of an instance with J jobs, N servers and R resources, and of an initial plan.

    Attributes
    ----------
    free
        Free capacity of each server, shape (N, R).
    unit
        Demand of one unit of each job, shape (J, R).
    units
        Number of units of each job, shape (J,).
    most
        Largest number of servers of each job, shape (J,).
    allowed, kind
        Eligible servers, shape (K, N), and the row of each job in it, shape (J,).
    worth, must
        Value of each job, and whether it must be placed, shape (J,).
    movable
        Jobs that are not fixed, shape (J,).
    taken
        Servers in use by fixed jobs, shape (N,).
    load, rate
        Traffic of fixed jobs on each server, shape (N,), and that of a unit of each job, shape (J,) [Gbit/s].
    start
        The pieces of the initial plan.
    """

    def __init__(self, formulation: ConsolidationFormulation, plan: Sequence[JobPlacement]) -> None:
        self.formulation = formulation
        jobs, servers = formulation.instance.jobs, list(formulation.servers.values())
        names = formulation.instance.resource_names
        columns = {name: r for r, name in enumerate(names)}
        self.names = [server.name for server in servers]
        self._index = {name: n for n, name in enumerate(self.names)}
        self._entries = {entry.job: entry for entry in plan}
        self.free = np.array([[server.available.get(name, 0.0) for name in names] for server in servers])
        self.unit = np.zeros((len(jobs), len(names)))
        self.units = np.array(
            [1 if _is_one_unit(job) else job.task_groups[0].tasks for job in jobs], dtype=np.int64
        )
        self.worth = np.array([job.worth for job in jobs])
        self.must = np.array([job.must_place for job in jobs])
        self.load = np.array([server.traffic_gbit_per_s for server in servers])
        self.rate = np.zeros(len(jobs))
        self.most = self.units.copy()
        for j, job in enumerate(jobs):
            check_time()
            for group in job.task_groups:
                tasks = group.tasks if _is_one_unit(job) else 1
                self.rate[j] += group.traffic_gbit_per_s * tasks
                for name, amount in group.demand.items():
                    self.unit[j, columns[name]] += amount * tasks
            fewest = formulation.fewest(job)
            if fewest is None or formulation.instance.spread_of(job) == "required":
                self.most[j] = min(self.units[j], fewest or 0)
        self._find_eligible()
        self._find_pieces()

    def _find_eligible(self) -> None:
        """Compute the distinct sets of eligible servers, and the index of each job's set."""
        kinds: dict[object, int] = {}
        rows: list[Flags] = []
        kind = []
        for job in self.formulation.instance.jobs:
            if job.gpu_model not in kinds:
                check_time()
                kinds[job.gpu_model] = len(rows)
                rows.append(np.zeros(len(self.names), dtype=bool))
                rows[-1][[self._index[server.name] for server in self.formulation.eligible(job)]] = True
            kind.append(kinds[job.gpu_model])
        self.allowed, self.kind = np.array(rows), np.array(kind, dtype=np.int64)

    def _find_pieces(self) -> None:
        """Read the units of jobs on servers from the plan; fixed jobs reduce the free capacity."""
        self.movable = np.ones(len(self.units), dtype=bool)
        self.taken = np.array([bool(server.in_use) for server in self.formulation.servers.values()])
        pieces: list[tuple[int, int, int]] = []
        for j, job in enumerate(self.formulation.instance.jobs):
            entry = self._entries[job.name]
            if _is_one_unit(job) and len(entry.used_servers) > 1:
                self.movable[j] = False
                self._fix(job, entry)
                continue
            for name in sorted(entry.used_servers, key=self._index.__getitem__):
                tasks = entry.tasks[job.task_groups[0].name].get(name, 0)
                pieces.append((j, self._index[name], 1 if _is_one_unit(job) else tasks))
        table = np.array(pieces, dtype=np.int64).reshape(-1, 3)
        self.start = Pieces(table[:, 0], table[:, 1], table[:, 2])

    def _fix(self, job: PlacementJob, entry: JobPlacement) -> None:
        columns = {name: r for r, name in enumerate(self.formulation.instance.resource_names)}
        for group in job.task_groups:
            for server, count in entry.tasks.get(group.name, {}).items():
                n = self._index[server]
                self.taken[n] = True
                self.load[n] += count * group.traffic_gbit_per_s
                for name, amount in group.demand.items():
                    self.free[n, columns[name]] -= count * amount

    def left(self, pieces: Pieces) -> Floats:
        """Return the residual capacity of each server under these units of jobs on servers, shape (N, R)."""
        left = self.free.copy()
        for r in range(left.shape[1]):
            amounts = self.unit[pieces.job, r] * pieces.units
            left[:, r] -= np.bincount(pieces.server, amounts, minlength=len(left))
        return left

    def plan(self, pieces: Pieces) -> list[JobPlacement]:
        """Return the plan with these units of jobs on servers; fixed jobs keep their entries."""
        on: list[dict[str, int]] = [{} for _ in self.units]
        for j, n, count in zip(
            pieces.job.tolist(), pieces.server.tolist(), pieces.units.tolist(), strict=True
        ):
            on[j][self.names[n]] = count
        entries = []
        for j, job in enumerate(self.formulation.instance.jobs):
            entry = self._entries[job.name]
            if self.movable[j]:
                one = _is_one_unit(job)
                groups = {
                    g.name: {n: g.tasks if one else c for n, c in on[j].items()} for g in job.task_groups
                }
                # What has not moved stays the entry that it was.
                entry = entry if entry.placed and entry.tasks == groups else entry_of(job, groups)
            entries.append(entry)
        return entries


def _is_one_unit(job: PlacementJob) -> bool:
    return len(job.task_groups) > 1


class ObjectiveLosses:
    """Objective values, to be minimised, of disjoint sets of servers and the jobs on them.

    Parameters
    ----------
    arrays
        The placement, whose formulation lists the objectives.
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
        """Return each objective's value on each disjoint set of servers and its jobs, (objectives, rows).

        Parameters
        ----------
        pieces
            All pieces of the plan.
        row_of_job, row_of_server
            Part of each job and server, shapes (J,) and (N,); equal to `rows` if in no part.
        """
        count = rows + 1
        contributions = [self._of[name](pieces, row_of_job, row_of_server, count) for name in self.names]
        return np.array(contributions)[:, :rows]

    def _servers_of_jobs(self, pieces: Pieces) -> Ints:
        return np.asarray(np.bincount(pieces.job, minlength=len(self.arrays.units)), dtype=np.int64)

    def _value(self, pieces: Pieces, row_of_job: Ints, row_of_server: Ints, count: int) -> Floats:
        del row_of_server
        gained = np.where(self._servers_of_jobs(pieces) > 0, self.arrays.worth, 0.0)
        if self._restart.any():
            kept = self._kept(pieces)
            stay = np.bincount(pieces.job, kept, minlength=len(gained)) >= self._running
            gained = gained - np.where(stay, 0.0, self._restart)
        return -row_sums(row_of_job, gained, count)

    def _spread(self, pieces: Pieces, row_of_job: Ints, row_of_server: Ints, count: int) -> Floats:
        del row_of_server
        used = self._servers_of_jobs(pieces)
        extra = np.where(self._preferred & (used > 0), used - self._fewest, 0)
        return row_sums(row_of_job, extra, count)

    def _servers(self, pieces: Pieces, row_of_job: Ints, row_of_server: Ints, count: int) -> Floats:
        del row_of_job
        used = self.arrays.taken.copy()
        used[pieces.server] = True
        return row_sums(row_of_server, used, count)

    def _racks(self, pieces: Pieces, row_of_job: Ints, row_of_server: Ints, count: int) -> Floats:
        del row_of_server
        most = len(self._rack) + 1
        both = np.unique(pieces.job * most + self._rack[pieces.server]) // most
        extra = np.maximum(np.bincount(both, minlength=len(row_of_job)) - 1, 0)
        return row_sums(row_of_job, extra, count)

    def _read_current(self) -> None:
        """Read the current (running) tasks of each job on each server, with a key for each pair."""
        index = {name: n for n, name in enumerate(self.arrays.names)}
        now: dict[int, int] = {}
        self.home = np.full(len(self.arrays.units), -1)
        self._tasks_per_unit = np.ones(len(self.arrays.units), dtype=np.int64)
        for j, job in enumerate(self.arrays.formulation.instance.jobs):
            tasks_by_server: dict[int, int] = {}
            for group in job.task_groups:
                for name, tasks in group.current.items():
                    tasks_by_server[index[name]] = tasks_by_server.get(index[name], 0) + tasks
            now |= {j * len(index) + n: tasks for n, tasks in sorted(tasks_by_server.items())}
            self.home[j] = max(tasks_by_server, key=tasks_by_server.__getitem__, default=-1)
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
        return -row_sums(row_of_job[pieces.job], self._kept(pieces), count)

    def _kept(self, pieces: Pieces) -> Ints:
        """Return the number of tasks of each job–server entry that stay on their current server, (P,)."""
        key = pieces.job * len(self._rack) + pieces.server
        index = np.minimum(np.searchsorted(self._now_key, key), len(self._now_key) - 1)
        current_tasks = np.where(self._now_key[index] == key, self._now_tasks[index], 0)
        kept: Ints = np.minimum(pieces.units * self._tasks_per_unit[pieces.job], current_tasks)
        return kept

    def _read_speeds(self) -> None:
        """Tabulate each job's relative loss of speed by number of servers; equal jobs share a table row."""
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
        return row_sums(row_of_job, lost, count)

    def _loads(self, pieces: Pieces) -> Floats:
        amounts = self.arrays.rate[pieces.job] * pieces.units
        return self.arrays.load + np.bincount(pieces.server, amounts, minlength=len(self.arrays.load))

    def _traffic(self, pieces: Pieces, row_of_job: Ints, row_of_server: Ints, count: int) -> Floats:
        del row_of_job
        excess = np.zeros(count)
        np.maximum.at(excess, row_of_server, self._loads(pieces) - self._most_traffic)
        return excess


def row_sums(rows: Ints, figures: Floats | Ints | Flags, count: int) -> Floats:
    """Return the sum of the values with the same row index, for each row, shape (count,)."""
    return np.asarray(np.bincount(rows, figures, minlength=count), dtype=np.float64)
