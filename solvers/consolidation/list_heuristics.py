"""List heuristics for vector bin packing: first fit, best fit, scored fit, and bin-centric packing.

Jobs are placed one after the other in residual capacities. Capacities have a tolerance for the rounding of
floating-point sums, within that of the check. Placed jobs are not moved, so residual capacities only shrink:
where a job did not fit, an equal one is not tried.

Heuristics for vector bin packing are compared by Panigrahy, Talwar, Uyeda and Wieder (2011):

* Best fit: jobs by size, each where it leaves the least residual capacity. This is the placement of Tiresias
  (Gu et al., NSDI 2019). Residual capacities of several resources should also be balanced, since a server
  without one resource cannot use the others.
* First fit decreasing: the largest jobs first, each on the first servers that fit. The size over several
  resources is the largest share of the free capacity of any resource.
* Best fit by a score of demand and residual capacity: the L2 norm of the residual capacity, or the dot
  product, which is the alignment of Tetris (Grandl et al., SIGCOMM 2014) too. As in bin packing, a server is
  opened only if the job fits on no open one.
* Bin-centric packing: one server after the other, the largest first, is filled with the jobs whose demand
  aligns best with its residual capacity. The dot product of both has a weight for each resource, the mean
  demand. Jobs that need several servers are placed before, jobs that no longer fit on one server afterwards,
  both on the servers that hold most of their tasks.
"""

from __future__ import annotations

import math
import operator
from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from heapq import heappop, heappush
from typing import Any

import numpy as np

from ...formulations.common.clock import check_time, time_is_up
from ...formulations.common.objective import TOLERANCE
from ...formulations.consolidation.formulation import ConsolidationFormulation
from ...formulations.consolidation.plan import JobPlacement, entry_of
from ...instances.common.arrays import Flags, Floats
from ...instances.common.errors import OutOfTimeError
from ...instances.consolidation.job import GpuModels, PlacementJob, allows
from ..common.base import Clock, Outcome, Solver
from ..common.result import Limit, SolveOptions

Counts = tuple[int, ...]
"""Number of tasks of each group."""
Piece = tuple[int, Counts]
Pieces = dict[int, Counts]
"""The tasks of a job on one server, by index; on all of its servers."""
Demand = tuple[tuple[int, float], ...]
"""Index and amount of each resource that a task takes."""
Vector = tuple[float, ...]
BoundedRequest = tuple["Request", int | None]
"""Demand of a job, and its largest number of servers; None: any."""
Key = tuple[Vector, Vector, str | None, float]
"""Residual capacity, capacity, GPU model, and opening cost of a server."""
CAPACITY_TOLERANCE = 1 + TOLERANCE / 2
UNLIMITED_TASKS = 10**18
"""Number of tasks larger than that of any job."""
SCARCE_DEMAND_SHARE = 0.95
"""Ratio of demand to free capacity above which some jobs are unlikely to fit."""
FIT_WHERE_SCARCE, FIT_WHERE_PLENTY = 0.1, 0.5
"""Weight of the mean residual share relative to the imbalance; larger weights use fewer servers."""
MAX_RANKING_ENTRIES = 3_000_000
"""Largest number of entries of all rankings together; beyond it they are deleted and built again on use."""


@dataclass(frozen=True)
class Request:
    """The demand of a job: tasks of each group with their demands, and allowed GPU models.

    Attributes
    ----------
    demands, tasks
        Demand of one task, and number of tasks, of each group.
    gpu_model
        Allowed GPU models; None: any.
    """

    demands: tuple[Demand, ...]
    tasks: Counts
    gpu_model: GpuModels

    def load(self, waiting: Counts, left: Sequence[float]) -> Counts:
        """Return the tasks of each group, at most those waiting, that fit into residual capacity `left`."""
        counts = []
        for g, (demand, fit) in enumerate(zip(self.demands, waiting, strict=True)):
            for resource, amount in demand:
                if fit * amount > left[resource] * CAPACITY_TOLERANCE:
                    fit = max(0, int(left[resource] * CAPACITY_TOLERANCE / amount))  # noqa: PLW2901
            counts.append(fit)
            if fit and g + 1 < len(waiting):
                left = list(left)
                for resource, amount in demand:
                    left[resource] -= fit * amount
        return tuple(counts)

    def after(self, counts: Counts, left: Sequence[float]) -> Vector:
        """Return the residual capacity of a server after these numbers of tasks, for each resource."""
        less = list(left)
        for demand, count in zip(self.demands, counts, strict=True):
            for resource, amount in demand:
                less[resource] -= count * amount
        return tuple(less)

    def total(self, resources: int) -> Floats:
        """Return the demand of all tasks for each resource, shape (R,)."""
        return -np.array(self.after(self.tasks, (0.0,) * resources))


