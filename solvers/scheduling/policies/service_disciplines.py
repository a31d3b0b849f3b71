"""Service disciplines: first come first served, EASY backfilling, shortest job first, and time slicing.

The shortest job is that by its duration, its remaining time, or its remaining GPU-time.

Round robin gives all jobs fair shares of time, in turn a round each. In Gandiva's time slicing (Xiao et al.,
Gandiva: Introspective Cluster Scheduling for Deep Learning, OSDI'18), jobs take turns where their demand
exceeds the capacity. Jobs of one width form a class, and each class has the share of the cluster that its
jobs request; within it they take turns. On servers, small running jobs migrate where a job fits in all gaps
together and in none of them. Packing several jobs on a GPU is outside the model of exclusive GPUs.
"""

from __future__ import annotations

import numpy as np

from ....instances.common.arrays import Flags, Floats, Ints
from ..kernels import backfill
from ..view import Knowledge, View
from .contract import SLACK, KeyPolicy, Policy, RemainingTimePolicy, TurnPolicy, admit, rounds_over


class FirstCome(RemainingTimePolicy):
    """First come, first served: a job that does not fit blocks those that arrived after it."""

    power = 0.0
    blocks = True

    def multiplier(self, view: View, jobs: Ints) -> Floats:
        """Return the position of each job in the order of arrival, shape (jobs,)."""
        del view
        return jobs.astype(float)


class Backfill(KeyPolicy):
    """EASY backfilling by users' estimates: a later job may start if it delays no reservation.

    Lifka, The ANL/IBM SP scheduling system (1995).
    """

    knows = Knowledge.ESTIMATE

    def begin(self, view: View) -> None:
        """Initialise the policy: no job is queued or has an expected end."""
        super().begin(view)
        self._expected_end_s: Floats = np.zeros(len(view.width))

    def key(self, view: View, jobs: Ints) -> Floats:
        """Return the position of each job in the order of arrival as its key, shape (jobs,)."""
        del view
        return jobs.astype(float)

    def choose(self, view: View) -> Ints:
        """Return the waiting jobs that EASY backfilling starts now, in the order of arrival."""
        return backfill(
            *(self.queue, view.demand, view.free, view.capacity),
            *(view.running[view.held], self._expected_end_s, view.now_s, view.estimate_s),
        )

    def switched(self, stopped: Ints, started: Ints) -> None:
        """Update the queue, and record the expected ends of started jobs by their estimates, in seconds."""
        super().switched(stopped, started)
        left = np.maximum(self.view.estimate_s[started] - self.view.executed_s[started], 0.0)
        self._expected_end_s[started] = self.view.now_s + left


class Shortest(RemainingTimePolicy):
    """Shortest job first: serves jobs with the least remaining time first, without preemption."""

    knows = Knowledge.REMAINING


class ShortestRemaining(Shortest):
    """Shortest remaining time first, with preemption (SRTF)."""

    preempts = True


class ShortestService(ShortestRemaining):
    """Least remaining time × GPUs first, with preemption (SRSF; Gu et al., Tiresias, NSDI'19)."""

    def multiplier(self, view: View, jobs: Ints) -> Floats:
        """Return the widths (GPUs) of jobs, so that keys are remaining services in GPU-seconds."""
        return view.width[jobs]


TURN_S, MAX_TURNS = 60.0, 8_000
"""The paper's turn in seconds, and the most turns during the arrivals, beyond which turns are longer."""


def turn_s(span_s: float) -> float:
    """Return the default length of a turn (time slice) in seconds, by the span of the arrivals in seconds.

    At each turn waiting and running jobs change places: with turns of a minute a trace of months has millions
    of segments.
    """
    return float(max(TURN_S, np.ceil(span_s / MAX_TURNS / TURN_S) * TURN_S))


