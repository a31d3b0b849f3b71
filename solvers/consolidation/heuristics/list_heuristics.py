"""List heuristics for vector bin packing: first fit, best fit, scored fit, and bin-centric packing.

Best fit for vector bin packing: jobs by size, each where it leaves the least residual capacity. This is the
placement of Tiresias (Gu et al., NSDI 2019). With several resources, residual capacities should also be
balanced, since a server without one resource cannot use the others; Panigrahy et al. (2011) compare
heuristics for vector bin packing.

First fit decreasing for vector bin packing: the largest jobs first, each on the first servers that fit. The
size over several resources (Panigrahy, Talwar, Uyeda and Wieder 2011, Heuristics for vector bin packing) is
the largest share of the free capacity of any resource.

Best fit by a score of demand and residual capacity. The scores are of Panigrahy, Talwar, Uyeda and Wieder
(2011, Heuristics for vector bin packing): the L2 norm of the residual capacity, and the dot product, which is
the alignment of Tetris (Grandl et al., SIGCOMM 2014) too. As in bin packing, a server is opened only if the
job fits on no open one.

Bin-centric packing: one server after the other, the largest first, is filled with the jobs whose demand
aligns best with its residual capacity. The dot product of both has a weight for each resource, the mean
demand (Panigrahy, Talwar, Uyeda and Wieder 2011, Heuristics for vector bin packing). Jobs that need several
servers are placed before, jobs that no longer fit on one server afterwards, both on the servers that hold
most of their tasks.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from heapq import heappop, heappush

import numpy as np

from ....formulations.common.clock import check_time, time_is_up
from ....formulations.consolidation.formulation import ConsolidationFormulation
from ....instances.common.arrays import Flags, Floats, Ints
from ....instances.consolidation.job import GpuModels, PlacementJob, allows
from .placer import (
    CAPACITY_TOLERANCE,
    Counts,
    Demand,
    FreeCapacity,
    ListHeuristic,
    Piece,
    Request,
    free_capacity_shares,
    job_request,
)

Vector = tuple[float, ...]
Key = tuple[Vector, Vector, str | None, float]
"""Residual capacity, capacity, GPU model, and opening cost of a server."""
UNLIMITED_TASKS = 10**18
"""Number of tasks larger than that of any job."""
SCARCE_DEMAND_SHARE = 0.95
"""Ratio of demand to free capacity above which some jobs are unlikely to fit."""
FIT_WHERE_SCARCE = 0.1
FIT_WHERE_PLENTY = 0.5
"""Weight of the mean residual share relative to the imbalance; larger weights use fewer servers."""
MAX_RANKING_ENTRIES = 3_000_000
"""Largest number of entries of all rankings together; beyond it they are deleted and built again on use."""


@dataclass
class _Ranking:
    """A heap of the groups of servers with equal residual capacity, best first, for given tasks of a job.

    Attributes
    ----------
    heap
        Negative number of tasks on a server; opening cost; residual; bucket; tasks of each group.
    seen
        Number of ranked entries of the list of filled buckets.
    """

    heap: list[tuple[int, float, float, int, Counts]] = field(default_factory=list)
    seen: int = 0


class Buckets(FreeCapacity):
    """Servers in classes of equal residual capacity, with a ranking of these for each request (best fit).

    A ranking is a heap that is updated on use: buckets filled since the last use are added, and empty
    buckets at the top are removed.
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
        costs = self._opening_costs(formulation)
        for server, key in enumerate(zip(self.free, self.capacity, self.models, costs, strict=True)):
            self._add(server, key)
        self._untouched = self._keys.copy()

    def _opening_costs(self, formulation: ConsolidationFormulation) -> list[float]:
        """Return a sort penalty for opening each server, lowest for large ones if most jobs are required.

        It is zero for all servers with one resource or without the objective of used servers.
        """
        jobs = formulation.instance.jobs
        must = 2 * sum(job.must_place for job in jobs) >= len(jobs)
        if not (self._several and must and "servers" in formulation.instance.objectives):
            return [0.0] * len(self.servers)
        largest = [max(amounts) for amounts in zip(*self.free, strict=True)]
        sizes = [
            sum(w * a / most for w, a, most in zip(self._weights, free, largest, strict=True) if most)
            for free in self.free
        ]
        return [2 - size for size in sizes]

    def place(self, request: Request, most_servers: int | None) -> list[Piece] | None:
        """Place a job on the servers that hold most of its tasks, ties by residual; None if impossible."""
        waiting, allocated = request.tasks, list[tuple[int, int, Counts]]()
        while any(waiting):
            check_time()
            best = self._best(request, waiting)
            # All tasks or none: give back what was taken.
            if best is None or len(allocated) == most_servers:
                for bucket, server, _ in allocated:
                    self._add(server, self._keys[bucket])
                return None
            bucket, counts = best
            allocated.append((bucket, heappop(self._members[bucket]), counts))
            waiting = tuple(most - count for most, count in zip(waiting, counts, strict=True))
        for bucket, server, counts in allocated:
            left, capacity, model, _ = self._keys[bucket]
            self._add(server, (request.after(counts, left), capacity, model, 0.0))
        return [(server, counts) for _, server, counts in allocated]

    def _add(self, server: int, key: Key) -> None:
        bucket = self._numbers.setdefault(key, len(self._keys))
        if bucket == len(self._keys):
            self._keys.append(key)
            self._members.append([])
        if not self._members[bucket]:
            self._filled.append(bucket)
        heappush(self._members[bucket], server)

    def _best(self, request: Request, waiting: Counts) -> tuple[int, Counts] | None:
        """Return the bucket whose servers hold most of these tasks, and the tasks by group that fit on one.

        Ties are broken by opening cost and by residual capacity; None if no server holds any of the tasks.
        """
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
        return ranking.heap[0][3:] if ranking.heap else None

    def _residual(self, after: Vector, capacity: Vector) -> float:
        """Return a score of residual capacity plus its imbalance over resources, in capacity shares."""
        if not self._several:
            return sum(a / most for a, most in zip(after, capacity, strict=True) if most)
        shares = [a / most if most else 0.0 for a, most in zip(after, capacity, strict=True)]
        mean = sum(w * s for w, s in zip(self._weights, shares, strict=True))
        variance = sum(w * (s - mean) ** 2 for w, s in zip(self._weights, shares, strict=True))
        return self._fit * mean + math.sqrt(variance)

    def _most_on_one(self, demand: Demand) -> int:
        """Return an upper bound on the number of tasks with this demand that fit on any one server."""
        if demand not in self._most:
            alone = Request((demand,), (UNLIMITED_TASKS,), None)
            self._most[demand] = max(alone.load(alone.tasks, left)[0] for left, *_ in self._untouched)
        return self._most[demand]


