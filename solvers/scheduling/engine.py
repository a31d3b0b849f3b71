"""Discrete-event simulation of policies for jobs in their requested configuration.

Events are arrivals, completions, changes of the cluster, ends of leases and timers of the policy. Only the
engine knows how long jobs run. A running job keeps its resources until its lease ends, and where preemption
is not allowed until it completes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from ...formulations.common.clock import check_time
from ...formulations.scheduling.evaluation import checkpoint_interval_s, checkpointed_progress_s, restarts_s
from ...instances.common.arrays import Flags, Floats, Ints
from ...instances.common.errors import ClusterplanError
from ...instances.scheduling.instance import SchedulingInstance
from .kernels import add_to, changes, choice_fault, earliest, total
from .placement import ServerPlacement
from .policy import Policy
from .seen import Knowledge, PolicyViewWriter

FAULTS = ("", "a job that has not arrived", "a job that has ended", "a job twice")
"""Texts for the codes of `choice_fault`."""
MAX_STOPS = 100_000
"""Preemptions, or events at which no time passes, after which the remaining work must have decreased."""
LEAST_WORK = 1e-9
"""Least relative decrease of the remaining work by then."""
EVENTS_PER_CLOCK_CHECK = 1_000
"""Events between two checks of the time limit."""


class EvictionError(ClusterplanError):
    """Raised where a loss of capacity would evict a job that must not be interrupted."""


class PolicyError(ClusterplanError):
    """Raised where a policy chooses jobs that cannot run, or never completes the trace."""


class StuckError(PolicyError):
    """Raised where waiting jobs can never start, because no further event will happen."""


def eviction_text(now_s: float) -> str:
    """Return the error message for evicted jobs that must not be interrupted, at a time in seconds."""
    what = f"running jobs lose their place at {now_s:g} s, and must not be interrupted"
    return f"{what}; evict: restart lets them begin again"


@dataclass(frozen=True)
class Schedule:
    """A schedule as columns of segments (uninterrupted runs of a job): job index, start and end in seconds.

    Attributes
    ----------
    row
        The configuration as a row of the configuration table; None where all jobs run in the requested one.
    servers
        Job and start of a segment → its servers, with tasks on each; empty where the cluster is one pool.
    """

    job: Ints
    start_s: Floats
    end_s: Floats
    row: Ints | None = None
    servers: Mapping[tuple[int, float], Mapping[str, int]] = field(default_factory=dict)


class StallWatch:
    """Detects simulations whose total remaining work no longer decreases, so that they would never end."""

    def __init__(self) -> None:
        self._happened: tuple[int, ...] = ()
        self._count = 0
        self._left = np.inf

    def stalls(self, happened: tuple[int, ...], in_vain: bool, left: Callable[[], float]) -> bool:
        """Record one event of the simulation; return whether it no longer makes progress.

        Parameters
        ----------
        happened
            Numbers of arrivals, completions and changes of the cluster so far, all of which are bounded.
        in_vain
            Whether a job was stopped, or no time has passed since the previous event.
        left
            Returns the remaining work of the jobs that have arrived.
        """
        if happened != self._happened:
            self._happened, self._count, self._left = happened, 0, np.inf
        self._count += in_vain
        if self._count < MAX_STOPS:
            return False
        before, self._left, self._count = self._left, left(), 0
        return self._left >= before * (1 - LEAST_WORK)


def stall_text(now_s: float) -> str:
    """Return the error message for a policy that never completes the trace, at a time in seconds."""
    return (
        f"goes on without end at {now_s:g} s: it stops jobs before they do any work, "
        "or asks for the same moment again"
    )


class Engine:
    """Discrete-event simulation of one event-based policy on one trace.

    Parameters
    ----------
    policy
        A new policy object for this run.
    placement
        Placement rule for instances with servers, see `Places`; None treats the servers as one pool.
    skewed_only
        Whether only skewed jobs are consolidated, see `Places`.
    """

    def __init__(
        self,
        instance: SchedulingInstance,
        policy: Policy,
        placement: str | None = None,
        skewed_only: bool = False,
    ) -> None:
        table = instance.table()
        self._instance, self._policy = instance, policy
        # Jobs are numbered by arrival, so that ties go to the one that came first.
        self._order: Ints = np.argsort(table.arrival_s, kind="stable")
        self._sight = PolicyViewWriter(instance, self._order, policy.knows)
        self._seen = self._sight.seen
        self._arrival_s = table.arrival_s[self._order]
        self._remaining_s = self._sight.duration_s.copy()
        self._restart_s = restarts_s(instance)[self._order]
        self._lost_s = np.zeros(len(table))
        self._end_s = np.full(len(table), np.inf)
        self._leased_s = np.zeros(len(table))
        # The engine reads nothing from the policy's view, since a policy could write to it.
        self._now_s = 0.0
        self._since_s = np.zeros(len(table))
        self._capacity: Floats = instance.capacity_over_time[1][0]
        self._started = np.zeros(len(table), dtype=bool)
        self._done = np.zeros(len(table), dtype=bool)
        self._mark = np.zeros(len(table), dtype=bool)
        self._running: Ints = np.zeros(0, dtype=np.int64)
        self._next = 0
        self._changes, self._amounts = instance.capacity_over_time
        self._change = 0
        self._segments: list[tuple[int, float, float]] = []
        self._places: ServerPlacement | None = None
        if placement is not None and instance.servers:
            self._places = ServerPlacement(instance, self._order, placement, skewed_only)
        self._speed = np.ones(len(table))
        self._interval_s = checkpoint_interval_s(instance)
        self._asks_again = False
        self._ended = 0
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
        while self._next < len(self._order) or len(self._running) or self._policy.waits():
            if step % EVENTS_PER_CLOCK_CHECK == 0:
                check_time()
            step += 1
            before_s = self._now_s
            self._move_to(self._next_event_s())
            self._check_progress(before_s)
        job, start, end = np.array(self._segments, dtype=float).reshape(-1, 3).T
        return Schedule(self._order[job.astype(np.int64)], start, end, servers=self._servers())

    def _check_progress(self, before_s: float) -> None:
        """Raise an error if the total remaining work no longer decreases from event to event."""
        happened = (self._next, self._ended, self._change)
        if self._watch.stalls(happened, self._stops or self._now_s == before_s, self._share_left):
            raise PolicyError(stall_text(self._now_s))

    def _share_left(self) -> float:
        """Return the sum over arrived jobs of their remaining work as a share of their total work."""
        present: Ints = np.flatnonzero(~self._done[: self._next])
        left_s = self._remaining_s[present]
        runs = np.isin(present, self._running)
        left_s[runs] = self._left_s(present[runs])
        return float((left_s / self._sight.duration_s[present]).sum())

    def _servers(self) -> dict[tuple[int, float], dict[str, int]]:
        if self._places is None:
            return {}
        history = self._places.history.items()
        return {(int(self._order[j]), at_s): self._places.named(place) for (j, at_s), place in history}

    def _next_event_s(self) -> float:
        times = [earliest(self._running, self._end_s), self._policy.again_s()]
        if self._next < len(self._order):
            times.append(float(self._arrival_s[self._next]))
        if self._change + 1 < len(self._changes):
            times.append(float(self._changes[self._change + 1]))
        if self._instance.lease_s and self._policy.preempts and self._policy.waits():
            leased = self._leased_s[self._running]
            times.append(float(leased[leased > self._now_s].min(initial=np.inf)))
        if self._asks_again:
            times.append(self._now_s)
        next_s = min(times)
        if next_s == np.inf or np.isnan(times).any():
            raise StuckError(f"{self._policy.waits()} jobs wait, and nothing will ever happen")
        return max(next_s, self._now_s)

    def _move_to(self, now_s: float) -> None:
        """Advance to an event at a time in seconds, notify the policy, and apply its choice of jobs."""
        seen, policy = self._seen, self._policy
        add_to(self._running, now_s - self._now_s, seen.executed_s)
        self._now_s = seen.now_s = now_s
        self._finish()
        fallen = self._change_cluster(now_s)
        if self._sight.knows is Knowledge.REMAINING and len(self._running):
            seen.remaining_s[self._running] = self._left_s(self._running)
        last = int(np.searchsorted(self._arrival_s, now_s, side="right"))
        if last > self._next:
            self._sight.uncover(slice(self._next, last))
            policy.arrived(range(self._next, last))
            self._next = last
        protected = self._protected()
        # Evicted jobs wait from now on, and may start elsewhere at once.
        self._asks_again = not protected.all() and not policy.preempts
        if self._places is None:
            chosen = self._choice(protected)
        else:
            chosen = self._places.settle(lambda: self._choice(protected), self._running, protected, seen)
        self._switch(chosen, fallen)

    def _choice(self, protected: Flags) -> Ints:
        """Return the jobs that run from now on by the policy's choice, with the protected running jobs."""
        chosen = self._policy.choose(protected)
        if not self._policy.preempts:
            chosen = np.concatenate([self._running[protected], chosen])
        return np.asarray(chosen, dtype=np.int64)

    def _change_cluster(self, now_s: float) -> set[int]:
        """Update the capacity to the present; return the jobs that lose work if they stop now."""
        before = self._change
        while self._change + 1 < len(self._changes) and self._changes[self._change + 1] <= now_s:
            self._change += 1
        self._capacity = self._amounts[self._change]
        self._seen.capacity = self._capacity.copy()
        fallen = set()
        if self._places is not None:
            fallen = self._places.move_to(now_s)
        elif self._change > before and (self._amounts[self._change] < self._amounts[before]).any():
            fallen = set(self._running.tolist())
        return fallen if self._interval_s else set()

    def _left_s(self, jobs: Ints) -> Floats:
        """Return the remaining run times of running jobs in seconds, without the rest of a restart."""
        progress = self._now_s - self._since_s[jobs] - self._lost_s[jobs]
        return self._remaining_s[jobs] - np.maximum(progress, 0.0) * self._speed[jobs]

    def _finish(self) -> None:
        over = self._end_s[self._running] <= self._now_s
        if not over.any():
            return
        ended = self._running[over]
        for j in ended.tolist():
            # The rest of a job may be shorter than the precision of times.
            if self._end_s[j] > self._since_s[j]:
                self._segments.append((j, float(self._since_s[j]), float(self._end_s[j])))
            self._end_s[j] = np.inf
            self._done[j] = True
            if self._places is not None:
                self._places.leave(j)
            self._sight.ended(j)
        self._ended += len(ended)
        self._set_running(self._running[~over])
        self._policy.ended(ended.tolist())

    def _protected(self) -> Flags:
        """Return flags of the running jobs that continue whatever the policy chooses, as leases demand.

        Evicted jobs do not.
        """
        running = self._running
        if self._instance.preemption == "none" or not self._policy.preempts:
            protected = np.ones(len(running), dtype=bool)
        else:
            protected = self._leased_s[running] > self._now_s
        lost = np.zeros(len(running), dtype=bool)
        if self._places is not None:
            lost = self._places.lost(running, self._since_s[running])
        if lost.any():
            self._refuse_evictions()
            protected &= ~lost
        used = total(running[protected], self._sight.demand)
        if (used <= self._capacity + 1e-9 * self._capacity).all():
            return protected
        self._refuse_evictions()
        # The jobs that started last are evicted first.
        for k in np.lexsort((-running, -self._since_s[running])).tolist():
            if protected[k] and not (used <= self._capacity + 1e-9 * self._capacity).all():
                protected[k] = False
                # Added up anew: a small demand is lost in a sum from which a large one is taken away.
                used = total(running[protected], self._sight.demand)
        return protected

    def _refuse_evictions(self) -> None:
        if self._instance.preemption == "none" and self._instance.evict != "restart":
            raise EvictionError(eviction_text(self._now_s))

    def _switch(self, chosen: Ints, fallen: set[int]) -> None:
        """Stop and start jobs so that exactly the chosen jobs run.

        Parameters
        ----------
        fallen
            Jobs that lose the work since their last checkpoint if they stop.
        """
        fault = choice_fault(chosen, self._next, self._done, self._mark)
        if fault:
            raise PolicyError(f"chose {FAULTS[fault]} at {self._now_s:g} s")
        used = total(chosen, self._sight.demand)
        if not (used <= self._capacity + 1e-9 * self._capacity).all():
            raise PolicyError(f"chose jobs that do not fit at {self._now_s:g} s")
        stop, start = changes(self._running, chosen, self._mark)
        moved = stop[:0]
        if self._places is not None:
            moved = self._places.switch(stop, start, self._now_s)
        self._stops = len(stop) + len(moved) > 0
        if len(stop) or len(start) or len(moved):
            self._stop(np.concatenate([stop, moved]), fallen)
            self._start(np.concatenate([start, moved]))
            self._set_running(chosen)
            self._policy.switched(stop.tolist(), start.tolist())

    def _stop(self, jobs: Ints, fallen: set[int]) -> None:
        now_s, since_s = self._now_s, self._since_s
        for j, remaining in zip(jobs.tolist(), self._left_s(jobs).tolist(), strict=True):
            left = remaining
            if j in fallen:
                work = float(self._sight.duration_s[j])
                left = work - checkpointed_progress_s(work - remaining, self._interval_s)
            self._remaining_s[j] = left
            self._end_s[j] = np.inf
            if now_s > since_s[j]:
                self._segments.append((j, float(since_s[j]), now_s))

    def _start(self, jobs: Ints) -> None:
        now_s = self._now_s
        if self._places is not None:
            self._speed[jobs] = self._places.speeds(jobs)
        self._lost_s[jobs] = np.where(self._started[jobs], self._restart_s[jobs], 0.0)
        self._started[jobs] = True
        self._since_s[jobs] = self._seen.since_s[jobs] = now_s
        self._leased_s[jobs] = now_s + self._instance.lease_s
        self._end_s[jobs] = now_s + self._lost_s[jobs] + self._remaining_s[jobs] / self._speed[jobs]

    def _set_running(self, jobs: Ints) -> None:
        self._running = jobs
        self._seen.running = jobs.copy()
