"""Compiled event loop of list scheduling by priority keys: its state, and the steps from event to event.

At every event the jobs with the least keys run, as far as they fit; one that does not fit blocks no other,
unless the rule says so. Jobs with the same demand form a class: where the first of a class does not fit, none
of it does, so that an event costs time by the number of running jobs and of classes, not by the length of the
queue. The fast policies and the local search run on it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ....formulations.common.compiled import compiled_without_arrays
from ....instances.common.arrays import Flags, Floats, Ints

RUNNING, ARRIVED, CHANGE, WAITING, SEGMENTS, LINE = 0, 1, 2, 3, 4, 5
"""Indices into `State.counts`."""
COUNTS = 6


class Trace(NamedTuple):
    """Constant data of a simulation: J jobs in the order of their arrival, and the capacity of the cluster.

    Attributes
    ----------
    arrival_s, duration_s, restart_s
        Shape (J,).
    demand
        Demand of each job, shape (J, R).
    least
        Least demand of any job for each resource, shape (R,).
    of_class, first
        The class of each job, shape (J,); jobs of class c have the places first[c]:first[c + 1] of a list of
        all jobs, shape (classes + 1,).
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
    of_class: Ints
    first: Ints
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
    """State of a simulation after an event: running and waiting jobs, and the resources in use.

    Attributes
    ----------
    now_s, next_end_s
        The time, and the first end of a running job, infinite without any; shape (1,).
    counts
        Numbers of running jobs and of arrived jobs, position in `change_s`, numbers of waiting jobs, of
        segments, and of classes in `line`; shape (COUNTS,).
    left_s
        Remaining time of each job at its last start, or now if it does not run; shape (J,).
    since_s, lost_s, lease_end_s, end_s
        Of a running job: its last start, the restart time after it, the end of its lease, and its end, which
        is infinite for all others; shape (J,).
    started
        Whether a job has run, shape (J,).
    done_s
        Ends of completed jobs, NaN for the others, shape (J,).
    running
        The jobs that run, shape (J,).
    waiting, queued, key
        A heap of waiting jobs for each class, its length, and the keys of waiting jobs; shapes (J,),
        (classes,), (J,).
    line
        Classes with waiting jobs, in the order of their first jobs, shape (classes,).
    used
        Usage of the running jobs, shape (R,).
    grown, shortage
        Resources added or released since jobs were last chosen, and the least that a waiting job lacked then;
        shape (R,).
    """

    now_s: Floats
    next_end_s: Floats
    counts: Ints
    left_s: Floats
    since_s: Floats
    lost_s: Floats
    lease_end_s: Floats
    end_s: Floats
    started: Flags
    done_s: Floats
    running: Ints
    waiting: Ints
    queued: Ints
    key: Floats
    line: Ints
    used: Floats
    grown: Floats
    shortage: Floats


class Segments(NamedTuple):
    """Segments of a schedule (uninterrupted runs of a job) as columns; `counts[SEGMENTS]` rows are filled.

    Attributes
    ----------
    job, start_s, end_s
        All of one length; of length 0 where segments are not recorded.
    """

    job: Ints
    start_s: Floats
    end_s: Floats


class WorkArrays(NamedTuple):
    """Preallocated work arrays for the processing of one event; their content does not outlast it.

    Attributes
    ----------
    held, goes_on, order, keys
        Of each running job, in the order of `State.running`: whether it must continue, and whether it does;
        the order of running jobs by their keys, and these keys; shape (J,).
    chosen
        The jobs that run from now on, shape (J,).
    free, slack
        Free amount of each resource, and its tolerance, shape (R,).
    """

    protected: Flags
    goes_on: Flags
    order: Ints
    keys: Floats
    chosen: Ints
    free: Floats
    slack: Floats


DONE, REACHED, PAUSED, STUCK, EVICTED = 0, 1, 2, 3, 4
"""Why the loop returns: all jobs have ended, the time is reached, events or segment rows are used up, no
waiting job can ever run, or a job that must not be interrupted is evicted."""


@compiled_without_arrays
def _before(key: Floats, a: int, b: int) -> bool:
    return key[a] < key[b] or (key[a] == key[b] and a < b)


