"""Contracts of scheduling policies: by priority keys at each event, and by rounds that choose configurations.

A policy by rounds decides anew from time to time in which configuration each job runs. It sees the
configurations of the jobs that have arrived, as far as it may know them.
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
    """Decides at each event which jobs run; made for one run of the engine.

    Attributes
    ----------
    knows
        What it may read of `Seen`.
    preempts
        Whether it stops jobs that run.
    """

    knows: Knowledge = Knowledge.NOTHING
    preempts: ClassVar[bool] = False
    seen: Seen

    def begin(self, seen: Seen) -> None:
        """Start with what the engine will uncover."""
        self.seen = seen

    @abstractmethod
    def arrived(self, jobs: Iterable[int]) -> None:
        """Note jobs that have arrived."""

    @abstractmethod
    def choose(self, held: Flags) -> Ints:
        """Return the jobs that run from now on; a policy that does not preempt, those that start.

        Parameters
        ----------
        held
            Which of `seen.running` go on in any case.
        """

    @abstractmethod
    def switched(self, stopped: Sequence[int], started: Sequence[int]) -> None:
        """Note which jobs have stopped and which have started by its choice."""

    @abstractmethod
    def waits(self) -> int:
        """Return how many jobs wait."""

    def ended(self, jobs: Sequence[int]) -> None:
        """Note jobs that have ended."""
        del jobs

    def again_s(self) -> float:
        """Return when it wants to be asked again, although nothing happens; infinite for never."""
        return np.inf

    def free(self, held: Flags) -> Floats:
        """Return what the jobs that are held leave, shape (R,)."""
        seen = self.seen
        return np.asarray(seen.capacity - total(seen.running[held], seen.demand))


class ByKey(Policy):
    """Serves jobs in the order of their keys, the least first; a job that does not fit blocks no other."""

    def begin(self, seen: Seen) -> None:
        """Start with an empty list of waiting jobs."""
        super().begin(seen)
        self._keys: Floats = np.zeros(len(seen.width))
        self._waiting: Ints = np.zeros(len(seen.width), dtype=np.int64)
        self._count = 0

    @abstractmethod
    def keys_of(self, jobs: Ints) -> Floats:
        """Return the keys that jobs have now; those of waiting jobs are asked for once."""

    def arrived(self, jobs: Iterable[int]) -> None:
        """Queue jobs by their keys."""
        self._queue(list(jobs))

    def choose(self, held: Flags) -> Ints:
        """Return the jobs with the least keys that fit."""
        seen = self.seen
        keys = np.zeros(len(seen.running)) if held.all() else self.keys_of(seen.running)
        chosen = fill(
            self._waiting, self._count, self._keys, seen.running, held, keys, seen.demand, seen.capacity
        )
        return chosen if self.preempts else chosen[int(held.sum()) :]

    def switched(self, stopped: Sequence[int], started: Sequence[int]) -> None:
        """Take jobs out of the list, and queue those that stopped."""
        for j in started:
            self._unqueue(j)
        self._queue(stopped)

    def waits(self) -> int:
        """Return the length of the list."""
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
        """Give all waiting jobs new keys."""
        waiting = np.sort(self._waiting[: self._count])
        self._keys[waiting] = self.keys_of(waiting)
        self._waiting[: self._count] = waiting[np.argsort(self._keys[waiting], kind="stable")]


class MenuSeen(Seen):
    """The trace up to now, with the configurations of jobs, which are rows of a table in that order.

    Rows of jobs that have not arrived hold 0, and tell nothing. A policy must not write to any array.

    Attributes
    ----------
    first
        The configurations of job j are rows first[j] to first[j + 1] − 1, shape (J + 1,).
    usage
        What a configuration takes while the job runs in it, shape (K, R).
    requested
        The row that the job's user asked for, shape (J,).
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
        """What each job has to do in all, shape (J,)."""
        self._only(Knowledge.PROGRESS)
        return self._work

    @property
    def left(self) -> Floats:
        """What each job has still to do, shape (J,)."""
        self._only(Knowledge.PROGRESS)
        return self._left

    def rows_of(self, job: int) -> Ints:
        """Return the rows of a job's configurations."""
        return np.arange(self.first[job], self.first[job + 1])


