"""List scheduling by priority keys: a compiled event loop, its state, and simulations of traces with it.

At every event the jobs with the least keys run, as far as they fit; one that does not fit blocks no other,
unless the rule says so. Jobs with the same demand wait in one queue: where its first job does not fit, none
of it does, so that an event costs time by the number of running jobs and of queues, not by their length. The
fast policies and the local search run on it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ....formulations.common.clock import check_time
from ....formulations.common.compiled import compiled_without_arrays
from ....formulations.scheduling.evaluation import restarts_s
from ....instances.common.arrays import Floats, Ints
from ....instances.scheduling.instance import SchedulingInstance
from ..engine import EvictionError, PolicyError, Schedule, eviction_text
from ..view import widths

ARRIVED, CHANGE, RUNNING, RANKED, LINE, SEGMENTS = 0, 1, 2, 3, 4, 5
"""Indices into `State.counts`."""
WITH_SLACK = 1 + 1e-9
"""Factor of capacities: demands may exceed them by the rounding of sums."""


class Trace(NamedTuple):
    """Constant data of a simulation: J jobs in the order of their arrival, and the capacity of the cluster.

    Attributes
    ----------
    arrival_s, duration_s, restart_s
        Shape (J,).
    demand, least
        Demand of each job, shape (J, R), and the least of all jobs for each resource, shape (1, R).
    queue
        The queue in which each job waits, by its index into `State.left`, shape (J,).
    change_s, capacity
        Times at which the capacity changes, and the capacity from then on; shapes (K,), (K, R).
    lease_s
        The least time that a started job keeps its resources.
    interruptible
        Whether jobs may be interrupted at all.
    """

    arrival_s: Floats
    duration_s: Floats
    restart_s: Floats
    demand: Floats
    least: Floats
    queue: Ints
    change_s: Floats
    capacity: Floats
    lease_s: float
    interruptible: bool


class Rule(NamedTuple):
    """Priority rule: jobs are served in ascending order of multiplier × remaining time ** power.

    The key of a job is its multiplier × (its remaining time) ** power.

    Attributes
    ----------
    multiplier
        Multiplier of each job's key, shape (J,).
    power
        Exponent of the remaining time.
    keep
        Factor of the keys of running jobs; below 1 they are stopped less often.
    preempts
        Whether running jobs may be stopped for others.
    blocks
        Whether a job that does not fit blocks those after it.
    """

    multiplier: Floats
    power: float
    keep: float
    preempts: bool
    blocks: bool


class State(NamedTuple):
    """State of a simulation after an event: running and waiting jobs, and the free resources.

    Attributes
    ----------
    now_s, next_end_s
        The time, and the first end of a running job, infinite without any; shape (1,).
    counts
        Number of arrived jobs, position in `change_s`, and how much of `running`, `ranked`, `line` and of the
        list of segments is filled.
    left_s
        Remaining time of each job at its last start, or now if it does not run; shape (J,).
    since_s, lost_s
        The last start of each job, and the restart time with which its present or next run begins; (J,).
    end_s
        Ends of running and of completed jobs, infinite for the others, shape (J,).
    running
        The jobs that run, shape (J,).
    left, right
        Each queue is a skew heap: the two jobs below each job, −1 for none, shape (J,); then, in `left`, the
        first job of each queue.
    key
        The keys of waiting jobs, and of running ones when they were last ranked; shape (J,).
    line
        Queues with waiting jobs, in the order of their first jobs, shape (J,).
    ranked
        Work array, shape (J,): the running jobs that may be stopped, in ascending order of their keys.
    room, shortage
        Free amount of each resource (with slack), and the least that must be added or released before a
        waiting job might fit; shape (R,).
    """

    now_s: Floats
    next_end_s: Floats
    counts: Ints
    left_s: Floats
    since_s: Floats
    lost_s: Floats
    end_s: Floats
    running: Ints
    left: Ints
    right: Ints
    key: Floats
    line: Ints
    ranked: Ints
    room: Floats
    shortage: Floats


REACHED, PAUSED, EVICTED = 0, 1, 2
"""Why the loop returns: no event is left before the given time, events or rows of segments are used up, or a
job that must not be interrupted is evicted."""


@compiled_without_arrays
def _key_of(rule: Rule, j: int, left_s: float) -> float:
    key: float = rule.multiplier[j] * (left_s if rule.power == 1.0 else left_s**rule.power)
    return key


@compiled_without_arrays
def _merge(state: State, queue: int, place: int, a: int, b: int) -> None:
    """Make a queue of two skew heaps of jobs, by their first jobs a and b, and move it in the line.

    Parameters
    ----------
    place
        Its position in the line so far.
    a, b
        −1 for an empty heap.
    """
    left, right, key, line, at = state.left, state.right, state.key, state.line, queue
    while a >= 0 and b >= 0:
        if (key[b], b) < (key[a], a):
            a, b = b, a
        left[at] = a
        at = a
        a = right[at]
        right[at] = left[at]
    left[at] = max(a, b)
    j, last = left[queue], state.counts[LINE] - 1
    while place > 0 and (key[j], j) < (key[left[line[place - 1]]], left[line[place - 1]]):
        line[place] = line[place - 1]
        place -= 1
    while place < last and (j < 0 or (key[left[line[place + 1]]], left[line[place + 1]]) < (key[j], j)):
        line[place] = line[place + 1]
        place += 1
    line[place] = queue
    if j < 0:
        state.counts[LINE] = last


@compiled_without_arrays
def _enqueue(trace: Trace, rule: Rule, state: State, j: int) -> None:
    """Add a job to its queue, and a queue without jobs so far to the line."""
    state.key[j] = _key_of(rule, j, state.left_s[j])
    state.left[j] = state.right[j] = -1
    place = 0
    while place < state.counts[LINE] and state.line[place] != trace.queue[j]:
        place += 1
    state.counts[LINE] = max(state.counts[LINE], place + 1)
    _merge(state, trace.queue[j], place, state.left[trace.queue[j]], j)


@compiled_without_arrays
def _next_event_s(trace: Trace, rule: Rule, state: State) -> float:
    counts, now_s = state.counts, state.now_s[0]
    next_s: float = state.next_end_s[0]
    if counts[ARRIVED] < len(trace.arrival_s):
        next_s = min(next_s, trace.arrival_s[counts[ARRIVED]])
    if counts[CHANGE] + 1 < len(trace.change_s):
        next_s = min(next_s, trace.change_s[counts[CHANGE] + 1])
    if trace.lease_s > 0.0 and rule.preempts and counts[LINE] > 0:
        for k in range(counts[RUNNING]):
            lease_end_s = state.since_s[state.running[k]] + trace.lease_s
            if lease_end_s > now_s:
                next_s = min(next_s, lease_end_s)
    return next_s if next_s > now_s else now_s


@compiled_without_arrays
def _record(state: State, segments: Floats, j: int, end_s: float) -> None:
    # The rest of a job may be shorter than the precision of times.
    if len(segments) > 0 and end_s > state.since_s[j]:
        n = state.counts[SEGMENTS]
        segments[n, 0], segments[n, 1], segments[n, 2] = j, state.since_s[j], end_s
        state.counts[SEGMENTS] += 1


# A function of its own so that its callers stay small: the compiler writes small ones into the loop, while a
# call, which passes on every array of the state, would cost more than the work.
@compiled_without_arrays
def _add(demand: Floats, j: int, sign: float, amounts: Floats) -> None:
    for r in range(len(amounts)):
        amounts[r] += sign * demand[j, r]


@compiled_without_arrays
def _finish(trace: Trace, state: State, segments: Floats) -> None:
    """Remove the jobs that have ended by now from the running ones, and record their segments."""
    n, next_end_s = 0, np.inf
    for k in range(state.counts[RUNNING]):
        j = state.running[k]
        if state.end_s[j] > state.now_s[0]:
            next_end_s = min(next_end_s, state.end_s[j])
            state.running[n] = j
            n += 1
            continue
        _record(state, segments, j, state.end_s[j])
        _add(trace.demand, j, 1.0, state.room)
        _add(trace.demand, j, -1.0, state.shortage)
    state.counts[RUNNING] = n
    state.next_end_s[0] = next_end_s


@compiled_without_arrays
def _fits(demand: Floats, j: int, state: State) -> bool:
    """Return whether a demand fits in the room; if not, note the shortage of what it lacks most."""
    room, most = state.room, 0
    for r in range(1, len(room)):
        if demand[j, r] - room[r] > demand[j, most] - room[most]:
            most = r
    lack: float = demand[j, most] - room[most]
    if lack > 0.0:
        state.shortage[most] = min(state.shortage[most], lack)
    return lack <= 0.0


@compiled_without_arrays
def _start_beside(trace: Trace, rule: Rule, state: State, arrived: int) -> bool:
    """Start the arriving jobs if they fit and all running jobs go on with them; return whether it is so.

    Only the keys of running jobs change, and these decrease. So a job that did not fit beside those before it
    finds no more room than then, plus what has been added or released since.
    """
    counts, now_s = state.counts, state.now_s[0]
    if counts[LINE] > 0 and (trace.lease_s > 0.0 or rule.blocks):
        return False
    for r in range(len(state.room)):
        wanted = 0.0
        for j in range(counts[ARRIVED], arrived):
            wanted += trace.demand[j, r]
        if state.shortage[r] <= 0.0 or wanted > state.room[r]:
            return False
    for j in range(counts[ARRIVED], arrived):
        state.since_s[j], state.end_s[j] = now_s, now_s + state.left_s[j]
        state.next_end_s[0] = min(state.next_end_s[0], state.end_s[j])
        _add(trace.demand, j, -1.0, state.room)
        state.running[counts[RUNNING]] = j
        counts[RUNNING] += 1
    counts[ARRIVED] = arrived
    return True


@compiled_without_arrays
def _rank(rule: Rule, state: State, j: int) -> None:
    """Insert a running job into those that may be stopped, by its key now."""
    ranked, key, at = state.ranked, state.key, state.counts[RANKED]
    progress_s = max(state.now_s[0] - state.since_s[j] - state.lost_s[j], 0.0)
    key[j] = rule.keep * _key_of(rule, j, state.left_s[j] - progress_s)
    while at > 0 and (key[j], j) < (key[ranked[at - 1]], ranked[at - 1]):
        ranked[at] = ranked[at - 1]
        at -= 1
    ranked[at] = j
    state.counts[RANKED] += 1


@compiled_without_arrays
def _hold(trace: Trace, rule: Rule, state: State) -> bool:
    """Leave the jobs that must go on as the only running ones, and rank the others; False if that cannot be.

    Where the cluster has shrunk, the jobs that started last are evicted first.
    """
    running, since_s, n = state.running, state.since_s, 0
    state.counts[RANKED] = 0
    for k in range(state.counts[RUNNING]):
        j = running[k]
        if trace.interruptible and rule.preempts and since_s[j] + trace.lease_s <= state.now_s[0]:
            _rank(rule, state, j)
        else:
            running[n] = j
            n += 1
    while True:
        fits = True
        for r in range(len(state.room)):
            # Added up anew: a small demand is lost in a sum from which a large one is taken away.
            state.room[r], state.shortage[r] = trace.capacity[state.counts[CHANGE], r] * WITH_SLACK, np.inf
            for k in range(n):
                state.room[r] -= trace.demand[running[k], r]
            fits = fits and state.room[r] >= 0.0
        state.counts[RUNNING] = n
        if fits or n == 0:
            return True
        if not trace.interruptible:
            return False
        last = 0
        for k in range(1, n):
            if (since_s[running[k]], running[k]) > (since_s[running[last]], running[last]):
                last = k
        _rank(rule, state, running[last])
        n -= 1
        for k in range(last, n):
            running[k] = running[k + 1]


@compiled_without_arrays
def _choose(trace: Trace, rule: Rule, state: State, segments: Floats) -> None:
    """Let ranked and waiting jobs run in ascending order of keys while they fit; stop the other ranked."""
    counts, ranked, left, now_s = state.counts, state.ranked, state.left, state.now_s[0]
    place = at = 0
    while (place < counts[LINE] or at < counts[RANKED]) and _fits(trace.least, 0, state):
        j = ranked[at] if at < counts[RANKED] else -1
        first = left[state.line[place]] if place < counts[LINE] else -1
        waits = j < 0 or (first >= 0 and (state.key[first], first) < (state.key[j], j))
        if waits:
            j = first
        fits = _fits(trace.demand, j, state)
        if not fits and rule.blocks:
            break
        if fits:
            _add(trace.demand, j, -1.0, state.room)
            state.running[counts[RUNNING]] = j
            counts[RUNNING] += 1
        if not waits:
            ranked[at] = -1 if fits else j
            at += 1
        elif fits:
            state.since_s[j], state.end_s[j] = now_s, now_s + state.lost_s[j] + state.left_s[j]
            _merge(state, state.line[place], place, left[j], state.right[j])
        else:
            place += 1
    for k in range(counts[RANKED]):
        j = ranked[k]
        if j >= 0:
            _record(state, segments, j, now_s)
            state.left_s[j] -= max(now_s - state.since_s[j] - state.lost_s[j], 0.0)
            state.lost_s[j], state.end_s[j] = trace.restart_s[j], np.inf
            _enqueue(trace, rule, state, j)
    state.next_end_s[0] = np.inf
    for k in range(counts[RUNNING]):
        state.next_end_s[0] = min(state.next_end_s[0], state.end_s[state.running[k]])


@compiled_without_arrays
def advance(
    trace: Trace, rule: Rule, state: State, segments: Floats, until_s: float, most_events: int
) -> int:
    """Simulate the events before `until_s`; return the code of why the loop ends (`REACHED`, …).

    Parameters
    ----------
    segments
        Segments of the schedule (uninterrupted runs of a job) as rows of job, start and end, of which
        `counts[SEGMENTS]` are filled; without any row they are not recorded.
    until_s
        Events at this time or later are left.
    most_events
        Return after so many events, or where the rows of segments might not suffice for another one.
    """
    counts = state.counts
    for _ in range(most_events):
        if 0 < len(segments) < counts[SEGMENTS] + counts[RUNNING]:
            return PAUSED
        now_s = _next_event_s(trace, rule, state)
        if now_s >= until_s:
            return REACHED
        state.now_s[0] = now_s
        while counts[CHANGE] + 1 < len(trace.change_s) and trace.change_s[counts[CHANGE] + 1] <= now_s:
            before = counts[CHANGE]
            for r in range(len(state.room)):  # one number after the other compiles in a tenth of the time
                added = (trace.capacity[before + 1, r] - trace.capacity[before, r]) * WITH_SLACK
                state.room[r] += added
                state.shortage[r] -= added
            counts[CHANGE] += 1
        if state.next_end_s[0] <= now_s:
            _finish(trace, state, segments)
        arrived = counts[ARRIVED]
        while arrived < len(trace.arrival_s) and trace.arrival_s[arrived] <= now_s:
            arrived += 1
        if _start_beside(trace, rule, state, arrived):
            continue
        while counts[ARRIVED] < arrived:
            _enqueue(trace, rule, state, counts[ARRIVED])
            counts[ARRIVED] += 1
        if not _hold(trace, rule, state):
            return EVICTED
        _choose(trace, rule, state, segments)
    return PAUSED


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
        Weight of each job relative to the largest, shape (J,).
    """

    def __init__(self, instance: SchedulingInstance) -> None:
        table = instance.table()
        self.order: Ints = np.argsort(table.arrival_s, kind="stable")
        demand = np.ascontiguousarray(table.total_demand[self.order])
        changes, amounts = instance.capacity_over_time
        self.width: Floats = widths(demand, amounts[0])
        self.weight: Floats = table.relative_weight[self.order]
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