class FreeCapacity(ABC):
    """Residual capacities of the servers, and a rule for placing jobs on them."""

    free: Any
    """Residual capacity of each server: a list of vectors, or an array of shape (N, R)."""

    def __init__(self, formulation: ConsolidationFormulation) -> None:
        jobs, resources = formulation.instance.jobs, formulation.instance.resource_names
        servers = formulation.servers.values()
        models = any(job.gpu_model is not None for job in jobs)
        self.models = [server.gpu_model if models else None for server in servers]
        self.capacity, self.free = (
            [tuple([amounts.get(name, 0.0) for name in resources]) for amounts in listed]
            for listed in ([server.capacity for server in servers], [server.available for server in servers])
        )
        self._columns = {name: index for index, name in enumerate(resources)}
        # Servers with a job that was placed.
        self.used: Flags = np.zeros(len(self.free), dtype=bool)

    def request(self, job: PlacementJob) -> Request:
        """Return a job's tasks and demands, with resources by index."""
        groups, columns = job.task_groups, self._columns
        demands = [tuple([(columns[r], each) for r, each in g.demand.items() if each]) for g in groups]
        return Request(tuple(demands), tuple([group.tasks for group in groups]), job.gpu_model)

    def place(self, request: Request, most_servers: int | None) -> Pieces | None:
        """Place all tasks of a job on at most `most_servers` servers; None if impossible.

        Return the tasks of each group by the server's index.
        """
        waiting, pieces = request.tasks, Pieces()
        while any(waiting):
            check_time()
            few = None if most_servers is None else most_servers - len(pieces)
            best = None if few == 0 else self.choose(request, waiting, pieces, few)
            if best is None:
                return None
            server, counts = best
            pieces[server] = counts
            waiting = tuple(map(operator.sub, waiting, counts))
        for server, counts in pieces.items():
            self.free[server] = request.after(counts, self.free[server])
            self.used[server] = True
        return pieces

    @abstractmethod
    def choose(self, request: Request, waiting: Counts, pieces: Pieces, few: int | None) -> Piece | None:
        """Return the next server of a job, by index, and the tasks of each group on it; None without one.

        Parameters
        ----------
        waiting
            Tasks of each group that are not placed yet.
        pieces
            The tasks on the servers that are chosen already.
        few
            How many servers more the job may use; None: any number.
        """


@dataclass
class _Ranking:
    """A heap of the groups of servers with equal residual capacity, best first, for given tasks of a job.

    An entry has the negative number of tasks on a server, opening cost, residual, bucket, and tasks of each
    group. The first `seen` entries of the list of filled buckets are ranked.
    """

    heap: list[tuple[int, float, float, int, Counts]] = field(default_factory=list)
    seen: int = 0