class BestFit(ListHeuristic):
    """Best fit decreasing: required jobs first, then by value and size, each where it fits best.

    A job goes on the single server that it fills best; if it fits on no server alone, it fills the servers
    that hold most of its tasks, and the rest goes where it fits best. A job that would need too many servers
    is left out.
    """

    name = "best-fit"
    what = "jobs by size, each on the servers that it fills best (Tiresias)"
    capacities = Buckets

    def sizes(self, formulation: ConsolidationFormulation) -> list[tuple[float, ...]]:
        """Return the value and the number of tasks of each job as its sort key.

        With several resources, the rarity of servers that hold a task of a required job comes first.
        """
        jobs = formulation.instance.jobs
        sizes: list[tuple[float, ...]] = [
            (job.worth, sum(group.tasks for group in job.task_groups)) for job in jobs
        ]
        if sum(share > 0 for share in demand_capacity_ratios(formulation)) < 2:
            return sizes
        rarities = dict.fromkeys(range(len(jobs)), 0.0)
        for job, members in formulation.distinct_jobs:
            rarities |= dict.fromkeys(members, _rarity(formulation, job) if job.must_place else 0.0)
        return [(rarities[j], *size) for j, size in enumerate(sizes)]


def demand_capacity_ratios(formulation: ConsolidationFormulation) -> list[float]:
    """Return the total demand of each resource as a share of its free capacity; 0 if none is free."""
    total = dict.fromkeys(formulation.instance.resource_names, 0.0)
    for shares in free_capacity_shares(formulation):
        for name, share in shares.items():
            total[name] += share if math.isfinite(share) else 0.0
    return [*total.values()]


