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

import itertools
import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..instances.consolidation import PlacementJob
from ..instances.errors import TooLargeError
from .base import loosened

if TYPE_CHECKING:
    from .consolidation import ConsolidationFormulation

Ints = NDArray[np.int64]

MOST_LOADS = 400_000
"""Different sums of demands on a server; beyond, classes are not used."""
MOST_PIECES = 2_000
"""Different pieces of one kind."""
LARGEST_UNIT = 2**31
"""A demand that is a larger multiple of the common unit is rounded down to a coarser one."""


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
    """An instance in classes.

    Attributes
    ----------
    pieces
        For each kind the tasks of each group in a piece; shape (P, G). Of kinds that only loose jobs have,
        the single task.
    slots
        For each kind the tasks of each group that a server may hold; shape (S, G).
    loads
        For each pool the amounts that tasks may take together on some server of it; shape (N, R), sorted.
    at_home
        For each home kind the jobs that are on a server now: positions of servers and of jobs.
    base
        For each home kind the kind of the job's other pieces, and the row among its slots for each of ours.
    running
        Tasks of all jobs that are somewhere now.
    """

    kinds: tuple[Kind, ...]
    pieces: tuple[Ints, ...]
    slots: tuple[Ints, ...]
    jobs: tuple[JobClass, ...]
    servers: tuple[ServerClass, ...]
    loads: dict[str | None, Ints]
    at_home: dict[int, dict[int, list[int]]]
    base: dict[int, tuple[int, Ints]]
    running: int

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


def exact(value: float) -> Fraction:
    """Return a number as its decimals say: 0.1 is 1/10."""
    return Fraction(repr(float(value)))


def _units(amounts: Iterable[float]) -> Fraction:
    """Return the largest unit of which all amounts are multiples, or a coarse one if it is too small."""
    fractions = {exact(amount) for amount in amounts} - {Fraction(0)}
    if not fractions:
        return Fraction(1)
    common = math.lcm(*(f.denominator for f in fractions))
    unit = Fraction(math.gcd(*(int(f * common) for f in fractions)), common)
    return max(unit, max(fractions) / LARGEST_UNIT)


Alike = tuple[tuple[int, ...], tuple[int, ...]]
"""What is free on servers, and the home kinds of their residents."""


