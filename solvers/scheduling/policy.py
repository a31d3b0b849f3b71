"""Interfaces of scheduling policies: by priority keys at each event, and by rounds with configurations.

A round-based policy decides at the end of each round in which configuration each job runs. Its view shows the
configurations of the jobs that have arrived.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import ClassVar

import numpy as np

from ...formulations.common.compiled import compiled
from ...instances.common.arrays import Flags, Floats, Ints
from ...instances.scheduling.instance import SchedulingInstance
from .kernels import fill, insert, remove, total
from .seen import Knowledge, Seen, widths


class Policy(ABC):
    """Event-based policy: chooses the jobs that run at each event; one object serves one simulation.

    Attributes
    ----------
    knows
        Which information it may read from `Seen`.
    preempts
        Whether it stops running jobs.
    """

    knows: Knowledge = Knowledge.NOTHING
    preempts: ClassVar[bool] = False
    seen: Seen

    def begin(self, seen: Seen) -> None:
        """Initialise the policy with its view of the trace, before the first event."""
        self.seen = seen

    @abstractmethod
    def arrived(self, jobs: Iterable[int]) -> None:
        """Record jobs that have just arrived."""

    @abstractmethod
    def choose(self, held: Flags) -> Ints:
        """Return the jobs that run from now on or, without preemption, the jobs that start now.

        Parameters
        ----------
        held
            Flags of the jobs in `seen.running` that continue in any case.
        """

    @abstractmethod
    def switched(self, stopped: Sequence[int], started: Sequence[int]) -> None:
        """Record the jobs that stopped and those that started by the policy's last choice."""

    @abstractmethod
    def waits(self) -> int:
        """Return the number of jobs that have arrived and wait."""

    def ended(self, jobs: Sequence[int]) -> None:
        """Record jobs that have just completed."""
        del jobs

    def again_s(self) -> float:
        """Return the time in seconds of the next timer event of the policy, infinite without one."""
        return np.inf

    def free(self, held: Flags) -> Floats:
        """Return the amounts of resources that the running jobs flagged in `held` leave free, shape (R,)."""
        seen = self.seen
        return np.asarray(seen.capacity - total(seen.running[held], seen.demand))


class ByKey(Policy):
    """Priority policy: serves jobs in ascending order of keys; a job that does not fit blocks no other."""

    def begin(self, seen: Seen) -> None:
        """Initialise the policy with an empty queue of waiting jobs."""
        super().begin(seen)
        self._keys: Floats = np.zeros(len(seen.width))
        self._waiting: Ints = np.zeros(len(seen.width), dtype=np.int64)
        self._count = 0

    @abstractmethod
    def keys_of(self, jobs: Ints) -> Floats:
        """Return the current priority key of each job, shape (jobs,); the smallest is served first.

        The keys of waiting jobs are computed when they are queued.
        """

    def arrived(self, jobs: Iterable[int]) -> None:
        """Insert arriving jobs into the queue by their keys."""
        self._queue(list(jobs))

    def choose(self, held: Flags) -> Ints:
        """Return the jobs that run (start, without preemption), in ascending order of keys while they fit."""
        seen = self.seen
        keys = np.zeros(len(seen.running)) if held.all() else self.keys_of(seen.running)
        chosen = fill(
            self._waiting, self._count, self._keys, seen.running, held, keys, seen.demand, seen.capacity
        )
        return chosen if self.preempts else chosen[int(held.sum()) :]

    def switched(self, stopped: Sequence[int], started: Sequence[int]) -> None:
        """Remove started jobs from the queue, and insert stopped ones by their keys."""
        for j in started:
            self._unqueue(j)
        self._queue(stopped)

    def waits(self) -> int:
        """Return the number of queued jobs."""
        return self._count

    def _queue(self, jobs: Sequence[int]) -> None:
        if not jobs:
            return
        self._keys[jobs] = self.keys_of(np.array(jobs))
        for j in jobs:
            insert(self._waiting, self._count, self._keys, j)
            self._count += 1

    def _unqueue(self, j: int) -> None:
        remove(self._waiting, self._count, self._keys, j)
        self._count -= 1

    def _sort_again(self) -> None:
        """Recompute the keys of all queued jobs, and sort the queue by them."""
        waiting = np.sort(self._waiting[: self._count])
        self._keys[waiting] = self.keys_of(waiting)
        self._waiting[: self._count] = waiting[np.argsort(self._keys[waiting], kind="stable")]


