"""Simulation of one trace by the compiled event loop, from the start or from a stored state."""

from __future__ import annotations

import numpy as np

from ....formulations.common.clock import check_time
from ....formulations.scheduling.evaluation import restarts_s
from ....instances.common.arrays import Floats, Ints
from ....instances.scheduling.instance import SchedulingInstance
from ..engine import EvictionError, PolicyError, Schedule, eviction_text
from ..view import widths
from .event_loop import (
    COUNTS,
    EVICTED,
    PAUSED,
    RUNNING,
    SEGMENTS,
    STUCK,
    WAITING,
    Rule,
    Segments,
    State,
    Trace,
    WorkArrays,
    advance,
)

MAX_EVENTS = 20_000
"""Events between two checks of the time limit."""


class Simulator:
    """Simulates one trace under priority rules by the compiled event loop.

    Attributes
    ----------
    trace
        The simulated trace.
    """

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        jobs, resources = trace.demand.shape
        self._work = WorkArrays(
            protected=np.zeros(jobs, dtype=bool),
            goes_on=np.zeros(jobs, dtype=bool),
            order=np.zeros(jobs, dtype=np.int64),
            keys=np.zeros(jobs),
            chosen=np.zeros(jobs, dtype=np.int64),
            free=np.zeros(resources),
            slack=np.zeros(resources),
        )
        self._nothing = empty_segments(0)

    def start(self) -> State:
        """Return the simulation state before the first event."""
        jobs, resources = self.trace.demand.shape
        classes = len(self.trace.first) - 1
        return State(
            now_s=np.zeros(1),
            next_end_s=np.full(1, np.inf),
            counts=np.zeros(COUNTS, dtype=np.int64),
            left_s=self.trace.duration_s.copy(),
            since_s=np.zeros(jobs),
            lost_s=np.zeros(jobs),
            lease_end_s=np.zeros(jobs),
            end_s=np.full(jobs, np.inf),
            started=np.zeros(jobs, dtype=bool),
            done_s=np.full(jobs, np.nan),
            running=np.zeros(jobs, dtype=np.int64),
            waiting=np.zeros(jobs, dtype=np.int64),
            queued=np.zeros(classes, dtype=np.int64),
            key=np.zeros(jobs),
            line=np.zeros(classes, dtype=np.int64),
            used=np.zeros(resources),
            grown=np.zeros(resources),
            shortage=np.full(resources, np.inf),
        )

    def segments(self, rule: Rule) -> Segments:
        """Return the segments (job, start, end in seconds) of the schedule under a priority rule.

        Raises
        ------
        EvictionError
            If a job that must not be interrupted is evicted.
        PolicyError
            If waiting jobs can never start.
        """
        state, segments = self.start(), empty_segments(2 * len(self.trace.arrival_s) + 1)
        while self._go_on(rule, state, segments, np.inf) == PAUSED:
            if len(segments.job) < state.counts[SEGMENTS] + state.counts[RUNNING]:
                segments = _enlarged_segments(segments)
        n = int(state.counts[SEGMENTS])
        return Segments(segments.job[:n], segments.start_s[:n], segments.end_s[:n])

    def ends_s(self, rule: Rule, state: State | None = None) -> Floats:
        """Return the completion time of each job in seconds under a priority rule, shape (J,).

        It raises what `segments` does.

        Parameters
        ----------
        state
            State from which the simulation continues, and which it changes; the start if None.
        """
        state = self.start() if state is None else state
        self.advance_to(rule, state, np.inf)
        return state.done_s

    def advance_to(self, rule: Rule, state: State, until_s: float) -> None:
        """Advance a simulation state in place to the last event before a time in seconds.

        It raises what `segments` does.
        """
        while self._go_on(rule, state, self._nothing, until_s) == PAUSED:
            pass

    def _go_on(self, rule: Rule, state: State, segments: Segments, until_s: float) -> int:
        check_time()
        code = advance(self.trace, rule, state, segments, self._work, until_s, MAX_EVENTS)
        now_s = state.now_s[0]
        if code == EVICTED:
            raise EvictionError(eviction_text(now_s))
        if code == STUCK:
            raise PolicyError(f"{state.counts[WAITING]} jobs wait, and nothing will ever happen")
        return int(code)


def copy_of_state(state: State) -> State:
    """Return a deep copy of a simulation state."""
    return State._make(column.copy() for column in state)


def empty_segments(rows: int) -> Segments:
    """Return the columns (job, start, end) of a number of segments, filled with 0."""
    return Segments(np.zeros(rows, dtype=np.int64), np.zeros(rows), np.zeros(rows))


def _enlarged_segments(segments: Segments) -> Segments:
    more = empty_segments(2 * len(segments.job))
    for column, old in zip(more, segments, strict=True):
        column[: len(old)] = old
    return more


class PriorityScheduler:
    """Schedules the jobs of one instance by priority rules in the compiled event loop.

    Attributes
    ----------
    order
        The jobs in the order of their arrival, as indices into the table; everything else is in this order.
    width
        Width of each job, as in `Seen`; shape (J,).
    weight
        Weight of each job, shape (J,).
    trace, simulator
        The data of the event loop, and its simulator.
    """

    def __init__(self, instance: SchedulingInstance) -> None:
        table = instance.table()
        self.order: Ints = np.argsort(table.arrival_s, kind="stable")
        demand = np.ascontiguousarray(table.total_demand[self.order])
        changes, amounts = instance.capacity_over_time
        self.width: Floats = widths(demand, amounts[0])
        self.weight: Floats = table.weight[self.order]
        of_class, first = classes_of(demand)
        self.trace = Trace(
            arrival_s=table.arrival_s[self.order],
            duration_s=table.duration_s[self.order],
            restart_s=restarts_s(instance)[self.order],
            demand=demand,
            least=demand.min(axis=0),
            of_class=of_class,
            first=first,
            change_s=changes,
            capacity=amounts,
            lease_s=float(instance.lease_s),
            interruptible=instance.preemption != "none",
        )
        self.simulator = Simulator(self.trace)

    def schedule(self, rule: Rule) -> Schedule:
        """Return the schedule of the instance under a priority rule; raises what the simulator does."""
        segments = self.simulator.segments(rule)
        return Schedule(self.order[segments.job], segments.start_s, segments.end_s)


def classes_of(demand: Floats) -> tuple[Ints, Ints]:
    """Return each job's class of equal demand, (J,), and where each class begins in a list of all jobs."""
    _, of_class = np.unique(demand, axis=0, return_inverse=True)
    of_class = of_class.reshape(-1)  # NumPy 2.0 returned it in another shape
    return of_class, np.append(0, np.cumsum(np.bincount(of_class)))
