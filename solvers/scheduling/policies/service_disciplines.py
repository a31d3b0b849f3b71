"""Service disciplines: first come, backfilling, shortest job, time slicing, least attained service, Gittins.

The shortest job is that by its duration, its remaining time, or its remaining GPU-time.

Round robin gives all jobs fair shares of time, in turn a round each. In Gandiva's time slicing (Xiao et al.,
Gandiva: Introspective Cluster Scheduling for Deep Learning, OSDI'18), jobs take turns where their demand
exceeds the capacity. Jobs of one width form a class, and each class has the share of the cluster that its
jobs request; within it they take turns. On servers, small running jobs migrate where a job fits in all gaps
together and in none of them. Packing several jobs on a GPU is outside the model of exclusive GPUs.

Least attained service first is 2D-LAS of Tiresias (Gu et al., Tiresias: A GPU Cluster Manager for Distributed
Deep Learning, NSDI'19, section 4), with queues or by lease. The Gittins index is that of jobs whose durations
are like those of the past (2D-Gittins, section 4.2): sup_Δ P(S − a ≤ Δ | S > a) / E[min(S − a, Δ) | S > a],
where S is the service in GPU-seconds of jobs that have ended, and a is what a job has attained.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from ....formulations.scheduling.evaluation import TIME_ROUNDING
from ....formulations.scheduling.plan import differs
from ....instances.common.arrays import Flags, Floats, Ints
from ..kernels import backfill, raise_levels
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


class Backfill(FirstCome):
    """EASY backfilling by users' estimates: a later job may start if it delays no reservation.

    Lifka, The ANL/IBM SP scheduling system (1995).
    """

    knows = Knowledge.ESTIMATE

    def begin(self, view: View) -> None:
        """Initialise the policy: no job is queued or has an expected end."""
        super().begin(view)
        self._expected_end_s: Floats = np.zeros(len(view.width))

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
        first = np.flatnonzero(differs(ordered))
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


QUANTUM_S = 60.0
"""Seconds between comparisons of jobs where there are neither queues nor a lease."""
LIMIT_TOLERANCE = 1e-9
"""Relative tolerance of limits of attained service."""


def limit_reached(service: Floats, limit: Floats, width: Floats, now_s: float) -> Flags:
    """Return flags of the attained services (GPU-seconds) that have reached their limits, up to rounding."""
    finite = np.where(np.isfinite(limit), limit, 0.0)
    return service >= limit - np.maximum(LIMIT_TOLERANCE * finite, TIME_ROUNDING * now_s * width)


class LeastAttained(KeyPolicy):
    """Serves jobs with the least attained GPU-seconds first, compared once a lease; ties by arrival.

    Parameters
    ----------
    least_s
        Time for which a job keeps its key from each start; without it restarts would leave alternating jobs
        no time to work.
    """

    preempts = True
    skewed_only = True

    def __init__(self, least_s: float = 0.0) -> None:
        self._least_s = least_s

    def key(self, view: View, jobs: Ints) -> Floats:
        """Return the attained service of each job in GPU-seconds as its key, shape (jobs,)."""
        executed_s = view.executed_s[jobs]
        run_s = np.minimum(view.now_s - view.since_s[jobs], executed_s)
        counts = limit_reached(run_s, np.array(self._least_s), np.array(1.0), view.now_s)
        # Rounding must not put a job that runs behind one that was its equal.
        before_s = executed_s - run_s - np.maximum(LIMIT_TOLERANCE * executed_s, TIME_ROUNDING * view.now_s)
        return np.where(counts, executed_s, before_s) * view.width[jobs]

    def again_s(self) -> float:
        """Return the earliest end of a running job's (renewed) lease in seconds, infinite if no job waits."""
        view = self.view
        if not view.waits or not len(view.running):
            return np.inf
        quantum = max(view.lease_s or QUANTUM_S, self._least_s)
        since = view.since_s[view.running]
        over = rounds_over(view.now_s, quantum, since)
        return float((since + (over + 1) * quantum).min())