class TimeSlice(Policy):
    """Gandiva's time slicing: jobs run as requested, in turns where their demand exceeds the capacity.

    Parameters
    ----------
    round_s
        Length of a turn in seconds.
    """

    preempts = True
    malleable = True
    migrates = True
    reacts = True

    def __init__(self, round_s: float) -> None:
        self.round_s = round_s

    def begin(self, view: View) -> None:
        """Initialise the policy before the first turn; no job has had a turn."""
        super().begin(view)
        self._turn: Floats = np.zeros(len(view.row))
        self._round = 0.0
        self._waiting = False
        self._asked_s = self._began_s = -1.0

    def choose(self, view: View) -> Ints:
        """Return the requested configuration of each job that runs now.

        All jobs run if they fit together; at the end of a turn the next ones in the order of turns do.
        """
        jobs, free = view.jobs, view.free
        rows = view.requested[jobs]
        usage = view.usage[rows]
        too_many = not (usage.sum(axis=0) <= free + SLACK * view.capacity).all()
        # A second query at one moment means that jobs cannot be placed.
        self._waiting = too_many or view.now_s == self._asked_s
        self._asked_s = view.now_s
        if not too_many:
            return rows
        now = float(rounds_over(view.now_s, self.round_s))
        runs = view.row[jobs] >= 0
        if now > self._round:
            self._round, self._began_s = now, view.now_s
            # Jobs that ran in this turn come last in the next.
            self._turn[jobs[runs]] = view.now_s
        if view.now_s == self._began_s:
            runs = np.zeros(len(jobs), dtype=bool)
        elif self._no_waiting_job_fits(usage, runs, free):
            return rows[runs]
        order = np.lexsort((self._places(jobs), ~runs))
        return rows[order[admit(usage[order], free, view.capacity)]]

    def again_s(self) -> float:
        """Return the end of the present turn in seconds, infinite if no job waits."""
        return super().again_s() if self._waiting else np.inf

    def _no_waiting_job_fits(self, usage: Floats, runs: Flags, free: Floats) -> bool:
        """Return whether no waiting job fits in the capacity that the running jobs leave free."""
        slack = SLACK * self.view.capacity
        left = free - usage[runs].sum(axis=0)
        return bool((left >= -slack).all() and not (usage[~runs] <= left + slack).all(axis=1).any())

    def _places(self, jobs: Ints) -> Floats:
        """Return each job's position among the jobs of its width over their number, shape (jobs,)."""
        width = self.view.width[jobs]
        last = np.where(self._turn[jobs] > 0, self._turn[jobs], self.view.arrival_s[jobs])
        order = np.lexsort((last, width))
        ordered = width[order]
        first = np.append(0, np.flatnonzero(ordered[1:] != ordered[:-1]) + 1)
        count = np.diff(np.append(first, len(jobs)))
        place = np.empty(len(jobs))
        place[order] = (np.arange(len(jobs)) - np.repeat(first, count) + 0.5) / np.repeat(count, count)
        return place


class RoundRobin(TurnPolicy):
    """Round robin: at the end of a round running jobs go behind waiting ones; no other preemption.

    Parameters
    ----------
    turn_s
        Length of a round in seconds; rounds are counted from time 0. Jobs may start at every event.
    """

    def __init__(self, turn_s: float) -> None:
        self._turn_s = turn_s

    def begin(self, view: View) -> None:
        """Initialise the policy at the first round, with an empty order of turns."""
        super().begin(view)
        self._round = 0
        self._began_s = -np.inf

    def choose(self, view: View) -> Ints:
        """Start a new round if it is due; return the jobs that run, first in the order of turns."""
        now = int(rounds_over(view.now_s, self._turn_s))
        if now > self._round:
            self._round, self._began_s = now, view.now_s
            self.to_the_end(view.running[np.argsort(self._turn[view.running], kind="stable")])
        return super().choose(view)

    def running_keys(self, view: View) -> Floats:
        """Return the turns of running jobs at the end of a round; before, all come first if they fit."""
        used = view.demand[view.running[~view.held]].sum(axis=0)
        if self._began_s == view.now_s or not (used <= view.free + SLACK * view.capacity).all():
            return super().running_keys(view)
        return np.arange(-float(len(view.running)), 0.0)

    def again_s(self) -> float:
        """Return the end of the present round in seconds, infinite if no job waits or none runs."""
        view = self.view
        return (self._round + 1) * self._turn_s if view.waits and len(view.running) else np.inf