class _Builder:
    """Collects the classes of an instance."""

    def __init__(self, formulation: ConsolidationFormulation) -> None:
        self.f = formulation
        self.counts = {"spread", "slowdown"} & set(formulation.instance.objectives)
        self.resources = formulation.instance.resource_names
        asked: dict[str, set[float]] = {name: set() for name in self.resources}
        for job, _ in formulation.distinct_jobs:
            for group in job.task_groups:
                for name, amount in group.demand.items():
                    asked[name].add(amount)
        self.units = [_units(asked[name]) for name in self.resources]
        self.kinds: dict[Kind, int] = {}
        self.at_home: dict[int, dict[int, list[int]]] = {}
        self.residents: dict[int, list[int]] = defaultdict(list)
        self.positions = {name: n for n, name in enumerate(formulation.servers)}

    def _demand(self, demand: dict[str, float]) -> tuple[int, ...]:
        return tuple(
            math.floor(exact(demand.get(name, 0.0)) / unit)
            for name, unit in zip(self.resources, self.units, strict=True)
        )

    def _kind(self, demands: Sequence[tuple[int, ...]], gpu_model: str | None) -> int:
        return self.kinds.setdefault(Kind(tuple(demands), gpu_model), len(self.kinds))

    def _job_class(self, job: PlacementJob, members: Sequence[int]) -> JobClass | None:
        fewest, groups = self.f.fewest(job), job.task_groups
        if fewest is None:
            return None
        rule = self.f.instance.spread_of(job)
        preferred = rule == "preferred" and "spread" in self.counts
        lost: tuple[Fraction, ...] = ()
        if "slowdown" in self.counts and job.speed_by_servers:
            worth = exact(job.worth)
            most_listed = max(job.speed_by_servers)
            lost = tuple(worth * (1 - exact(job.relative_speed(k + 1))) for k in range(most_listed))
        tasks = tuple(group.tasks for group in groups)
        loose = not preferred and not lost and (rule != "required" or fewest >= sum(tasks))
        demands = [self._demand(group.demand) for group in groups]
        if loose:
            parts = tuple(
                Part(self._kind([demand], job.gpu_model), (g,), (count,))
                for g, (demand, count) in enumerate(zip(demands, tasks, strict=True))
            )
        else:
            parts = (Part(self._kind(demands, job.gpu_model), tuple(range(len(tasks))), tasks),)
        most = fewest if rule == "required" else sum(tasks)
        homes = self._homes(parts, members) if "migrations" in self.f.instance.objectives else ()
        return JobClass(
            tuple(members), parts, exact(job.worth), job.must_place, loose, most,
            fewest if preferred else None, lost, homes,
        )  # fmt: skip

    def _homes(self, parts: tuple[Part, ...], members: Sequence[int]) -> tuple[Home, ...]:
        """Return the homes of jobs of one class; where there are several jobs, each is on one server."""
        homes: dict[tuple[int, int], Home] = {}
        kinds = list(self.kinds)
        for member in members:
            now = self.f.now(self.f.instance.jobs[member])
            for place, (server, counts) in enumerate(now.items()):
                for p, part in enumerate(parts):
                    kept = tuple(counts[g] for g in part.groups)
                    if not any(kept):
                        continue
                    if (place, p) not in homes:
                        alike, number = kinds[part.kind], len(self.kinds)
                        self.kinds[Kind(alike.demands, alike.gpu_model, number)] = number
                        homes[place, p] = Home(number, p, kept)
                        self.at_home[number] = defaultdict(list)
                    kind, position = homes[place, p].kind, self.positions[server]
                    self.at_home[kind][position].append(member)
                    self.residents[position].append(kind)
        return tuple(homes.values())

    def jobs(self) -> tuple[JobClass, ...]:
        made = (self._job_class(job, members) for job, members in self.f.distinct_jobs)
        return tuple(job for job in made if job is not None)

    def raw_servers(self) -> dict[str | None, dict[Alike, list[int]]]:
        """Return for each pool the servers by what is free on them in units and who is there now."""
        asked = {kind.gpu_model for kind in self.kinds}
        known: dict[tuple[float, ...], tuple[int, ...]] = {}
        found: dict[str | None, dict[Alike, list[int]]] = defaultdict(lambda: defaultdict(list))
        names = self.resources
        for n, server in enumerate(self.f.servers.values()):
            amounts = server.available
            key = tuple([amounts.get(name, 0.0) for name in names])
            units = known.get(key)
            if units is None:
                units = known[key] = tuple(
                    math.floor(exact(loosened(amount)) / unit)
                    for amount, unit in zip(key, self.units, strict=True)
                )
            pool = server.gpu_model if server.gpu_model in asked else None
            found[pool][units, tuple(sorted(self.residents.get(n, ())))].append(n)
        return found


def _union(loads: Ints, weight: Ints, most: int, largest: Ints) -> Ints:
    """Add up to `most` tasks of one demand to every load, as far as some server holds them."""
    found = [loads]
    step = loads
    for _ in range(most):
        step = step + weight
        keep = np.zeros(len(step), dtype=bool)
        for limit in largest:
            keep |= (step <= limit).all(axis=1)
        step = step[keep]
        if not len(step):
            break
        found.append(step)
        if sum(map(len, found)) > 20 * MOST_LOADS:
            break
    return np.unique(np.concatenate(found), axis=0)


def _maximal(vectors: Ints, most: int = 40) -> Ints:
    """Return the vectors that no other exceeds; a single one above them all if they are too many."""
    order = vectors[np.argsort(-vectors.sum(axis=1), kind="stable")]
    kept: list[Ints] = []
    for vector in order:
        if not any((vector <= other).all() for other in kept):
            kept.append(vector)
        if len(kept) > most:
            return vectors.max(axis=0, keepdims=True)
    return np.array(kept)


def _too_many(what: str) -> TooLargeError:
    return TooLargeError(f"there are too many different {what} for exact classes")


def _loads(demands: Iterable[tuple[int, ...]], tasks: dict[tuple[int, ...], int], free: Ints) -> Ints:
    """Return every sum of demands that one of the free vectors holds."""
    largest = _maximal(free)
    loads = np.zeros((1, free.shape[1]), dtype=np.int64)
    for demand in demands:
        if any(demand):
            loads = _union(loads, np.array(demand), tasks[demand], largest)
            if len(loads) > MOST_LOADS:
                raise _too_many("loads of a server")
    return loads