@compiled_without_arrays
def push(waiting: Ints, first: int, count: int, key: Floats, j: int) -> None:
    """Push a waiting job onto the binary heap (by key) of `count` jobs that begins at index `first`."""
    at = count
    while at > 0:
        up = (at - 1) // 2
        if not _before(key, j, waiting[first + up]):
            break
        waiting[first + at] = waiting[first + up]
        at = up
    waiting[first + at] = j


@compiled_without_arrays
def pop(waiting: Ints, first: int, count: int, key: Floats) -> None:
    """Remove the job of the smallest key from the heap of `count` jobs that begins at index `first`."""
    j = waiting[first + count - 1]
    at = 0
    while True:
        down = 2 * at + 1
        if down >= count - 1:
            break
        if down + 1 < count - 1 and _before(key, waiting[first + down + 1], waiting[first + down]):
            down += 1
        if not _before(key, waiting[first + down], j):
            break
        waiting[first + at] = waiting[first + down]
        at = down
    waiting[first + at] = j


@compiled_without_arrays
def _key_of(multiplier: float, left_s: float, power: float) -> float:
    if power == 1.0:
        return left_s * multiplier
    key: float = multiplier
    if power != 0.0:
        key *= left_s**power
    return key


@compiled_without_arrays
def _left_of(left_s: float, since_s: float, lost_s: float, now_s: float) -> float:
    """Return the remaining time of a running job in seconds, without the rest of its restart time."""
    progress_s: float = max(now_s - since_s - lost_s, 0.0)
    return left_s - progress_s


@compiled_without_arrays
def enqueue(trace: Trace, rule: Rule, state: State, j: int) -> None:
    """Add a job to the heap of waiting jobs of its demand class (jobs of equal demand)."""
    state.key[j] = _key_of(rule.multiplier[j], state.left_s[j], rule.power)
    c = trace.of_class[j]
    push(state.waiting, trace.first[c], state.queued[c], state.key, j)
    if state.queued[c] == 0:
        state.line[state.counts[LINE]] = c
        state.counts[LINE] += 1
    state.queued[c] += 1
    state.counts[WAITING] += 1


@compiled_without_arrays
def _next_event_s(trace: Trace, rule: Rule, state: State) -> float:
    next_s: float = state.next_end_s[0]
    if state.counts[ARRIVED] < len(trace.arrival_s):
        next_s = min(next_s, trace.arrival_s[state.counts[ARRIVED]])
    if state.counts[CHANGE] + 1 < len(trace.change_s):
        next_s = min(next_s, trace.change_s[state.counts[CHANGE] + 1])
    if trace.lease_s > 0.0 and rule.preempts and state.counts[WAITING] > 0:
        for k in range(state.counts[RUNNING]):
            lease_end_s = state.lease_end_s[state.running[k]]
            if lease_end_s > state.now_s[0]:
                next_s = min(next_s, lease_end_s)
    now_s: float = state.now_s[0]
    return max(next_s, now_s)


@compiled_without_arrays
def _note(state: State, segments: Segments, j: int, end_s: float) -> None:
    # The rest of a job may be shorter than the precision of times.
    if len(segments.job) > 0 and end_s > state.since_s[j]:
        n = state.counts[SEGMENTS]
        segments.job[n], segments.start_s[n], segments.end_s[n] = j, state.since_s[j], end_s
        state.counts[SEGMENTS] += 1


@compiled_without_arrays
def _subtract_demand(demand: Floats, j: int, sign: float, free: Floats) -> None:
    for r in range(len(free)):
        free[r] -= sign * demand[j, r]


@compiled_without_arrays
def _finish(trace: Trace, state: State, segments: Segments) -> None:
    """Remove the jobs that have ended by now from the running ones, and record their ends and segments."""
    n, next_end_s = 0, np.inf
    for k in range(state.counts[RUNNING]):
        j = state.running[k]
        if state.end_s[j] <= state.now_s[0]:
            _note(state, segments, j, state.end_s[j])
            state.done_s[j] = state.end_s[j]
            state.end_s[j] = np.inf
            state.left_s[j] = 0.0
            _subtract_demand(trace.demand, j, 1.0, state.used)
            _subtract_demand(trace.demand, j, -1.0, state.grown)
        else:
            next_end_s = min(next_end_s, state.end_s[j])
            state.running[n] = j
            n += 1
    state.counts[RUNNING] = n
    state.next_end_s[0] = next_end_s


