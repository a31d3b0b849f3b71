"""Computation of the equivalence classes of servers and jobs, with integer amounts in numpy."""

from __future__ import annotations

import itertools
import math
import operator
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction

import numpy as np

from ...instances.common.arrays import Ints
from ...instances.common.errors import TooLargeError
from ...instances.consolidation.job import GpuModels, PlacementJob, allows, models_of
from ..common.clock import check_time
from ..common.objective import common_divisor, exact_fraction, loosened
from .classes import (
    ClassTable,
    CurrentPlacement,
    JobClass,
    Part,
    ServerClass,
    TaskShape,
    Vector,
    job_value,
    restart_loss,
)
from .cluster_data import ClusterData

MAX_USAGES = 400_000
"""Limit on the different sums of demands of a pool; beyond, they are not tabulated."""
MAX_PIECES = 2_000
"""Limit on the different pieces of one shape."""
MAX_CELLS = 100_000_000
"""Limit on server shapes times sums of demands; beyond, the sums are not tabulated."""
MAX_UNITS_PER_TASK, MAX_TOTAL_UNITS = 2**40, 2**58
"""Limits on a demand and on the total demand, in units; beyond, the unit is coarser."""


def _resource_unit(tasks: Mapping[float, int]) -> tuple[Fraction, bool]:
    """Return the unit in which a resource is counted, and whether all demands are its exact multiples.

    Parameters
    ----------
    tasks
        Number of tasks that demand each amount.
    """
    amounts = {exact_fraction(amount): count for amount, count in tasks.items() if amount}
    unit = common_divisor(amounts) or Fraction(1)
    # A tiny unit would give integers that leave 64 bits when they are added up.
    total = sum((amount * count for amount, count in amounts.items()), Fraction(0))
    least = max(max(amounts, default=Fraction(0)) / MAX_UNITS_PER_TASK, total / MAX_TOTAL_UNITS)
    return max(unit, least), unit >= least


ServerKey = tuple[Vector, Vector, bool]
"""Residual capacity of servers, the shapes of their resident tasks, and whether they count as used."""
ServersByKey = dict[ServerKey, list[int]]


