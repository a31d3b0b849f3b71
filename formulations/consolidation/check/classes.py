"""Equivalence classes of servers and jobs, and m_j, derived by the check independently of the methods.

The classes to which a certificate's prices refer are derived from the instance as defined in
docs/problems/consolidation.md: jobs of equal demands are one class, servers of equal residual capacity are
one class. Only the units in which amounts are counted come from the methods' table of classes, since bounds
are valid in any units: demands and residual capacities are rounded down to them. Then both tables are
compared, and so is each m_j.

m_j, the fewest servers of a job: for one group of tasks, the servers that hold most tasks. For several
groups, forward dynamic programming over the unplaced tasks of each group, with a dictionary entry for each
state.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

import numpy as np

from ....instances.common.arrays import Ints
from ....instances.common.errors import TooLargeError
from ....instances.consolidation.instance import ConsolidationInstance
from ....instances.consolidation.job import GpuModels, Group, PlacementJob, allows, models_of
from ...common.clock import check_time
from ...common.objective import exact_fraction, loosened
from ..build_classes import ClassifiedCluster
from ..classes import Classes, CurrentPlacement, JobClass, Part, ServerClass, TaskShape, Vector, job_value

MAX_WORK = 200_000
"""Limit on states times patterns for one job; takes a fraction of a second."""

Capacity = tuple[tuple[str, float], ...]
"""Amounts by resource, sorted by name."""


def derive_fewest_servers(groups: Sequence[Group], servers: Mapping[Capacity, int]) -> int | None:
    """Return the minimum number of servers that hold all tasks of a job; None if all together do not.

    Parameters
    ----------
    servers
        Number of servers of each capacity.

    Raises
    ------
    OverflowError
        If this would take too long.
    """
    if len(groups) > 1:
        return _fewest_for_several_groups(groups, servers)
    used, left = 0, groups[0].tasks
    holds = Counter[int]()
    for capacity, count in servers.items():
        holds[_tasks_that_fit(groups[0], dict(capacity))] += count
    for each in sorted(holds, reverse=True):
        if not each:
            break
        needed = min(holds[each], -(-left // each))
        used, left = used + needed, left - needed * each
        if left <= 0:
            return used
    return None


def _tasks_that_fit(group: Group, amounts: Mapping[str, float]) -> int:
    """Return the number of tasks of a task group that fit into the amounts, up to rounding."""
    fits = [
        math.floor(min(group.tasks, loosened(amounts.get(name, 0.0)) / need))
        for name, need in group.demand.items()
        if need > 0
    ]
    return min(fits, default=group.tasks)


def _fewest_for_several_groups(groups: Sequence[Group], servers: Mapping[Capacity, int]) -> int | None:
    tasks = tuple(group.tasks for group in groups)
    patterns: dict[tuple[Vector, ...], int] = Counter()
    for capacity, count in servers.items():
        patterns[_maximal_patterns(groups, dict(capacity))] += count
    states = math.prod(n + 1 for n in tasks)
    if states * sum(min(n, sum(tasks)) * len(listed) for listed, n in patterns.items()) > MAX_WORK:
        raise OverflowError
    used = {tasks: 0}
    for listed, count in patterns.items():
        for _ in range(min(count, sum(tasks))):
            check_time()
            before = dict(used)
            for left, so_far in before.items():
                for pattern in listed:
                    rest = tuple(max(0, n - h) for n, h in zip(left, pattern, strict=True))
                    if used.get(rest, math.inf) > so_far + 1:
                        used[rest] = so_far + 1
            if used == before:
                break
    return used.get((0,) * len(tasks))


def _maximal_patterns(groups: Sequence[Group], amounts: Mapping[str, float]) -> tuple[Vector, ...]:
    """Return the maximal vectors of task counts, by task group, that one job can have on a server."""
    ranges = [range(_tasks_that_fit(group, amounts) + 1) for group in groups]
    if math.prod(map(len, ranges)) > MAX_WORK:
        raise OverflowError
    names = Counter(name for group in groups for name in group.demand)
    fitting = {
        counts
        for counts in itertools.product(*ranges)
        if all(
            sum(n * group.demand.get(name, 0.0) for n, group in zip(counts, groups, strict=True))
            <= loosened(amounts.get(name, 0.0))
            for name in names
        )
    }
    full = []
    for counts in fitting:
        more = (tuple(n + (g == h) for h, n in enumerate(counts)) for g in range(len(groups)))
        if any(counts) and not any(larger in fitting for larger in more):
            full.append(counts)
    return tuple(sorted(full))


MAX_PIECES = 40_000
"""Limit on the pieces of one shape."""
MAX_CUT_SERVERS, MAX_CUT_SUMS, MAX_CUT_ADDITIONS = 200, 20_000, 1_000_000
"""Limits on servers, sums of demands and additions at which residual capacities are cut to usable amounts.