class Buckets(FreeCapacity):
    """Servers in classes of equal residual capacity, with a ranking of these for each request (best fit).

    A ranking is a heap that is updated on use: buckets filled since the last use are added, and empty buckets
    at the top are removed.
    """

    def __init__(self, formulation: ConsolidationFormulation) -> None:
        super().__init__(formulation)
        demand_shares = demand_capacity_ratios(formulation)
        self._several = sum(share > 0 for share in demand_shares) > 1
        self._weights = [share / math.fsum(demand_shares) for share in demand_shares] if self._several else []
        self._fit = FIT_WHERE_SCARCE if max(demand_shares) > SCARCE_DEMAND_SHARE else FIT_WHERE_PLENTY
        self._keys: list[Key] = []
        self._members: list[list[int]] = []
        self._numbers: dict[Key, int] = {}
        self._filled: list[int] = []  # buckets, each time that one is no longer empty
        self._rankings: dict[tuple[Request, Counts], _Ranking] = {}
        self._most: dict[Demand, int] = {}
        self._ranked = 0
        self._costs = self._opening_costs(formulation)
        self._chosen = list(range(len(self.free)))
        self._fill_buckets()
        self._untouched = self._keys.copy()

    def _opening_costs(self, formulation: ConsolidationFormulation) -> list[float]:
        """Return a sort penalty for opening each server, lowest for large ones if most jobs are required.

        It is zero for all servers with one resource or without the objective of used servers.
        """
        jobs = formulation.instance.jobs
        must = 2 * sum(job.must_place for job in jobs) >= len(jobs)
        if not (self._several and must and "servers" in formulation.instance.objectives):
            return [0.0] * len(self.free)
        largest = [max(amounts) for amounts in zip(*self.free, strict=True)]
        sizes = [
            sum(w * a / most for w, a, most in zip(self._weights, free, largest, strict=True) if most)
            for free in self.free
        ]
        return [2 - size for size in sizes]

    def place(self, request: Request, most_servers: int | None) -> Pieces | None:
        """Place a job; the servers that were taken from the buckets return to them."""
        pieces = super().place(request, most_servers)
        self._fill_buckets()
        return pieces

    def _fill_buckets(self) -> None:
        """Add the servers that were taken from buckets to those of their residual capacities."""
        for server in self._chosen:
            cost = 0.0 if self.used[server] else self._costs[server]
            key = self.free[server], self.capacity[server], self.models[server], cost
            bucket = self._numbers.setdefault(key, len(self._keys))
            if bucket == len(self._keys):
                self._keys.append(key)
                self._members.append([])
            if not self._members[bucket]:
                self._filled.append(bucket)
            heappush(self._members[bucket], server)
        self._chosen.clear()

    def choose(self, request: Request, waiting: Counts, pieces: Pieces, few: int | None) -> Piece | None:
        """Return the server that holds most of the tasks, taken from its bucket, and the tasks on it.

        Ties are broken by opening cost and by residual capacity; None if no server holds any of the tasks.
        """
        del pieces, few
        # No server holds more, so that what waits beyond makes no other ranking.
        waiting = tuple(map(min, waiting, map(self._most_on_one, request.demands)))
        ranking = self._rankings.setdefault((request, waiting), _Ranking())
        for bucket in self._filled[ranking.seen :]:
            left, capacity, model, cost = self._keys[bucket]
            if self._members[bucket] and allows(request.gpu_model, model):
                counts = request.load(waiting, left)
                if any(counts):
                    residual = self._residual(request.after(counts, left), capacity)
                    heappush(ranking.heap, (-sum(counts), cost, residual, bucket, counts))
                    self._ranked += 1
        ranking.seen = len(self._filled)
        if self._ranked > MAX_RANKING_ENTRIES:
            self._rankings, self._ranked = {}, 0
        while ranking.heap and not self._members[ranking.heap[0][3]]:
            heappop(ranking.heap)
        if not ranking.heap:
            return None
        *_, bucket, counts = ranking.heap[0]
        self._chosen.append(heappop(self._members[bucket]))
        return self._chosen[-1], counts

    def _residual(self, after: Vector, capacity: Vector) -> float:
        """Return a score of residual capacity plus its imbalance over resources, in capacity shares."""
        shares = [a / most if most else 0.0 for a, most in zip(after, capacity, strict=True)]
        if not self._several:
            return sum(shares)
        mean = sum(w * s for w, s in zip(self._weights, shares, strict=True))
        variance = sum(w * (s - mean) ** 2 for w, s in zip(self._weights, shares, strict=True))
        return self._fit * mean + math.sqrt(variance)

    def _most_on_one(self, demand: Demand) -> int:
        """Return an upper bound on the number of tasks with this demand that fit on any one server."""
        if demand not in self._most:
            alone = Request((demand,), (UNLIMITED_TASKS,), None)
            self._most[demand] = max(alone.load(alone.tasks, left)[0] for left, *_ in self._untouched)
        return self._most[demand]