class _Builder:
    """Collects the task shapes (distinct demands), job classes and servers of an instance."""

    def __init__(self, data: ClusterData) -> None:
        self.data = data
        self.resources = data.instance.resource_names
        tasks_by_amount: dict[str, Counter[float]] = defaultdict(Counter)
        for job, members in data.distinct_jobs:
            # Jobs that never fit are in no class, so their amounts need no unit.
            for group in job.task_groups if data.fewest(job) is not None else ():
                for name, amount in group.demand.items():
                    tasks_by_amount[name][amount] += group.tasks * len(members)
        units = [_resource_unit(tasks_by_amount[name]) for name in self.resources]
        # Coarse units lose accuracy, not validity: demands are rounded down, so that more seems to fit.
        self.units, self.exact = [unit for unit, _ in units], all(exactly for _, exactly in units)
        self.task_shapes: dict[TaskShape, int] = {}
        self.placed_now: dict[int, dict[int, list[int]]] = {}
        self.residents: dict[int, list[int]] = defaultdict(list)
        self.positions = {name: n for n, name in enumerate(data.servers)}

    def job_class(self, job: PlacementJob, members: Sequence[int]) -> JobClass | None:
        check_time()
        fewest, groups = self.data.fewest(job), job.task_groups
        if fewest is None:
            return None
        instance = self.data.instance
        rule = instance.spread_of(job)
        preferred = rule == "preferred" and "spread" in instance.objectives
        tasks = tuple(group.tasks for group in groups)
        # A job uses no more servers than it has tasks.
        most = min(sum(tasks), sum(self.data.shapes(job.gpu_model).values()))
        most = min(most, fewest) if rule == "required" else most
        worth, lost = job_value(job), tuple[Fraction, ...]()
        if "slowdown" in instance.objectives and job.speed_by_servers:
            # Beyond the last number that is listed the speed stays the same.
            differ = min(max(job.speed_by_servers), most)
            lost = tuple(worth * (1 - exact_fraction(job.relative_speed(k + 1))) for k in range(differ))
        # If any number of servers will do, which tasks meet does not matter.
        loose = not preferred and not lost and (rule != "required" or fewest >= sum(tasks))
        pairs = [*zip(self.resources, self.units, strict=True)]
        demands = [
            tuple([math.floor(exact_fraction(group.demand.get(name, 0.0)) / unit) for name, unit in pairs])
            for group in groups
        ]
        every, parts = tuple(range(len(tasks))), list[Part]()
        for own in [(g,) for g in every] if loose else [every]:
            shape = TaskShape(tuple(demands[g] for g in own), job.gpu_model)
            number = self.task_shapes.setdefault(shape, len(self.task_shapes))
            parts.append(Part(number, own, tuple(tasks[g] for g in own)))
        moves = instance.moves_count
        placed = self._current_placements(parts, members) if moves else ()
        stays = bool(placed) and self.data.can_stay(job)
        return JobClass(
            tuple(members), tuple(parts), worth, instance.requires(job), loose, most,
            fewest if preferred else None, lost, moves and job.is_running, placed, stays,
            restart_loss(instance, job) if stays else Fraction(0),
        )  # fmt: skip

    def _current_placements(
        self, parts: Sequence[Part], members: Sequence[int]
    ) -> tuple[CurrentPlacement, ...]:
        """Return the current placements (tasks now on one server) of the jobs of a class.

        If the class has several jobs, each is on one server.
        """
        placed: dict[tuple[int, int], CurrentPlacement] = {}
        task_shapes = list(self.task_shapes)
        for member in members:
            now = self.data.now(self.data.instance.jobs[member])
            for place, (server, counts) in enumerate(now.items()):
                for p, part in enumerate(parts):
                    kept = tuple(counts[g] for g in part.groups)
                    if not any(kept):
                        continue
                    if (place, p) not in placed:
                        alike, number = task_shapes[part.shape], len(self.task_shapes)
                        self.task_shapes[TaskShape(alike.demands, alike.gpu_model, number)] = number
                        placed[place, p] = CurrentPlacement(number, p, kept)
                        self.placed_now[number] = defaultdict(list)
                    shape, position = placed[place, p].shape, self.positions[server]
                    self.placed_now[shape][position].append(member)
                    self.residents[position].append(shape)
        return tuple(placed.values())

    def raw_servers(self, tasks: Mapping[Vector, int]) -> dict[str | None, ServersByKey]:
        """Group the servers of each pool (GPU model) by residual capacity and resident tasks.

        Residual capacities are cut to the total demand of all tasks.
        """
        totals = [sum(demand[r] * n for demand, n in tasks.items()) for r in range(len(self.resources))]
        required = {model for shape in self.task_shapes for model in models_of(shape.gpu_model)}
        known: dict[tuple[float, ...], Vector] = {}
        by_key: dict[str | None, ServersByKey] = defaultdict(lambda: defaultdict(list))
        for n, server in enumerate(self.data.servers.values()):
            check_time()
            amounts = server.available
            key = tuple([amounts.get(name, 0.0) for name in self.resources])
            units = known.get(key)
            if units is None:
                units = known[key] = tuple(
                    min(math.floor(exact_fraction(loosened(amount)) / unit), total)
                    for amount, unit, total in zip(key, self.units, totals, strict=True)
                )
            # Servers of a model that no job asks for differ in nothing but what is free.
            pool = server.gpu_model if server.gpu_model in required else None
            # Resident tasks may stay, so servers with others are not interchangeable.
            residents = tuple(sorted(self.residents.get(n, ())))
            by_key[pool][units, residents, bool(server.in_use)].append(n)
        return by_key


def _maximal_vectors(vectors: Ints, most: int = 40) -> Ints:
    """Return the Pareto-maximal vectors; if they are more than `most`, their componentwise maximum."""
    # A vector is never below one with a smaller sum.
    order = vectors[np.argsort(-vectors.sum(axis=1), kind="stable")]
    kept = order[:0]
    for vector in order:
        check_time()
        if not (vector <= kept).all(axis=1).any():
            kept = np.concatenate([kept, vector[np.newaxis]])
        if len(kept) > most:
            above: Ints = vectors.max(axis=0, keepdims=True)
            return above
    return kept


