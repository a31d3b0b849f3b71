"""Discrete-event simulation of a scheduling policy.

Events are arrivals, completions, changes of the cluster, ends of leases, and the times at which the policy
asks to be asked. Jobs and their configurations are rows of one table; a rigid job has one row. Only the
engine knows the remaining work. A running job keeps its configuration until its lease ends, and where
preemption is not allowed until it completes.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from ...formulations.common.clock import check_time
from ...formulations.scheduling.evaluation import checkpoint_interval_s, checkpointed_progress_s, restarts_s
from ...instances.common.arrays import Flags, Floats, Ints
from ...instances.common.errors import ClusterplanError
from ...instances.scheduling.instance import SchedulingInstance
from .kernels import transition
from .placement import ServerPlacement, placeable_rows, task_demands
from .policies.contract import SLACK, Policy
from .view import OF_CONFIGURATIONS, Knowledge, ViewWriter

MAX_STOPS = 100_000
"""Preemptions, or events at which no time passes, after which the remaining work must have decreased."""
LEAST_WORK = 1e-9
"""Least relative decrease of the remaining work by then."""
EVENTS_PER_CLOCK_CHECK = 100
"""Events between two checks of the time limit."""
NO_JOBS: Ints = np.zeros(0, dtype=np.int64)


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


class Engine:
    """Discrete-event simulation of one policy on one trace.

    Parameters
    ----------
    policy
        A new policy object for this run.
    placement
        Placement rule for instances with servers, see `ServerPlacement`; None treats the servers as one pool.

    Raises
    ------
    PolicyError
        If the policy declares knowledge that policies cannot have which choose among configurations.
    """

    def __init__(self, instance: SchedulingInstance, policy: Policy, placement: str | None = None) -> None:
        table, jobs = instance.table(), len(instance.table())
        self._instance, self._policy = instance, policy
        self._malleable = policy.malleable or policy.knows in OF_CONFIGURATIONS
        if self._malleable and policy.knows not in (Knowledge.NOTHING, *OF_CONFIGURATIONS):
            raise PolicyError(f"of configurations no policy knows {policy.knows.value}")
        # Jobs are numbered by arrival, so that ties go to the one that came first.
        self._order: Ints = np.argsort(table.arrival_s, kind="stable")
        places = bool(placement and instance.servers)
        gangs = task_demands(instance) if places and self._malleable else None
        shown = None if gangs is None else placeable_rows(instance, gangs)
        self._rows = ViewWriter(instance, self._order, policy.knows, self._malleable, shown)
        self._view = self._rows.view
        self._places: ServerPlacement | None = None
        if placement and places:
            self._places = ServerPlacement(instance, self._order, self._rows, placement, policy, gangs)
        # The engine reads nothing from the policy's view, since a policy could write to it.
        self._arrival_s = table.arrival_s[self._order]
        self._restart_s = restarts_s(instance)[self._order]
        self._left = self._rows.work.copy()
        """Remaining work of each job when its current run began."""
        self._row: Ints = np.full(jobs, -1)
        self._spread = np.ones(jobs)
        """Speed of each job on its servers, relative to its full speed."""
        self._since_s, self._lost_s = np.zeros((2, jobs))
        self._end_s = np.full(jobs, np.inf)
        self._started, self._done = np.zeros((2, jobs), dtype=bool)
        self._work: Ints = np.full(jobs, -1)
        self._running = NO_JOBS
        self._held: Flags = np.zeros(0, dtype=bool)
        self._changes, self._amounts = instance.capacity_over_time
        self._capacity: Floats = self._amounts[0]
        self._view.capacity, self._slack = self._capacity.copy(), SLACK * self._capacity
        self._now_s, self._next_end_s = 0.0, np.inf
        self._next, self._ended, self._change = 0, 0, 0
        interval_s = checkpoint_interval_s(instance)
        self._loses = interval_s > 0
        self._interval: Floats = interval_s * (self._rows.work / self._rows.duration_s)
        """Work between two checkpoints of each job."""
        self._segments: tuple[list[float], ...] = ([], [], [], [])
        self._asks_again = self._stops = False
        self._happened: tuple[int, ...] = ()
        self._in_vain, self._share_before = 0, np.inf

    def run(self) -> Schedule:
        """Simulate the trace until all jobs have completed; return the schedule.

        Raises
        ------
        EvictionError
            If a job that must not be interrupted is evicted.
        PolicyError
            If waiting jobs can never start, or the policy chooses jobs that cannot run.
        """
        self._policy.begin(self._view)
        for step in itertools.count():
            if self._ended == len(self._order):
                break
            if step % EVENTS_PER_CLOCK_CHECK == 0:
                check_time()
            before_s = self._now_s
            self._move_to(*self._next_event())
            self._check_progress(before_s)
        job, start, end, row = self._segments
        servers = {} if self._places is None else self._places.servers()
        jobs, rows = np.array(job, dtype=np.int64), self._rows.menu_row[np.array(row, dtype=np.int64)]
        return Schedule(self._order[jobs], np.array(start), np.array(end), rows, servers)

    def _check_progress(self, before_s: float) -> None:
        """Raise an error if the remaining work no longer decreases, so that the simulation would never end.

        Arrivals, completions and changes of the cluster are bounded. Between them the share of the work that
        is left is compared once in `MAX_STOPS` events at which a job was stopped or no time has passed.
        """
        happened = (self._next, self._ended, self._change)
        if happened != self._happened:
            self._happened, self._in_vain, self._share_before = happened, 0, np.inf
        self._in_vain += self._stops or self._now_s == before_s
        if self._in_vain < MAX_STOPS:
            return
        left = self._left.copy()
        left[self._running] = self._progress(self._running)
        present: Ints = np.flatnonzero(~self._done[: self._next])
        share = float((left / self._rows.work)[present].sum())
        if share >= self._share_before * (1 - LEAST_WORK):
            raise PolicyError(
                f"goes on without end at {self._now_s:g} s: it stops jobs before they do any work, "
                "or again_s returns times that are not later than now"
            )
        self._share_before, self._in_vain = share, 0

    def _next_event(self) -> tuple[float, bool]:
        """Return the time of the next event in seconds, and whether the policy asked for it."""
        now_s, policy = self._now_s, self._policy
        self._next_end_s = float(self._end_s[self._running].min(initial=np.inf))
        times = [self._next_end_s]
        if self._next < len(self._order):
            times.append(float(self._arrival_s[self._next]))
        if self._change + 1 < len(self._changes):
            times.append(float(self._changes[self._change + 1]))
        if self._instance.lease_s and policy.preempts and not policy.round_s and self._view.waits:
            leased = self._since_s[self._running] + self._instance.lease_s
            times.append(float(leased[leased > now_s].min(initial=np.inf)))
        if self._asks_again:
            times.append(now_s)
        again_s = policy.again_s() if self._next > self._ended else np.inf
        next_s = min(*times, again_s)
        if not next_s < np.inf or np.isnan(again_s):
            raise StuckError(f"{self._next - self._ended} jobs wait, and nothing will ever happen")
        return max(next_s, now_s), again_s <= min(times)

    def _move_to(self, now_s: float, asked: bool) -> None:
        """Advance to an event at a time in seconds, notify the policy, and let it decide if it is due."""
        view, policy = self._view, self._policy
        view.executed_s[self._running] += now_s - self._now_s
        self._now_s = view.now_s = now_s
        self._stops = False
        self._finish()
        before = self._change
        fallen = self._change_cluster()
        last = int(np.searchsorted(self._arrival_s, now_s, side="right"))
        if last > self._next:
            self._rows.uncover(slice(self._next, last))
            arrived: Ints = np.arange(self._next, last)
            self._next = last
            policy.arrived(arrived)
        view.waits = self._next - self._ended - len(self._running)
        # A round may end at the very time of an arrival.
        due = asked or policy.reacts or not policy.round_s or now_s % policy.round_s == 0
        if self._next > self._ended and (due or self._change > before):
            self._decide(fallen)

    def _change_cluster(self) -> set[int]:
        """Update the capacity to the present; return the jobs that lose work if they stop now."""
        before, fallen = self._change, set[int]()
        while self._change + 1 < len(self._changes) and self._changes[self._change + 1] <= self._now_s:
            self._change += 1
        if self._change > before:
            self._capacity = self._amounts[self._change]
            self._view.capacity, self._slack = self._capacity.copy(), SLACK * self._capacity
        if self._places is not None:
            fallen = set(self._rows.owner[list(self._places.move_to(self._now_s))].tolist())
        elif self._change > before and (self._amounts[self._change] < self._amounts[before]).any():
            fallen = set(self._running.tolist())
        return fallen if self._loses else set()

    def _progress(self, jobs: Ints) -> Floats:
        """Return the remaining work of running jobs at the present time, shape (jobs,)."""
        worked_s = np.maximum(self._now_s - self._since_s[jobs] - self._lost_s[jobs], 0.0)
        speed = self._rows.speed[self._row[jobs]] * self._spread[jobs]
        return np.maximum(self._left[jobs] - worked_s * speed, 0.0)

    def _finish(self) -> None:
        if self._next_end_s > self._now_s:
            return
        over = self._end_s[self._running] <= self._now_s
        ended = self._running[over]
        self._record_segments(ended, self._end_s[ended])
        self._end_s[ended] = np.inf
        self._done[ended] = True
        if self._places is not None:
            for row in self._row[ended].tolist():
                self._places.leave(row)
        self._rows.ended(ended)
        self._row[ended] = -1
        self._ended += len(ended)
        self._set_running(self._running[~over])
        self._policy.ended(ended)

    def _record_segments(self, jobs: Ints, end_s: Floats) -> None:
        """Record the segments (runs of jobs) that end at the given times in seconds."""
        # The rest of a job may be shorter than the precision of times.
        some = end_s > self._since_s[jobs]
        jobs = jobs[some]
        columns: tuple[Ints | Floats, ...] = (jobs, self._since_s[jobs], end_s[some], self._row[jobs])
        for recorded, column in zip(self._segments, columns, strict=True):
            recorded.extend(column.tolist())

    def _set_running(self, jobs: Ints) -> None:
        self._running = jobs
        self._view.running = jobs.copy()

    def _decide(self, fallen: set[int]) -> None:
        """Query the policy, and switch jobs to the configurations that it chooses.

        Parameters
        ----------
        fallen
            Jobs that lose the work since their last checkpoint if they stop.
        """
        view, policy = self._view, self._policy
        if self._rows.knows in (Knowledge.REMAINING, Knowledge.PROGRESS):
            view._left[self._running] = self._progress(self._running)
        self._held, rows_held, free = self._held_jobs()
        if policy.round_s and self._held.all() and not view.waits:
            return
        # Evicted jobs wait from now on, and may start elsewhere at once.
        self._asks_again = not self._held.all() and not policy.preempts
        over = self._next == len(self._order) and self._change + 1 == len(self._changes)
        self._limit = free + self._slack
        view.held, view.free = self._held.copy(), np.maximum(free, 0.0)
        if self._places is None:
            rows = self._query()
        else:
            rows = self._places.settle(self._query, rows_held, view, may_wait=not over)
        self._switch(np.sort(rows) if self._malleable else rows, fallen)
        if over and not len(self._running) and not self._asks_again:
            raise StuckError(f"{view.waits} jobs wait, and nothing will ever happen")

    def _held_jobs(self) -> tuple[Flags, Ints, Floats]:
        """Return flags of the running jobs that continue whatever the policy chooses, as leases demand.

        Evicted jobs do not. Beside the flags it returns the rows of these jobs, and what they leave free.
        """
        running, rows = self._running, self._row[self._running]
        preempts = self._instance.preemption != "none" and self._policy.preempts
        held = np.full(len(running), not preempts)
        if preempts and self._instance.lease_s:
            held = self._since_s[running] + self._instance.lease_s > self._now_s
        if self._places is not None:
            lost = self._places.lost(rows, self._since_s[running])
            if lost.any():
                self._refuse_evictions()
                held &= ~lost
        free = self._free_beside(rows[held])
        if (free < -self._slack).any():
            self._refuse_evictions()
            # The jobs that started last are evicted first.
            for k in np.lexsort((running if self._malleable else -running, -self._since_s[running])).tolist():
                if held[k] and (free < -self._slack).any():
                    held[k] = False
                    # Added up anew: a small demand is lost in a sum from which a large one is taken away.
                    free = self._free_beside(rows[held])
        return held, rows[held], free

    def _free_beside(self, rows: Ints) -> Floats:
        """Return the amounts of resources that jobs in the given rows leave free, shape (R,)."""
        if not len(rows):
            return self._capacity
        used: Floats = np.add.reduce(self._rows.usage[rows])
        return self._capacity - used

    def _refuse_evictions(self) -> None:
        if self._instance.preemption == "none" and self._instance.evict != "restart":
            raise EvictionError(eviction_text(self._now_s))

    def _query(self, refused: Ints = NO_JOBS) -> Ints:
        """Return the rows that the policy chooses.

        Parameters
        ----------
        refused
            Jobs that cannot be placed, which the policy is not asked for.
        """
        self._view._refused = refused
        chosen = np.asarray(self._policy.choose(self._view))
        if chosen.ndim != 1 or (chosen.dtype.kind not in "iu" and len(chosen)):
            what = f"{chosen.ndim} dimensions of {chosen.dtype}"
            raise PolicyError(f"choose returned an array with {what}; it must return numbers of rows")
        rows = chosen.astype(np.int64)
        self._view._refused = NO_JOBS
        if self._places is not None:
            self._transition(rows)
        return rows

    def _transition(self, rows: Ints) -> tuple[Ints, Ints]:
        """Return the jobs that stop and the rows that start; raise an error if jobs cannot run so."""
        possible, stop, start = transition(
            *(rows, self._rows.owner, self._running, self._held, self._row, self._done, self._next),
            *(self._rows.usage, self._limit, self._work),
        )
        if not possible:
            raise PolicyError(f"chose {self._fault(rows)} at {self._now_s:g} s")
        return stop, start

    def _fault(self, rows: Ints) -> str:
        """Return what is wrong with a choice of rows."""
        if ((rows < 0) | (rows >= len(self._rows.owner))).any():
            return "a configuration that no job has"
        jobs, names = self._rows.owner[rows], self._instance.table().names
        held = self._running[self._held]
        for what, wrong in (
            ("has not arrived", jobs >= self._next),
            ("has ended", self._done[jobs]),
            ("goes on as it is", np.isin(jobs, held)),
            ("is chosen twice", np.bincount(jobs)[jobs] > 1),
        ):
            if wrong.any():
                k = int(np.argmax(wrong))
                return f"row {rows[k]}, of job {names[self._order[jobs[k]]]!r}, which {what},"
        return "jobs that do not fit"

    def _switch(self, rows: Ints, fallen: set[int]) -> None:
        """Stop and start jobs so that those that are held, and exactly the chosen rows, run."""
        now_s, view = self._now_s, self._view
        stop, start_rows = self._transition(rows)
        start = self._rows.owner[start_rows]
        moved = NO_JOBS
        if self._places is not None:
            moved = self._rows.owner[self._places.switch(self._row[stop], start_rows, now_s)]
        halted, begun = np.concatenate([stop, moved]), np.concatenate([start, moved])
        self._stops = len(halted) > 0
        if not len(halted) and not len(begun):
            return
        self._left[halted] = self._progress(halted)
        for j in fallen.intersection(halted.tolist()):
            work, interval = float(self._rows.work[j]), float(self._interval[j])
            self._left[j] = work - checkpointed_progress_s(work - float(self._left[j]), interval)
        self._record_segments(halted, np.full(len(halted), now_s))
        self._end_s[halted] = np.inf
        self._row[stop] = -1
        self._row[start] = start_rows
        if self._places is not None:
            self._spread[begun] = self._places.speeds(self._row[begun])
        self._lost_s[begun] = np.where(self._started[begun], self._restart_s[begun], 0.0)
        self._started[begun] = True
        self._since_s[begun] = view.since_s[begun] = now_s
        speed = self._rows.speed[self._row[begun]] * self._spread[begun]
        self._end_s[begun] = now_s + self._lost_s[begun] + self._left[begun] / speed
        view.row[stop] = -1
        view.row[start] = start_rows
        running = np.concatenate([self._running[self._held], self._rows.owner[rows]])
        self._set_running(np.sort(running) if self._malleable else running)
        view.waits = self._next - self._ended - len(running)
        self._policy.switched(stop, start)
