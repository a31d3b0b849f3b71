"""Interchangeable servers and jobs of a consolidation instance, counted instead of named.

A *kind* is what tasks look like to a server: demand and GPU model. Jobs of one kind may swap their pieces;
a *piece* is what one job has on one server, tasks of each of its groups. Servers of one *class* hold the
same loads of tasks, jobs of one class ask and are worth the same. Amounts are whole multiples of each
resource's unit, the largest of which all demands are multiples, so that sums are exact.

A job is *loose* if nothing depends on how many servers it uses; then its tasks are pieces of their own, each
group by itself, because it does not matter which of them meet.

Where migrations count, tasks of a job on a server that holds some of it now are of a kind of their own, its
*home* kind, and servers of one class have residents of the same kinds. Jobs that are on one server now, as
many tasks of each group, may share a home kind; a job that is on several is a class by itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from ...instances.common.arrays import Ints
from ...instances.consolidation.instance import PlacementJob

BY_SERVERS = ("spread", "slowdown")
"""Objectives that depend on how many servers a job uses."""


@dataclass(frozen=True)
class Kind:
    """What the tasks of a job look like to a server.

    Attributes
    ----------
    demands
        Units of each resource that a task takes, for each group.
    gpu_model
        Model that a server must have; any if None.
    home
        Number of a home kind, of which only servers with such residents hold pieces; None for other kinds.
    """

    demands: tuple[tuple[int, ...], ...]
    gpu_model: str | None
    home: int | None = None


@dataclass(frozen=True)
class Part:
    """Tasks of a job that are cut into pieces of one kind: the whole job, or one group of a loose one."""

    kind: int
    groups: tuple[int, ...]
    tasks: tuple[int, ...]


@dataclass(frozen=True)
class Home:
    """Tasks of one of a job's parts that are on one server now, by group."""

    kind: int
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
    homes
        Where tasks of each of the jobs are now, if migrations count.
    """

    members: tuple[int, ...]
    parts: tuple[Part, ...]
    value: Fraction
    must_place: bool
    loose: bool
    most: int
    fewest: int | None
    lost: tuple[Fraction, ...]
    homes: tuple[Home, ...] = ()

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
    """Servers that can hold the same loads.

    Attributes
    ----------
    members
        Positions in the instance, in order.
    pool
        The GPU model as far as a job asks for it.
    free
        Units of each resource that some load takes; shape (R,).
    residents
        Home kinds of what is there now, each as often as jobs have it there.
    """

    members: tuple[int, ...]
    pool: str | None
    free: tuple[int, ...]
    residents: tuple[int, ...] = ()


@dataclass(frozen=True)
class Classes:
    """An instance in classes, as certificates refer to it.

    Attributes
    ----------
    pieces
        For each kind the tasks of each group in a piece; shape (P, G). Of kinds that only loose jobs have,
        the single task.
    slots
        For each kind the tasks of each group that a server may hold; shape (S, G).
    running
        Tasks of all jobs that are somewhere now.
    exact
        Whether amounts are exact. If not, demands are rounded down to coarse units: what is proven holds,
        but a server may not hold what it seems to.
    units
        Of each resource, in which amounts are counted.
    """

    kinds: tuple[Kind, ...]
    pieces: tuple[Ints, ...]
    slots: tuple[Ints, ...]
    jobs: tuple[JobClass, ...]
    servers: tuple[ServerClass, ...]
    running: int
    exact: bool
    units: tuple[Fraction, ...]

    @property
    def pools(self) -> list[str | None]:
        """The GPU models, as far as jobs ask for them, of servers."""
        return list(dict.fromkeys(server.pool for server in self.servers))

    def kinds_of(self, pool: str | None) -> list[int]:
        """Return the kinds, but for home kinds, that servers of a pool may hold."""
        return [
            k for k, kind in enumerate(self.kinds) if kind.home is None and kind.gpu_model in (None, pool)
        ]

    def offset(self, objective: str) -> int:
        """Return an objective's value where no job is placed."""
        return self.running if objective == "migrations" else 0

    def weights(self, kind: int, counts: Ints) -> Ints:
        """Return what rows of tasks by group take of each resource."""
        weights: Ints = counts @ np.array(self.kinds[kind].demands, dtype=np.int64)
        return weights


@dataclass(frozen=True)
class ClassTable(Classes):
    """Classes, with what pricing looks up.

    Attributes
    ----------
    loads
        For each pool the amounts that tasks may take together on some server of it; shape (N, R), sorted.
    at_home
        For each home kind the jobs that are on a server now: positions of servers and of jobs.
    base
        For each home kind the kind of the job's other pieces, and the row among its slots for each of ours.
    """

    loads: dict[str | None, Ints]
    at_home: dict[int, dict[int, list[int]]]
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
    return sum((group.tasks * exact(group.demand.get("gpu", 0.0)) for group in job.task_groups), Fraction(0))
