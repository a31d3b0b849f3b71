"""Best fit for vector bin packing: jobs by size, each where it leaves the least residual capacity.

This is the placement of Tiresias (Gu et al., NSDI 2019) for several resources; Panigrahy et al. (2011)
compare heuristics for vector bin packing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush

from ....formulations.common.clock import check_time
from ....formulations.consolidation.formulation import ConsolidationFormulation
from ....instances.consolidation.instance import PlacementJob, Server, allows
from .placer import Counts, Demand, FreeCapacity, ListHeuristic, Piece, Request

Vector = tuple[float, ...]
Key = tuple[Vector, Vector, str | None]
"""What is left of each resource, capacity, and GPU model."""
LARGEST_JOB = 10**18
"""More tasks than any job has."""
MOST_RANKED = 3_000_000
"""Entries of all rankings together; beyond that they are forgotten, and made anew when they are asked."""


@dataclass
class _Ranking:
    """Buckets for some tasks, best first.

    Attributes
    ----------
    heap
        Tasks that a server holds, negative; share of its capacity left then; bucket; tasks of each group.
    seen
        How much of the list of filled buckets has been ranked.
    """

    heap: list[tuple[int, float, int, Counts]] = field(default_factory=list)
    seen: int = 0


class Buckets(FreeCapacity):
    """Servers with the same residual capacity are one bucket, which each request ranks by how well it fills.

    A ranking is a heap that catches up when it is asked: buckets that were empty and are not any more are
    ranked then, and the best one is dropped as long as it is empty.
    """

    def __init__(self, servers: Sequence[Server], resources: Sequence[str], models: bool) -> None:
        super().__init__(servers, resources, models)
        self._keys: list[Key] = []
        self._members: list[list[int]] = []
        self._numbers: dict[Key, int] = {}
        self._filled: list[int] = []  # buckets, each time that one is no longer empty
        self._rankings: dict[tuple[Request, Counts], _Ranking] = {}
        self._most: dict[Demand, int] = {}
        self._ranked = 0
        for server, key in enumerate(zip(self.free, self.capacity, self.models, strict=True)):
            self._add(server, key)

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
            left, capacity, model = self._keys[bucket]
            self._add(server, (request.after(counts, left), capacity, model))
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
            left, capacity, model = self._keys[bucket]
            if self._members[bucket] and allows(request.gpu_model, model):
                counts = request.load(waiting, left)
                if any(counts):
                    after = request.after(counts, left)
                    # Resources differ in size: each counts by its share of the capacity.
                    share = sum(a / most for a, most in zip(after, capacity, strict=True) if most)
                    heappush(ranking.heap, (-sum(counts), share, bucket, counts))
                    self._ranked += 1
        ranking.seen = len(self._filled)
        if self._ranked > MOST_RANKED:
            self._rankings, self._ranked = {}, 0
        while ranking.heap and not self._members[ranking.heap[0][2]]:
            heappop(ranking.heap)
        return ranking.heap[0][2:] if ranking.heap else None

    def _most_on_one(self, demand: Demand) -> int:
        """Return how many tasks a server holds at most, were they alone; free capacity only shrinks."""
        if demand not in self._most:
            alone = Request((demand,), (LARGEST_JOB,), None)
            self._most[demand] = max(alone.load(alone.tasks, left)[0] for left, _, _ in self._keys)
        return self._most[demand]


class BestFit(ListHeuristic):
    """Place jobs that must be placed first, then by value and size.

    A job goes on the single server that it fills best; if no server holds it whole, it fills the servers
    that hold most of it, and the rest goes where it fits best. A job that would spread too far waits.
    """

    name = "best-fit"
    what = "jobs by size, each on the servers that it fills best (Tiresias)"
    capacity = Buckets

    def sizes(self, formulation: ConsolidationFormulation) -> list[tuple[float, ...]]:
        """Return value and tasks of each job."""
        return [
            (job.worth, sum(group.tasks for group in job.task_groups)) for job in formulation.instance.jobs
        ]


class ConsolidateOrWait(BestFit):
    """Best fit, as if every job were required to be consolidated, whatever its spread rule.

    So schedulers in production placed jobs before Tiresias asked which of them gain from it.
    """

    name = "consolidate-or-wait"
    what = "every job on the fewest servers it could ever use, or it waits"

    def most_servers(self, formulation: ConsolidationFormulation, job: PlacementJob) -> int | None:
        """Return the fewest servers that the job could ever use."""
        return formulation.fewest(job)
