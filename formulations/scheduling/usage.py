"""How much of the cluster a plan uses, and how many jobs wait, over time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...instances.common.arrays import Floats, Ints
from ...instances.scheduling.instance import SchedulingInstance
from .plan import SegmentTable


@dataclass(frozen=True)
class Usage:
    """Step functions of time, each constant from one of K times to the next.

    Attributes
    ----------
    at_s
        Sorted, all different, shape (K,).
    used, capacity
        Of each resource, shape (K, R).
    running, waiting
        Jobs that run, and jobs that have arrived and do neither run nor are done, shape (K,).
    """

    at_s: Floats
    used: Floats
    capacity: Floats
    running: Ints
    waiting: Ints

    @property
    def length_s(self) -> Floats:
        """How long each value holds, shape (K − 1,); nothing happens after the last time."""
        return np.diff(self.at_s)


def usage_over_time(instance: SchedulingInstance, segments: SegmentTable) -> Usage:
    """Return how the cluster is used by segments of all jobs."""
    jobs = instance.table()
    demand = instance.menus().usage[segments.row]
    times, amounts = instance.capacity_over_time
    done = segments.completion_s
    at = np.unique(np.concatenate([segments.start_s, segments.end_s, jobs.arrival_s]))
    at = np.union1d(at, times[(times > at[0]) & (times < at[-1])])
    starts, ends = (np.searchsorted(at, moment) for moment in (segments.start_s, segments.end_s))
    used = np.zeros((len(at), demand.shape[1]))
    for r in range(demand.shape[1]):
        change = np.bincount(starts, demand[:, r], len(at)) - np.bincount(ends, demand[:, r], len(at))
        used[:, r] = np.cumsum(change)
    running = np.cumsum(np.bincount(starts, minlength=len(at)) - np.bincount(ends, minlength=len(at)))
    arrived = np.bincount(np.searchsorted(at, jobs.arrival_s), minlength=len(at))
    finished = np.bincount(np.searchsorted(at, done[np.isfinite(done)]), minlength=len(at))
    present = np.cumsum(arrived - finished)
    capacity = amounts[np.searchsorted(times, at, side="right") - 1]
    return Usage(at, used, capacity, running, present - running)