class ConfigurationView(Seen):
    """A round-based policy's view of the trace up to now, with all jobs' configurations in one table.

    Rows of jobs that have not arrived hold 0. A policy must not write to any array.

    Attributes
    ----------
    first
        The configurations of job j are rows first[j] to first[j + 1] − 1, shape (J + 1,).
    usage
        Resource usage of each configuration, shape (K, R).
    requested
        The row of each job's requested configuration, shape (J,).
    row
        The row in which each job runs now; −1 where it does not run, shape (J,).
    """

    def __init__(self, jobs: int, resources: int, rows: int, knows: Knowledge) -> None:
        super().__init__(jobs, resources, knows)
        self.first: Ints = np.zeros(jobs + 1, dtype=np.int64)
        self.usage: Floats = np.zeros((rows, resources))
        self.requested: Ints = np.zeros(jobs, dtype=np.int64)
        self.row: Ints = np.full(jobs, -1)
        self._speed: Floats = np.zeros(rows)
        self._work: Floats = np.zeros(jobs)
        self._left: Floats = np.zeros(jobs)

    @property
    def speed(self) -> Floats:
        """Work per second of each configuration, shape (K,)."""
        if self.knows is not Knowledge.PROGRESS:
            self._only(Knowledge.SPEEDS)
        return self._speed

    @property
    def work(self) -> Floats:
        """Total work of each job, in the unit of its speeds times seconds, shape (J,)."""
        self._only(Knowledge.PROGRESS)
        return self._work

    @property
    def left(self) -> Floats:
        """Remaining work of each job, in the unit of its speeds times seconds, shape (J,)."""
        self._only(Knowledge.PROGRESS)
        return self._left

    def rows_of(self, job: int) -> Ints:
        """Return the row indices of a job's configurations in the configuration table."""
        return np.arange(self.first[job], self.first[job + 1])


class ConfigurationViewWriter:
    """Writes jobs and their configurations into a round-based policy's view as the jobs arrive.

    Parameters
    ----------
    order
        The jobs in the order of their arrival, as indices into the table.
    shown
        Flags of the configurations of the instance that policies may choose, besides the requested ones; None
        for all.

    Attributes
    ----------
    menu_row
        The row of the instance's configuration table for each row here, shape (K,).
    """

    def __init__(
        self, instance: SchedulingInstance, order: Ints, knows: Knowledge, shown: Flags | None = None
    ) -> None:
        table, menus = instance.table(), instance.menus()
        sizes = np.diff(menus.first)[order]
        first = np.concatenate([[0], np.cumsum(sizes)])
        self.menu_row: Ints = np.repeat(menus.first[order] - first[:-1], sizes) + np.arange(first[-1])
        self.requested: Ints = menus.requested[order] - menus.first[order] + first[:-1]
        if shown is not None:
            kept = shown[self.menu_row]
            kept[self.requested] = True
            self.requested = (np.cumsum(kept) - 1)[self.requested]
            self.menu_row = self.menu_row[kept]
            first = np.concatenate([[0], np.cumsum(np.add.reduceat(kept.astype(np.int64), first[:-1]))])
        self.first: Ints = first
        self.usage: Floats = menus.usage[self.menu_row]
        self.speed: Floats = menus.speed[self.menu_row]
        self.work: Floats = menus.work[order]
        demand = table.total_demand[order]
        columns = (table.arrival_s[order], table.weight[order], table.tenant[order])
        self._others = (*columns, demand, widths(demand, instance.capacity_over_time[1][0]), self.requested)
        self.seen = ConfigurationView(len(order), len(instance.pool), len(self.usage), knows)
        self.seen.lease_s = instance.lease_s
        shares = [instance.tenant_shares.get(name, 1.0) for name in table.tenants]
        self.seen.tenant_shares = np.array(shares, dtype=float)

    def uncover(self, jobs: slice) -> None:
        """Write the data of arriving jobs, a slice in the order of arrival, into the policy's view."""
        seen = self.seen
        shown = (seen.arrival_s, seen.weight, seen.tenant, seen.demand, seen.width, seen.requested)
        for column, own in zip(shown, self._others, strict=True):
            column[jobs] = own[jobs]
        seen.first[jobs.start : jobs.stop + 1] = self.first[jobs.start : jobs.stop + 1]
        rows = slice(int(self.first[jobs.start]), int(self.first[jobs.stop]))
        seen.usage[rows] = self.usage[rows]
        if seen.knows in (Knowledge.SPEEDS, Knowledge.PROGRESS):
            seen.speed[rows] = self.speed[rows]
        if seen.knows is Knowledge.PROGRESS:
            seen.work[jobs] = seen.left[jobs] = self.work[jobs]