class FirstFitCapacity(FreeCapacity):
    """Residual capacities of servers in the order of the instance, for first fit.

    With a bound on the number of servers, each one holds at least an even share of the remaining tasks. Free
    capacity only shrinks, so each search starts at the first server that fitted an equal request before.
    """

    def __init__(self, formulation: ConsolidationFormulation) -> None:
        super().__init__(formulation)
        self._first: dict[object, int] = defaultdict(int)

    def choose(self, request: Request, waiting: Counts, pieces: Pieces, few: int | None) -> Piece | None:
        """Return the first unused server with room for enough tasks, and the tasks of each group on it."""
        # Servers that each hold an even share of what waits are sure to be few enough.
        least = 1 if few is None else math.ceil(sum(waiting) / few)
        start = max(pieces, default=-1) + 1 if few is None else 0
        # How much of one demand fits is the same for any number of tasks beyond it.
        key = request.demands, request.gpu_model, least, waiting if len(waiting) > 1 else None
        known = self._first[key]
        for server in range(max(start, known), len(self.free)):
            if server not in pieces and allows(request.gpu_model, self.models[server]):
                counts = request.load(waiting, self.free[server])
                if sum(counts) >= least:
                    return server, counts
            if server == known and server not in pieces:
                self._first[key] = known = server + 1
        return None


class ScoredCapacity(FreeCapacity):
    """Residual capacities of servers with a score for each request; the server of minimum score is taken.

    A job goes on the servers that hold most of its tasks, ties by least score.

    Parameters
    ----------
    score
        Returns the score of each server from its new demand and the residual capacity before, in shares.
    """

    def __init__(
        self, formulation: ConsolidationFormulation, score: Callable[[Floats, Floats], Floats]
    ) -> None:
        super().__init__(formulation)
        self.score, self.free, whole = score, np.array(self.free), np.array(self.capacity)
        self.per_unit: Floats = np.divide(1.0, whole, out=np.zeros_like(whole), where=whole > 0)
        self._eligible: dict[GpuModels, Flags] = {}

    def eligible(self, gpu_model: GpuModels) -> Flags:
        """Return a mask of the servers whose GPU model is allowed, shape (N,)."""
        if gpu_model not in self._eligible:
            self._eligible[gpu_model] = np.array([allows(gpu_model, model) for model in self.models])
        return self._eligible[gpu_model]

    def choose(self, request: Request, waiting: Counts, pieces: Pieces, few: int | None) -> Piece | None:
        """Return the best of the servers that hold most of the tasks, a used one if possible."""
        del few
        left, counts = self.free.copy(), np.zeros((len(self.free), len(waiting)), dtype=np.int64)
        for g, (demand, most) in enumerate(zip(request.demands, waiting, strict=True)):
            fit = np.full(len(left), float(most))
            for resource, amount in demand:
                room = left[:, resource] * CAPACITY_TOLERANCE
                fit = np.where(fit * amount > room, np.maximum(0.0, np.floor(room / amount)), fit)
            counts[:, g] = fit
            for resource, amount in demand:
                left[:, resource] -= fit * amount
        fitting_tasks = np.where(self.eligible(request.gpu_model), counts.sum(axis=1), 0)
        fitting_tasks[list(pieces)] = 0
        if not fitting_tasks.any():
            return None
        best = np.flatnonzero(fitting_tasks == fitting_tasks.max())
        if self.used[best].any():
            best = best[self.used[best]]
        free, per_unit = self.free[best], self.per_unit[best]
        server = int(best[self.score((free - left[best]) * per_unit, free * per_unit).argmin()])
        return server, tuple(counts[server].tolist())


def residual_norm(demand: Floats, residual: Floats) -> Floats:
    """Return the squared L2 norm of each server's residual capacity after the placement, shape (N,)."""
    return np.asarray(((residual - demand) ** 2).sum(axis=1))


def misalignment(demand: Floats, residual: Floats) -> Floats:
    """Return each server's negative dot product of demand and residual capacity, shape (N,)."""
    return np.asarray(-(demand * residual).sum(axis=1))