The limit on additions takes half a second; beyond a limit, residual capacities remain as they are.
"""

COMPARED_TOTALS = ("exact", "offsets", "moves")
"""Attributes of the whole instance that both tables of classes must agree on."""
ServerKey = tuple[str | None, Vector, Vector, bool]
"""Pool of servers, residual capacity, shapes of resident tasks, and whether they count as used."""
ServersByKey = dict[ServerKey, list[int]]


class ClassMismatch(Exception):
    """Raised when the solvers' table of equivalence classes differs from the derived one."""


@dataclass
class CheckedCluster:
    """A cluster with the job and server classes, and the m_j, that the check derives independently.

    Attributes
    ----------
    too_large
        Number of the `requests` whose m_j would take too long to derive.
    fault
        Difference to the methods' table; None if there is none, or before the comparison.
    """

    cluster: ClassifiedCluster
    requests: int = 0
    too_large: int = 0
    fault: str | None = None
    _known: dict[object, int | None] = field(default_factory=dict)
    _by_model: dict[GpuModels, Counter[Capacity]] = field(default_factory=dict)

    @staticmethod
    def of(instance: ConsolidationInstance) -> CheckedCluster:
        """Wrap an instance for the check, which derives classes and m_j on demand."""
        return CheckedCluster(ClassifiedCluster(instance))

    @cached_property
    def jobs(self) -> list[tuple[PlacementJob, list[int]]]:
        """The first job of each group of equal jobs, and the positions of all jobs of the group.

        Jobs are equal in all data that objectives and constraints depend on, except traffic.
        """
        instance = self.cluster.instance
        moving = instance.moves_count
        groups_by_key: dict[object, tuple[PlacementJob, list[int]]] = {}
        for position, job in enumerate(instance.jobs):
            speeds = tuple(sorted(job.speed_by_servers.items()))
            now = self._placement_key(job, position) if moving else None
            rules = instance.requires(job), instance.spread_of(job), job.gpu_model
            key = job.requests, job.worth, *rules, speeds, now
            groups_by_key.setdefault(key, (job, []))[1].append(position)
        return [*groups_by_key.values()]

    @cached_property
    def classes(self) -> Classes:
        """The equivalence classes of jobs and servers, derived and compared with the solvers' table.

        Raises
        ------
        TooLargeError
            If there are too many pieces, for the methods or for the check.
        Disagreement
            If the classes of the methods differ.
        """
        proposed = self.cluster.classes
        if self.fault is None:
            units = proposed.units
            if len(units) != len(self.cluster.instance.resource_names) or min(units, default=1) <= 0:
                self.fault = "the methods count amounts in units that there cannot be"
            else:
                derivation = _Derivation(self, units)
                derived = derivation.classes()
                self.fault = self.fault or _difference(derived, proposed, derivation.free_of)
        if self.fault is not None:
            raise ClassMismatch(self.fault)
        return derived

    def fewest(self, job: PlacementJob) -> int | None:
        """Return m_j, the minimum number of servers of a job, derived and compared with the solvers'."""
        key = job.gpu_model, job.requests
        if key not in self._known:
            self.requests += 1
            used = self._known[key] = self.cluster.fewest(job)
            try:
                derived = derive_fewest_servers(job.task_groups, self.capacities(job.gpu_model))
            except OverflowError:
                self.too_large += 1
                return used
            if derived != used:
                self.fault = f"the fewest servers of job {job.name!r} are {derived}, not {used}"
            self._known[key] = derived
        return self._known[key]

    def capacities(self, gpu_model: GpuModels) -> Counter[Capacity]:
        """Count, by capacity, the servers on which a job of the given GPU models may run."""
        if gpu_model not in self._by_model:
            self._by_model[gpu_model] = Counter(
                tuple(sorted(server.capacity.items()))
                for server in self.cluster.servers.values()
                if allows(gpu_model, server.gpu_model)
            )
        return self._by_model[gpu_model]

    def current_tasks(self, job: PlacementJob) -> dict[str, list[int]]:
        """Return the running tasks of a job by server and task group, on servers that it may use."""
        by_server: dict[str, list[int]] = {}
        for g, group in enumerate(job.task_groups):
            for server, count in group.current.items():
                if allows(job.gpu_model, self.cluster.servers[server].gpu_model):
                    by_server.setdefault(server, [0] * len(job.task_groups))[g] = count
        return by_server

    def _placement_key(self, job: PlacementJob, position: int) -> object:
        """Return a key that is equal for jobs with equivalent current placements.

        Jobs on several servers have unique keys.
        """
        now = self.current_tasks(job)
        if len(now) > 1 or (now and len(job.task_groups) > 1):
            return position
        lost = job_value(job) * self.cluster.instance.restart_h(job)
        return *map(tuple, now.values()), job.is_running, _can_stay(job, now), lost


