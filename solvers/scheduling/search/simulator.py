"""Simulation of one trace by the compiled event loop, from the start or from a stored state."""

from __future__ import annotations

import numpy as np

from ....formulations.common.clock import check_time
from ....formulations.scheduling.evaluation import restarts_s
from ....instances.common.arrays import Floats, Ints
from ....instances.scheduling.instance import SchedulingInstance
from ..engine import EvictionError, PolicyError, Schedule, eviction_text
from ..view import widths
from .event_loop import EVICTED, PAUSED, SEGMENTS, WITH_SLACK, Rule, State, Trace, advance

MAX_EVENTS = 20_000
"""Events between two checks of the time limit."""


class Simulator:
    """Simulates one trace under priority rules by the compiled event loop.

    Attributes
    ----------
    trace
        The simulated trace.
    start
        The state before the first event.
    """

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        jobs, resources = trace.demand.shape
        times, numbers = np.zeros(jobs), np.zeros(jobs, dtype=np.int64)  # one for all: they are only copied
        self.start = State(
            now_s=np.zeros(1),
            next_end_s=np.full(1, np.inf),
            counts=np.zeros(SEGMENTS + 1, dtype=np.int64),
            left_s=trace.duration_s,
            since_s=times,
            lost_s=times,
            end_s=np.full(jobs, np.inf),
            running=numbers,
            left=np.full(trace.queue.max() + 1, -1),
            right=numbers,
            key=times,
            line=numbers,
            ranked=numbers,
            room=trace.capacity[0] * WITH_SLACK,
            shortage=np.full(resources, np.inf),
        )

    def run(self, rule: Rule, state: State | None = None, until_s: float = np.inf) -> State:
        """Return the state after the last event before a time in seconds, under a priority rule.

        In the end its `end_s` are the completion times of all jobs.

        Parameters
        ----------
        state
            The state from which the simulation goes on; the start if None.

        Raises
        ------
        EvictionError
            If a job that must not be interrupted is evicted.
        PolicyError
            If waiting jobs can never start.
        """
        state = State._make(map(np.copy, self.start if state is None else state))
        while self._advance(rule, state, np.empty((0, 3)), until_s) == PAUSED:
            pass
        return state

    def segments(self, rule: Rule) -> Floats:
        """Return the segments of the schedule under a priority rule, as rows of job, start and end.

        It raises what `run` does.
        """
        state, parts, code = State._make(map(np.copy, self.start)), [], PAUSED
        rows = np.empty((2 * len(self.trace.arrival_s) + 1, 3))
        while code == PAUSED:
            state.counts[SEGMENTS] = 0
            code = self._advance(rule, state, rows, np.inf)
            parts.append(rows[: state.counts[SEGMENTS]].copy())
        return np.concatenate(parts)

    def _advance(self, rule: Rule, state: State, segments: Floats, until_s: float) -> int:
        check_time()
        code: int = advance(self.trace, rule, state, segments, until_s, MAX_EVENTS)
        if code == EVICTED:
            raise EvictionError(eviction_text(state.now_s[0]))
        wait = np.isinf(state.end_s).sum()
        if code != PAUSED and until_s == np.inf and wait:
            raise PolicyError(f"{wait} jobs wait, and nothing will ever happen")
        return code


class PriorityScheduler(Simulator):
    """Schedules the jobs of one instance by priority rules in the compiled event loop.

    Attributes
    ----------
    order
        The jobs in the order of their arrival, as indices into the table; everything else is in this order.
    width
        Width of each job, as in `View`; shape (J,).
    weight
        Weight of each job, shape (J,).
    """

    def __init__(self, instance: SchedulingInstance) -> None:
        table = instance.table()
        self.order: Ints = np.argsort(table.arrival_s, kind="stable")
        demand = np.ascontiguousarray(table.total_demand[self.order])
        changes, amounts = instance.capacity_over_time
        self.width: Floats = widths(demand, amounts[0])
        self.weight: Floats = table.weight[self.order]
        super().__init__(
            Trace(
                arrival_s=table.arrival_s[self.order],
                duration_s=table.duration_s[self.order],
                restart_s=restarts_s(instance)[self.order],
                demand=demand,
                least=demand.min(axis=0, keepdims=True),
                queue=queues_of(demand),
                change_s=changes,
                capacity=amounts,
                lease_s=float(instance.lease_s),
                interruptible=instance.preemption != "none",
            )
        )

    def schedule(self, rule: Rule) -> Schedule:
        """Return the schedule of the instance under a priority rule; raises what the simulator does."""
        job, start_s, end_s = self.segments(rule).T
        return Schedule(self.order[job.astype(int)], start_s, end_s)


def queues_of(demand: Floats) -> Ints:
    """Return the queue of each job, shape (J,): jobs of equal demand share one, and numbers begin with J."""
    _, of_class = np.unique(demand, axis=0, return_inverse=True)
    return len(demand) + of_class.reshape(-1)  # NumPy 2.0 returned it in another shape
