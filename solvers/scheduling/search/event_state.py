"""What the event loop works on: the trace, the rule by which jobs are served, and a moment in time."""

from __future__ import annotations

from typing import NamedTuple

from ....instances.common.arrays import Flags, Floats, Ints

RUNNING, ARRIVED, CHANGE, WAITING, SEGMENTS, LINE = 0, 1, 2, 3, 4, 5
"""Places in `State.counts`."""
COUNTS = 6


class Trace(NamedTuple):
    """What does not change: J jobs in the order of their arrival, and the cluster.

    Attributes
    ----------
    arrival_s, duration_s, restart_s
        Shape (J,).
    demand
        Shape (J, R).
    least
        The least that any job takes of each resource, shape (R,).
    of_class, first
        The class of each job, shape (J,); jobs of class c have the places first[c]:first[c + 1] of a list of
        all jobs, shape (classes + 1,).
    change_s, capacity
        From when on there is how much; shapes (K,), (K, R).
    lease_s
        The least time that a job keeps what it got.
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
    """How jobs are served: those with the least keys first.

    The key of a job is its multiplier × (its remaining time) ** power.

    Attributes
    ----------
    multiplier
        Of the key of each job, shape (J,).
    power
        Of its remaining time.
    keep
        What the keys of running jobs are multiplied by; below 1 they are stopped less often.
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
    """A moment of the simulation.

    Attributes
    ----------
    now_s, next_end_s
        The time, and the first end of a running job, infinite without any; shape (1,).
    counts
        Running jobs, jobs that have arrived, place in `change_s`, waiting jobs, segments, and classes in
        `line`; shape (COUNTS,).
    left_s
        What each job had left at its last start, or has left if it does not run; shape (J,).
    since_s, lost_s, lease_end_s, end_s
        Of a running job: its last start, how long it makes no progress from then on, until when it is held,
        and its end, which is infinite for all others; shape (J,).
    started
        Whether a job has run, shape (J,).
    done_s
        When jobs ended, NaN for those that have not, shape (J,).
    running
        The jobs that run, shape (J,).
    waiting, queued, key
        A heap of waiting jobs for each class, its length, and the keys of waiting jobs; shapes (J,),
        (classes,), (J,).
    line
        Classes of which jobs wait, in the order of their first jobs, shape (classes,).
    used
        What running jobs take, shape (R,).
    grown, shortage
        What has been added or has ended since jobs were chosen last, and what jobs that wait lacked then at
        least; shape (R,).
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
    """Room for segments in columns; the first `counts[SEGMENTS]` rows are filled.

    Attributes
    ----------
    job, start_s, end_s
        All of one length; of length 0 where nobody wants to know.
    """

    job: Ints
    start_s: Floats
    end_s: Floats


class Work(NamedTuple):
    """Room that one event needs: nothing in it outlasts the event.

    Attributes
    ----------
    held, goes_on, order, keys
        Of each running job, in the order of `State.running`: whether it goes on in any case, and in fact; the
        places of running jobs by their keys, and these keys; shape (J,).
    chosen
        The jobs that run from now on, shape (J,).
    free, slack
        What is left of each resource, and what it may be exceeded by, shape (R,).
    """

    held: Flags
    goes_on: Flags
    order: Ints
    keys: Floats
    chosen: Ints
    free: Floats
    slack: Floats
