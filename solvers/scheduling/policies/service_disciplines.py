"""Service disciplines: first come first served, EASY backfilling, shortest job first, and time slicing.

The shortest job is that by its duration, its remaining time, or its remaining GPU-time.

Round robin gives all jobs fair shares of time, in turn a round each. In Gandiva's time slicing (Xiao et al.,
Gandiva: Introspective Cluster Scheduling for Deep Learning, OSDI'18), jobs take turns where their demand
exceeds the capacity. Jobs of one width form a class, and each class has the share of the cluster that its
jobs request; within it they take turns. On servers, small running jobs migrate where a job fits in all gaps
together and in none of them. Packing several jobs on a GPU is outside the model of exclusive GPUs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

import numpy as np

from ....instances.common.arrays import Flags, Floats, Ints
from ..kernels import backfill
from ..policy import SLACK, ByKey, ConfigurationView, RoundPolicy, admit, rounds_over
from ..search.event_loop import Rule
from ..search.simulator import PriorityScheduler
from ..seen import Knowledge, Seen


class FirstCome(ByKey):
    """First come, first served: a job that does not fit blocks those that arrived after it."""

    @classmethod
    def rule(cls, scheduler: PriorityScheduler) -> Rule:
        """Return the priority rule with which the compiled event loop gives the same schedules."""
        return Rule(np.arange(float(len(scheduler.order))), 0.0, 1.0, preempts=cls.preempts, blocks=True)

    def keys_of(self, jobs: Ints) -> Floats:
        """Return the position of each job in the order of arrival as its key, shape (jobs,)."""
        return jobs.astype(float)

    def choose(self, held: Flags) -> Ints:
        """Return the longest prefix of the queue whose jobs all fit in the free resources together."""
        free = self.free(held)
        slack = 1e-9 * self.seen.capacity
        count = 0
        while count < self._count and (self.seen.demand[self._waiting[count]] <= free + slack).all():
            free -= self.seen.demand[self._waiting[count]]
            count += 1
        return self._waiting[:count].copy()


class Backfill(FirstCome):
    """EASY backfilling by users' estimates: a later job may start if it delays no reservation.

    Lifka, The ANL/IBM SP scheduling system (1995).
    """

    knows = Knowledge.ESTIMATE

    def begin(self, seen: Seen) -> None:
        """Initialise the policy: no job is queued or has an expected end."""
        super().begin(seen)
        self._expected_end_s: Floats = np.zeros(len(seen.width))

    def choose(self, held: Flags) -> Ints:
        """Return the waiting jobs that EASY backfilling starts now, in the order of arrival."""
        seen = self.seen
        return backfill(
            self._waiting[: self._count],
            seen.demand,
            self.free(held),
            seen.capacity,
            seen.running[held],
            self._expected_end_s,
            seen.now_s,
            seen.estimate_s,
        )

    def switched(self, stopped: Sequence[int], started: Sequence[int]) -> None:
        """Update the queue, and record the expected ends of started jobs by their estimates, in seconds."""
        super().switched(stopped, started)
        left = np.maximum(self.seen.estimate_s[started] - self.seen.executed_s[started], 0.0)
        self._expected_end_s[started] = self.seen.now_s + left


class Shortest(ByKey):
    """Shortest job first: serves jobs with the least remaining time first, without preemption.

    Parameters
    ----------
    estimates
        Whether it uses users' estimates, less the run time so far, in place of true remaining times.
    """

    def __init__(self, estimates: bool = False) -> None:
        self.knows = Knowledge.ESTIMATE if estimates else Knowledge.REMAINING

    @staticmethod
    def multiplier(width: Floats) -> Floats:
        """Return the factor of the remaining time in the key of a job, by its width (GPUs): here always 1."""
        return np.ones_like(width)

    @classmethod
    def rule(cls, scheduler: PriorityScheduler) -> Rule:
        """Return the priority rule of the compiled event loop with the same schedules.

        It uses true remaining times.
        """
        return Rule(cls.multiplier(scheduler.width), 1.0, 1.0, preempts=cls.preempts, blocks=False)

    def keys_of(self, jobs: Ints) -> Floats:
        """Return the remaining time of each job in seconds times the factor of its width, (jobs,)."""
        seen = self.seen
        if self.knows is Knowledge.ESTIMATE:
            remaining_s = np.maximum(seen.estimate_s[jobs] - seen.executed_s[jobs], 0.0)
        else:
            remaining_s = seen.remaining_s[jobs]
        return remaining_s * self.multiplier(seen.width[jobs])


class ShortestRemaining(Shortest):
    """Shortest remaining time first, with preemption (SRTF)."""

    preempts: ClassVar[bool] = True


class ShortestService(ShortestRemaining):
    """Least remaining time × GPUs first, with preemption (SRSF; Gu et al., Tiresias, NSDI'19)."""

    @staticmethod
    def multiplier(width: Floats) -> Floats:
        """Return the widths (GPUs) of jobs, so that keys are remaining services in GPU-seconds."""
        return width


TURN_S, MAX_TURNS = 60.0, 8_000
"""The paper's turn in seconds, and the most turns during the arrivals, beyond which turns are longer."""


def turn_s(span_s: float) -> float:
    """Return the default length of a turn (time slice) in seconds, by the span of the arrivals in seconds.

    At each turn waiting and running jobs change places: with turns of a minute a trace of months has millions
    of segments.
    """
    return float(max(TURN_S, np.ceil(span_s / MAX_TURNS / TURN_S) * TURN_S))


class TimeSlice(RoundPolicy):
    """Gandiva's time slicing: jobs run as requested, in turns where their demand exceeds the capacity."""

    knows: ClassVar[Knowledge] = Knowledge.NOTHING
    reacts = True
    migrates: ClassVar[bool] = True

    def begin(self, seen: ConfigurationView) -> None:
        """Initialise the policy before the first turn; no job has had a turn."""
        super().begin(seen)
        self._turn: Floats = np.zeros(len(seen.row))
        self._round = 0.0
        self._waiting = False
        self._asked_s = self._began_s = -1.0

    def choose(self, jobs: Ints, free: Floats) -> Ints:
        """Return the requested configuration of each job that runs now, −1 for a job that waits.

        All jobs run if they fit together; at the end of a turn the next ones in the order of turns do.
        """
        seen, rows = self.seen, self.seen.requested[jobs]
        usage = seen.usage[rows]
        too_many = not (usage.sum(axis=0) <= free + SLACK * seen.capacity).all()
        # A second query at one moment means that jobs cannot be placed.
        self._waiting = too_many or seen.now_s == self._asked_s
        self._asked_s, self.order = seen.now_s, None
        if not too_many:
            return rows
        now = float(rounds_over(seen.now_s, self.round_s))
        runs = seen.row[jobs] >= 0
        if now > self._round:
            self._round, self._began_s = now, seen.now_s
            # Jobs that ran in this turn come last in the next.
            self._turn[jobs[runs]] = seen.now_s
        if seen.now_s == self._began_s:
            runs = np.zeros(len(jobs), dtype=bool)
        elif self._no_waiting_job_fits(usage, runs, free):
            return np.where(runs, rows, -1)
        self.order = order = np.lexsort((self._places(jobs), ~runs))
        served = np.zeros(len(jobs), dtype=bool)
        served[order] = admit(usage[order], free, seen.capacity)
        return np.where(served, rows, -1)

    def again_s(self) -> float:
        """Return the end of the present turn in seconds, infinite if no job waits."""
        return super().again_s() if self._waiting else np.inf

    def _no_waiting_job_fits(self, usage: Floats, runs: Flags, free: Floats) -> bool:
        """Return whether no waiting job fits in the capacity that the running jobs leave free."""
        slack = SLACK * self.seen.capacity
        left = free - usage[runs].sum(axis=0)
        return bool((left >= -slack).all() and not (usage[~runs] <= left + slack).all(axis=1).any())

    def _places(self, jobs: Ints) -> Floats:
        """Return each job's position among the jobs of its width over their number, shape (jobs,)."""
        width = self.seen.width[jobs]
        last = np.where(self._turn[jobs] > 0, self._turn[jobs], self.seen.arrival_s[jobs])
        order = np.lexsort((last, width))
        ordered = width[order]
        first = np.append(0, np.flatnonzero(ordered[1:] != ordered[:-1]) + 1)
        count = np.diff(np.append(first, len(jobs)))
        place = np.empty(len(jobs))
        place[order] = (np.arange(len(jobs)) - np.repeat(first, count) + 0.5) / np.repeat(count, count)
        return place


class RoundRobin(ByKey):
    """Round robin: at the end of a round running jobs go behind waiting ones; no other preemption.

    Parameters
    ----------
    round_s
        Length of a round; rounds are counted from time 0.
    """

    preempts: ClassVar[bool] = True

    def __init__(self, round_s: float) -> None:
        self._round_s = round_s

    def begin(self, seen: Seen) -> None:
        """Initialise the policy at the first round, with an empty order of turns."""
        super().begin(seen)
        self._turn: Floats = np.zeros(len(seen.width))
        self._turns = 0
        self._round = 0
        self._began_s = -np.inf

    def keys_of(self, jobs: Ints) -> Floats:
        """Return the position of each job in the order of turns as its key, shape (jobs,)."""
        return self._turn[jobs]

    def arrived(self, jobs: Iterable[int]) -> None:
        """Put arriving jobs at the end of the order of turns, and queue them."""
        listed = list(jobs)
        self._to_the_end(listed)
        super().arrived(listed)

    def choose(self, held: Flags) -> Ints:
        """Start a new round if it is due; return the jobs that run, first in the order of turns."""
        seen = self.seen
        now = int(rounds_over(seen.now_s, self._round_s))
        if now > self._round:
            self._round, self._began_s = now, seen.now_s
            running = seen.running
            self._to_the_end(running[np.argsort(self._turn[running], kind="stable")].tolist())
        if self._began_s == seen.now_s:
            return super().choose(held)
        keeps = np.ones(len(seen.running), dtype=bool)
        fits = (self.free(keeps) >= -1e-9 * seen.capacity).all()
        return super().choose(keeps if fits else held)

    def again_s(self) -> float:
        """Return the end of the present round in seconds, infinite if no job waits or none runs."""
        return (self._round + 1) * self._round_s if self.waits() and len(self.seen.running) else np.inf

    def _to_the_end(self, jobs: Iterable[int]) -> None:
        for j in jobs:
            self._turn[j] = self._turns
            self._turns += 1