@compiled_without_arrays
def _fits(demand: Floats, free: Floats, slack: Floats, j: int) -> bool:
    for r in range(len(free)):  # noqa: SIM110  the compiler knows no all()
        if demand[j, r] > free[r] + slack[r]:
            return False
    return True


@compiled_without_arrays
def _hold(trace: Trace, rule: Rule, state: State, protected: Flags, free: Floats, slack: Floats) -> bool:
    """Mark the running jobs that must continue, and subtract their demand; False if eviction is forbidden.

    Where the cluster has shrunk, the jobs that started last are evicted first.
    """
    running, count = state.running, state.counts[RUNNING]
    for k in range(count):
        j = running[k]
        protected[k] = not trace.interruptible or not rule.preempts or state.lease_end_s[j] > state.now_s[0]
        if protected[k]:
            _subtract_demand(trace.demand, j, 1.0, free)
    while _is_over(free, slack):
        if not trace.interruptible:
            return False
        last = -1
        for k in range(count):
            if protected[k] and (last < 0 or _came_later(state, running[k], running[last])):
                last = k
        if last < 0:
            break
        protected[last] = False
        # Added up anew: a small demand is lost in a sum from which a large one is taken away.
        for r in range(len(free)):
            free[r] = trace.capacity[state.counts[CHANGE]][r]
        for k in range(count):
            if protected[k]:
                _subtract_demand(trace.demand, running[k], 1.0, free)
    return True


@compiled_without_arrays
def _is_over(free: Floats, slack: Floats) -> bool:
    for r in range(len(free)):  # noqa: SIM110  the compiler knows no any()
        if free[r] < -slack[r]:
            return True
    return False


@compiled_without_arrays
def _came_later(state: State, j: int, other: int) -> bool:
    """Return whether the present run of a job started later than that of another; ties by job number."""
    if state.since_s[j] != state.since_s[other]:
        return bool(state.since_s[j] > state.since_s[other])
    return j > other


@compiled_without_arrays
def _sort_line(trace: Trace, state: State) -> None:
    """Sort the demand classes with waiting jobs by the keys of their first jobs; drop classes without any."""
    line, n = state.line, 0
    for k in range(state.counts[LINE]):
        c = line[k]
        if state.queued[c] == 0:
            continue
        j, at = state.waiting[trace.first[c]], n
        while at > 0 and _before(state.key, j, state.waiting[trace.first[line[at - 1]]]):
            line[at] = line[at - 1]
            at -= 1
        line[at] = c
        n += 1
    state.counts[LINE] = n


@compiled_without_arrays
def _sort_running(rule: Rule, state: State, order: Ints, keys: Floats) -> None:
    """Compute the keys of the running jobs, and their ascending order by key, then job number."""
    for k in range(state.counts[RUNNING]):
        j = state.running[k]
        left_s = _left_of(state.left_s[j], state.since_s[j], state.lost_s[j], state.now_s[0])
        key = keys[k] = rule.keep * _key_of(rule.multiplier[j], left_s, rule.power)
        at = k
        while at > 0:
            other = order[at - 1]
            if keys[other] < key or (keys[other] == key and state.running[other] < j):
                break
            order[at] = other
            at -= 1
        order[at] = k


@compiled_without_arrays
def _dequeue(trace: Trace, state: State, place: int) -> None:
    """Remove the first waiting job of the demand class at a position of the sorted list of classes.

    The list is kept sorted from this position on.
    """
    line = state.line
    c = line[place]
    j = state.waiting[trace.first[c]]
    pop(state.waiting, trace.first[c], state.queued[c], state.key)
    state.queued[c] -= 1
    state.counts[WAITING] -= 1
    if state.queued[c] == 0:
        for k in range(place, state.counts[LINE] - 1):
            line[k] = line[k + 1]
        state.counts[LINE] -= 1
        return
    j = state.waiting[trace.first[c]]
    at = place
    while at + 1 < state.counts[LINE] and _before(state.key, state.waiting[trace.first[line[at + 1]]], j):
        line[at] = line[at + 1]
        at += 1
    line[at] = c