class MenuSight:
    """The engine's hand on `MenuSeen`: it knows everything, and uncovers what becomes known.

    Parameters
    ----------
    order
        The jobs in the order of their arrival, as indices into the table.
    shown
        Which rows of the instance's menus there are for policies, besides those that are requested; None for
        all.

    Attributes
    ----------
    menu_row
        The row of the instance's menus that each row here is, shape (K,).
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
        self.seen = MenuSeen(len(order), len(instance.pool), len(self.usage), knows)
        self.seen.lease_s = instance.lease_s
        shares = [instance.tenant_shares.get(name, 1.0) for name in table.tenants]
        self.seen.tenant_shares = np.array(shares, dtype=float)

    def uncover(self, jobs: slice) -> None:
        """Show jobs that arrive."""
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
"""What may be taken more than there is, relatively."""
NEAR = 1e-9
"""A round that is over up to this, relatively, is over."""


class RoundPolicy(ABC):
    """Decides at the end of each round which jobs run and how; made for one run of the engine.

    Parameters
    ----------
    round_s
        How long a round is; rounds are counted from time 0.

    Attributes
    ----------
    knows
        What it may read of `MenuSeen`.
    reacts
        Whether it decides at arrivals and ends too.
    migrates
        Whether jobs that run move to other servers to make room for others.
    order
        In which order jobs of the last choice find places on servers, as indices into those it was asked
        about; None for the order of their arrival.
    """

    knows: ClassVar[Knowledge] = Knowledge.NOTHING
    reacts: bool = False
    migrates: ClassVar[bool] = False
    seen: MenuSeen
    order: Ints | None = None

    def __init__(self, round_s: float) -> None:
        self.round_s = round_s

    def begin(self, seen: MenuSeen) -> None:
        """Start with what the engine will uncover."""
        self.seen = seen

    @abstractmethod
    def choose(self, jobs: Ints, free: Floats) -> Ints:
        """Return the row of the configuration in which each of these jobs runs from now on, −1 for none.

        Where jobs find no place on servers it is asked again at the same moment, without them; then the last
        answer counts.

        Parameters
        ----------
        jobs
            Those that are there and whose configuration is free to choose, in the order of their arrival.
        free
            What they may use together, shape (R,).
        """

    def ended(self, jobs: Sequence[int]) -> None:
        """Note jobs that have ended."""
        del jobs

    def again_s(self) -> float:
        """Return when it wants to be asked again: at the end of the round."""
        return float((rounds_over(self.seen.now_s, self.round_s) + 1) * self.round_s)

    def summary(self) -> str | None:
        """Return what is to be said of the whole run, if anything."""
        return None

    def shares(self, usage: Floats) -> Floats:
        """Return the dominant share of the cluster of each of these usages, shapes (k, R) and (k,)."""
        there: Flags = self.seen.capacity > 0
        share = usage[:, there] / self.seen.capacity[there]
        # What the cluster has not is more than all of it.
        missing = (usage[:, ~there] > 0).any(axis=1)
        return np.where(missing, np.inf, share.max(axis=1, initial=0.0))


def rounds_over(now_s: float, round_s: float, since_s: Floats | float = 0.0) -> Floats:
    """Return how many rounds are over since some moment, as exactly as moments can tell.

    Moments get coarser with time, so that the quotient may fall short of a round whose end is reached. The
    end of the next one, `since_s` + (rounds + 1) × `round_s`, is always later than now.
    """
    over = np.floor((now_s - since_s) / round_s + NEAR)
    return np.asarray(over + (since_s + (over + 1) * round_s <= now_s))


def admit(usage: Floats, free: Floats, capacity: Floats) -> Flags:
    """Return which usages, shape (k, R), are served in their order; one that does not fit blocks no other.

    Parameters
    ----------
    free, capacity
        What there is for them, and in all, shape (R,).
    """
    return served_in_order(usage, free + SLACK * capacity)


@compiled
def served_in_order(usage: Floats, room: Floats) -> Flags:
    """Return which usages fit beside those before them that do, shapes (k, R), (R,) and (k,)."""
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
