"""What is reported of every schedule beside its objective, whoever made it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...instances.common.arrays import Floats, Ints
from ...instances.scheduling.instance import SchedulingInstance
from .plan import SegmentTable
from .usage import usage_over_time


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