@compiled_without_arrays
def _none_fits(free: Floats, slack: Floats, least: Floats, shortage: Floats) -> bool:
    """Return whether even the smallest demand of any job exceeds the free resources; record the shortage."""
    for r in range(len(free)):
        if least[r] > free[r] + slack[r]:
            shortage[r] = min(shortage[r], least[r] - free[r])
            return True
    return False


@compiled_without_arrays
def _note_shortage(demand: Floats, free: Floats, j: int, shortage: Floats) -> None:
    """Lower the recorded least shortage of the resource of which a job that does not fit lacks most."""
    most = 0
    for r in range(1, len(free)):
        if demand[j, r] - free[r] > demand[j, most] - free[most]:
            most = r
    shortage[most] = min(shortage[most], demand[j, most] - free[most])


@compiled_without_arrays
def _choose(trace: Trace, rule: Rule, state: State, work: WorkArrays) -> int:
    """Choose the jobs that run now, in ascending order of keys while they fit; return their number.

    They are written to `work.chosen`, and `work.goes_on` marks those that continue. The number is −1 where a
    job that must not be interrupted would be evicted.

    Jobs that start are removed from their heaps.
    """
    capacity = trace.capacity[state.counts[CHANGE]]
    free, slack, protected, goes_on, chosen = work.free, work.slack, work.protected, work.goes_on, work.chosen
    for r in range(len(free)):
        free[r], slack[r] = capacity[r], 1e-9 * capacity[r]
        state.grown[r], state.shortage[r] = 0.0, np.inf
    count = state.counts[RUNNING]
    if not _hold(trace, rule, state, protected, free, slack):
        return -1
    n = 0
    all_held = True
    for k in range(count):
        goes_on[k] = protected[k]
        if protected[k]:
            chosen[n] = state.running[k]
            n += 1
        else:
            all_held = False
    ranked = 0
    if not all_held:
        _sort_running(rule, state, work.order, work.keys)
        ranked = count
    _sort_line(trace, state)
    a = b = 0
    while (a < state.counts[LINE] or b < ranked) and not _none_fits(free, slack, trace.least, state.shortage):
        if b < ranked and protected[work.order[b]]:
            b += 1
            continue
        takes_running = b < ranked
        if takes_running and a < state.counts[LINE]:
            k, j = work.order[b], state.waiting[trace.first[state.line[a]]]
            key, i = work.keys[k], state.running[k]
            takes_running = key < state.key[j] or (key == state.key[j] and i <= j)
        j = state.running[work.order[b]] if takes_running else state.waiting[trace.first[state.line[a]]]
        if _fits(trace.demand, free, slack, j):
            _subtract_demand(trace.demand, j, 1.0, free)
            chosen[n] = j
            n += 1
            if takes_running:
                goes_on[work.order[b]] = True
            else:
                _dequeue(trace, state, a)
        else:
            _note_shortage(trace.demand, free, j, state.shortage)
            if rule.blocks:
                break
            if not takes_running:
                a += 1
        if takes_running:
            b += 1
    return n


@compiled_without_arrays
def _start(trace: Trace, state: State, j: int) -> None:
    now_s = state.now_s[0]
    state.lost_s[j] = trace.restart_s[j] if state.started[j] else 0.0
    state.started[j] = True
    state.since_s[j] = now_s
    state.lease_end_s[j] = now_s + trace.lease_s
    state.end_s[j] = now_s + state.lost_s[j] + state.left_s[j]


