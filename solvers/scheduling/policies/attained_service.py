"""Policies by attained service: least attained service (Tiresias), and the Gittins index.

Least attained service first: 2D-LAS of Tiresias, with queues or by lease. Gu et al., Tiresias: A GPU Cluster
Manager for Distributed Deep Learning, NSDI'19, section 4.

The Gittins index of jobs whose durations are like those of the past (2D-Gittins of Tiresias). Gu et al.,
Tiresias, NSDI'19, section 4.2; the index is sup_Δ P(S − a ≤ Δ | S > a) / E[min(S − a, Δ) | S > a], where S is
the service in GPU-seconds of jobs that have ended, and a is what a job has attained.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from ....instances.common.arrays import Flags, Floats, Ints
from ..kernels import raise_levels
from ..view import Knowledge, View
from .contract import KeyPolicy, TurnPolicy, rounds_over

QUANTUM_S = 60.0
"""Seconds between comparisons of jobs where there are neither queues nor a lease."""
LIMIT_TOLERANCE = 1e-9
"""Relative tolerance of limits of attained service."""
TIME_ROUNDING = 4e-15
"""Relative rounding error of a time in double precision."""


def limit_reached(service: Floats, limit: Floats, width: Floats, now_s: float) -> Flags:
    """Return flags of the attained services (GPU-seconds) that have reached their limits, up to rounding."""
    finite = np.where(np.isfinite(limit), limit, 0.0)
    return np.asarray(service >= limit - np.maximum(LIMIT_TOLERANCE * finite, TIME_ROUNDING * now_s * width))


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
