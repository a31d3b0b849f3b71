"""The engine: from one event to the next, it asks a policy what runs, and notes the segments.

Events are arrivals, ends, changes of the cluster, ends of leases and the times at which a policy wants to be
asked again. The engine alone knows how long jobs run. Where preemption is not allowed, a job that runs is
held to its end, and within its lease anywhere.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...formulations.common.clock import check_time
from ...formulations.scheduling.constraints import restarts_s
from ...instances.common.arrays import Flags, Floats, Ints
from ...instances.common.errors import ClusterplanError
from ...instances.scheduling.instance import SchedulingInstance
from .kernels import add_to, changes, earliest, total
from .policy import Policy
from .seen import Knowledge, Sight

SELDOM = 1_000
"""Events after which the clock is looked at."""


class EvictionError(ClusterplanError):
    """A change of the cluster takes the place of a job that must not be interrupted."""


class PolicyError(ClusterplanError):
    """A policy chose what cannot run."""


@dataclass(frozen=True)
class Schedule:
    """Segments in columns: job as index into the table, start and end.

    Attributes
    ----------
    row
        The configuration as a row of the menus; None where all jobs run as it is requested.
    """

    job: Ints
    start_s: Floats
    end_s: Floats
    row: Ints | None = None


class Engine:
    """One run of a policy on a trace.

    Parameters
    ----------
    policy
        Made for this run.
    """

    def __init__(self, instance: SchedulingInstance, policy: Policy) -> None:
        table = instance.table()
        self._instance, self._policy = instance, policy
        # Jobs are numbered by arrival, so that ties go to the one that came first.
        self._order: Ints = np.argsort(table.arrival_s, kind="stable")
        self._sight = Sight(instance, self._order, policy.knows)
        self._seen = self._sight.seen
        self._arrival_s = table.arrival_s[self._order]
        self._remaining_s = self._sight.duration_s.copy()
        self._restart_s = restarts_s(instance)[self._order]
        self._lost_s = np.zeros(len(table))
        self._end_s = np.full(len(table), np.inf)
        self._leased_s = np.zeros(len(table))
        self._started = np.zeros(len(table), dtype=bool)
        self._mark = np.zeros(len(table), dtype=bool)
        self._running: Ints = np.zeros(0, dtype=np.int64)
        self._next = 0
        self._changes, self._amounts = instance.capacity_over_time
        self._change = 0
        self._segments: list[tuple[int, float, float]] = []

    def run(self) -> Schedule:
        """Return the schedule.

        Raises
        ------
        EvictionError
            If a job that must not be interrupted loses its place.
        PolicyError
            If the policy leaves jobs waiting for ever, or chooses what cannot run.
        """
        self._policy.begin(self._seen)
        step = 0
        while self._next < len(self._order) or len(self._running) or self._policy.waits():
            if step % SELDOM == 0:
                check_time()
            step += 1
            self._move_to(self._next_event_s())
        job, start, end = np.array(self._segments, dtype=float).reshape(-1, 3).T
        return Schedule(self._order[job.astype(np.int64)], start, end)

    def _next_event_s(self) -> float:
        times = [earliest(self._running, self._end_s), self._policy.again_s()]
        if self._next < len(self._order):
            times.append(float(self._arrival_s[self._next]))
        if self._change + 1 < len(self._changes):
            times.append(float(self._changes[self._change + 1]))
        if self._instance.lease_s and self._policy.preempts and self._policy.waits():
            leased = self._leased_s[self._running]
            times.append(float(leased[leased > self._seen.now_s].min(initial=np.inf)))
        found = min(times)
        if found == np.inf:
            raise PolicyError(f"{self._policy.waits()} jobs wait, and nothing will ever happen")
        return max(found, self._seen.now_s)

    def _move_to(self, now_s: float) -> None:
        """Let time pass, tell the policy what happened, and let it decide."""
        seen, policy = self._seen, self._policy
        add_to(self._running, now_s - seen.now_s, seen.executed_s)
        seen.now_s = now_s
        while self._change + 1 < len(self._changes) and self._changes[self._change + 1] <= now_s:
            self._change += 1
        seen.capacity = self._amounts[self._change]
        self._finish()
        if seen.knows is Knowledge.REMAINING and len(self._running):
            seen.remaining_s[self._running] = self._left_s(self._running)
        last = int(np.searchsorted(self._arrival_s, now_s, side="right"))
        if last > self._next:
            self._sight.uncover(slice(self._next, last))
            policy.arrived(range(self._next, last))
            self._next = last
        held = self._held()
        chosen = policy.choose(held)
        if not policy.preempts:
            chosen = np.concatenate([self._running[held], chosen])
        self._switch(np.asarray(chosen, dtype=np.int64))

    def _left_s(self, jobs: Ints) -> Floats:
        """Return what jobs that run have still to run, without the rest of a restart."""
        progress = self._seen.now_s - self._seen.since_s[jobs] - self._lost_s[jobs]
        return self._remaining_s[jobs] - np.maximum(progress, 0.0)

    def _finish(self) -> None:
        over = self._end_s[self._running] <= self._seen.now_s
        if not over.any():
            return
        ended = self._running[over]
        for j in ended.tolist():
            self._segments.append((j, float(self._seen.since_s[j]), float(self._end_s[j])))
            self._end_s[j] = np.inf
            self._sight.ended(j)
        self._set_running(self._running[~over])
        self._policy.ended(ended.tolist())

    def _held(self) -> Flags:
        """Return which running jobs go on whatever the policy says; those that lose their place do not."""
        running = self._running
        if self._instance.preemption == "none" or not self._policy.preempts:
            held = np.ones(len(running), dtype=bool)
        else:
            held = self._leased_s[running] > self._seen.now_s
        used = total(running[held], self._seen.demand)
        if (used <= self._seen.capacity * (1 + 1e-9)).all():
            return held
        if self._instance.preemption == "none":
            raise EvictionError(
                f"running jobs lose their place at {self._seen.now_s:g} s, and must not be interrupted"
            )
        # Those that came last to what they have lose it.
        for k in np.lexsort((-running, -self._seen.since_s[running])).tolist():
            if held[k] and not (used <= self._seen.capacity * (1 + 1e-9)).all():
                held[k] = False
                used -= self._seen.demand[running[k]]
        return held

    def _switch(self, chosen: Ints) -> None:
        """Stop and start jobs, so that the chosen ones run."""
        used = total(chosen, self._seen.demand)
        if not (used <= self._seen.capacity * (1 + 1e-9)).all():
            raise PolicyError(f"chose jobs that do not fit at {self._seen.now_s:g} s")
        stop, start = changes(self._running, chosen, self._mark)
        if not len(stop) and not len(start):
            return
        if len(start) and start.max() >= self._next:
            raise PolicyError(f"chose a job that has not arrived at {self._seen.now_s:g} s")
        now_s, since_s = self._seen.now_s, self._seen.since_s
        left = self._left_s(stop)
        for j, remaining in zip(stop.tolist(), left.tolist(), strict=True):
            self._remaining_s[j] = remaining
            self._end_s[j] = np.inf
            if now_s > since_s[j]:
                self._segments.append((j, float(since_s[j]), now_s))
        self._lost_s[start] = np.where(self._started[start], self._restart_s[start], 0.0)
        self._started[start] = True
        since_s[start] = now_s
        self._leased_s[start] = now_s + self._instance.lease_s
        self._end_s[start] = now_s + self._lost_s[start] + self._remaining_s[start]
        self._set_running(chosen)
        self._policy.switched(stop.tolist(), start.tolist())

    def _set_running(self, jobs: Ints) -> None:
        self._running = self._seen.running = jobs
