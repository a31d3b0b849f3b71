"""Equivalence classes of the servers and jobs of a consolidation instance: counted instead of named.

A *task shape* is what tasks look like to a server: demand and GPU model. A *piece* is what one job has on
one server, tasks of each of its groups; jobs of one shape may swap their pieces. Servers of one *class* hold
the same sets of tasks. Jobs of one class ask for the same and have the same value. Amounts are integer
multiples of each resource's unit, the largest that divides all demands, so that sums are exact.

A job is *loose* if nothing depends on how many servers it uses. Each of its tasks is then a piece, group by
group, because it does not matter which of them meet.

Where migrations count, the tasks of a job on a server that holds some of it now have a shape of their own,
that of their *current placement*. Servers of one class then have resident tasks of the same shapes. Jobs that
run on one server now, with as many tasks of each group, share a shape; a job on several is a class by itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from ...instances.common.arrays import Ints
from ...instances.consolidation.devices import WHOLE
from ...instances.consolidation.instance import ConsolidationInstance
from ...instances.consolidation.job import GpuModels, PlacementJob, allows

MOVES = "moves"
"""Name of the limit on jobs that move, among the objectives that come before another."""
BY_SERVERS = ("spread", "slowdown")
"""Objectives that depend on how many servers a job uses."""


@dataclass(frozen=True)
class TaskShape:
    """What the tasks of a job look like to a server.

    Attributes
    ----------
    demands
        Units of each resource that a task takes, for each group.
    gpu_model
        Model that a server must have, or models of which it must have one; any if None.
    current
        Number of a current placement: only servers with such residents hold pieces. None for all others.
    """

    demands: tuple[tuple[int, ...], ...]
    gpu_model: GpuModels
    current: int | None = None


@dataclass(frozen=True)
class Part:
    """Tasks of a job that are split into pieces of one shape: the whole job, or one group of a loose one."""

    shape: int
    groups: tuple[int, ...]
    tasks: tuple[int, ...]


@dataclass(frozen=True)
class CurrentPlacement:
    """Tasks of one of a job's parts that are on one server now, by group."""

    shape: int
    part: int
    kept: tuple[int, ...]

    def stay(self, counts: Sequence[int]) -> int:
        """Return how many tasks stay where they are if these are there."""
        return sum(map(min, self.kept, counts))


@dataclass(frozen=True)
class JobClass:
    """Jobs that ask and are worth the same.

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
        What using 1, 2, … servers adds to `slowdown`; the last figure holds beyond, and 0 if there is none.
    current
        Where tasks of each of the jobs are now, if moves count.
    can_stay
        Whether all tasks that run now are on servers that the job may use.
    restart
        What `value` loses unless all these stay; 0 where they cannot.
    """

    members: tuple[int, ...]
    parts: tuple[Part, ...]
    value: Fraction
    must_place: bool
    loose: bool
    most: int
    fewest: int | None
    lost: tuple[Fraction, ...]
    current: tuple[CurrentPlacement, ...] = ()
    can_stay: bool = False
    restart: Fraction = Fraction(0)

    def count(self, objective: str, servers: int) -> Fraction:
        """Return what one of the jobs on so many servers counts in an objective, to be minimised."""
        if objective == "value":
            return -self.value
        if objective == "spread" and self.fewest is not None:
            return Fraction(servers - self.fewest)
        if objective == "slowdown" and self.lost:
            return self.lost[min(servers, len(self.lost)) - 1]
        return Fraction(0)


@dataclass(frozen=True)
class ServerClass:
    """Servers that can hold the same tasks.

    Attributes
    ----------
    members
        Positions in the instance, in order.
    pool
        The GPU model as far as a job asks for it.
    free
        Units of each resource that tasks can take; shape (R,).
    residents
        Shapes of current placements of what is there now, each as often as jobs have it there.
    in_use
        Whether they count as used whatever the plan.
    """

    members: tuple[int, ...]
    pool: str | None
    free: tuple[int, ...]
    residents: tuple[int, ...] = ()
    in_use: bool = False

    @property
    def opening(self) -> int:
        """What using one of the servers counts in `servers`."""
        return int(not self.in_use)


