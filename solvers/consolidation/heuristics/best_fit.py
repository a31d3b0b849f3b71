"""Best fit for vector bin packing: jobs by size, each where it leaves the least residual capacity.

This is the placement of Tiresias (Gu et al., NSDI 2019). Of several resources, what is left should also be
balanced, for a server that has run out of one is of no use for the others; Panigrahy et al. (2011) compare
heuristics for vector bin packing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from heapq import heappop, heappush

import numpy as np

from ....formulations.common.clock import check_time
from ....formulations.consolidation.formulation import ConsolidationFormulation
from ....instances.consolidation.job import PlacementJob, allows
from .placer import Counts, Demand, FreeCapacity, ListHeuristic, Piece, Request, shares_of_free

Vector = tuple[float, ...]
Key = tuple[Vector, Vector, str | None, float]
"""What is left of each resource, capacity, GPU model, and what it costs to use it where nothing is on it."""
LARGEST_JOB = 10**18
"""More tasks than any job has."""
ALL_ASKED = 0.95
"""Share of what is free of a resource; where more is asked for, some jobs are likely to wait."""
FIT_WHERE_SCARCE = 0.1
FIT_WHERE_PLENTY = 0.5
"""What the mean share that is left counts beside the imbalance: the more, the fewer servers are used."""
MOST_RANKED = 3_000_000
"""Entries of all rankings together; beyond that they are forgotten, and made anew when they are asked."""


@dataclass
class _Ranking:
    """Buckets for some tasks, best first.

    Attributes
    ----------
    heap
        Tasks that a server holds, negative; the cost to use it; the residual; bucket; tasks of each group.
    seen
        How much of the list of filled buckets has been ranked.
    """

    heap: list[tuple[int, float, float, int, Counts]] = field(default_factory=list)
    seen: int = 0


class Buckets(FreeCapacity):
    """Servers with the same residual capacity are one bucket, which each request ranks by how well it fills.

    A ranking is a heap that catches up when it is asked: buckets that were empty and are not any more are
    ranked then, and the best one is dropped as long as it is empty.
    """

    def __init__(self, formulation: ConsolidationFormulation) -> None:
        super().__init__(formulation)
        asked = asked_shares(formulation)
        self._several = sum(share > 0 for share in asked) > 1
        self._weights = [share / math.fsum(asked) for share in asked] if self._several else []
        self._fit = FIT_WHERE_SCARCE if max(asked) > ALL_ASKED else FIT_WHERE_PLENTY
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
        """Return what it costs to use each server: where most jobs must be placed, the largest cost least."""
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
        """Take the servers that hold most of what is waiting, and of these those with least capacity left."""
        waiting, taken = request.tasks, list[tuple[int, int, Counts]]()
        while any(waiting):
            check_time()
            best = self._best(request, waiting)
            # All tasks or none: give back what was taken.
            if best is None or len(taken) == most_servers:
                for bucket, server, _ in taken:
                    self._add(server, self._keys[bucket])
                return None
            bucket, counts = best
            taken.append((bucket, heappop(self._members[bucket]), counts))
            waiting = tuple(most - count for most, count in zip(waiting, counts, strict=True))
        for bucket, server, counts in taken:
            left, capacity, model, _ = self._keys[bucket]
            self._add(server, (request.after(counts, left), capacity, model, 0.0))
        return [(server, counts) for _, server, counts in taken]

    def _add(self, server: int, key: Key) -> None:
        bucket = self._numbers.setdefault(key, len(self._keys))
        if bucket == len(self._keys):
            self._keys.append(key)
            self._members.append([])
        if not self._members[bucket]:
            self._filled.append(bucket)
        heappush(self._members[bucket], server)

    def _best(self, request: Request, waiting: Counts) -> tuple[int, Counts] | None:
        """Return the bucket that these tasks fill best, and how many go on one of its servers."""
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
        if self._ranked > MOST_RANKED:
            self._rankings, self._ranked = {}, 0
        while ranking.heap and not self._members[ranking.heap[0][3]]:
            heappop(ranking.heap)
        return ranking.heap[0][3:] if ranking.heap else None

    def _residual(self, after: Vector, capacity: Vector) -> float:
        """Return how much is left, and how unbalanced, in shares of the capacity."""
        if not self._several:
            return sum(a / most for a, most in zip(after, capacity, strict=True) if most)
        shares = [a / most if most else 0.0 for a, most in zip(after, capacity, strict=True)]
        mean = sum(w * s for w, s in zip(self._weights, shares, strict=True))
        variance = sum(w * (s - mean) ** 2 for w, s in zip(self._weights, shares, strict=True))
        return self._fit * mean + math.sqrt(variance)

    def _most_on_one(self, demand: Demand) -> int:
        """Return how many tasks a server holds at most, were they alone; free capacity only shrinks."""
        if demand not in self._most:
            alone = Request((demand,), (LARGEST_JOB,), None)
            self._most[demand] = max(alone.load(alone.tasks, left)[0] for left, *_ in self._untouched)
        return self._most[demand]


class BestFit(ListHeuristic):
    """Place jobs that must be placed first, then by value and size.

    A job goes on the single server that it fills best; if no server holds it whole, it fills the servers
    that hold most of it, and the rest goes where it fits best. A job that would spread too far waits.
    """

    name = "best-fit"
    what = "jobs by size, each on the servers that it fills best (Tiresias)"

    def capacity(self, formulation: ConsolidationFormulation) -> Buckets:
        """Return what is free."""
        return Buckets(formulation)

    def sizes(self, formulation: ConsolidationFormulation) -> list[tuple[float, ...]]:
        """Return value and tasks of each job; of several resources, what few servers hold comes first."""
        jobs = formulation.instance.jobs
        sizes: list[tuple[float, ...]] = [
            (job.worth, sum(group.tasks for group in job.task_groups)) for job in jobs
        ]
        if sum(share > 0 for share in asked_shares(formulation)) < 2:
            return sizes
        rarities = dict.fromkeys(range(len(jobs)), 0.0)
        for job, members in formulation.distinct_jobs:
            rarities |= dict.fromkeys(members, _rarity(formulation, job) if job.must_place else 0.0)
        return [(rarities[j], *size) for j, size in enumerate(sizes)]


def asked_shares(formulation: ConsolidationFormulation) -> list[float]:
    """Return for each resource what all jobs ask for as a share of what is free; 0 where nothing is."""
    total = dict.fromkeys(formulation.instance.resource_names, 0.0)
    for shares in shares_of_free(formulation):
        for name, share in shares.items():
            total[name] += share if math.isfinite(share) else 0.0
    return [*total.values()]


def _rarity(formulation: ConsolidationFormulation, job: PlacementJob) -> float:
    """Return how few servers hold a task of any group, in powers of two; larger where they are fewer."""
    shapes = formulation.shapes(job.gpu_model, free=True)
    found = [int(np.dot(*shapes.hold(group.demand, 1))) for group in job.task_groups]
    return -float(max(1, min(found)).bit_length())


class ConsolidateOrWait(BestFit):
    """Best fit, as if every job were required to be consolidated, whatever its spread rule.

    So schedulers in production placed jobs before Tiresias asked which of them gain from it.
    """

    name = "consolidate-or-wait"
    what = "every job on the fewest servers it could ever use, or it waits"

    def most_servers(self, formulation: ConsolidationFormulation, job: PlacementJob) -> int | None:
        """Return the fewest servers that the job could ever use."""
        return formulation.fewest(job)
