"""Shares of tenants: dominant resource fairness, and queues with guaranteed shares."""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Sequence

import numpy as np

from ....instances.common.arrays import Flags, Floats, Ints
from ..policy import Policy
from ..seen import Seen


class TenantQueues(Policy):
    """Starts the first job of the tenant that has the least; a job that does not fit blocks its own queue.

    What a tenant has is the dominant share of what its jobs use, over its guaranteed share if these count.
    Spare capacity may be borrowed, and nobody is stopped. Jobs without a tenant have one queue.

    Parameters
    ----------
    guaranteed
        Whether the guaranteed shares count. Without them this is dominant resource fairness with queues
        (Ghodsi et al., NSDI'11), with them the capacity scheduler of Hadoop YARN.
    """

    def __init__(self, guaranteed: bool) -> None:
        self._guaranteed = guaranteed

    def begin(self, seen: Seen) -> None:
        """Start with empty queues."""
        super().begin(seen)
        tenants = len(seen.tenant_shares)
        self._share: Floats = np.append(seen.tenant_shares if self._guaranteed else np.ones(tenants), 1.0)
        self._queues: list[list[int]] = [[] for _ in self._share]
        self._count = 0

    def arrived(self, jobs: Iterable[int]) -> None:
        """Queue jobs by tenant, in the order of their arrival."""
        for j in jobs:
            self._queues[self.seen.tenant[j]].append(j)
            self._count += 1

    def choose(self, held: Flags) -> Ints:
        """Return the jobs that start."""
        seen = self.seen
        free, slack = self.free(held), 1e-9 * seen.capacity
        used = self._used(seen.running[held])
        next_of = [0] * len(self._queues)
        open_ = {t for t, queue in enumerate(self._queues) if queue}
        chosen: list[int] = []
        while open_:
            has = self._has(used)
            t = min(open_, key=lambda t: (has[t], self._queues[t][next_of[t]]))
            j = self._queues[t][next_of[t]]
            if not (seen.demand[j] <= free + slack).all():
                open_.remove(t)
                continue
            free -= seen.demand[j]
            used[t] += seen.demand[j]
            chosen.append(j)
            next_of[t] += 1
            if next_of[t] == len(self._queues[t]):
                open_.remove(t)
        return np.array(chosen, dtype=np.int64)

    def switched(self, stopped: Sequence[int], started: Sequence[int]) -> None:
        """Take jobs out of their queues; those that lost their place are queued again by arrival."""
        for j in started:
            queue = self._queues[self.seen.tenant[j]]
            del queue[bisect.bisect_left(queue, j)]
        for j in stopped:
            bisect.insort(self._queues[self.seen.tenant[j]], j)
        self._count += len(stopped) - len(started)

    def waits(self) -> int:
        """Return how many jobs are queued."""
        return self._count

    def _used(self, running: Ints) -> Floats:
        """Return what the jobs of each tenant use, shape (T + 1, R)."""
        tenants = len(self._queues)
        of = self.seen.tenant[running] % tenants  # −1 is the last queue
        demand = self.seen.demand[running]
        used = [np.bincount(of, column, tenants) for column in demand.T]
        return np.stack(used, axis=1).astype(float)  # without any job they are counted in integers

    def _has(self, used: Floats) -> Floats:
        capacity = self.seen.capacity
        shares = np.divide(used, capacity, out=np.zeros(used.shape), where=capacity > 0)
        return np.asarray(shares.max(axis=1) / self._share)