SLACK = 1e-9
"""Relative tolerance of resource capacities."""
TIME_TOLERANCE = 1e-9
"""Relative tolerance of the ends of rounds and leases."""


class RoundPolicy(ABC):
    """Round-based policy: chooses each job's configuration at the end of each round; one object per run.

    Parameters
    ----------
    round_s
        Length of a round; rounds are counted from time 0.

    Attributes
    ----------
    knows
        Which information it may read from `MenuSeen`.
    reacts
        Whether it also decides at arrivals and completions.
    migrates
        Whether running jobs move to other servers to make room for others.
    order
        The order in which jobs of the last choice are placed on servers, as indices into the `jobs` of
        `choose`; None for the order of arrival.
    """

    knows: ClassVar[Knowledge] = Knowledge.NOTHING
    reacts: bool = False
    migrates: ClassVar[bool] = False
    seen: ConfigurationView
    order: Ints | None = None

    def __init__(self, round_s: float) -> None:
        self.round_s = round_s

    def begin(self, seen: ConfigurationView) -> None:
        """Initialise the policy with its view of the trace, before the first round."""
        self.seen = seen

    @abstractmethod
    def choose(self, jobs: Ints, free: Floats) -> Ints:
        """Return the configuration (row of the table) in which each job runs, −1 for a job that waits.

        Where jobs cannot be placed on servers, it is called again at the same time without them; the last
        answer counts.

        Parameters
        ----------
        jobs
            The present jobs whose configuration may be changed, in the order of their arrival.
        free
            Resources available to them together, shape (R,).
        """

    def ended(self, jobs: Sequence[int]) -> None:
        """Record jobs that have just completed."""
        del jobs

    def again_s(self) -> float:
        """Return the time in seconds of the next timer event of the policy: the end of the round."""
        return float((rounds_over(self.seen.now_s, self.round_s) + 1) * self.round_s)

    def summary(self) -> str | None:
        """Return a message about the whole simulation, None without one."""
        return None

    def shares(self, usage: Floats) -> Floats:
        """Return the dominant share of the cluster of each resource usage; shapes (k,) and (k, R)."""
        available: Flags = self.seen.capacity > 0
        share = usage[:, available] / self.seen.capacity[available]
        # Usage of a resource that the cluster lacks is an infinite share.
        missing = (usage[:, ~available] > 0).any(axis=1)
        return np.where(missing, np.inf, share.max(axis=1, initial=0.0))


def rounds_over(now_s: float, round_s: float, since_s: Floats | float = 0.0) -> Floats:
    """Return the number of whole rounds from `since_s` to now, corrected for the rounding of times.

    Times lose precision as they grow, so that the quotient may fall short of a round whose end is reached.
    The end of the next one, `since_s` + (rounds + 1) × `round_s`, is always later than now.
    """
    over = np.floor((now_s - since_s) / round_s + TIME_TOLERANCE)
    return np.asarray(over + (since_s + (over + 1) * round_s <= now_s))


def admit(usage: Floats, free: Floats, capacity: Floats) -> Flags:
    """Return flags of the usages, shape (k, R), that fit when admitted greedily in order.

    One that does not fit blocks no other.

    Parameters
    ----------
    free, capacity
        Resources available to them, and of the whole cluster, shape (R,).
    """
    return served_in_order(usage, free + SLACK * capacity)


@compiled
def served_in_order(usage: Floats, room: Floats) -> Flags:
    """Return flags (k,) of the usages (k, R) that fit in the room (R,), admitted greedily in order."""
    served = np.zeros(len(usage), dtype=np.bool_)
    left = room.copy()
    for k in range(len(usage)):
        fits = True
        for r in range(len(left)):
            fits = fits and usage[k, r] <= left[r]
        if fits:
            served[k] = True
            for r in range(len(left)):
                left[r] -= usage[k, r]
    return served
