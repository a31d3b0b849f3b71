"""Discrete-event simulation of round-based policies, which choose a configuration for each job.

Events are arrivals, completions, changes of the cluster, and timers of the policy. The policy decides at its
timers and at changes of the cluster, at the others only if it reacts to them. Only the engine knows the
remaining work. A running job keeps its configuration until its lease ends, and where preemption is not
allowed until it completes.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from ...formulations.common.clock import check_time
from ...formulations.scheduling.evaluation import checkpoint_interval_s, checkpointed_progress_s, restarts_s
from ...instances.common.arrays import Flags, Floats, Ints
from ...instances.scheduling.instance import SchedulingInstance
from .engine import EvictionError, PolicyError, Schedule, StallWatch, StuckError, stall_text
from .placement import ConfigurationPlacement, placeable_rows, task_demands
from .policy import SLACK, ConfigurationViewWriter, RoundPolicy
from .seen import Knowledge

EVENTS_PER_CLOCK_CHECK = 100
"""Events between two checks of the time limit."""


class RoundEngine:
    """Discrete-event simulation of one round-based policy on one trace.

    Parameters
    ----------
    policy
        A new policy object for this run.
    placement
        Placement rule for instances with servers, see `Places`; None treats the servers as one pool.

    Raises
    ------
    PolicyError
        If the policy declares knowledge that round-based policies cannot have.
    """

    def __init__(
        self, instance: SchedulingInstance, policy: RoundPolicy, placement: str | None = None
    ) -> None:
        if policy.knows not in (Knowledge.NOTHING, Knowledge.SPEEDS, Knowledge.PROGRESS):
            raise PolicyError(f"of configurations no policy knows {policy.knows.value}")
        table = instance.table()
        self._instance, self._policy = instance, policy
        # Jobs are numbered by arrival, so that ties go to the one that came first.
        self._order: Ints = np.argsort(table.arrival_s, kind="stable")
        gangs = task_demands(instance) if placement and instance.servers else None
        shown = None if gangs is None else placeable_rows(instance, gangs)
        self._sight = sight = ConfigurationViewWriter(instance, self._order, policy.knows, shown)
        self._places: ConfigurationPlacement | None = None
        if gangs is not None and placement:
            menus = (sight.menu_row, sight.first, sight.usage, sight.speed)
            self._places = ConfigurationPlacement(instance, gangs, *menus, placement, policy.migrates)
        self._seen = self._sight.seen
        self._arrival_s = table.arrival_s[self._order]
        self._left = self._sight.work.copy()
        """Remaining work of each job when its current run began."""
        self._restart_s = restarts_s(instance)[self._order]
        self._lost_s = np.zeros(len(table))
        self._end_s = np.full(len(table), np.inf)
        self._started = np.zeros(len(table), dtype=bool)
        self._present: Ints = np.zeros(0, dtype=np.int64)
        self._next = 0
        self._changes, self._amounts = instance.capacity_over_time
        self._change = 0
        self._segments: list[Floats] = []
        self._spread = np.ones(len(table))
        """Speed of each job on its servers, relative to its full speed."""
        interval = checkpoint_interval_s(instance)
        duration_s = table.duration_s[self._order]
        self._interval: Floats = np.full(len(table), interval) * (self._sight.work / duration_s)
        self._loses = interval > 0
        self._fallen: set[int] = set()
        self._stops = False
        self._watch = StallWatch()

    def run(self) -> Schedule:
        """Simulate the trace until all jobs have completed; return the schedule.

        Raises
        ------
        EvictionError
            If a job that must not be interrupted is evicted.
        PolicyError
            If waiting jobs can never start, or the policy chooses jobs that cannot run.
        """
        self._policy.begin(self._seen)
        step = 0
        while self._next < len(self._order) or len(self._present):
            if step % EVENTS_PER_CLOCK_CHECK == 0:
                check_time()
            step += 1
            before_s = self._seen.now_s
            self._move_to(*self._next_event())
            self._check_progress(before_s)
        job, start, end, row = np.concatenate([np.zeros((4, 0)), *self._segments], axis=1)
        rows = self._sight.menu_row[row.astype(np.int64)]
        servers = {} if self._places is None else self._places.servers()
        return Schedule(self._order[job.astype(np.int64)], start, end, rows, servers)

    def _check_progress(self, before_s: float) -> None:
        """Raise an error if the total remaining work no longer decreases from event to event."""
        happened = (self._next, len(self._present), self._change)
        if self._watch.stalls(happened, self._stops or self._seen.now_s == before_s, self._share_left):
            raise PolicyError(stall_text(self._seen.now_s))

    def _share_left(self) -> float:
        """Return the sum over present jobs of their remaining work as a share of their total work."""
        left = self._left.copy()
        left[self._seen.running] = self._progress(self._seen.running)
        return float((left / self._sight.work)[self._present].sum())

    def _next_event(self) -> tuple[float, bool]:
        """Return the time of the next event in seconds, and whether it is a timer of the policy."""
        now_s, seen = self._seen.now_s, self._seen
        others = [float(self._end_s[seen.running].min(initial=np.inf))]
        if self._next < len(self._order):
            others.append(float(self._arrival_s[self._next]))
        if self._change + 1 < len(self._changes):
            others.append(float(self._changes[self._change + 1]))
        again_s = self._policy.again_s() if len(self._present) else np.inf
        return max(min(*others, again_s), now_s), again_s <= min(others)

    def _move_to(self, now_s: float, asked: bool) -> None:
        """Advance to an event at a time in seconds, notify the policy, and let it decide if it is due."""
        seen, policy = self._seen, self._policy
        self._stops = False
        seen.executed_s[seen.running] += now_s - seen.now_s
        seen.now_s = now_s
        asked = self._change_cluster() or asked
        happened = self._finish()
        last = int(np.searchsorted(self._arrival_s, now_s, side="right"))
        if last > self._next:
            happened = True
            self._sight.uncover(slice(self._next, last))
            self._present = np.concatenate([self._present, np.arange(self._next, last)])
            self._next = last
        # A round may end at the very time of an arrival.
        on_time = now_s % policy.round_s == 0
        if len(self._present) and (asked or on_time or (happened and policy.reacts)):
            self._decide()

    def _change_cluster(self) -> bool:
        """Update the capacity to the present; return whether a change of the cluster has taken effect."""
        seen, before = self._seen, self._change
        while self._change + 1 < len(self._changes) and self._changes[self._change + 1] <= seen.now_s:
            self._change += 1
        seen.capacity = self._amounts[self._change].copy()
        self._fallen = set()
        if self._places is not None:
            self._fallen = set(self._places.owners(self._places.places.move_to(seen.now_s)))
        elif self._change > before and (self._amounts[self._change] < self._amounts[before]).any():
            self._fallen = set(seen.running.tolist())
        return self._change > before

    def _progress(self, jobs: Ints) -> Floats:
        """Return the remaining work of running jobs at the present time, shape (jobs,)."""
        seen = self._seen
        worked_s = np.maximum(seen.now_s - seen.since_s[jobs] - self._lost_s[jobs], 0.0)
        speed = self._sight.speed[seen.row[jobs]] * self._spread[jobs]
        return np.maximum(self._left[jobs] - worked_s * speed, 0.0)

    def _finish(self) -> bool:
        seen = self._seen
        over = self._end_s[seen.running] <= seen.now_s
        if not over.any():
            return False
        ended = seen.running[over]
        self._note(ended, self._end_s[ended])
        self._end_s[ended] = np.inf
        if self._places is not None:
            for row in seen.row[ended].tolist():
                self._places.places.leave(row)
        seen.row[ended] = -1
        seen.running = seen.running[~over]
        self._present = np.delete(self._present, np.searchsorted(self._present, ended))
        self._policy.ended(ended.tolist())
        return True

    def _note(self, jobs: Ints, end_s: Floats) -> None:
        """Record the segments (runs of jobs) that end at the given times in seconds."""
        start_s = self._seen.since_s[jobs]
        # The rest of a job may be shorter than the precision of times.
        some = end_s > start_s
        columns = (jobs[some], start_s[some], end_s[some], self._seen.row[jobs[some]])
        self._segments.append(np.array(columns, dtype=float).reshape(4, -1))

    def _decide(self) -> None:
        """Query the policy for the configurations of present jobs, and switch the jobs to them."""
        seen, present = self._seen, self._present
        if seen.knows is Knowledge.PROGRESS:
            seen.left[seen.running] = self._progress(seen.running)
        protected = self._protected()
        free = seen.capacity - self._usage(seen.row[present[protected]])
        jobs = present[~protected]
        if not len(jobs):
            return
        over = self._next == len(self._order) and self._change + 1 == len(self._changes)
        if self._places is None:
            chosen, _ = self._query(jobs, free)
        else:
            ask = partial(self._query, free=free)
            chosen = self._places.settle(ask, jobs, seen.row[present[protected]].tolist(), not over)
        other = chosen != seen.row[jobs]
        self._switch(jobs[other], chosen[other])
        seen.running = present[seen.row[present] >= 0]
        if over and not len(seen.running):
            raise StuckError(f"{len(present)} jobs wait, and nothing will ever happen")

    def _query(self, jobs: Ints, free: Floats) -> tuple[Ints, Ints | None]:
        """Return the policy's choice of a configuration per job, and the order of placement on servers."""
        policy = self._policy
        chosen = np.asarray(policy.choose(jobs, np.maximum(free, 0.0)), dtype=np.int64)
        self._check_choice(jobs, chosen, free)
        return chosen, policy.order

    def _usage(self, rows: Ints) -> Floats:
        usage: Floats = self._sight.usage[rows].sum(axis=0)
        return usage

    def _protected(self) -> Flags:
        """Return flags of the present jobs that keep their configuration whatever the policy chooses.

        Evicted jobs do not.
        """
        seen, present, instance = self._seen, self._present, self._instance
        protected: Flags = seen.row[present] >= 0
        if instance.preemption != "none":
            protected = protected & (seen.since_s[present] + instance.lease_s > seen.now_s)
        limit = seen.capacity * (1 + SLACK)
        lost = np.zeros(len(present), dtype=bool)
        if self._places is not None:
            runs = np.flatnonzero(seen.row[present] >= 0)
            since_s = seen.since_s[present[runs]]
            lost[runs] = self._places.places.lost(seen.row[present[runs]], since_s)
        if not (lost & protected).any() and (self._usage(seen.row[present[protected]]) <= limit).all():
            return protected
        protected &= ~lost
        if instance.preemption == "none" and instance.evict != "restart":
            raise EvictionError(
                f"running jobs lose their place at {seen.now_s:g} s, and must not be interrupted"
            )
        # The jobs that started last are evicted first.
        for k in np.argsort(-seen.since_s[present], kind="stable").tolist():
            if protected[k] and not (self._usage(seen.row[present[protected]]) <= limit).all():
                protected[k] = False
        return protected

    def _check_choice(self, jobs: Ints, chosen: Ints, free: Floats) -> None:
        """Raise an error if a chosen configuration is not one of its job, or the chosen do not fit."""
        runs = chosen >= 0
        own = (chosen >= self._sight.first[jobs]) & (chosen < self._sight.first[jobs + 1])
        if len(chosen) != len(jobs) or not (own | ~runs).all():
            raise PolicyError(f"chose a configuration that a job has not at {self._seen.now_s:g} s")
        if not (self._usage(chosen[runs]) <= free + SLACK * self._seen.capacity).all():
            raise PolicyError(f"chose jobs that do not fit at {self._seen.now_s:g} s")

    def _switch(self, jobs: Ints, rows: Ints) -> None:
        """Switch jobs to new configurations, where −1 stops a job, and move others between servers."""
        seen = self._seen
        now_s = seen.now_s
        if self._places is not None:
            before = seen.row[jobs]
            moved = self._places.places.switch(before[before >= 0], rows[rows >= 0], now_s)
            jobs = np.concatenate([jobs, self._places.owners(moved)])
            rows = np.concatenate([rows, moved])
        runs = jobs[seen.row[jobs] >= 0]
        self._stops = len(runs) > 0
        self._left[runs] = self._progress(runs)
        if self._loses and self._fallen:
            self._lose(runs)
        self._note(runs, np.full(len(runs), now_s))
        self._end_s[runs] = np.inf
        seen.row[jobs] = rows
        start = jobs[rows >= 0]
        self._lost_s[start] = np.where(self._started[start], self._restart_s[start], 0.0)
        self._started[start] = True
        seen.since_s[start] = now_s
        if self._places is not None:
            self._spread[start] = self._places.places.speeds(seen.row[start])
        speed = self._sight.speed[seen.row[start]] * self._spread[start]
        self._end_s[start] = now_s + self._lost_s[start] + self._left[start] / speed

    def _lose(self, jobs: Ints) -> None:
        """Discard the work since the last checkpoint of stopping jobs that lost capacity."""
        for j in self._fallen.intersection(jobs.tolist()):
            work = float(self._sight.work[j])
            self._left[j] = work - checkpointed_progress_s(
                work - float(self._left[j]), float(self._interval[j])
            )
