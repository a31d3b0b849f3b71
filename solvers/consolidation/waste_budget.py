"""Plans with little unused capacity: the waste budget, and exact covers by patterns within it.

If every job is placed, total capacity less total demand is the *waste budget*. A pattern that leaves more
than that free on its server is in no such plan. If the budget is small, few patterns keep it. They are found
by meet in the middle (Horowitz & Sahni 1974): every pattern is a first half and a second half, and sums of
halves are matched after sorting. A plan is then an exact cover of the tasks by these patterns, which CP-SAT
finds.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from ...formulations.common.clock import check_time
from ...formulations.consolidation.classes import ClassTable
from ...instances.common.arrays import Ints
from ..backends.base import call_with_deadline
from ..backends.cp_sat import needs_interleaving
from ..common.base import Clock
from ..common.result import SolveOptions
from .patterns.column_generation import Integers, PatternProgram
from .patterns.master import RestrictedMaster
from .progress import SETTINGS

log = logging.getLogger("clusterplan")

MAX_TASKS_PER_SERVER = 6
"""Largest number of tasks on one server; halves of up to three tasks are few enough to be listed."""


Pattern = tuple[int, tuple[int, ...]]
"""Server class, and task shape of each task on one server."""


@dataclass(frozen=True)
class _HalfPatterns:
    """Multisets of equally many tasks, as halves of server patterns; shapes (N, size) and (N, R).

    Attributes
    ----------
    tasks
        Shapes of the tasks, ascending in each row.
    sums
        Total demand of each set.
    """

    tasks: Ints
    sums: Ints


class WasteBudget:
    """The server patterns whose unused capacity is within the waste budget: capacity less total demand.

    Parameters
    ----------
    most_servers
        Largest number of servers that carry tasks; None for all.
    """

    def __init__(self, classes: ClassTable, most_servers: int | None) -> None:
        self.classes = classes
        self.counts = np.zeros(len(classes.task_shapes), dtype=np.int64)
        for job in classes.jobs:
            for part in job.parts:
                self.counts[part.shape] += part.tasks[0] * len(job.members)
        self.demands = np.array([shape.demands[0] for shape in classes.task_shapes], dtype=np.int64)
        free = np.array([server.free for server in classes.servers], dtype=np.int64)
        members = np.array([len(server.members) for server in classes.servers])
        each = np.sort(np.repeat(free, members, axis=0), axis=0)[::-1]
        self.budget: Ints = each[:most_servers].sum(axis=0) - self.counts @ self.demands
        self.largest: Ints = free.max(axis=0)
        self.halves = [
            _HalfPatterns(np.zeros((1, 0), dtype=np.int64), np.zeros((1, free.shape[1]), dtype=np.int64))
        ]

    def patterns(self, size: int) -> list[Pattern] | None:
        """Return every server pattern of `size` tasks whose unused capacity is within the waste budget.

        Returns
        -------
        patterns
            None if there are too many patterns.
        """
        # The first half is the larger one.
        second = size // 2
        first = size - second
        if not self._list_halves(first):
            return None
        patterns_found: list[Pattern] = []
        for number, server in enumerate(self.classes.servers):
            able = np.zeros(len(self.counts), dtype=bool)
            able[self.classes.shapes_of(server.pool)] = True
            rows = self._matched_patterns(
                self._restricted_half(first, able), self._restricted_half(second, able), np.array(server.free)
            )
            if rows is None or len(patterns_found) + len(rows) > SETTINGS.most_covering_patterns:
                return None
            patterns_found += [(number, tuple(row)) for row in rows.tolist()]
        return patterns_found

    def _list_halves(self, size: int) -> bool:
        """List the multisets of up to `size` tasks, as halves of patterns; return False if too many."""
        shapes = len(self.counts)
        while len(self.halves) <= size:
            check_time()
            last = self.halves[-1]
            lowest = last.tasks[:, -1] if last.tasks.shape[1] else np.zeros(len(last.tasks), dtype=np.int64)
            # Shapes ascend, so that each set is listed once.
            more = shapes - lowest
            if more.sum() > SETTINGS.most_halves:
                return False
            parent, added = _concatenated_ranges(lowest, more)
            tasks = np.column_stack([last.tasks[parent], added])
            sums = last.sums[parent] + self.demands[added]
            keep = (sums <= self.largest).all(axis=1) & self._is_available(tasks)
            self.halves.append(_HalfPatterns(tasks[keep], sums[keep]))
        return True

    def _is_available(self, tasks: Ints) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Return whether the instance has the tasks of each multiset, a row of ascending shapes; (N,)."""
        run = np.ones(len(tasks), dtype=np.int64)
        enough = np.ones(len(tasks), dtype=bool)
        for place in range(1, tasks.shape[1]):
            run = np.where(tasks[:, place] == tasks[:, place - 1], run + 1, 1)
            enough &= run <= self.counts[tasks[:, place]]
        return enough

    def _restricted_half(self, size: int, able: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> _HalfPatterns:
        half = self.halves[size]
        keep = able[half.tasks].all(axis=1)
        return _HalfPatterns(half.tasks[keep], half.sums[keep])

    def _matched_patterns(self, first: _HalfPatterns, second: _HalfPatterns, free: Ints) -> Ints | None:
        """Return the task shapes of a server's patterns within the budget, shape (patterns, size).

        None if there may be too many patterns.
        """
        keys, others, spare = self._keys(first, second, free)
        order = np.argsort(others)
        low = np.searchsorted(others[order], keys - spare, side="left")
        high = np.searchsorted(others[order], keys, side="right")
        if (high - low).sum() > SETTINGS.most_matches:
            return None
        parent, place = _concatenated_ranges(low, high - low)
        check_time()
        partner = order[place]
        if first.tasks.shape[1] and second.tasks.shape[1]:
            # The first half has the smaller shapes, so that each pattern is found once.
            ordered = first.tasks[parent, -1] <= second.tasks[partner, 0]
            parent, partner = parent[ordered], partner[ordered]
        left = free - first.sums[parent] - second.sums[partner]
        keep = ((left >= 0) & (left <= self.budget)).all(axis=1)
        tasks: Ints = np.column_stack([first.tasks[parent[keep]], second.tasks[partner[keep]]])
        return tasks[self._is_available(tasks)]

    def _keys(self, first: _HalfPatterns, second: _HalfPatterns, free: Ints) -> tuple[Ints, Ints, Ints]:
        """Return the sort key that each second half needs, the key that it has, and the tolerance.

        Sums of resources without any budget must match exactly: a random linear combination of them is one
        number, in which unequal sums hardly ever agree. What agrees by chance is sorted out later.
        """
        exact = self.budget == 0
        if exact.any():
            weights = np.random.default_rng(0).integers(1, 2**62, size=int(exact.sum()), dtype=np.int64)
            with np.errstate(over="ignore"):  # modulo 2**64
                keys = (free - first.sums)[:, exact] @ weights
                others = second.sums[:, exact] @ weights
            return keys, others, np.zeros(1, dtype=np.int64)
        tightest = int(np.argmin(self.budget / np.maximum(self.largest, 1)))
        return (
            (free - first.sums)[:, tightest],
            second.sums[:, tightest],
            self.budget[tightest : tightest + 1],
        )


def requires_all_jobs(
    master: RestrictedMaster, goal: str, bound: float, levels: Mapping[str, Fraction]
) -> bool:
    """Return whether a bound, in steps of the objective, is attained only if every job of value is placed.

    Jobs without value may be left out; a solution with all jobs is as good.
    """
    jobs = master.classes.jobs
    every = sum((job.value * len(job.members) for job in jobs if not job.must_place), Fraction(0))
    must = sum((job.value * len(job.members) for job in jobs if job.must_place), Fraction(0))
    if not math.isfinite(bound):
        return False
    if not every:
        return True
    if goal == "value":
        return bound * master.steps[goal] <= -(every + must)
    return "value" in levels and levels["value"] <= -(every + must)


def exact_cover_for_bound(program: PatternProgram, goal: str, bound: float) -> Integers | None:
    """Return column values that place every job if a bound, in steps, requires that; None if not found."""
    if not requires_all_jobs(program.master, goal, bound, program.levels):
        return None
    most_servers = round(bound) if goal == "servers" else None
    return exact_cover_solution(program.master, most_servers, program.options, program.clock)


def _concatenated_ranges(start: Ints, length: Ints) -> tuple[Ints, Ints]:
    """Return range index and element of several integer ranges (start, length), concatenated."""
    owner = np.repeat(np.arange(len(start)), length)
    before = np.cumsum(length) - length
    return owner, np.arange(len(owner)) - before[owner] + start[owner]


def exact_cover_solution(
    master: RestrictedMaster, most_servers: int | None, options: SolveOptions, clock: Clock
) -> Integers | None:
    """Return column values that place all jobs by patterns within the waste budget; None if not found.

    Parameters
    ----------
    most_servers
        Largest number of servers that carry tasks; None for all.
    """
    classes = master.classes
    plain = all(job.loose and not job.current for job in classes.jobs) and classes.jobs and classes.servers
    if not plain or not all(any(shape.demands[0]) for shape in classes.task_shapes):
        return None
    budget = WasteBudget(classes, most_servers)
    servers = sum(len(server.members) for server in classes.servers)
    mean = budget.counts.sum() / min(servers, most_servers or servers)
    if mean > MAX_TASKS_PER_SERVER or (budget.budget < 0).any():
        return None
    patterns: list[Pattern] = []
    for size in range(1, MAX_TASKS_PER_SERVER + 1):
        more = budget.patterns(size)
        if more is None:
            return None
        patterns += more
        # Smaller patterns alone do not hold all tasks.
        if size >= mean:
            log.info("waste budget %s: %d patterns", budget.budget.tolist(), len(patterns))
            chosen = _exact_cover(classes, budget.counts, patterns, most_servers, options, clock)
            if chosen is not None:
                return _solution(master, [(patterns[i], n) for i, n in chosen])
    return None


def _exact_cover(
    classes: ClassTable,
    counts: Ints,
    patterns: list[Pattern],
    most_servers: int | None,
    options: SolveOptions,
    clock: Clock,
) -> list[tuple[int, int]] | None:
    """Return (pattern index, uses) of patterns that cover every task exactly once; None if none found."""
    from ortools.sat.python import cp_model  # takes as long to load as all the rest

    model = cp_model.CpModel()
    uses = [
        model.new_int_var(0, min(len(classes.servers[n].members), *(int(counts[k]) for k in tasks)), "")
        for n, tasks in patterns
    ]
    by_shape: list[list[tuple[int, int]]] = [[] for _ in counts]
    by_server: list[list[int]] = [[] for _ in classes.servers]
    for i, (n, tasks) in enumerate(patterns):
        by_server[n].append(i)
        for k in set(tasks):
            by_shape[k].append((i, tasks.count(k)))
    for k, count in enumerate(counts.tolist()):
        model.add(sum(uses[i] * n for i, n in by_shape[k]) == count)
    for server, own_patterns in zip(classes.servers, by_server, strict=True):
        model.add(sum(uses[i] for i in own_patterns) <= len(server.members))
    if most_servers is not None:
        model.add(sum(uses) <= most_servers)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = options.threads or 0
    solver.parameters.interleave_search = needs_interleaving(options.threads)
    solver.parameters.random_seed = options.seed or 0
    if clock.remaining_s is not None:
        solver.parameters.max_time_in_seconds = max(0.0, clock.remaining_s)
    status = call_with_deadline(clock, partial(solver.solve, model), solver.stop_search)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return None
    return [(i, solver.value(use)) for i, use in enumerate(uses) if solver.value(use)]


def _solution(master: RestrictedMaster, chosen: list[tuple[Pattern, int]]) -> Integers:
    """Return the column values of the pattern formulation; missing columns are added to the master."""
    for c in range(len(master.classes.jobs)):
        master.add_job_pattern(c, ())
    servers = {(n, tuple(_slot_rows(master.classes, tasks))): uses for (n, tasks), uses in chosen}
    for number, pattern in servers:
        master.add_server_pattern(number, pattern)
    jobs = {(c, (), ()): len(job.members) for c, job in enumerate(master.classes.jobs)}
    uses: dict[str, dict[Any, int]] = {"server": servers, "job": jobs}
    values = [uses.get(column.type, {}).get(column.what, 0) for column in master.columns]
    return np.array(values, dtype=np.int64)


def _slot_rows(classes: ClassTable, tasks: tuple[int, ...]) -> Iterator[tuple[int, int]]:
    """Yield each task shape on a server, and the row of its number of tasks in the shape's table."""
    for k in dict.fromkeys(tasks):
        yield k, int(np.flatnonzero(classes.slots[k][:, 0] == tasks.count(k))[0])
