"""A smaller trace with the same schedules: jobs that nobody delays become a lack of capacity."""

from __future__ import annotations

import numpy as np

from ....instances.common.arrays import Flags, Floats
from ..event_state import Trace
from ..serve import classes_of


def may_be_reserved(trace: Trace) -> bool:
    """Return whether running jobs may lose their place at any time, which a reservation makes them do."""
    return trace.interruptible and trace.lease_s == 0.0


def with_reserved(trace: Trace, reserved: Flags) -> Trace:
    """Return the trace of the other jobs, where reserved ones run from their arrival on, whatever happens.

    A rule for the others gives the schedule that it gives on the whole trace if reserved jobs have the least
    keys there, as long as these fit all together.

    Parameters
    ----------
    reserved
        Shape (J,).
    """
    begin_s = trace.arrival_s[reserved]
    end_s = begin_s + trace.duration_s[reserved]
    # What ends or begins before time 0 does not happen: times are not negative.
    change_s = np.unique(np.concatenate([trace.change_s, begin_s, end_s]))
    capacity = trace.capacity[np.searchsorted(trace.change_s, change_s, side="right") - 1].copy()
    starts, ends = np.searchsorted(change_s, begin_s), np.searchsorted(change_s, end_s)
    for r, demand in enumerate(trace.demand[reserved].T):
        used = np.bincount(starts, demand, len(change_s)) - np.bincount(ends, demand, len(change_s))
        capacity[:, r] -= np.cumsum(used)
    others = ~reserved
    demand = np.ascontiguousarray(trace.demand[others])
    of_class, first = classes_of(demand)
    return trace._replace(
        arrival_s=trace.arrival_s[others],
        duration_s=trace.duration_s[others],
        restart_s=trace.restart_s[others],
        demand=demand,
        least=demand.min(axis=0),
        of_class=of_class,
        first=first,
        change_s=change_s,
        capacity=_rounded(capacity, trace.capacity.max(axis=0)),
    )


def _rounded(capacity: Floats, most: Floats) -> Floats:
    """Return amounts without what sums are wrong by."""
    return np.where(np.abs(capacity) <= 1e-9 * most, 0.0, capacity)


def calm_jobs(trace: Trace, ends_s: Floats, service: Floats) -> Flags:
    """Return the jobs that nothing delays and that are too small to stand in the way of those delayed.

    Parameters
    ----------
    ends_s
        Of each job in a schedule, shape (J,).
    service
        What counts as size, shape (J,).
    """
    late = ends_s > trace.arrival_s + trace.duration_s
    if not late.any():
        return np.zeros(len(late), dtype=bool)
    small = float(np.quantile(service[late], SMALL))
    return np.asarray(~late & (service < small))


SMALL = 0.25
"""A calm job is smaller than all but this share of the jobs that are delayed."""