def _holdable(kind: Kind, tasks: Sequence[int], largest: Ints) -> Ints:
    """Return the tasks of each group that some server may hold, without none at all; shape (S, G)."""
    ranges = []
    for demand, count in zip(kind.demands, tasks, strict=True):
        need = np.array(demand)
        fits = [min([count, *(limit[need > 0] // need[need > 0]).tolist()]) for limit in largest]
        ranges.append(range(max([0, *fits]) + 1))
    if math.prod(map(len, ranges)) > 20 * MOST_PIECES:
        raise _too_many("pieces of a job")
    counts = np.array(list(itertools.product(*ranges)), dtype=np.int64)[1:]
    weights = counts @ np.array(kind.demands, dtype=np.int64)
    held = np.zeros(len(counts), dtype=bool)
    for limit in largest:
        held |= (weights <= limit).all(axis=1)
    if held.sum() > MOST_PIECES:
        raise _too_many("pieces of a job")
    return counts[held]


def classes_of(formulation: ConsolidationFormulation) -> Classes:
    """Return the classes of an instance.

    Raises
    ------
    TooLargeError
        If servers and jobs are so diverse that classes would not help.
    """
    builder = _Builder(formulation)
    jobs = builder.jobs()
    raw = builder.raw_servers()
    kinds = tuple(builder.kinds)
    cut = {part.kind for job in jobs if not job.loose for part in job.parts}
    cut |= {home.kind for job in jobs for home in job.homes}
    tasks: list[list[int]] = [[0] * len(kind.demands) for kind in kinds]
    by_demand: dict[tuple[int, ...], int] = defaultdict(int)
    for job in jobs:
        for part in job.parts:
            for g, count in enumerate(part.tasks):
                tasks[part.kind][g] += count * len(job.members)
                by_demand[kinds[part.kind].demands[g]] += count * len(job.members)
        for home in job.homes:
            tasks[home.kind] = list(home.kept if job.loose else job.parts[home.part].tasks)
    loads: dict[str | None, Ints] = {}
    servers: list[ServerClass] = []
    for pool, by_free in sorted(raw.items(), key=lambda item: item[0] or ""):
        here = [kind for kind in kinds if kind.gpu_model is None or kind.gpu_model == pool]
        demands = dict.fromkeys(demand for kind in here for demand in kind.demands)
        free = np.array([units for units, _ in by_free], dtype=np.int64).reshape(len(by_free), -1)
        loads[pool] = _loads(demands, by_demand, free)
        servers += _server_classes(pool, by_free, loads[pool], not all(map(any, demands)))
    slots = []
    largest: dict[str | None, Ints] = {}
    for kind, count in zip(kinds, tasks, strict=True):
        if kind.gpu_model not in largest:
            able = {s.free for s in servers if kind.gpu_model in (None, s.pool)}
            free = np.array(sorted(able) or [(0,) * len(builder.resources)], dtype=np.int64)
            largest[kind.gpu_model] = _maximal(free, 10**6)
        slots.append(_holdable(kind, count, largest[kind.gpu_model]))
    pieces = tuple(held if k in cut else held[:1] for k, held in enumerate(slots))
    base = {}
    for job in jobs:
        for home in job.homes:
            kind = job.parts[home.part].kind
            place = {tuple(row): i for i, row in enumerate(slots[kind].tolist())}
            rows = [place[tuple(row)] for row in slots[home.kind].tolist()]
            base[home.kind] = kind, np.array(rows, dtype=np.int64)
    running = sum(sum(g.current.values()) for job in formulation.instance.jobs for g in job.task_groups)
    return Classes(kinds, pieces, tuple(slots), jobs, tuple(servers), loads, builder.at_home, base, running)


def _server_classes(
    pool: str | None, by_free: dict[Alike, list[int]], loads: Ints, zero_demand: bool
) -> list[ServerClass]:
    """Put servers together that hold the same loads; those of none only count for tasks of no demand."""
    members: dict[Alike, list[int]] = defaultdict(list)
    most: dict[tuple[int, ...], tuple[int, ...]] = {}
    for (free, residents), servers in by_free.items():
        if free not in most:
            held = loads[(loads <= np.array(free)).all(axis=1)]
            most[free] = tuple(held.max(axis=0).tolist())
        members[most[free], residents] += servers
    return [
        ServerClass(tuple(sorted(listed)), pool, free, residents)
        for (free, residents), listed in sorted(members.items(), reverse=True)
        if zero_demand or any(free)
    ]