def _can_stay(job: PlacementJob, now: Mapping[str, list[int]]) -> bool:
    """Return whether a job runs and all its running tasks are on servers that it may use."""
    return 0 < sum(group.running_tasks for group in job.task_groups) == sum(map(sum, now.values()))


class _Derivation:
    """Derivation of the equivalence classes by the check, in the order of jobs used in certificates."""

    def __init__(self, checked: CheckedCluster, units: Sequence[Fraction]) -> None:
        self.checked, self.instance = checked, checked.cluster.instance
        self.names, self.units = self.instance.resource_names, units
        self.shapes: dict[TaskShape, int] = {}
        self.tasks: list[Vector] = []
        self.whole: set[int] = set()
        self.residents: dict[str, list[int]] = defaultdict(list)
        self.free_of: dict[int, Vector] = {}
        self.exact = True

    def classes(self) -> Classes:
        """Return the equivalence classes of jobs and servers."""
        jobs = tuple(made for job, members in self.checked.jobs for made in self._job_class(job, members))
        shapes = tuple(self.shapes)
        free = self._servers_by_key()
        pairs = zip(shapes, self.tasks, strict=True)
        slots = tuple(self._slots(shape, tasks, free) for shape, tasks in pairs)
        running = [job for job in self.instance.jobs if job.is_running]
        offsets = {
            "value": sum((job_value(job) * self.instance.restart_h(job) for job in running), Fraction(0)),
            "servers": Fraction(len(self.checked.cluster.in_use)),
            "stops": Fraction(len(running)),
            "migrations": Fraction(sum(group.running_tasks for job in running for group in job.task_groups)),
        }
        most = self.instance.max_moves
        return Classes(
            shapes,
            tuple(rows if k in self.whole else rows[:1] for k, rows in enumerate(slots)),
            slots,
            jobs,
            self._server_classes(free),
            self.exact,
            tuple(self.units),
            offsets,
            None if most is None else most - len(running),
        )

    def _job_class(self, job: PlacementJob, members: list[int]) -> Iterator[JobClass]:
        """Yield the equivalence class of a group of equal jobs; nothing if they never fit."""
        check_time()
        counted, rule = self.instance.objectives, self.instance.spread_of(job)
        fewest, groups = self.checked.fewest(job), job.task_groups
        if fewest is None:
            return
        tasks = tuple(group.tasks for group in groups)
        most = min(sum(tasks), self.checked.capacities(job.gpu_model).total())
        if rule == "required":
            most = min(most, fewest)
        prefers = rule == "preferred" and "spread" in counted
        slows = bool(job.speed_by_servers) and "slowdown" in counted
        worth, lost = job_value(job), tuple[Fraction, ...]()
        if slows:
            # Beyond the last number of servers that is listed the speed does not change.
            listed = range(1, min(max(job.speed_by_servers), most) + 1)
            lost = tuple(worth * (1 - exact_fraction(job.relative_speed(servers))) for servers in listed)
        # Nothing depends on which tasks share a server: each is a separate piece.
        loose = not prefers and not lost and (rule != "required" or fewest >= sum(tasks))
        by_part = [(g,) for g in range(len(groups))] if loose else [tuple(range(len(groups)))]
        parts = []
        for members_of in by_part:
            demands = tuple(self._in_units(groups[g].demand) for g in members_of)
            shape = self._shape(TaskShape(demands, job.gpu_model))
            counts = tuple(tasks[g] for g in members_of)
            added = zip(self.tasks[shape], counts, strict=True)
            self.tasks[shape] = tuple(before + n * len(members) for before, n in added)
            parts.append(Part(shape, members_of, counts))
            if not loose:
                self.whole.add(shape)
        moves = self.instance.moves_count
        now = self._current_placements(parts, members, loose) if moves else ()
        stays = moves and _can_stay(job, self.checked.current_tasks(job))
        yield JobClass(
            tuple(members), tuple(parts), worth, self.instance.requires(job), loose, most,
            fewest if prefers else None, lost, moves and job.is_running, now, stays,
            worth * self.instance.restart_h(job) if stays else Fraction(0),
        )  # fmt: skip

    def _in_units(self, demand: dict[str, float]) -> Vector:
        amounts = [
            exact_fraction(demand.get(name, 0.0)) / unit
            for name, unit in zip(self.names, self.units, strict=True)
        ]
        self.exact = self.exact and all(amount.denominator == 1 for amount in amounts)
        return tuple(map(math.floor, amounts))

    def _shape(self, shape: TaskShape) -> int:
        if shape not in self.shapes:
            self.shapes[shape] = len(self.shapes)
            self.tasks.append((0,) * len(shape.demands))
        return self.shapes[shape]

    def _current_placements(
        self, parts: Sequence[Part], members: Sequence[int], loose: bool
    ) -> tuple[CurrentPlacement, ...]:
        """Return the current placements of the jobs of a class, each with a separate task shape."""
        placements: dict[tuple[int, int], CurrentPlacement] = {}
        for member in members:
            now = self.checked.current_tasks(self.instance.jobs[member])
            for place, (server, counts) in enumerate(now.items()):
                for p, part in enumerate(parts):
                    kept = tuple(counts[g] for g in part.groups)
                    if not any(kept):
                        continue
                    if (place, p) not in placements:
                        like = list(self.shapes)[part.shape]
                        shape = self._shape(TaskShape(like.demands, like.gpu_model, len(self.shapes)))
                        self.tasks[shape] = kept if loose else part.tasks
                        self.whole.add(shape)
                        placements[place, p] = CurrentPlacement(shape, p, kept)
                    self.residents[server].append(placements[place, p].shape)
        return tuple(placements.values())

    def _tasks_by_demand(self) -> Counter[Vector]:
        """Return the number of all tasks of each demand."""
        tasks = Counter[Vector]()
        for shape, counts in zip(self.shapes, self.tasks, strict=True):
            for demand, count in zip(shape.demands, counts, strict=True):
                tasks[demand] += count if shape.current is None else 0
        return tasks

    def _servers_by_key(self) -> ServersByKey:
        """Group servers by pool (GPU model), residual capacity in units and resident tasks.

        Residual capacities are cut to the total demand of all tasks.
        """
        tasks = self._tasks_by_demand()
        total = [sum(demand[r] * count for demand, count in tasks.items()) for r in range(len(self.names))]
        required = {model for shape in self.shapes for model in models_of(shape.gpu_model)}
        known: dict[tuple[float, ...], Vector] = {}
        groups: ServersByKey = defaultdict(list)
        for n, (name, server) in enumerate(self.checked.cluster.servers.items()):
            available = server.available
            amounts = tuple([available.get(resource, 0.0) for resource in self.names])
            if amounts not in known:
                check_time()
                whole = (
                    math.floor(exact_fraction(loosened(a)) / u)
                    for a, u in zip(amounts, self.units, strict=True)
                )
                known[amounts] = tuple(map(min, whole, total))
            pool = server.gpu_model if server.gpu_model in required else None
            residents = tuple(sorted(self.residents[name]))
            self.free_of[n] = known[amounts]
            groups[pool, known[amounts], residents, bool(server.in_use)].append(n)
        return groups

    def _slots(self, shape: TaskShape, tasks: Vector, free: Iterable[ServerKey]) -> Ints:
        """Return the non-zero vectors of task counts by task group that fit on a server; shape (S, G)."""
        able = {amounts for pool, amounts, *_ in free if allows(shape.gpu_model, pool)}
        rows = np.array(sorted(able), dtype=np.int64).reshape(len(able), len(self.names))
        demands = np.array(shape.demands, dtype=np.int64).reshape(len(tasks), len(self.names))
        ranges = []
        for demand, count in zip(demands, tasks, strict=True):
            takes = demand > 0
            fits = (rows[:, takes] // demand[takes]).min(axis=1, initial=count)
            ranges.append(range(int(fits.max(initial=0)) + 1))
        if math.prod(map(len, ranges)) > MAX_PIECES:
            raise TooLargeError("there are too many different pieces of a job to be checked")
        counts = np.array(list(itertools.product(*ranges)), dtype=np.int64)[1:]
        if len(tasks) == 1:
            return counts  # of one group, less fits where more does
        weights = counts @ demands
        feasible = np.zeros(len(counts), dtype=bool)
        for amounts in rows:
            check_time()
            feasible |= (weights <= amounts).all(axis=1)
        return counts[feasible]

    def _server_classes(self, free: ServersByKey) -> tuple[ServerClass, ...]:
        """Return the equivalence classes of servers, without servers that can hold no task."""
        few = sum(map(len, free.values())) <= MAX_CUT_SERVERS
        merged: ServersByKey = defaultdict(list)
        for pool in dict.fromkeys(pool for pool, *_ in free):
            shapes = [s for s in self.shapes if s.current is None and allows(s.gpu_model, pool)]
            demands = list(dict.fromkeys(demand for shape in shapes for demand in shape.demands))
            sums = self._demand_sums(demands, [key[1] for key in free if key[0] == pool]) if few else None
            nothing = not all(map(any, demands))
            for (model, amounts, residents, in_use), members in free.items():
                if model != pool:
                    continue
                # Amounts beyond every sum that fits are of no use to any task.
                fit = [s for s in sums or () if all(map(int.__le__, s, amounts))]
                usable = tuple(map(max, zip(*fit, strict=True))) if fit else amounts
                if nothing or any(any(d) and all(map(int.__le__, d, usable)) for d in demands):
                    merged[pool, usable, residents, in_use] += members
        return tuple(
            ServerClass(tuple(sorted(members)), pool, amounts, residents, in_use)
            for (pool, amounts, residents, in_use), members in merged.items()
        )

    def _demand_sums(self, demands: Sequence[Vector], free: Sequence[Vector]) -> list[Vector] | None:
        """Return every subset sum of task demands that fits on a server; None if there are too many."""
        most, reached, added = self._tasks_by_demand(), {(0,) * len(self.names)}, 0
        for demand in demands:
            step = reached if any(demand) else set()
            for _ in range(most[demand]):
                check_time()
                added += len(step) * len(self.names)
                more = {tuple(map(sum, zip(amounts, demand, strict=True))) for amounts in step}
                step = {s for s in more - reached if any(all(map(int.__le__, s, f)) for f in free)}
                reached |= step
                if len(reached) > MAX_CUT_SUMS or added > MAX_CUT_ADDITIONS:
                    return None
                if not step:
                    break
        return list(reached)


def _difference(derived: Classes, proposed: Classes, free_of: Mapping[int, Vector]) -> str | None:
    """Describe the first difference between the solvers' and the check's classes; None if they agree.

    The methods may merge servers whose residual capacities differ only in amounts that no task can use, or
    keep these in separate classes.
    """
    if derived.task_shapes != proposed.task_shapes:
        return "the methods have other shapes of tasks"
    for name in ("pieces", "slots"):
        ours, theirs = getattr(derived, name), getattr(proposed, name)
        if len(ours) != len(theirs) or not all(map(np.array_equal, ours, theirs)):
            return f"the methods have other {name} of jobs"
    if derived.jobs != proposed.jobs:
        return "the methods have other classes of jobs"
    if any(getattr(derived, name) != getattr(proposed, name) for name in COMPARED_TOTALS):
        return "the methods count otherwise what is exact, runs, is in use, or may move"
    class_of = {n: server for server in proposed.servers for n in server.members}
    for server in derived.servers:
        for n in server.members:
            other = class_of.pop(n, None)
            if other is None:
                shapes = (derived.task_shapes[k] for k in derived.shapes_of(server.pool))
                demands = (demand for shape in shapes for demand in shape.demands)
                if any(any(d) and all(map(int.__le__, d, server.free)) for d in demands):
                    return f"the methods leave out server number {n}"
                continue
            same = all(
                getattr(other, name) == getattr(server, name) for name in ("pool", "residents", "in_use")
            )
            more = other.free != free_of[n] and any(map(int.__gt__, other.free, server.free))
            if not same or more:
                return f"the methods put server number {n} in another class"
    return "the methods have servers that hold nothing" if class_of else None
