"""Diving heuristic: a plan from the linear relaxation by fixing patterns, assigning tasks, and best fit.

Diving fixes the patterns of the relaxation at their rounded-down values, then rounds up the one closest to
the next integer, and solves the residual problem again (Wäscher & Gau 1996, residual heuristics of cutting
stock). The tasks of jobs are assigned to the slots of these patterns. Best fit places the remaining jobs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np

from ....formulations.common.clock import check_time
from ....formulations.consolidation.classes import ClassTable, JobClass, Part
from ....formulations.consolidation.formulation import ConsolidationFormulation
from ....formulations.consolidation.plan import JobPlacement, Placement
from ....instances.common.arrays import Ints
from ....instances.consolidation.job import PlacementJob
from ...backends.highs import linear_optimum, linear_program
from ...common.base import Clock
from ..presolve import completed_plan
from .column_generation import Integers
from .master import Column, can_host


def plan_of_relaxation(
    formulation: ConsolidationFormulation,
    classes: ClassTable,
    columns: Sequence[Column],
    times: Integers,
    patience: Clock,
) -> list[JobPlacement] | None:
    """Return a plan built on given server patterns; None if not all required jobs are placed.

    Parameters
    ----------
    times
        Number of servers with the pattern of each column; columns that are no server patterns are ignored.
    """
    slots = _Slots(classes)
    following = [0] * len(classes.servers)
    for column, count in zip(columns, times.tolist(), strict=False):
        if column.type == "server" and count:
            number, pattern = column.what
            first = following[number]
            following[number] += count
            for server in classes.servers[number].members[first : first + count]:
                slots.open(server, pattern)
    slots.exchange()
    names = list(formulation.servers)
    kept: dict[str, Placement] = {}
    # Required jobs choose first, then jobs by value for each task, ties by size.
    ranks = [
        (not job.must_place, 0 if job.must_place else -job.value / _tasks(job), -slots.size(job))
        for job in classes.jobs
    ]
    order = [classes.jobs[c] for c in sorted(range(len(ranks)), key=ranks.__getitem__)]
    # First tasks take slots of their shape, then those that are left take slots of larger ones.
    for hosted in (False, True):
        for job in order:
            for instance_job in [formulation.instance.jobs[member] for member in job.members]:
                check_time()
                slots_of_job = slots.take(job, hosted) if instance_job.name not in kept else ()
                if slots_of_job is None:
                    break
                if slots_of_job:
                    kept[instance_job.name] = _placement(instance_job, slots_of_job, names)
    return completed_plan(formulation, kept, patience)


def _tasks(job: JobClass) -> int:
    return sum(count for part in job.parts for count in part.tasks)


def _placement(job: PlacementJob, slots: Sequence[tuple[int, int, int]], names: Sequence[str]) -> Placement:
    placement: Placement = defaultdict(dict)
    for group, server, count in slots:
        placed = placement[job.task_groups[group].name]
        placed[names[server]] = placed.get(names[server], 0) + count
    return dict(placement)


class _Slots:
    """Capacity reserved by server patterns for tasks of a shape (slots) and not assigned to jobs yet."""

    def __init__(self, classes: ClassTable) -> None:
        self.classes = classes
        self.left: dict[int, list[tuple[int, Ints]]] = defaultdict(list)
        self.hosts: dict[int, list[int]] = {}
        most = np.array([server.free for server in classes.servers]).max(axis=0, initial=1)
        # Amounts of all resources as shares of the largest server.
        self.sizes = [float((np.array(shape.demands) / most).sum()) for shape in classes.task_shapes]

    def exchange(self) -> None:
        """Convert slots of single tasks into slots of smaller task shapes, to serve tasks of maximum value.

        This is a transportation problem between shapes with slots and shapes with tasks; its vertices are
        integral.
        """
        shapes = self.classes.task_shapes
        single = [k for k, left in self.left.items() if left and len(shapes[k].demands) == 1]
        supply = {k: sum(int(counts[0]) for _, counts in self.left[k]) for k in single}
        demand, worth = defaultdict[int, int](int), defaultdict[int, float](float)
        most = 1 + max((float(job.value) for job in self.classes.jobs), default=0.0)
        for job in self.classes.jobs:
            for part in job.parts if job.loose else ():
                demand[part.shape] += part.tasks[0] * len(job.members)
                value = most if job.must_place else float(job.value) / _tasks(job)
                worth[part.shape] = max(worth[part.shape], value, most / 1e6)
        pairs = [(k, o) for o in demand for k in (o, *self._hosts(o)) if supply.get(k)]
        if not pairs:
            return
        supply_row = {k: row for row, k in enumerate(supply)}
        demand_row = {o: len(supply_row) + row for row, o in enumerate(demand)}
        # Of two slots that are worth as much, a task takes that of its own shape.
        gains = np.array([worth[o] * (1.0 if k == o else 1 - 1e-6) for k, o in pairs])
        entries = np.array([row for k, o in pairs for row in (supply_row[k], demand_row[o])], dtype=np.int32)
        limits = np.array([*supply.values(), *demand.values()], dtype=float)
        matrix = np.arange(0, 2 * len(pairs) + 1, 2, dtype=np.int32), entries, np.ones(2 * len(pairs))
        free = np.zeros(len(pairs)), np.full(len(pairs), np.inf)
        rows = np.full(len(limits), -np.inf), limits
        found = linear_optimum(linear_program(-gains, free, rows, matrix))
        moved = [] if found is None else np.round(found.values).astype(int).tolist()
        for (k, o), count in zip(pairs, moved, strict=False):
            if k != o:
                self._move(k, o, count)

    def _move(self, k: int, other: int, tasks: int) -> None:
        """Convert slots for `tasks` tasks of shape `k` into slots of shape `other` on the same servers."""
        while tasks > 0 and self.left[k]:
            server, counts = self.left[k].pop()
            moved = min(tasks, int(counts[0]))
            tasks -= moved
            self.left[other].append((server, np.array([moved])))
            if counts[0] > moved:
                self.left[k].append((server, counts - moved))

    def size(self, job: JobClass) -> float:
        """Return a job's size: one task of each group, in shares of the largest server, over resources."""
        return sum(self.sizes[part.shape] for part in job.parts)

    def open(self, server: int, pattern: Sequence[tuple[int, int]]) -> None:
        """Add the capacity that a server pattern reserves for tasks (slots) on one named server."""
        for k, slot in pattern:
            # Slots of tasks that stay are left to best fit.
            if self.classes.task_shapes[k].current is None:
                self.left[k].append((server, self.classes.slots[k][slot].copy()))

    def take(self, job: JobClass, hosted: bool) -> list[tuple[int, int, int]] | None:
        """Return (group, server, tasks) of a job in free slots; None, with nothing taken, if it does not fit.

        Parameters
        ----------
        hosted
            Whether tasks of loose jobs may take slots of larger shapes.
        """
        taken: list[tuple[int, Ints, Part]] = []
        # Two parts may have the same shape, so that the second finds what the first leaves of a slot.
        rest: dict[tuple[int, int], tuple[int, Ints]] = {}
        servers: set[int] = set()
        for part in job.parts:
            waiting = np.array(part.tasks)
            for slot in self._order(part, waiting, job.loose, hosted):
                server, counts = rest.get(slot) or self.left[slot[0]][slot[1]]
                matched = np.minimum(counts, waiting)
                if matched.any() and (server in servers or len(servers) < job.most):
                    taken.append((server, matched, part))
                    rest[slot] = server, counts - matched
                    servers.add(server)
                    waiting = waiting - matched
                if not waiting.any():
                    break
            if waiting.any():
                return None
        # From the end, so that what is used up can go.
        for (shape, place), (server, counts) in sorted(rest.items(), reverse=True, key=lambda slot: slot[0]):
            self.left[shape][place] = server, counts
            if not counts.any():
                del self.left[shape][place]
        pieces = ((part.groups, server, matched.tolist()) for server, matched, part in taken)
        return [(g, n, c) for groups, n, matched in pieces for g, c in zip(groups, matched, strict=True) if c]

    def _order(self, part: Part, waiting: Ints, loose: bool, hosted: bool) -> Iterator[tuple[int, int]]:
        """Yield (task shape, index) of candidate slots for tasks of a job, the best first."""
        if loose:
            for shape in (part.shape, *(self._hosts(part.shape) if hosted else ())):
                yield from ((shape, place) for place in range(len(self.left[shape]) - 1, -1, -1))
            return
        # On few servers: slots that hold most of the job first, and of these the tightest.
        left = self.left[part.shape]
        size = [(-int(np.minimum(counts, waiting).sum()), int(counts.sum())) for _, counts in left]
        yield from ((part.shape, place) for place in sorted(range(len(left)), key=size.__getitem__))

    def _hosts(self, k: int) -> list[int]:
        """Return the single-task shapes whose slots hold tasks of shape `k`, by ascending demand."""
        if k not in self.hosts:
            shapes = self.classes.task_shapes
            larger = [
                other
                for other, shape in enumerate(shapes)
                if len(shape.demands) == 1 and shape.current is None and can_host(shape, shapes[k])
            ]
            self.hosts[k] = sorted(larger, key=self.sizes.__getitem__)
        return self.hosts[k]
