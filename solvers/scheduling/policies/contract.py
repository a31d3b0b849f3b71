"""The contract of scheduling policies: what a policy knows, what it chooses, and when it is asked.

A policy says in `knows` what it may read from its view, and chooses the jobs that run, each in one of its
configurations (`Policy.choose`). It is asked at every event, or at the end of each round. Most policies need
no more than a key for each job (`KeyPolicy`): jobs are served in ascending order of keys while they fit.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from ....formulations.common.compiled import compiled
from ....instances.common.arrays import Flags, Floats, Ints
from ..kernels import fill, fits, requeue
from ..view import Knowledge, View

SLACK = 1e-9
"""Relative tolerance of resource capacities."""
TIME_TOLERANCE = 1e-9
"""Relative tolerance of the ends of rounds and leases."""


class Policy(ABC):
    """A scheduling policy; one object serves one simulation.

    Attributes
    ----------
    knows
        Which information it may read from its view.
    preempts
        Whether it stops running jobs, or changes their configurations.
    malleable
        Whether its view shows all configurations of jobs, not only the requested ones. A policy that knows
        `SPEEDS` or `PROGRESS` sees them in any case.
    round_s
        Length of a round in seconds; rounds are counted from time 0. The policy is asked at the end of each
        round and at changes of the cluster; where it is 0, at every event.
    reacts
        Whether a policy with rounds is also asked at arrivals and completions.
    migrates
        Whether running jobs move to other servers to make room for one that cannot be placed otherwise.
    skewed_only
        Whether placement `best-fit` consolidates jobs whose largest tensor is large, as Tiresias does.
    """

    knows: Knowledge = Knowledge.NOTHING
    preempts: bool = False
    malleable: bool = False
    round_s: float = 0.0
    reacts: bool = False
    migrates: bool = False
    skewed_only: bool = False
    view: View

    def begin(self, view: View) -> None:
        """Initialise the policy with its view of the trace, before the first event."""
        self.view = view

    @abstractmethod
    def choose(self, view: View) -> Ints:
        """Return the rows (configurations) in which jobs of `view.jobs` run from now on, at most one of each.

        All other jobs of `view.jobs` wait, and stop if they run. The rows must fit in `view.free` together.
        The order is that in which jobs are placed on servers. Where one cannot be placed, the policy is asked
        again at the same time, and the last answer counts: without that job or, where each job has one row,
        with a larger demand in its place, so that it blocks other jobs or is skipped.
        """

    def arrived(self, jobs: Ints) -> None:
        """Record jobs that have just arrived."""
        del jobs

    def ended(self, jobs: Ints) -> None:
        """Record jobs that have just completed."""
        del jobs

    def switched(self, stopped: Ints, started: Ints) -> None:
        """Record the jobs that stopped and those that started by the policy's last choice."""
        del stopped, started

    def again_s(self) -> float:
        """Return the time in seconds at which the policy asks to be asked next, infinite without one.

        It is the end of the round if there are rounds.
        """
        if not self.round_s:
            return np.inf
        return float((rounds_over(self.view.now_s, self.round_s) + 1) * self.round_s)

    def summary(self) -> str | None:
        """Return a message about the whole simulation, None without one."""
        return None


class KeyPolicy(Policy):
    """Serves jobs as requested, in ascending order of keys while they fit; ties by arrival.

    Attributes
    ----------
    keep
        Factor of the keys of running jobs: below 1 they lose their place less easily.
    blocks
        Whether a job that does not fit blocks those after it.
    """

    keep: float = 1.0
    blocks: bool = False

    def begin(self, view: View) -> None:
        """Initialise the policy with an empty queue of waiting jobs."""
        super().begin(view)
        self._keys: Floats = np.zeros(len(view.width))
        self._queue: Ints = np.zeros(len(view.width), dtype=np.int64)
        self._count = 0

    @abstractmethod
    def key(self, view: View, jobs: Ints) -> Floats:
        """Return the current key of each job, shape (jobs,); the smallest is served first.

        The keys of waiting jobs are computed when they are queued, those of running jobs at every event.
        """

    def running_keys(self, view: View) -> Floats:
        """Return the keys of the running jobs, which are served among those that wait."""
        return self.keep * self.key(view, view.running)

    @property
    def queue(self) -> Ints:
        """The jobs that wait, in ascending order of their keys."""
        return self._queue[: self._count]

    def arrived(self, jobs: Ints) -> None:
        """Insert arriving jobs into the queue by their keys."""
        self.switched(jobs, jobs[:0])

    def choose(self, view: View) -> Ints:
        """Return the rows of the jobs that run besides those that are held, in ascending order of keys."""
        # Evicted jobs do not overtake the job that blocks others: they stop, and are queued again.
        held = view.held | (self.blocks and not self.preempts)
        keys = np.zeros(len(held)) if held.all() else self.running_keys(view)
        chosen = fill(
            *(self.queue, self._keys, view.running, held, keys),
            *(view.demand, view.free, SLACK * view.capacity, self.blocks),
        )
        return view.requested[chosen]

    def switched(self, stopped: Ints, started: Ints) -> None:
        """Remove started jobs from the queue, and insert stopped ones by their keys."""
        if len(stopped):
            self._keys[stopped] = self.key(self.view, stopped)
        requeue(self._queue, self._count, self._keys, started, stopped)
        self._count += len(stopped) - len(started)

    def _sort_again(self) -> None:
        """Recompute the keys of all queued jobs, and sort the queue by them."""
        waiting = np.sort(self.queue)
        self._keys[waiting] = self.key(self.view, waiting)
        self._queue[: self._count] = waiting[np.argsort(self._keys[waiting], kind="stable")]


