"""Schedules of jobs that are served by keys, by the compiled event loop."""

from __future__ import annotations

import numpy as np

from ...formulations.common.clock import check_time
from ...formulations.scheduling.constraints import restarts_s
from ...instances.common.arrays import Floats, Ints
from ...instances.scheduling.instance import SchedulingInstance
from .engine import EvictionError, PolicyError, Schedule
from .event_loop import DONE, EVICTED, STUCK, advance
from .event_state import COUNTS, RUNNING, SEGMENTS, WAITING, Rule, Segments, State, Trace, Work
from .seen import widths

MOST_EVENTS = 20_000
"""Events after which the clock is looked at."""


class Server:
    """Serves the jobs of one instance by rules.

    Attributes
    ----------
    order
        The jobs in the order of their arrival, as indices into the table; everything else is in this order.
    width
        What each job takes as one figure, as in `Seen`; shape (J,).
    weight
        Shape (J,).
    """

    def __init__(self, instance: SchedulingInstance) -> None:
        table = instance.table()
        self.order: Ints = np.argsort(table.arrival_s, kind="stable")
        demand = np.ascontiguousarray(table.total_demand[self.order])
        changes, amounts = instance.capacity_over_time
        self.width: Floats = widths(demand, amounts[0])
        self.weight: Floats = table.weight[self.order]
        _, of_class = np.unique(demand, axis=0, return_inverse=True)
        of_class = of_class.reshape(-1)  # NumPy 2.0.x returned it with another shape
        self.trace = Trace(
            arrival_s=table.arrival_s[self.order],
            duration_s=table.duration_s[self.order],
            restart_s=restarts_s(instance)[self.order],
            demand=demand,
            least=demand.min(axis=0),
            of_class=of_class,
            first=np.append(0, np.cumsum(np.bincount(of_class))),
            change_s=changes,
            capacity=amounts,
            lease_s=float(instance.lease_s),
            interruptible=instance.preemption != "none",
        )
        self.work = self._work()

    def _work(self) -> Work:
        jobs, resources = self.trace.demand.shape
        return Work(
            held=np.zeros(jobs, dtype=bool),
            goes_on=np.zeros(jobs, dtype=bool),
            order=np.zeros(jobs, dtype=np.int64),
            keys=np.zeros(jobs),
            chosen=np.zeros(jobs, dtype=np.int64),
            free=np.zeros(resources),
            slack=np.zeros(resources),
        )

    def start(self) -> State:
        """Return the state before anything has happened."""
        jobs, classes = len(self.trace.arrival_s), len(self.trace.first) - 1
        return State(
            now_s=np.zeros(1),
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
        )

    def schedule(self, rule: Rule) -> Schedule:
        """Return the schedule of a rule.

        Raises
        ------
        EvictionError
            If a job that must not be interrupted loses its place.
        PolicyError
            If jobs wait for ever.
        """
        state, segments = self.start(), _room(2 * len(self.order) + 1)
        while True:
            check_time()
            code = advance(self.trace, rule, state, segments, self.work, np.inf, MOST_EVENTS)
            if code == DONE:
                break
            self._refuse(code, state)
            if len(segments.job) < state.counts[SEGMENTS] + state.counts[RUNNING]:
                segments = _larger(segments)
        n = int(state.counts[SEGMENTS])
        return Schedule(self.order[segments.job[:n]], segments.start_s[:n], segments.end_s[:n])

    def ends_s(self, rule: Rule) -> Floats:
        """Return when each job ends by a rule, shape (J,); raises what `schedule` does."""
        state, nothing = self.start(), _room(0)
        while True:
            check_time()
            code = advance(self.trace, rule, state, nothing, self.work, np.inf, MOST_EVENTS)
            if code == DONE:
                return state.done_s
            self._refuse(code, state)

    def _refuse(self, code: int, state: State) -> None:
        now_s = state.now_s[0]
        if code == EVICTED:
            raise EvictionError(f"running jobs lose their place at {now_s:g} s, and must not be interrupted")
        if code == STUCK:
            raise PolicyError(f"{state.counts[WAITING]} jobs wait, and nothing will ever happen")


def _room(rows: int) -> Segments:
    return Segments(np.zeros(rows, dtype=np.int64), np.zeros(rows), np.zeros(rows))


def _larger(segments: Segments) -> Segments:
    more = _room(2 * len(segments.job))
    for column, old in zip(more, segments, strict=True):
        column[: len(old)] = old
    return more


def first_come(server: Server) -> Rule:
    """Return first come, first served."""
    return Rule(np.arange(len(server.order), dtype=float), 0.0, 1.0, False, True)


def shortest(server: Server) -> Rule:
    """Return shortest job first."""
    return Rule(np.ones(len(server.order)), 1.0, 1.0, False, False)


def shortest_remaining(server: Server) -> Rule:
    """Return shortest remaining time first."""
    return Rule(np.ones(len(server.order)), 1.0, 1.0, True, False)


def shortest_service(server: Server) -> Rule:
    """Return least remaining time × width first."""
    return Rule(server.width.copy(), 1.0, 1.0, True, False)