def _demand_sums(demands: Iterable[Vector], tasks: dict[Vector, int], free: Ints) -> Ints | None:
    """Return all subset sums of task demands that fit a residual capacity; None if too many; (N, R)."""
    largest, most = _maximal_vectors(free), min(MAX_USAGES, MAX_CELLS // len(free))
    limit = largest.max(axis=0).tolist()
    # A sum is one number of 63 bits. Each amount has room for twice its limit, and a guard bit above.
    widths = [amount.bit_length() + 2 for amount in limit]
    if sum(widths) > 63:
        return None
    shifts = [sum(widths[r + 1 :]) for r in range(len(widths))]
    guards = sum(1 << shift + width - 1 for shift, width in zip(shifts, widths, strict=True))
    guarded_limits = [_packed(vector, shifts) | guards for vector in largest.tolist()]
    sums = np.zeros(1, dtype=np.int64)
    # Few tasks of each demand first: where amounts are unlike, there soon are too many sums.
    batches = sorted((count, d) for d in demands if any(d) for count in _batch_sizes(tasks[d]))
    for count, demand in batches:
        check_time()
        added = [count * amount for amount in demand]
        if any(map(operator.gt, added, limit)):
            continue
        more = sums + _packed(added, shifts)
        feasible = np.zeros(len(more), dtype=bool)
        # A sum matters only if some server holds it: then every guard bit outlives the subtraction.
        for guarded in guarded_limits:
            feasible |= (guarded - more) & guards == guards
        # Both are sorted. (np.unique hashes since NumPy 2.3, and such numbers collide.)
        sums = np.sort(np.concatenate([sums, more[feasible]]), kind="stable")
        sums = sums[np.append(True, sums[1:] != sums[:-1])]
        if len(sums) > most:
            return None
    masks = [(1 << width - 1) - 1 for width in widths]
    amounts = [sums >> shift & mask for shift, mask in zip(shifts, masks, strict=True)]
    return np.array(amounts, dtype=np.int64).reshape(len(limit), len(sums)).T.copy()


def _packed(amounts: Sequence[int], shifts: Sequence[int]) -> int:
    """Pack the amounts of all resources into one integer, each shifted by its number of bits."""
    return sum(amount << shift for amount, shift in zip(amounts, shifts, strict=True))


def _batch_sizes(tasks: int) -> Iterator[int]:
    """Yield batch sizes whose subset sums are all numbers from 0 to `tasks`."""
    size = 1
    while tasks > 0:
        yield min(size, tasks)
        tasks, size = tasks - size, 2 * size


def _feasible_counts(shape: TaskShape, tasks: Sequence[int], largest: Ints) -> Ints:
    """Return the non-zero vectors of task counts by task group that fit on a server; shape (S, G)."""
    ranges = []
    for demand, count in zip(shape.demands, tasks, strict=True):
        check_time()
        need = np.array(demand)
        fits = (largest[:, need > 0] // need[need > 0]).min(axis=1, initial=count)
        ranges.append(range(int(fits.max(initial=0)) + 1))
    too_many = TooLargeError("there are too many different pieces of a job for exact classes")
    if math.prod(map(len, ranges)) > 20 * MAX_PIECES:
        raise too_many
    counts = np.array(list(itertools.product(*ranges)), dtype=np.int64)[1:]
    weights = counts @ np.array(shape.demands, dtype=np.int64)
    # Of one group, less fits where more does.
    feasible = np.full(len(counts), len(tasks) == 1)
    for limit in largest if len(tasks) > 1 else ():
        check_time()
        feasible |= (weights <= limit).all(axis=1)
    if feasible.sum() > MAX_PIECES:
        raise too_many
    holdable: Ints = counts[feasible]
    return holdable


def classes_of(data: ClusterData) -> ClassTable:
    """Return the equivalence classes of the jobs and of the servers of an instance.

    Raises
    ------
    TooLargeError
        If a job can be split into too many different pieces.
    """
    builder = _Builder(data)
    jobs = tuple(filter(None, itertools.starmap(builder.job_class, data.distinct_jobs)))
    task_shapes = tuple(builder.task_shapes)
    tasks, by_demand = _task_counts(task_shapes, jobs)
    usages: dict[str | None, Ints | None] = {}
    servers: list[ServerClass] = []
    # Before the sums of demands are known, servers are told apart by all that is free.
    raw = builder.raw_servers(by_demand)
    slots = _slots(task_shapes, tasks, raw, len(builder.resources))
    for pool, by_free in sorted(raw.items(), key=lambda item: item[0] or ""):
        shapes = [shape for shape in task_shapes if allows(shape.gpu_model, pool)]
        demands = dict.fromkeys(demand for shape in shapes for demand in shape.demands)
        free = np.array([units for units, *_ in by_free], dtype=np.int64).reshape(len(by_free), -1)
        usages[pool] = _demand_sums(demands, by_demand, free)
        servers += _server_classes(pool, by_free, usages[pool], list(demands))
    # Only pieces of these jobs need prices of their own; single tasks do for the others.
    cut = {part.shape for job in jobs if not job.loose for part in job.parts}
    cut |= {current.shape for job in jobs for current in job.current}
    return ClassTable(
        task_shapes,
        tuple(rows if k in cut else rows[:1] for k, rows in enumerate(slots)),
        slots,
        jobs,
        tuple(servers),
        builder.exact,
        tuple(builder.units),
        data.values_without_jobs,
        data.moves,
        usages,
        builder.placed_now,
        _base_rows(jobs, slots),
    )


def _task_counts(
    task_shapes: Sequence[TaskShape], jobs: Sequence[JobClass]
) -> tuple[list[list[int]], dict[Vector, int]]:
    """Return the total number of tasks of each task group of each shape, and of each demand vector."""
    tasks = [[0] * len(shape.demands) for shape in task_shapes]
    by_demand: dict[Vector, int] = defaultdict(int)
    for job in jobs:
        for part in job.parts:
            for g, count in enumerate(part.tasks):
                tasks[part.shape][g] += count * len(job.members)
                by_demand[task_shapes[part.shape].demands[g]] += count * len(job.members)
        for current in job.current:
            tasks[current.shape] = list(current.kept if job.loose else job.parts[current.part].tasks)
    return tasks, by_demand


def _slots(
    task_shapes: Sequence[TaskShape],
    tasks: Sequence[Sequence[int]],
    raw: Mapping[str | None, Mapping[ServerKey, list[int]]],
    resources: int,
) -> tuple[Ints, ...]:
    """Return, for each task shape, the vectors of task counts by task group that fit on a server."""
    slots = []
    largest: dict[GpuModels, Ints] = {}
    for shape, counts in zip(task_shapes, tasks, strict=True):
        if shape.gpu_model not in largest:
            able = {free for pool in raw if allows(shape.gpu_model, pool) for free, *_ in raw[pool]}
            free = np.array(sorted(able) or [(0,) * resources], dtype=np.int64)
            largest[shape.gpu_model] = _maximal_vectors(free, len(free))
        slots.append(_feasible_counts(shape, counts, largest[shape.gpu_model]))
    return tuple(slots)


def _base_rows(jobs: Sequence[JobClass], slots: Sequence[Ints]) -> dict[int, tuple[int, Ints]]:
    """Map the tasks of each current placement to the job's normal task shape: its index and row indices.

    There is one row index for each vector of task counts of the current placement's shape.
    """
    bases = {}
    for job in jobs:
        for current in job.current:
            shape = job.parts[current.part].shape
            place = {tuple(row): i for i, row in enumerate(slots[shape].tolist())}
            rows = [place[tuple(row)] for row in slots[current.shape].tolist()]
            bases[current.shape] = shape, np.array(rows, dtype=np.int64)
    return bases


def _server_classes(
    pool: str | None,
    by_free: ServersByKey,
    usages: Ints | None,
    demands: Sequence[Vector],
) -> list[ServerClass]:
    """Return the equivalence classes of a pool's servers: those that can hold the same tasks.

    Servers that hold no task are omitted, unless there are tasks without demand. Of each resource only the
    maximum amount counts that tasks can use. Where sums of demands are not tabulated, servers with different
    residual capacities are in different classes.
    """
    some = [demand for demand in demands if any(demand)]
    members: ServersByKey = defaultdict(list)
    most: dict[Vector, Vector] = {}
    for (free, residents, in_use), servers in by_free.items():
        if free not in most:
            check_time()
            most[free] = free
            if usages is not None:
                feasible = usages[(usages <= np.array(free)).all(axis=1)]
                most[free] = tuple(feasible.max(axis=0).tolist())
        if len(some) < len(demands) or any(all(map(operator.le, demand, free)) for demand in some):
            members[most[free], residents, in_use] += servers
    return [
        ServerClass(tuple(sorted(listed)), pool, free, residents, in_use)
        for (free, residents, in_use), listed in sorted(members.items(), reverse=True)
    ]


class ClassifiedCluster(ClusterData):
    """Data of an instance together with its equivalence classes of jobs and servers, computed lazily."""

    _classes: ClassTable | TooLargeError | None = None

    @property
    def classes(self) -> ClassTable:
        """The equivalence classes of jobs and servers; raises TooLargeError if they cannot be listed."""
        if self._classes is None:
            try:
                self._classes = classes_of(self)
            except TooLargeError as error:
                self._classes = error
        if isinstance(self._classes, TooLargeError):
            raise self._classes
        return self._classes