class RemainingTimePolicy(KeyPolicy):
    """Serves jobs by the key multiplier × remaining time ** power.

    Where servers need not be chosen and no work can be lost, the compiled event loop simulates it.

    Parameters
    ----------
    estimates
        Whether it uses users' estimates, less the run time so far, in place of true remaining times.

    Attributes
    ----------
    power
        Power of the remaining time; 0 where the key does not depend on it.
    """

    power: float = 1.0

    def __init__(self, estimates: bool = False) -> None:
        if self.power:
            self.knows = Knowledge.ESTIMATE if estimates else Knowledge.REMAINING

    @property
    def is_rule(self) -> bool:
        """Whether multiplier, power and the attributes of the class say all that the policy does.

        Otherwise a subclass decides something itself, or remaining times are estimates.
        """
        decides = ("key", "running_keys", "choose", "arrived", "ended", "switched", "again_s")
        own = any(getattr(type(self), name) is not getattr(RemainingTimePolicy, name) for name in decides)
        return not own and not self.round_s and self.knows is not Knowledge.ESTIMATE

    def multiplier(self, view: View, jobs: Ints) -> Floats:
        """Return the multiplier of each job by itself, here always 1; it must not depend on the time."""
        del view
        return np.ones(len(jobs))

    def key(self, view: View, jobs: Ints) -> Floats:
        """Return the key of each job, shape (jobs,)."""
        multiplier = self.multiplier(view, jobs)
        if not self.power:
            return multiplier
        if self.knows is Knowledge.ESTIMATE:
            remaining_s = np.maximum(view.estimate_s[jobs] - view.executed_s[jobs], 0.0)
        else:
            remaining_s = view.remaining_s[jobs]
        return multiplier * remaining_s**self.power


class TurnPolicy(KeyPolicy):
    """Serves jobs in the order in which they were last put at the end of the queue; at first, on arrival."""

    preempts = True

    def begin(self, view: View) -> None:
        """Initialise the policy with an empty order of turns."""
        super().begin(view)
        self._turn: Floats = np.zeros(len(view.width))
        self._turns = 0

    def key(self, view: View, jobs: Ints) -> Floats:
        """Return the position of each job in the order of turns as its key, shape (jobs,)."""
        del view
        return self._turn[jobs]

    def arrived(self, jobs: Ints) -> None:
        """Put arriving jobs at the end of the order of turns, and queue them."""
        self.to_the_end(jobs)
        super().arrived(jobs)

    def to_the_end(self, jobs: Ints) -> None:
        """Put jobs at the end of the order of turns, in the given order."""
        self._turn[jobs] = self._turns + np.arange(len(jobs))
        self._turns += len(jobs)


def in_order(rows: Ints, order: Ints | None = None) -> Ints:
    """Return the rows that are not −1, in the given order (indices), or in their own."""
    rows = rows if order is None else rows[order]
    return rows[rows >= 0]


def rounds_over(now_s: float, round_s: float, since_s: Floats | float = 0.0) -> Floats:
    """Return the number of whole rounds from `since_s` to now, corrected for the rounding of times.

    Times lose precision as they grow, so that the quotient may fall short of a round whose end is reached.
    The end of the next one, `since_s` + (rounds + 1) × `round_s`, is always later than now.
    """
    over = np.floor((now_s - since_s) / round_s + TIME_TOLERANCE)
    return np.asarray(over + (since_s + (over + 1) * round_s <= now_s))


def admit(usage: Floats, free: Floats, capacity: Floats, owner: Ints | None = None) -> Flags:
    """Return flags of the usages, shape (k, R), that fit when admitted greedily in order.

    One that does not fit blocks no other.

    Parameters
    ----------
    free, capacity
        Resources available to them, and of the whole cluster, shape (R,).
    owner
        The job of each usage, a number below k: at most one of a job is admitted. None if all differ.
    """
    return served_in_order(usage, free + SLACK * capacity, np.arange(len(usage)) if owner is None else owner)


@compiled
def served_in_order(usage: Floats, room: Floats, owner: Ints) -> Flags:
    """Return flags (k,) of the usages (k, R) that fit in the room (R,), the first one of each owner."""
    served = np.zeros(len(usage), dtype=np.bool_)
    closed = np.zeros(len(usage), dtype=np.bool_)
    left, nothing = room.copy(), np.zeros(len(room))
    for k in range(len(usage)):
        if not closed[owner[k]] and fits(usage, left, nothing, k):
            served[k] = closed[owner[k]] = True
            left -= usage[k]
    return served