@compiled_without_arrays
def _nothing_stops(trace: Trace, rule: Rule, state: State, arrived: int, free: Floats) -> bool:
    """Return whether `_choose` would only continue all running jobs and start all arriving ones.

    Only the keys of running jobs change, and these decrease. So a job that did not fit beside those before it
    finds no more room than then, plus what has been added or released since.
    """
    if state.counts[WAITING] > 0 and (trace.lease_s > 0.0 or rule.blocks):
        return False
    capacity = trace.capacity[state.counts[CHANGE]]
    for r in range(len(free)):
        if state.grown[r] + 1e-9 * capacity[r] >= state.shortage[r]:
            return False
        free[r] = capacity[r] * (1 + 1e-9) - state.used[r]
    for j in range(state.counts[ARRIVED], arrived):
        _subtract_demand(trace.demand, j, 1.0, free)
    for r in range(len(free)):  # noqa: SIM110  the compiler knows no all()
        if free[r] < 0.0:
            return False
    return True


@compiled_without_arrays
def _start_arrivals(trace: Trace, state: State, arrived: int) -> None:
    for j in range(state.counts[ARRIVED], arrived):
        _start(trace, state, j)
        _subtract_demand(trace.demand, j, -1.0, state.used)
        state.running[state.counts[RUNNING]] = j
        state.counts[RUNNING] += 1
        state.next_end_s[0] = min(state.next_end_s[0], state.end_s[j])
    state.counts[ARRIVED] = arrived


@compiled_without_arrays
def _switch(trace: Trace, rule: Rule, state: State, segments: Segments, work: WorkArrays, n: int) -> None:
    """Stop the running jobs that do not continue, and start the chosen jobs that do not run yet."""
    now_s = state.now_s[0]
    for k in range(state.counts[RUNNING]):
        if work.goes_on[k]:
            continue
        j = state.running[k]
        state.left_s[j] = _left_of(state.left_s[j], state.since_s[j], state.lost_s[j], now_s)
        state.end_s[j] = np.inf
        if now_s > state.since_s[j]:
            _note(state, segments, j, now_s)
        enqueue(trace, rule, state, j)
    for r in range(len(state.used)):
        state.used[r] = 0.0
    next_end_s = np.inf
    for k in range(n):
        j = work.chosen[k]
        state.running[k] = j
        if state.end_s[j] == np.inf:
            _start(trace, state, j)
        next_end_s = min(next_end_s, state.end_s[j])
        _subtract_demand(trace.demand, j, -1.0, state.used)
    state.counts[RUNNING] = n
    state.next_end_s[0] = next_end_s


@compiled_without_arrays
def advance(
    trace: Trace,
    rule: Rule,
    state: State,
    segments: Segments,
    work: WorkArrays,
    until_s: float,
    most_events: int,
) -> int:
    """Simulate the events before `until_s`; return the code of why the loop ends (`DONE`, `REACHED`, …).

    Parameters
    ----------
    until_s
        Events at this time or later are left.
    most_events
        Return after so many events, or where the segment rows might not suffice for another one.
    """
    counts, jobs = state.counts, len(trace.arrival_s)
    for _ in range(most_events):
        if counts[ARRIVED] >= jobs and counts[RUNNING] == 0 and counts[WAITING] == 0:
            return DONE
        if 0 < len(segments.job) < counts[SEGMENTS] + counts[RUNNING]:
            return PAUSED
        now_s = _next_event_s(trace, rule, state)
        if now_s == np.inf:
            return STUCK
        if now_s >= until_s:
            return REACHED
        state.now_s[0] = now_s
        while counts[CHANGE] + 1 < len(trace.change_s) and trace.change_s[counts[CHANGE] + 1] <= now_s:
            before = counts[CHANGE]
            for r in range(len(state.grown)):  # one number after the other compiles in a tenth of the time
                state.grown[r] += trace.capacity[before + 1, r] - trace.capacity[before, r]
            counts[CHANGE] += 1
        if state.next_end_s[0] <= now_s:
            _finish(trace, state, segments)
        arrived = counts[ARRIVED]
        while arrived < jobs and trace.arrival_s[arrived] <= now_s:
            arrived += 1
        if _nothing_stops(trace, rule, state, arrived, work.free):
            _start_arrivals(trace, state, arrived)
            continue
        while counts[ARRIVED] < arrived:
            enqueue(trace, rule, state, counts[ARRIVED])
            counts[ARRIVED] += 1
        n = _choose(trace, rule, state, work)
        if n < 0:
            return EVICTED
        _switch(trace, rule, state, segments, work, n)
    return PAUSED