def _rarity(formulation: ConsolidationFormulation, job: PlacementJob) -> float:
    """Return minus the bit length of the minimum number of servers that hold a task, over task groups."""
    shapes = formulation.shapes(job.gpu_model, free=True)
    server_counts = [int(np.dot(*shapes.hold(group.demand, 1))) for group in job.task_groups]
    return -float(max(1, min(server_counts)).bit_length())


class ConsolidateOrWait(BestFit):
    """Best fit that places every job on its minimum number of servers, or leaves it out.

    This is the placement of production schedulers before Tiresias, which consolidates only jobs that gain.
    """

    name = "consolidate-or-wait"
    what = "every job on the fewest servers it could ever use, or it waits"

    def most_servers(self, formulation: ConsolidationFormulation, job: PlacementJob) -> int | None:
        """Return the minimum number of servers on which the job fits, as its upper bound; None if on none."""
        return formulation.fewest(job)


class FirstFitCapacity(FreeCapacity):
    """Residual capacities of servers in the order of the instance, for first fit.

    Free capacity only shrinks, so each search starts at the first server that fitted an equal request before.
    """

    def __init__(self, formulation: ConsolidationFormulation) -> None:
        super().__init__(formulation)
        self._first: dict[object, int] = defaultdict(int)

    def place(self, request: Request, most_servers: int | None) -> list[Piece] | None:
        """Place a job on the first servers that fit; None if impossible.

        With a bound on the number of servers, each one holds at least an even share of the remaining tasks.
        """
        waiting, allocated = request.tasks, dict[int, Counts]()
        start = 0
        while any(waiting):
            check_time()
            least = 1
            if most_servers is not None:
                if len(allocated) == most_servers:
                    return None
                # Servers that each hold an even share of what waits are sure to be few enough.
                least, start = math.ceil(sum(waiting) / (most_servers - len(allocated))), 0
            piece = self._next(request, waiting, least, start, allocated)
            if piece is None:
                return None
            server, counts = piece
            allocated[server], start = counts, server + 1
            waiting = tuple(most - count for most, count in zip(waiting, counts, strict=True))
        for server, counts in allocated.items():
            self.free[server] = request.after(counts, self.free[server])
        return list(allocated.items())

    def _next(
        self, request: Request, waiting: Counts, least: int, start: int, taken: dict[int, Counts]
    ) -> Piece | None:
        """Return the first unused server from `start` on with room for `least` tasks, and its task counts."""
        # How much of one demand fits is the same for any number of tasks beyond it.
        key = request.demands, request.gpu_model, least, waiting if len(waiting) > 1 else None
        known = self._first[key]
        for server in range(max(start, known), len(self.free)):
            if server not in taken and allows(request.gpu_model, self.models[server]):
                counts = request.load(waiting, self.free[server])
                if sum(counts) >= least:
                    return server, counts
            if server == known and server not in taken:
                self._first[key] = known = server + 1
        return None


class FirstFit(ListHeuristic):
    """First fit decreasing: required jobs first, then by maximum share of the free capacity of a resource."""

    name = "first-fit-decreasing"
    what = "the largest jobs first, each on the first servers with room"
    capacities = FirstFitCapacity

    def sizes(self, formulation: ConsolidationFormulation) -> list[tuple[float, ...]]:
        """Return each job's maximum, over resources, of its demand as a share of the total free capacity."""
        return [(max(shares.values(), default=0.0),) for shares in free_capacity_shares(formulation)]


