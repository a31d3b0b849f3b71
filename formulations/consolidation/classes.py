"""Equivalence classes of the servers and jobs of a consolidation instance.

A *task shape* is the demand and the GPU model of tasks. A *piece* is the numbers of tasks of each group that
one job has on one server; jobs of one shape may exchange their pieces. Servers of one *class* can hold the
same sets of tasks. Jobs of one class have the same demands and the same value. Amounts are integer
multiples of each resource's unit, the largest that divides all demands, so that sums are exact.

A job is *loose* if no objective and no constraint depends on how many servers it uses. Each of its tasks is
then a piece, group by group, because it does not matter which of them share a server.

Where migrations count, the tasks of a job on a server with resident tasks of this job have a separate shape,
that of their *current placement*. Servers of one class then have resident tasks of the same shapes. Jobs that
run on one server now, with as many tasks of each group, share a shape; a job on several servers is a class
of one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

import numpy as np

from ...instances.common.arrays import Floats, Ints
from ...instances.consolidation.devices import WHOLE
from ...instances.consolidation.instance import ConsolidationInstance
from ...instances.consolidation.job import GpuModels, PlacementJob, allows
from ..common.objective import exact_fraction

Vector = tuple[int, ...]
"""Whole numbers, such as the tasks of each group or the units of each resource."""
MOVE_LIMIT = "moves"
"""Name of the limit on moving jobs, where it has a multiplier as earlier objectives have."""
JOB_OBJECTIVES = ("value", "stops")
"""Objectives that depend on which jobs are placed alone, but for restarts."""
SERVER_COUNT_OBJECTIVES = ("spread", "slowdown")
"""Objectives that depend on how many servers a job uses."""


@dataclass(frozen=True)
class TaskShape:
    """Demand and GPU model of the tasks of a job; jobs that agree in both share a task shape.

    Attributes
    ----------
    demands
        Units of each resource that a task takes, for each group.
    gpu_model
        Model that a server must have, or models of which it must have one; any if None.
    current
        Number of a current placement: only servers with such resident tasks hold pieces. None otherwise.
    """

    demands: tuple[Vector, ...]
    gpu_model: GpuModels
    current: int | None = None


@dataclass(frozen=True)
class Part:
    """Tasks of a job of one task shape: the whole job or, for a loose job, one of its task groups.

    A job is loose if its number of servers matters to no objective and no constraint.
    """

    shape: int
    groups: Vector
    tasks: Vector


@dataclass(frozen=True)
class CurrentPlacement:
    """Tasks of a job's part (whole job or task group) that are on one server now, by task group."""

    shape: int
    part: int
    kept: Vector

    def stay(self, counts: Sequence[int]) -> int:
        """Return how many tasks stay on their server if the plan has `counts` tasks there."""
        return sum(map(min, self.kept, counts))

    def staying(self, counts: Ints) -> Floats:
        """Return how many tasks stay, as `stay` does, for vectors of numbers of tasks, shape (N,)."""
        staying: Floats = np.minimum(counts, self.kept).sum(axis=1, dtype=float)
        return staying


@dataclass(frozen=True)
class JobClass:
    """Equivalence class of jobs with the same demands and the same value.

    Attributes
    ----------
    members
        Positions in the instance, in order.
    loose
        Whether the number of servers does not matter; then there is a part for each group, else only one.
    most
        Servers that a job may use at most.
    fewest
        m_j of preferred jobs: each server more counts in `spread`; None for other jobs.
    lost
        Contribution to `slowdown` on 1, 2, … servers; the last figure holds beyond; empty means 0.
    runs
        Whether tasks of each of the jobs run now, if moves count.
    current
        Current placements of each of the jobs, on servers that they may use, if moves count.
    can_stay
        Whether all running tasks are on servers that the job may use.
    restart
        Loss of `value` unless all these tasks stay; 0 where they cannot.
    """

    members: Vector
    parts: tuple[Part, ...]
    value: Fraction
    must_place: bool
    loose: bool
    most: int
    fewest: int | None
    lost: tuple[Fraction, ...]
    runs: bool = False
    current: tuple[CurrentPlacement, ...] = ()
    can_stay: bool = False
    restart: Fraction = Fraction(0)

    def count(self, objective: str, servers: int) -> Fraction:
        """Return the contribution of one job on `servers` servers to an objective, in minimisation form."""
        if objective == "value":
            return -self.value
        if objective == "stops":
            return Fraction(-self.runs)
        if objective == "spread" and self.fewest is not None:
            return Fraction(servers - self.fewest)
        if objective == "slowdown" and self.lost:
            return self.lost[min(servers, len(self.lost)) - 1]
        return Fraction(0)


