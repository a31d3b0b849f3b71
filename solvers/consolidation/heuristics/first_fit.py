"""First fit decreasing for vector bin packing: the largest jobs first, each on the first servers that fit.

How several resources make one size is a choice (Panigrahy, Talwar, Uyeda and Wieder 2011, Heuristics for
vector bin packing): the largest share of what is free of any resource, or the sum of these shares.
"""

from __future__ import annotations

import math
from collections import defaultdict

from ....formulations.common.clock import check_time
from ....formulations.consolidation.formulation import ConsolidationFormulation
from ....instances.consolidation.job import allows
from .placer import Counts, FreeCapacity, ListHeuristic, Piece, Request, shares_of_free


class FirstFitCapacity(FreeCapacity):
    """Servers in the order of the instance.

    Free capacity only shrinks, so each search starts at the first server that was good enough the last time.
    """

    def __init__(self, formulation: ConsolidationFormulation) -> None:
        super().__init__(formulation)
        self._first: dict[object, int] = defaultdict(int)

    def place(self, request: Request, most_servers: int | None) -> list[Piece] | None:
        """Take the first servers that hold a task; where few may be used, those that hold an even share."""
        waiting, taken = request.tasks, dict[int, Counts]()
        start = 0
        while any(waiting):
            check_time()
            least = 1
            if most_servers is not None:
                if len(taken) == most_servers:
                    return None
                # Servers that each hold an even share of what waits are sure to be few enough.
                least, start = math.ceil(sum(waiting) / (most_servers - len(taken))), 0
            found = self._next(request, waiting, least, start, taken)
            if found is None:
                return None
            server, counts = found
            taken[server], start = counts, server + 1
            waiting = tuple(most - count for most, count in zip(waiting, counts, strict=True))
        for server, counts in taken.items():
            self.free[server] = request.after(counts, self.free[server])
        return list(taken.items())

    def _next(
        self, request: Request, waiting: Counts, least: int, start: int, taken: dict[int, Counts]
    ) -> Piece | None:
        """Return the first other server from `start` on that holds at least so many of these tasks."""
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
    """Place jobs that must be placed first, then by the largest share of what is free of any resource."""

    name = "first-fit-decreasing"
    what = "the largest jobs first, each on the first servers with room"

    def capacity(self, formulation: ConsolidationFormulation) -> FirstFitCapacity:
        """Return what is free."""
        return FirstFitCapacity(formulation)

    def sizes(self, formulation: ConsolidationFormulation) -> list[tuple[float, ...]]:
        """Return the largest share of what is free of a resource, for each job."""
        return [(max(shares.values(), default=0.0),) for shares in shares_of_free(formulation)]


class FirstFitBySum(FirstFit):
    """Place jobs that must be placed first, then by the sum of the shares of what is free (FFDSum)."""

    name = "ffd-sum"
    what = "the jobs with the largest sum over resources first, each on the first servers with room"

    def sizes(self, formulation: ConsolidationFormulation) -> list[tuple[float, ...]]:
        """Return the sum of the shares of what is free of each resource, for each job."""
        return [(math.fsum(shares.values()),) for shares in shares_of_free(formulation)]
