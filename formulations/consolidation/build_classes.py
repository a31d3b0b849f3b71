"""Building the classes of a consolidation instance."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction

import numpy as np

from ...instances.common.arrays import Ints
from ...instances.common.errors import TooLargeError
from ...instances.consolidation.instance import PlacementJob
from ..common.clock import check_time
from ..common.tolerance import loosened
from .classes import ClassTable, Home, JobClass, Kind, Part, ServerClass, common_step, exact, worth_of
from .cluster_data import ClusterData

MOST_LOADS = 400_000
"""Different sums of demands on a server; beyond, classes are not used."""
MOST_PIECES = 2_000
"""Different pieces of one kind."""
MOST_CELLS = 100_000_000
"""Different servers times loads."""
COARSENESS = (None, 32, 8)
"""Parts of the largest amount that units are at least, tried one after the other; None: units as they are."""
LARGEST_UNIT = 2**31
"""A demand that is a larger multiple of the common unit is rounded down to a coarser one."""


def _unit(amounts: Iterable[float]) -> tuple[Fraction, bool]:
    """Return the largest unit of all amounts, or a coarse one if that is too small, and whether it is."""
    fractions = {exact(amount) for amount in amounts} - {Fraction(0)}
    unit = common_step(fractions) or Fraction(1)
    least = max(fractions, default=Fraction(0)) / LARGEST_UNIT
    return max(unit, least), unit >= least


Alike = tuple[tuple[int, ...], tuple[int, ...]]
"""What is free on servers, and the home kinds of their residents."""


class _Builder:
    """Collects the classes of an instance."""

    def __init__(self, data: ClusterData, parts: int | None) -> None:
        self.data = data
        self.counts = {"spread", "slowdown"} & set(data.instance.objectives)
        self.resources = data.instance.resource_names
        asked: dict[str, set[float]] = {name: set() for name in self.resources}
        for job, _ in data.distinct_jobs:
            for group in job.task_groups:
                for name, amount in group.demand.items():
                    asked[name].add(amount)
        units = [_unit(asked[name]) for name in self.resources]
        self.units, self.exact = [unit for unit, _ in units], all(exactly for _, exactly in units)
        if parts is not None:
            free = data.shapes(None, free=True)
            most = [max(dict(shape).get(name, 0.0) for shape in free) for name in self.resources]
            coarse = [max(unit, exact(amount) / parts) for unit, amount in zip(self.units, most, strict=True)]
            self.exact = self.exact and coarse == self.units
            self.units = coarse
        self.kinds: dict[Kind, int] = {}
        self.at_home: dict[int, dict[int, list[int]]] = {}
        self.residents: dict[int, list[int]] = defaultdict(list)
        self.positions = {name: n for n, name in enumerate(data.servers)}

    def _demand(self, demand: dict[str, float]) -> tuple[int, ...]:
        return tuple(
            math.floor(exact(demand.get(name, 0.0)) / unit)
            for name, unit in zip(self.resources, self.units, strict=True)
        )

    def _kind(self, demands: Sequence[tuple[int, ...]], gpu_model: str | None) -> int:
        return self.kinds.setdefault(Kind(tuple(demands), gpu_model), len(self.kinds))

    def _job_class(self, job: PlacementJob, members: Sequence[int]) -> JobClass | None:
        check_time()
        fewest, groups = self.data.fewest(job), job.task_groups
        if fewest is None:
            return None
        rule = self.data.instance.spread_of(job)
        preferred = rule == "preferred" and "spread" in self.counts
        tasks = tuple(group.tasks for group in groups)
        most = min(sum(tasks), sum(self.data.shapes(job.gpu_model).values()))
        most = min(most, fewest) if rule == "required" else most
        worth, lost = worth_of(job), tuple[Fraction, ...]()
        if "slowdown" in self.counts and job.speed_by_servers:
            differ = min(max(job.speed_by_servers), most)
            lost = tuple(worth * (1 - exact(job.relative_speed(k + 1))) for k in range(differ))
        loose = not preferred and not lost and (rule != "required" or fewest >= sum(tasks))
        demands = [self._demand(group.demand) for group in groups]
        if loose:
            parts = tuple(
                Part(self._kind([demand], job.gpu_model), (g,), (count,))
                for g, (demand, count) in enumerate(zip(demands, tasks, strict=True))
            )
        else:
            parts = (Part(self._kind(demands, job.gpu_model), tuple(range(len(tasks))), tasks),)
        homes = self._homes(parts, members) if "migrations" in self.data.instance.objectives else ()
        return JobClass(
            tuple(members), parts, worth, job.must_place, loose, most,
            fewest if preferred else None, lost, homes,
        )  # fmt: skip

    def _homes(self, parts: tuple[Part, ...], members: Sequence[int]) -> tuple[Home, ...]:
        """Return the homes of jobs of one class; where there are several jobs, each is on one server."""
        homes: dict[tuple[int, int], Home] = {}
        kinds = list(self.kinds)
        for member in members:
            now = self.data.now(self.data.instance.jobs[member])
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
        made = (self._job_class(job, members) for job, members in self.data.distinct_jobs)
        return tuple(job for job in made if job is not None)

    def raw_servers(self, tasks: Mapping[tuple[int, ...], int]) -> dict[str | None, dict[Alike, list[int]]]:
        """Return for each pool the servers by what is free on them in units and who is there now.

        What is free beyond what all tasks together take does not count.
        """
        totals = [sum(demand[r] * n for demand, n in tasks.items()) for r in range(len(self.resources))]
        asked = {kind.gpu_model for kind in self.kinds}
        known: dict[tuple[float, ...], tuple[int, ...]] = {}
        found: dict[str | None, dict[Alike, list[int]]] = defaultdict(lambda: defaultdict(list))
        names = self.resources
        for n, server in enumerate(self.data.servers.values()):
            check_time()
            amounts = server.available
            key = tuple([amounts.get(name, 0.0) for name in names])
            units = known.get(key)
            if units is None:
                units = known[key] = tuple(
                    min(math.floor(exact(loosened(amount)) / unit), total)
                    for amount, unit, total in zip(key, self.units, totals, strict=True)
                )
            pool = server.gpu_model if server.gpu_model in asked else None
            found[pool][units, tuple(sorted(self.residents.get(n, ())))].append(n)
        return found


def _radix(limit: Ints) -> Ints:
    """Return weights that turn amounts up to a limit into numbers of their own."""
    sizes = [int(most) + 1 for most in limit]
    if math.prod(sizes) > 2**62:
        raise _too_many("amounts of a resource")
    return np.array([math.prod(sizes[r + 1 :]) for r in range(len(sizes))], dtype=np.int64)


def _union(loads: Ints, weight: Ints, most: int, largest: Ints) -> Ints:
    """Add up to `most` tasks of one demand to every load, as far as some server holds them.

    What was reached before, with no more tasks, need not be gone on from again.
    """
    radix = _radix(largest.max(axis=0))
    known, step = loads @ radix, loads
    found, count = [loads], len(loads)
    for _ in range(most):
        check_time()
        step = step + weight
        keep = np.zeros(len(step), dtype=bool)
        for limit in largest:
            keep |= (step <= limit).all(axis=1)
        step = step[keep]
        keys = step @ radix
        new = ~np.isin(keys, known)
        step = step[new]
        if not len(step):
            break
        known = np.concatenate([known, keys[new]])
        found.append(step)
        count += len(step)
        if count > MOST_LOADS:
            raise _too_many("loads of a server")
    return np.concatenate(found)


def _maximal(vectors: Ints, most: int = 40) -> Ints:
    """Return the vectors that no other exceeds; a single one above them all if they are too many."""
    order = vectors[np.argsort(-vectors.sum(axis=1), kind="stable")]
    kept: list[Ints] = []
    for vector in order:
        check_time()
        if not any((vector <= other).all() for other in kept):
            kept.append(vector)
        if len(kept) > most:
            above: Ints = vectors.max(axis=0, keepdims=True)
            return above
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
    ordered: Ints = loads[np.argsort(loads @ _radix(largest.max(axis=0)))]
    return ordered


def _holdable(kind: Kind, tasks: Sequence[int], largest: Ints) -> Ints:
    """Return the tasks of each group that some server may hold, without none at all; shape (S, G)."""
    ranges = []
    for demand, count in zip(kind.demands, tasks, strict=True):
        check_time()
        need = np.array(demand)
        fits = [min([count, *(limit[need > 0] // need[need > 0]).tolist()]) for limit in largest]
        ranges.append(range(max([0, *fits]) + 1))
    if math.prod(map(len, ranges)) > 20 * MOST_PIECES:
        raise _too_many("pieces of a job")
    counts = np.array(list(itertools.product(*ranges)), dtype=np.int64)[1:]
    weights = counts @ np.array(kind.demands, dtype=np.int64)
    held = np.zeros(len(counts), dtype=bool)
    for limit in largest:
        check_time()
        held |= (weights <= limit).all(axis=1)
    if held.sum() > MOST_PIECES:
        raise _too_many("pieces of a job")
    return counts[held]


def classes_of(data: ClusterData) -> ClassTable:
    """Return the classes of an instance; coarse ones where there would be too many different loads.

    Raises
    ------
    TooLargeError
        If servers and jobs are so diverse that not even these help.
    """
    for parts in COARSENESS:
        check_time()
        try:
            return _classes(data, parts)
        except TooLargeError as error:
            reason = error
    raise reason


def _classes(data: ClusterData, parts: int | None) -> ClassTable:
    """Return classes in units of at least so many parts of the largest amount that is free."""
    builder = _Builder(data, parts)
    jobs = builder.jobs()
    kinds = tuple(builder.kinds)
    tasks, by_demand = _tasks(kinds, jobs)
    loads: dict[str | None, Ints] = {}
    servers: list[ServerClass] = []
    raw = builder.raw_servers(by_demand)
    slots = _slots(kinds, tasks, raw, len(builder.resources))
    for pool, by_free in sorted(raw.items(), key=lambda item: item[0] or ""):
        here = [kind for kind in kinds if kind.gpu_model is None or kind.gpu_model == pool]
        demands = dict.fromkeys(demand for kind in here for demand in kind.demands)
        free = np.array([units for units, _ in by_free], dtype=np.int64).reshape(len(by_free), -1)
        loads[pool] = _loads(demands, by_demand, free)
        servers += _server_classes(pool, by_free, loads[pool], not all(map(any, demands)))
    cut = {part.kind for job in jobs if not job.loose for part in job.parts}
    cut |= {home.kind for job in jobs for home in job.homes}
    return ClassTable(
        kinds,
        tuple(held if k in cut else held[:1] for k, held in enumerate(slots)),
        slots,
        jobs,
        tuple(servers),
        sum(sum(group.current.values()) for job in data.instance.jobs for group in job.task_groups),
        builder.exact,
        tuple(builder.units),
        loads,
        builder.at_home,
        _bases(jobs, slots),
    )


def _tasks(
    kinds: Sequence[Kind], jobs: Sequence[JobClass]
) -> tuple[list[list[int]], dict[tuple[int, ...], int]]:
    """Return the tasks that there are of each group of each kind, and of each demand."""
    tasks = [[0] * len(kind.demands) for kind in kinds]
    by_demand: dict[tuple[int, ...], int] = defaultdict(int)
    for job in jobs:
        for part in job.parts:
            for g, count in enumerate(part.tasks):
                tasks[part.kind][g] += count * len(job.members)
                by_demand[kinds[part.kind].demands[g]] += count * len(job.members)
        for home in job.homes:
            tasks[home.kind] = list(home.kept if job.loose else job.parts[home.part].tasks)
    return tasks, by_demand


def _slots(
    kinds: Sequence[Kind],
    tasks: Sequence[Sequence[int]],
    raw: Mapping[str | None, Mapping[Alike, list[int]]],
    resources: int,
) -> tuple[Ints, ...]:
    """Return for each kind the tasks that a server may hold."""
    slots = []
    largest: dict[str | None, Ints] = {}
    for kind, counts in zip(kinds, tasks, strict=True):
        if kind.gpu_model not in largest:
            able = {free for pool in raw if kind.gpu_model in (None, pool) for free, _ in raw[pool]}
            free = np.array(sorted(able) or [(0,) * resources], dtype=np.int64)
            largest[kind.gpu_model] = _maximal(free, len(free))
        slots.append(_holdable(kind, counts, largest[kind.gpu_model]))
    return tuple(slots)


def _bases(jobs: Sequence[JobClass], slots: Sequence[Ints]) -> dict[int, tuple[int, Ints]]:
    """Return for each home kind the kind of the job's other pieces, and where the same tasks are there."""
    bases = {}
    for job in jobs:
        for home in job.homes:
            kind = job.parts[home.part].kind
            place = {tuple(row): i for i, row in enumerate(slots[kind].tolist())}
            rows = [place[tuple(row)] for row in slots[home.kind].tolist()]
            bases[home.kind] = kind, np.array(rows, dtype=np.int64)
    return bases


def _server_classes(
    pool: str | None, by_free: dict[Alike, list[int]], loads: Ints, zero_demand: bool
) -> list[ServerClass]:
    """Put servers together that hold the same loads; those of none only count for tasks of no demand."""
    if len(by_free) * len(loads) > MOST_CELLS:
        raise _too_many("servers and loads")
    members: dict[Alike, list[int]] = defaultdict(list)
    most: dict[tuple[int, ...], tuple[int, ...]] = {}
    for (free, residents), servers in by_free.items():
        if free not in most:
            check_time()
            held = loads[(loads <= np.array(free)).all(axis=1)]
            most[free] = tuple(held.max(axis=0).tolist())
        members[most[free], residents] += servers
    return [
        ServerClass(tuple(sorted(listed)), pool, free, residents)
        for (free, residents), listed in sorted(members.items(), reverse=True)
        if zero_demand or any(free)
    ]