@dataclass(frozen=True)
class ServerClass:
    """Equivalence class of servers that can hold the same sets of tasks.

    Attributes
    ----------
    members
        Positions in the instance, in order.
    pool
        The GPU model, if a job requires it; None otherwise.
    free
        Units of each resource that tasks can take; shape (R,).
    residents
        Shapes of the current placements on the server, each once for every job that has it.
    in_use
        Whether they count as used in every plan.
    """

    members: Vector
    pool: str | None
    free: Vector
    residents: Vector = ()
    in_use: bool = False

    @property
    def opening(self) -> int:
        """The contribution of using one of these servers to the objective `servers`: 0 if already in use."""
        return int(not self.in_use)


@dataclass(frozen=True)
class Classes:
    """The equivalence classes of the jobs and servers of an instance, to which certificates refer.

    Attributes
    ----------
    pieces
        For each shape the tasks of each group in a piece; shape (P, G). A single task for shapes of loose
        jobs only.
    slots
        For each shape the tasks of each group that a server may hold; shape (S, G).
    exact
        Whether amounts are exact. If not, demands are rounded down to coarse units: bounds are valid,
        but a server may be too small for the tasks that seem to fit.
    units
        For each resource the unit in which amounts are counted.
    offsets
        The value of each objective, in minimisation form, of the plan that places no job; 0 if not listed.
    moves
        Limit on moving jobs less the number of running jobs, that is, minus the fewest jobs that stay;
        None without a limit.
    paid
        The most that is paid for a server of each class, by the prices, as far as the check derived it.
    """

    task_shapes: tuple[TaskShape, ...]
    pieces: tuple[Ints, ...]
    slots: tuple[Ints, ...]
    jobs: tuple[JobClass, ...]
    servers: tuple[ServerClass, ...]
    exact: bool
    units: tuple[Fraction, ...]
    offsets: Mapping[str, Fraction]
    moves: int | None
    paid: dict[object, list[int]] = field(default_factory=dict, compare=False, kw_only=True)

    @property
    def pools(self) -> list[str | None]:
        """The pools of servers: each GPU model that some job requires, and None for all others."""
        return list(dict.fromkeys(server.pool for server in self.servers))

    def single(self, shape: int) -> bool:
        """Return whether single tasks are the only pieces of a shape, as for loose jobs alone."""
        return len(self.pieces[shape]) < len(self.slots[shape])

    def shapes_of(self, pool: str | None) -> list[int]:
        """Return the indices of the task shapes that servers of a pool may hold."""
        return [
            k
            for k, shape in enumerate(self.task_shapes)
            if shape.current is None and allows(shape.gpu_model, pool)
        ]

    def offset(self, objective: str) -> Fraction:
        """Return the value of an objective, in minimisation form, of the plan that places no job."""
        return self.offsets.get(objective, Fraction(0))

    def least_levels(self) -> dict[str, Fraction]:
        """Return the bound on moving jobs, by name, with −1 counted for each job that stays.

        Empty without a limit on moves.
        """
        return {} if self.moves is None else {MOVE_LIMIT: Fraction(self.moves)}

    def weights(self, shape: int, counts: Ints) -> Ints:
        """Return the demand for each resource of vectors of task counts by task group, shape (N, R)."""
        weights: Ints = counts @ np.array(self.task_shapes[shape].demands, dtype=np.int64)
        return weights


@dataclass(frozen=True)
class ClassTable(Classes):
    """Equivalence classes with the tables that the pricing problems of servers need.

    Attributes
    ----------
    usages
        For each pool all sums of demands that fit on one of its servers; shape (N, R), sorted. None where
        there are too many.
    placed_now
        For each shape of a current placement, position of a server → positions of its resident jobs.
    base
        For each shape of a current placement the shape of the job's other pieces, and the row there of each
        of its slots.
    """

    usages: dict[str | None, Ints | None]
    placed_now: dict[int, dict[int, list[int]]]
    base: dict[int, tuple[int, Ints]]

    @cached_property
    def slot_weights(self) -> list[Ints]:
        """The demand for each resource of the slots of each shape; shape (S, R)."""
        return [self.weights(k, slots) for k, slots in enumerate(self.slots)]

    def can_run(self, job: JobClass) -> bool:
        """Return whether some server holds a task of each part of a job."""
        return all(len(self.slots[part.shape]) for part in job.parts)


def job_value(job: PlacementJob) -> Fraction:
    """Return the value of a job as a fraction; its number of GPUs if the instance gives no value."""
    if job.value is not None:
        return exact_fraction(job.value)
    gpus = (
        g.tasks * (exact_fraction(g.demand.get("gpu", 0.0)) + Fraction(g.gpu_thousandths, WHOLE))
        for g in job.task_groups
    )
    return sum(gpus, Fraction(0))


def restart_loss(instance: ConsolidationInstance, job: PlacementJob) -> Fraction:
    """Return the loss in the objective `value` if a running job is moved or stopped; 0 if it does not run."""
    return job_value(job) * instance.restart_h(job)