class BinCentricCapacity(ScoredCapacity):
    """Residual capacities of servers that are filled one by one in advance, for bin-centric packing."""

    def __init__(self, formulation: ConsolidationFormulation) -> None:
        super().__init__(formulation, misalignment)
        self._kept: dict[BoundedRequest, list[Pieces]] = defaultdict(list)
        whole, several = Counter[tuple[bool, BoundedRequest]](), []
        for job in sorted(formulation.instance.jobs, key=lambda job: not job.must_place):
            fewest = formulation.fewest(job)
            bounded = formulation.instance.spread_of(job) == "required"
            asked = job.must_place, (self.request(job), fewest if bounded else None)
            if fewest == 1:
                whole[asked] += 1
            elif fewest is not None:
                several.append(asked)
        demand = np.zeros(self.free.shape[1])
        for (_, (request, _)), count in whole.items():
            demand += request.total(len(demand)) * count
        room = self.free.sum(axis=0)
        self._weights: Floats = np.divide(demand, room, out=np.zeros_like(room), where=room > 0)
        order = np.argsort(-(self.free @ self._weights), kind="stable").tolist()
        for must in (True, False):
            for kind in (kind for is_must, kind in several if is_must == must):
                if not time_is_up() and (pieces := super().place(*kind)) is not None:
                    self._kept[kind].append(pieces)
            self._fill({kind: count for (is_must, kind), count in whole.items() if is_must == must}, order)

    def place(self, request: Request, most_servers: int | None) -> Pieces | None:
        """Return the placement reserved for an equal request; else place the job by the dot product."""
        kept = self._kept[request, most_servers]
        return kept.pop(0) if kept else super().place(request, most_servers)

    def _fill(self, waiting: Mapping[BoundedRequest, int], order: list[int]) -> None:
        """Fill one server after the other with single-server jobs, by weighted dot product with capacity."""
        kinds = list(waiting)
        if not kinds:
            return
        count = np.array([*waiting.values()])
        demand = np.array([request.total(self.free.shape[1]) for request, _ in kinds])
        eligible: Flags = np.array([self.eligible(request.gpu_model) for request, _ in kinds])
        for server in order:
            while not time_is_up():
                fits = eligible[:, server] & (count > 0)
                fits &= ((demand <= self.free[server] * CAPACITY_TOLERANCE) | (demand == 0)).all(axis=1)
                if not fits.any():
                    break
                per_unit = self.per_unit[server]
                aligned = demand * per_unit @ (self._weights * self.free[server] * per_unit)
                best = int(np.where(fits, aligned, -np.inf).argmax())
                count[best] -= 1
                self.free[server] -= demand[best]
                self.used[server] = True
                self._kept[kinds[best]].append({server: kinds[best][0].tasks})


def free_capacity_shares(formulation: ConsolidationFormulation) -> list[dict[str, float]]:
    """Return each job's total demand for each resource as a share of the total free capacity."""
    free = {
        name: math.fsum(server.available.get(name, 0.0) for server in formulation.servers.values())
        for name in formulation.instance.resource_names
    }
    shares_of_jobs = []
    for job in formulation.instance.jobs:
        shares: dict[str, float] = {}
        for group in job.task_groups:
            for name, amount in group.demand.items():
                if amount:
                    share = group.tasks * amount / free[name] if free[name] else math.inf
                    shares[name] = shares.get(name, 0.0) + share
        shares_of_jobs.append(shares)
    return shares_of_jobs


def demand_capacity_ratios(formulation: ConsolidationFormulation) -> list[float]:
    """Return the total demand of each resource as a share of its free capacity; 0 if none is free."""
    total = dict.fromkeys(formulation.instance.resource_names, 0.0)
    for shares in free_capacity_shares(formulation):
        for name, share in shares.items():
            total[name] += share if math.isfinite(share) else 0.0
    return [*total.values()]


def sizes_by_value(formulation: ConsolidationFormulation) -> list[Vector]:
    """Return the value and the number of tasks of each job as its sort key.

    With several resources, the rarity of servers that hold a task of a required job comes first: minus the
    bit length of their minimum number over task groups.
    """
    jobs = formulation.instance.jobs
    sizes: list[Vector] = [(job.worth, sum(group.tasks for group in job.task_groups)) for job in jobs]
    if sum(share > 0 for share in demand_capacity_ratios(formulation)) < 2:
        return sizes
    rarities = dict.fromkeys(range(len(jobs)), 0.0)
    for job, members in formulation.distinct_jobs:
        if job.must_place:
            shapes = formulation.shapes(job.gpu_model, free=True)
            server_counts = [int(np.dot(*shapes.hold(group.demand, 1))) for group in job.task_groups]
            rarities |= dict.fromkeys(members, -float(max(1, min(server_counts)).bit_length()))
    return [(rarities[j], *size) for j, size in enumerate(sizes)]


def sizes_by_largest_share(formulation: ConsolidationFormulation) -> list[Vector]:
    """Return each job's largest share of the total free capacity of a resource."""
    return [(max(shares.values(), default=0.0),) for shares in free_capacity_shares(formulation)]