class ScoredCapacity(FreeCapacity):
    """Residual capacities of servers with a score for each request; the server of minimum score is taken.

    Attributes
    ----------
    left
        Residual capacity of each server, shape (N, R).
    used
        Servers with a job, shape (N,).
    """

    def __init__(self, formulation: ConsolidationFormulation) -> None:
        super().__init__(formulation)
        self.left: Floats = np.array(self.free)
        self.used: Flags = np.zeros(len(self.left), dtype=bool)
        whole = np.array(self.capacity)
        self.per_unit: Floats = np.divide(1.0, whole, out=np.zeros_like(whole), where=whole > 0)
        self._eligible: dict[GpuModels, Flags] = {}

    @abstractmethod
    def score(self, demand: Floats, residual: Floats) -> Floats:
        """Return the score of each server for a given demand, shape (N,); the minimum is best.

        Parameters
        ----------
        demand, residual
            Demand and residual capacity before it, in shares of each server's capacity, shape (N, R).
        """

    def eligible(self, gpu_model: GpuModels) -> Flags:
        """Return a mask of the servers whose GPU model is allowed, shape (N,)."""
        if gpu_model not in self._eligible:
            self._eligible[gpu_model] = np.array([allows(gpu_model, model) for model in self.models])
        return self._eligible[gpu_model]

    def place(self, request: Request, most_servers: int | None) -> list[Piece] | None:
        """Place a job on the servers that hold most of its tasks, ties by least score; None if impossible."""
        waiting, allocated = request.tasks, dict[int, Counts]()
        candidates = self.eligible(request.gpu_model).copy()
        while any(waiting):
            check_time()
            if len(allocated) == most_servers:
                return None
            counts, amounts = self._loads(request, waiting)
            fitting_tasks = np.where(candidates, counts.sum(axis=1), 0)
            if not fitting_tasks.any():
                return None
            best = np.flatnonzero(fitting_tasks == fitting_tasks.max())
            if self.used[best].any():
                best = best[self.used[best]]
            per_unit = self.per_unit[best]
            scores = self.score(amounts[best] * per_unit, self.left[best] * per_unit)
            server = int(best[scores.argmin()])
            allocated[server] = tuple(counts[server].tolist())
            candidates[server] = False
            waiting = tuple(most - count for most, count in zip(waiting, allocated[server], strict=True))
        for server, server_tasks in allocated.items():
            self.left[server] = request.after(server_tasks, self.left[server])
            self.used[server] = True
        return list(allocated.items())

    def _loads(self, request: Request, waiting: Counts) -> tuple[Ints, Floats]:
        """Return the tasks of each group that fit on each server, (N, groups), and their demand, (N, R)."""
        left, counts = self.left.copy(), np.zeros((len(self.left), len(waiting)), dtype=np.int64)
        for g, (demand, most) in enumerate(zip(request.demands, waiting, strict=True)):
            fit = np.full(len(left), float(most))
            for resource, amount in demand:
                room = left[:, resource] * CAPACITY_TOLERANCE
                fit = np.where(fit * amount > room, np.maximum(0.0, np.floor(room / amount)), fit)
            counts[:, g] = fit
            for resource, amount in demand:
                left[:, resource] -= fit * amount
        return counts, self.left - left


class LeastNorm(ScoredCapacity):
    """Servers with a score for best fit: the L2 norm of the residual capacity."""

    def score(self, demand: Floats, residual: Floats) -> Floats:
        """Return the squared L2 norm of each server's residual capacity after the placement, shape (N,)."""
        return np.asarray(((residual - demand) ** 2).sum(axis=1))


class LargestDotProduct(ScoredCapacity):
    """Servers with a score for best fit: the negative dot product of demand and residual capacity."""

    def score(self, demand: Floats, residual: Floats) -> Floats:
        """Return each server's negative dot product of demand and residual capacity, shape (N,)."""
        return np.asarray(-(demand * residual).sum(axis=1))


class _ScoredFit(ListHeuristic):
    """Base of best fit by a score: required jobs first, then by the sum of capacity shares, as in FFDSum."""

    def sizes(self, formulation: ConsolidationFormulation) -> list[tuple[float, ...]]:
        """Return each job's sum, over resources, of its demand as a share of the total free capacity."""
        return [(math.fsum(shares.values()),) for shares in free_capacity_shares(formulation)]