@dataclass(frozen=True)
class Classes:
    """An instance in classes, as certificates refer to it.

    Attributes
    ----------
    pieces
        For each shape the tasks of each group in a piece; shape (P, G). Of shapes that only loose jobs have,
        the single task.
    slots
        For each shape the tasks of each group that a server may hold; shape (S, G).
    running
        Tasks of all jobs that are somewhere now.
    exact
        Whether amounts are exact. If not, demands are rounded down to coarse units: what is proven holds,
        but a server may not hold what it seems to.
    units
        Of each resource, in which amounts are counted.
    in_use
        Servers that count as used whatever the plan.
    restarts
        What `value` loses if every running job moves.
    moves
        Most jobs that move, less those that run: minus the fewest that stay; None if any number may move.
    """

    task_shapes: tuple[TaskShape, ...]
    pieces: tuple[Ints, ...]
    slots: tuple[Ints, ...]
    jobs: tuple[JobClass, ...]
    servers: tuple[ServerClass, ...]
    running: int
    exact: bool
    units: tuple[Fraction, ...]
    in_use: int
    restarts: Fraction
    moves: int | None

    @property
    def pools(self) -> list[str | None]:
        """The GPU models, as far as jobs ask for them, of servers."""
        return list(dict.fromkeys(server.pool for server in self.servers))

    def shapes_of(self, pool: str | None) -> list[int]:
        """Return the shapes that servers of a pool may hold."""
        return [
            k
            for k, shape in enumerate(self.task_shapes)
            if shape.current is None and allows(shape.gpu_model, pool)
        ]

    def offset(self, objective: str) -> Fraction:
        """Return an objective's value, to be minimised, where no job is placed."""
        if objective == "value":
            return self.restarts
        return Fraction({"migrations": self.running, "servers": self.in_use}.get(objective, 0))

    def least_levels(self) -> dict[str, Fraction]:
        """Return the level of what is limited before any objective: jobs that stay, counted as −1."""
        return {} if self.moves is None else {MOVES: Fraction(self.moves)}

    def weights(self, shape: int, counts: Ints) -> Ints:
        """Return what rows of tasks by group take of each resource."""
        weights: Ints = counts @ np.array(self.task_shapes[shape].demands, dtype=np.int64)
        return weights


@dataclass(frozen=True)
class ClassTable(Classes):
    """Classes, with what pricing looks up.

    Attributes
    ----------
    usages
        For each pool the amounts that tasks may take together on some server of it; shape (N, R), sorted.
        None where amounts are so unlike that there are too many.
    placed_now
        For each shape of a current placement, position of a server → positions of the jobs there.
    base
        For each shape of a current placement the shape of the job's other pieces, and its row for each slot.
    """

    usages: dict[str | None, Ints | None]
    placed_now: dict[int, dict[int, list[int]]]
    base: dict[int, tuple[int, Ints]]


def exact(value: float) -> Fraction:
    """Return a number as its decimals say: 0.1 is 1/10."""
    return Fraction(repr(float(value)))


def common_step(amounts: Iterable[Fraction]) -> Fraction | None:
    """Return the largest step of which all amounts are multiples; None if there are none but 0."""
    listed = {amount for amount in amounts if amount}
    if not listed:
        return None
    common = math.lcm(*(amount.denominator for amount in listed))
    return Fraction(math.gcd(*(int(amount * common) for amount in listed)), common)


def worth_of(job: PlacementJob) -> Fraction:
    """Return a job's value; that of its GPUs without the rounding of floating-point products."""
    if job.value is not None:
        return exact(job.value)
    gpus = (
        (g.tasks, exact(g.demand.get("gpu", 0.0)) + Fraction(g.gpu_thousandths, WHOLE))
        for g in job.task_groups
    )
    return sum((tasks * each for tasks, each in gpus), Fraction(0))


def restart_of(instance: ConsolidationInstance, job: PlacementJob) -> Fraction:
    """Return what `value` loses if a running job is moved or stopped; 0 if it does not run."""
    return worth_of(job) * instance.restart_h(job)
