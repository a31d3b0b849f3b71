"""What is reported of every schedule beside its objective, whoever made it.

How much of the cluster a plan uses, and how many jobs wait, over time.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from ...instances.common.arrays import Floats, Ints
from ...instances.scheduling.instance import SchedulingInstance
from ..common.tolerance import TOLERANCE
from .plan import SegmentTable

EPSILON = float(np.finfo(float).eps)


def running_totals(changes: Floats, least: float) -> Floats:
    """Return the running sums of changes, each of which is exact up to a part of TOLERANCE × `least`.

    Doubles are added where that is exact enough, else whole multiples of a unit: beside an amount of 10^12
    one of 1 would be lost.
    """
    totals = np.cumsum(changes)
    if len(totals) * EPSILON * np.abs(totals).max(initial=0.0) <= 0.1 * TOLERANCE * least:
        return np.asarray(totals)
    fractions = [Fraction(change) for change in changes.tolist()]
    unit = math.lcm(*(fraction.denominator for fraction in fractions))
    whole = (fraction.numerator * (unit // fraction.denominator) for fraction in fractions)
    return np.array([total / unit for total in itertools.accumulate(whole)])


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
    least = amounts.min(axis=0)
    moment = np.concatenate([ends, starts])
    order = np.argsort(moment, kind="stable")
    last = np.searchsorted(moment[order], np.arange(len(at)), side="right") - 1
    for r in range(demand.shape[1] if len(demand) else 0):
        change = np.concatenate([-demand[:, r], demand[:, r]])[order]
        totals = running_totals(change, float(least[r]))
        used[:, r] = np.where(last >= 0, totals[last], 0.0)
    running = np.cumsum(np.bincount(starts, minlength=len(at)) - np.bincount(ends, minlength=len(at)))
    arrived = np.bincount(np.searchsorted(at, jobs.arrival_s), minlength=len(at))
    finished = np.bincount(np.searchsorted(at, done[np.isfinite(done)]), minlength=len(at))
    present = np.cumsum(arrived - finished)
    capacity = amounts[np.searchsorted(times, at, side="right") - 1]
    return Usage(at, used, capacity, running, present - running)


@dataclass(frozen=True)
class Metrics:
    """Figures of one schedule; completion times are C_j − r_j.

    Attributes
    ----------
    mean_s, median_s, p95_s, p99_s
        Of the completion times, without weights; the quantile q of n times is the one at place ⌊q n⌋ of the
        sorted ones, counted from 0.
    makespan_s
        From the first arrival to the last end.
    mean_queueing_s
        How long a job is there and does not run.
    mean_slowdown
        (C_j − r_j) / p_j.
    utilisation
        Share of each resource that is used from the first arrival to the last end.
    fragmentation
        Share of each resource that is idle while jobs wait.
    preemptions
        Starts that are not the first of their job.
    tenant_fairness
        Jain's index (Σ x)² / (n Σ x²) of the tenants' mean slowdowns: 1 where all are alike; None where there
        are no tenants.
    """

    mean_s: float
    median_s: float
    p95_s: float
    p99_s: float
    makespan_s: float
    mean_queueing_s: float
    mean_slowdown: float
    utilisation: dict[str, float]
    fragmentation: dict[str, float]
    preemptions: int
    tenant_fairness: float | None


def quantile(sorted_values: Floats, share: float) -> float:
    """Return the value at place ⌊share × n⌋ of n sorted ones."""
    return float(sorted_values[min(int(share * len(sorted_values)), len(sorted_values) - 1)])


def metrics_of(instance: SchedulingInstance, segments: SegmentTable) -> Metrics:
    """Return the figures of a feasible schedule."""
    jobs = instance.table()
    times = segments.completion_s - jobs.arrival_s
    in_order = np.sort(times)
    slowdown = times / jobs.duration_s
    usage = usage_over_time(instance, segments)
    used, idle, there = (
        usage.length_s @ column[:-1]
        for column in (
            usage.used,
            np.where(usage.waiting[:, None] > 0, usage.capacity - usage.used, 0.0),
            usage.capacity,
        )
    )
    return Metrics(
        mean_s=float(times.mean()),
        median_s=quantile(in_order, 0.5),
        p95_s=quantile(in_order, 0.95),
        p99_s=quantile(in_order, 0.99),
        makespan_s=float(segments.completion_s.max() - jobs.arrival_s.min()),
        mean_queueing_s=float((times - segments.running_s).mean()),
        mean_slowdown=float(slowdown.mean()),
        utilisation=_shares(instance, used, there),
        fragmentation=_shares(instance, idle, there),
        preemptions=int(segments.begins.sum()) - len(jobs),
        tenant_fairness=_jain(slowdown[jobs.tenant >= 0], jobs.tenant[jobs.tenant >= 0]),
    )


def _shares(instance: SchedulingInstance, parts: Floats, wholes: Floats) -> dict[str, float]:
    return {
        name: float(part / whole) if whole > 0 else 0.0
        for name, part, whole in zip(instance.pool, parts, wholes, strict=True)
    }


def _jain(values: Floats, group: Ints) -> float | None:
    if not len(values):
        return None
    _, member = np.unique(group, return_inverse=True)
    means = np.bincount(member, values) / np.bincount(member)
    return float(means.sum() ** 2 / (len(means) * (means**2).sum()))