class MultilevelQueues(TurnPolicy):
    """Multilevel feedback queues by attained service (discretised LAS), each in the order of entry.

    A job moves to the next queue when its attained service reaches the limit of its own.

    Parameters
    ----------
    limits
        In GPU-seconds, ascending; there is one more queue than limits.
    """

    skewed_only = True

    def __init__(self, limits: Sequence[float]) -> None:
        self._limits: Floats = np.array([*limits, np.inf])

    def begin(self, view: View) -> None:
        """Initialise the policy with all queues empty."""
        super().begin(view)
        self._level: Ints = np.zeros(len(view.width), dtype=np.int64)

    def key(self, view: View, jobs: Ints) -> Floats:
        """Return each job's queue (major) and rank of entry in it (minor) as one number, (jobs,)."""
        return self._level[jobs] * 2.0**40 + super().key(view, jobs)

    def choose(self, view: View) -> Ints:
        """Demote jobs as is due; return the jobs that run."""
        jobs = view.running
        limit = self._limits[self._level[jobs]]
        full = jobs[limit_reached(self._service(jobs), limit, view.width[jobs], view.now_s)]
        if len(full):
            self._level[full] += 1
            self.to_the_end(np.sort(full))
        return super().choose(view)

    def again_s(self) -> float:
        """Return the earliest time in seconds at which a job is demoted, infinite without any."""
        jobs, view = self.view.running, self.view
        left = (self._limits[self._level[jobs]] - self._service(jobs)) / view.width[jobs]
        full_s = np.maximum(view.now_s + left, view.since_s[jobs])
        return float(full_s.min(initial=np.inf))

    def _service(self, jobs: Ints) -> Floats:
        return self.view.executed_s[jobs] * self.view.width[jobs]


LEVELS = 16
"""Levels of the index, geometrically from the shortest to the longest service of completed jobs."""
RECOMPUTE_GROWTH = 1.1
"""Growth of the number of completed jobs after which the index is recomputed."""
LEAST_COMPLETED_JOBS = 10
"""Fewest completed jobs for an index; before, all jobs have the same one."""


def gittins_index(sorted_services: Floats, attained: float, least: float = 0.0) -> float:
    """Return the Gittins index of a job by its attained service and the sorted services of past jobs.

    All services are in GPU-seconds, the index is per GPU-second; it is 0 if no past service is larger.

    Parameters
    ----------
    least
        The least Δ, since jobs are not compared again before; the largest possible Δ where that is less.
    """
    beyond = sorted_services[sorted_services > attained] - attained
    if not len(beyond):
        return 0.0
    # Δ is best at one of the services: (k + 1) jobs end within it, and the others take Δ each.
    ended = np.arange(1, len(beyond) + 1)
    spent = np.cumsum(beyond) + (len(beyond) - ended) * beyond
    chances = ended / spent
    return float(max(chances[beyond >= least].max(initial=0.0), chances[-1]))


class Gittins(KeyPolicy):
    """Priority policy: serves jobs with the highest Gittins index first; ties by arrival."""

    knows = Knowledge.PAST
    preempts = True
    skewed_only = True

    def begin(self, view: View) -> None:
        """Initialise the policy without completed jobs, so that all jobs have the same index."""
        super().begin(view)
        self._limits: Floats = np.array([np.inf])
        self._index: Floats = np.zeros(1)
        self._level: Ints = np.zeros(len(view.width), dtype=np.int64)
        self._built = 0

    def key(self, view: View, jobs: Ints) -> Floats:
        """Return the negative Gittins index at the level of attained service of each job, shape (jobs,)."""
        del view
        return -self._index[self._level[jobs]]

    def ended(self, jobs: Ints) -> None:
        """Recompute the index from the services of completed jobs, if their number has grown by a tenth."""
        del jobs
        past = self.view.past
        if len(past) >= max(LEAST_COMPLETED_JOBS, RECOMPUTE_GROWTH * self._built):
            self._built = len(past)
            self._learn(np.sort([duration * width for duration, width in past]))

    def choose(self, view: View) -> Ints:
        """Update running jobs' levels of attained service; return the jobs of highest index that fit."""
        tolerances = LIMIT_TOLERANCE, TIME_ROUNDING * view.now_s
        raise_levels(view.running, view.executed_s, view.width, self._level, self._limits, *tolerances)
        return super().choose(view)

    def again_s(self) -> float:
        """Return when a running job next reaches a level of attained service, infinite if none waits."""
        view, jobs = self.view, self.view.running
        if not view.waits:
            return np.inf
        left_s = self._limits[self._level[jobs]] / view.width[jobs] - view.executed_s[jobs]
        return view.now_s + float(left_s.min(initial=np.inf))

    def _learn(self, services: Floats) -> None:
        steps = np.unique(np.geomspace(services[0], services[-1], LEVELS))
        levels = pairwise([0.0, *steps.tolist(), float(steps[-1])])
        self._limits = np.append(steps, np.inf)
        self._index = np.array([gittins_index(services, a, b - a) for a, b in levels])
        service = self.view.executed_s * self.view.width
        self._level = np.searchsorted(steps, service, side="right")
        self._sort_again()