class BestFitNorm(_ScoredFit):
    """Best fit by the L2 norm of the residual capacity."""

    name = "best-fit-l2"
    what = "the largest jobs first, each where the L2 norm of what is left is least"
    capacities = LeastNorm


class BestFitDotProduct(_ScoredFit):
    """Best fit by the dot product of demand and residual capacity."""

    name = "best-fit-dot"
    what = "the largest jobs first, each where the dot product of demand and room is largest (Tetris)"
    capacities = LargestDotProduct


_SpreadRequest = tuple[Request, int | None]
"""Request of a job, and the largest number of its servers (None: any)."""


class BinCentricCapacity(LargestDotProduct):
    """Residual capacities of servers that are filled one by one in advance, for bin-centric packing.

    Jobs with equal requests are interchangeable.
    """

    def __init__(self, formulation: ConsolidationFormulation) -> None:
        super().__init__(formulation)
        columns = {name: r for r, name in enumerate(formulation.instance.resource_names)}
        self._kept: dict[_SpreadRequest, list[list[Piece]]] = defaultdict(list)
        whole: dict[bool, Counter[_SpreadRequest]] = {True: Counter(), False: Counter()}
        several: dict[bool, list[_SpreadRequest]] = {True: [], False: []}
        for job in formulation.instance.jobs:
            fewest = formulation.fewest(job)
            required = formulation.instance.spread_of(job) == "required"
            spread_request = job_request(job, columns), fewest if required else None
            if fewest == 1:
                whole[job.must_place][spread_request] += 1
            elif fewest is not None:
                several[job.must_place].append(spread_request)
        demand = sum(
            (
                _total_demand(request, len(columns)) * n
                for kind in whole.values()
                for (request, _), n in kind.items()
            ),
            start=np.zeros(len(columns)),
        )
        room = self.left.sum(axis=0)
        self._weights: Floats = np.divide(demand, room, out=np.zeros_like(room), where=room > 0)
        order = np.argsort(-(self.left @ self._weights), kind="stable").tolist()
        for must in (True, False):
            for spread_request in several[must]:
                pieces = None if time_is_up() else super().place(*spread_request)
                if pieces is not None:
                    self._kept[spread_request].append(pieces)
            self._fill(whole[must], order)

    def place(self, request: Request, most_servers: int | None) -> list[Piece] | None:
        """Return the placement reserved for an equal request; else place the job by the dot product."""
        kept = self._kept[request, most_servers]
        return kept.pop(0) if kept else super().place(request, most_servers)

    def _fill(self, waiting: Counter[_SpreadRequest], order: list[int]) -> None:
        """Fill one server after the other with single-server jobs, by weighted dot product with capacity."""
        kinds = list(waiting)
        if not kinds:
            return
        count = np.array([waiting[kind] for kind in kinds])
        demand = np.array([_total_demand(request, self.left.shape[1]) for request, _ in kinds])
        eligible: Flags = np.array([self.eligible(request.gpu_model) for request, _ in kinds])
        for server in order:
            while not time_is_up():
                fits = eligible[:, server] & (count > 0)
                fits &= ((demand <= self.left[server] * CAPACITY_TOLERANCE) | (demand == 0)).all(axis=1)
                if not fits.any():
                    break
                per_unit = self.per_unit[server]
                aligned = demand * per_unit @ (self._weights * self.left[server] * per_unit)
                best = int(np.where(fits, aligned, -np.inf).argmax())
                count[best] -= 1
                self.left[server] -= demand[best]
                self.used[server] = True
                self._kept[kinds[best]].append([(server, kinds[best][0].tasks)])


class BinCentric(BestFitDotProduct):
    """Bin-centric packing: fills one server after the other."""

    name = "bin-centric"
    what = "one server after the other, each with the jobs whose weighted demand aligns best with its room"
    capacities = BinCentricCapacity


def _total_demand(request: Request, resources: int) -> Floats:
    """Return the demand of all tasks of a job for each resource, shape (R,)."""
    total = np.zeros(resources)
    for demand, tasks in zip(request.demands, request.tasks, strict=True):
        for resource, amount in demand:
            total[resource] += tasks * amount
    return total