def sizes_by_sum_of_shares(formulation: ConsolidationFormulation) -> list[Vector]:
    """Return each job's sum, over resources, of its demand as a share of the total free capacity (FFDSum)."""
    return [(math.fsum(shares.values()),) for shares in free_capacity_shares(formulation)]


class ListHeuristic(Solver[ConsolidationFormulation]):
    """Places one job after the other, required jobs first; a job that does not fit is left out.

    Parameters
    ----------
    sizes
        Returns the sort key of each job, descending; required jobs come first in any case.
    capacities
        Returns the residual capacities of all servers, with the heuristic's rule of placement.
    consolidates
        Whether every job is on its minimum number of servers or left out, not only those that require it.
    """

    kinds = ("consolidation",)

    def __init__(
        self,
        name: str,
        what: str,
        sizes: Callable[[ConsolidationFormulation], list[Vector]],
        capacities: Callable[[ConsolidationFormulation], FreeCapacity],
        consolidates: bool = False,
    ) -> None:
        self.name, self.what = name, what
        self.sizes, self.capacities, self.consolidates = sizes, capacities, consolidates

    def solve(self, formulation: ConsolidationFormulation, options: SolveOptions, clock: Clock) -> Outcome:
        """Place one job after the other in a fixed order, without moving any of them again."""
        del options
        jobs, servers = formulation.instance.jobs, list(formulation.servers)
        capacity = self.capacities(formulation)
        placed: dict[int, JobPlacement] = {}
        waiting: set[BoundedRequest] = set()
        limit: Limit = "none"
        sizes = zip(jobs, self.sizes(formulation), strict=True)
        ranks = [(not job.must_place, *(-figure for figure in size)) for job, size in sizes]
        for position in sorted(range(len(ranks)), key=ranks.__getitem__):
            job = jobs[position]
            request = capacity.request(job)
            try:
                with clock.enforced():
                    check_time()
                    fewest = formulation.fewest(job)
                    bounded = self.consolidates or formulation.instance.spread_of(job) == "required"
                    most = fewest if bounded else None
                    # Capacities only shrink, so what did not fit before does not fit now.
                    never = (request, most) in waiting or fewest is None
                    pieces = None if never else capacity.place(request, most)
            except OutOfTimeError:
                if job.must_place:
                    return Outcome(limit="time")
                limit = "time"
                break
            if pieces is not None:
                tasks = {
                    group.name: {servers[server]: counts[g] for server, counts in pieces.items()}
                    for g, group in enumerate(job.task_groups)
                }
                placed[position] = entry_of(job, tasks)
            elif job.must_place:
                where = "" if most is None else f" on {most} server{'s' if most > 1 else ''}"
                rest = f"{where} for job {job.name!r}, which must be placed"
                return Outcome(message=f"{self.name}: no room is left{rest}")
            else:
                waiting.add((request, most))
        return Outcome([placed.get(j) or entry_of(job, {}) for j, job in enumerate(jobs)], limit=limit)


BEST_FIT = ListHeuristic(
    "best-fit", "jobs by size, each on the servers that it fills best (Tiresias)", sizes_by_value, Buckets
)
"""A job that would need too many servers is left out."""
LIST_HEURISTICS = (
    ListHeuristic(
        "first-fit-decreasing",
        "the largest jobs first, each on the first servers with room",
        sizes_by_largest_share,
        FirstFitCapacity,
    ),
    # The placement of production schedulers before Tiresias, which consolidates only jobs that gain.
    ListHeuristic(
        "consolidate-or-wait",
        "every job on the fewest servers it could ever use, or it waits",
        sizes_by_value,
        Buckets,
        consolidates=True,
    ),
    ListHeuristic(
        "best-fit-l2",
        "the largest jobs first, each where the L2 norm of what is left is least",
        sizes_by_sum_of_shares,
        partial(ScoredCapacity, score=residual_norm),
    ),
    ListHeuristic(
        "best-fit-dot",
        "the largest jobs first, each where the dot product of demand and room is largest (Tetris)",
        sizes_by_sum_of_shares,
        partial(ScoredCapacity, score=misalignment),
    ),
    ListHeuristic(
        "bin-centric",
        "one server after the other, each with the jobs whose weighted demand aligns best with its room",
        sizes_by_sum_of_shares,
        BinCentricCapacity,
    ),
)
"""The other list heuristics."""
