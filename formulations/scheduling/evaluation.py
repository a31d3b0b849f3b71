"""Evaluation of a schedule from its segments alone: violated constraints, and reported metrics.

Constraints are checked with array operations; where plans name servers, also for the tasks on each server.
A job that the cluster interrupts loses the work since its last checkpoint. Metrics are reported beside the
objective, such as the use of the cluster and the number of waiting jobs over time.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...instances.common.arrays import Flags, Floats, Ints
from ...instances.scheduling.instance import Moments, SchedulingInstance
from ..common.objective import TOLERANCE, Violation, all_loosened, whole_numbers
from .plan import SegmentTable, differs

EPSILON = float(np.finfo(np.longdouble).eps)
EXACT = 1024.0
"""Parts of a unit whose multiples are added without rounding, up to 2³⁰."""
TIME_ROUNDING = 4e-15
"""Relative rounding error of times as doubles."""


def cumulative_sums(changes: Floats, least: float) -> Floats:
    """Return the cumulative sums of an array, with rounding errors well below TOLERANCE × `least`.

    The longest floats of the machine are added where that is exact enough, otherwise integer multiples of a
    unit: a change of 1 would be lost beside an amount of 10^12.
    """
    totals = np.cumsum(changes, dtype=np.longdouble)
    largest, parts = np.abs(totals).max(initial=0.0), changes * EXACT
    if len(totals) * EPSILON * largest <= 0.1 * TOLERANCE * least or (
        largest < EXACT**3 and np.array_equal(parts, np.rint(parts))
    ):
        return totals.astype(float)
    wholes, unit = whole_numbers(changes.tolist())
    return np.array([total / unit for total in itertools.accumulate(wholes)])


def amounts_in_use(at: Moments, start: Moments, end: Moments, amount: Floats, least: Floats) -> Floats:
    """Return what is in use from each of the ascending moments `at` on, of each of R resources, (K, R).

    Parameters
    ----------
    start, end, amount
        From when to when an amount is in use; shapes (S,), (S,) and (S, R).
    least
        The least limit that uses of each resource are compared with, for the rounding, shape (R,).
    """
    moment = np.concatenate([end, start])
    order = np.argsort(moment, kind="stable")
    last = np.searchsorted(moment[order], at, side="right") - 1
    changes = np.concatenate([-amount, amount])[order]
    # Before the first change, whose index is −1, nothing is in use.
    return np.column_stack(
        [
            np.append(cumulative_sums(column, limit), 0.0)[last]
            for column, limit in zip(changes.T, least.tolist(), strict=True)
        ]
    )


@dataclass(frozen=True)
class Usage:
    """Resource use of the cluster over time, as step functions that are constant between K times.

    Attributes
    ----------
    at_s
        Strictly rising times, shape (K,).
    used, capacity
        Use and capacity of each resource, shape (K, R).
    running, waiting
        Number of running jobs, and of arrived jobs that neither run nor are done, shape (K,).
    """

    at_s: Floats
    used: Floats
    capacity: Floats
    running: Ints
    waiting: Ints


def usage_over_time(instance: SchedulingInstance, segments: SegmentTable) -> Usage:
    """Return resource use, capacity, and running and waiting jobs over time, as step functions."""
    arrival_s, start, end = instance.table().arrival_s, segments.start_s, segments.end_s
    times, amounts = instance.capacity_over_time
    own = np.concatenate([start, end, arrival_s])
    at = np.unique(np.concatenate([own, times[(times > own.min()) & (times < own.max())]]))
    used = amounts_in_use(at, start, end, instance.menus().usage[segments.row], amounts.min(axis=0))
    done = np.abs(segments.completion_s)  # a job that never runs is there for ever
    arrived, started, ended, finished = [
        np.cumsum(np.bincount(np.searchsorted(at, moment), minlength=len(at))[: len(at)])
        for moment in (arrival_s, start, end, done)
    ]
    capacity = amounts[np.searchsorted(times, at, side="right") - 1]
    running = started - ended
    return Usage(at, used, capacity, running, arrived - finished - running)


@dataclass(frozen=True)
class Metrics:
    """Metrics of one schedule; completion times are C_j − r_j.

    Attributes
    ----------
    mean_s, median_s, p95_s, p99_s
        Mean and quantiles of the completion times, without weights; the quantile q of n times has index
        ⌊q n⌋ among the sorted ones, counted from 0.
    makespan_s
        Time from the first arrival to the last end.
    mean_queueing_s
        Mean time from arrival to end in which a job does not run.
    mean_slowdown
        Mean of (C_j − r_j) / p_j.
    utilisation
        Share of each resource that is used from the first arrival to the last end.
    fragmentation
        Share of each resource that is idle while jobs wait.
    preemptions
        Number of starts that are not the first of their job.
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
    """Return the quantile of sorted values: the one with index ⌊share × n⌋ of n."""
    return float(sorted_values[min(int(share * len(sorted_values)), len(sorted_values) - 1)])


def metrics_of(instance: SchedulingInstance, segments: SegmentTable) -> Metrics:
    """Return the metrics of a feasible schedule, such as mean completion time and utilisation."""
    jobs = instance.table()
    times = segments.completion_s - jobs.arrival_s
    in_order = np.sort(times)
    slowdown = times / jobs.duration_s
    usage = usage_over_time(instance, segments)
    idle = np.where(usage.waiting[:, None] > 0, usage.capacity - usage.used, 0.0)
    parts = np.array([usage.used, idle, usage.capacity])
    used, idle, available = np.diff(usage.at_s) @ parts[:, :-1]
    return Metrics(
        mean_s=float(times.mean()),
        median_s=quantile(in_order, 0.5),
        p95_s=quantile(in_order, 0.95),
        p99_s=quantile(in_order, 0.99),
        makespan_s=float(segments.completion_s.max() - jobs.arrival_s.min()),
        mean_queueing_s=float((times - segments.running_s).mean()),
        mean_slowdown=float(slowdown.mean()),
        utilisation=_resource_shares(instance, used, available),
        fragmentation=_resource_shares(instance, idle, available),
        preemptions=int(segments.begins.sum()) - len(jobs),
        tenant_fairness=_jain_index(slowdown[jobs.tenant >= 0], jobs.tenant[jobs.tenant >= 0]),
    )


def _resource_shares(instance: SchedulingInstance, parts: Floats, wholes: Floats) -> dict[str, float]:
    return {
        name: float(part / whole) if whole > 0 else 0.0
        for name, part, whole in zip(instance.pool, parts, wholes, strict=True)
    }


def _jain_index(values: Floats, group: Ints) -> float | None:
    if not len(values):
        return None
    means = np.bincount(group, values) / np.bincount(group)  # each tenant has a job
    return float(means.sum() ** 2 / (len(means) * (means**2).sum()))


def checkpoint_interval_s(instance: SchedulingInstance) -> float:
    """Return the seconds of work between checkpoints: 0 if no work is ever lost, infinite if all is."""
    if instance.checkpoint_s is not None:
        return instance.checkpoint_s
    return math.inf if instance.preemption == "none" else 0.0


def runs_without_break(instance: SchedulingInstance) -> bool:
    """Return whether each job must do all its work in one uninterrupted run.

    That holds without preemption, even if a job has to restart, unless an evicted job resumes from a
    checkpoint.
    """
    return instance.preemption == "none" and not (
        instance.evict == "restart" and instance.checkpoint_s is not None and bool(instance.events)
    )


def checkpointed_progress_s(progress_s: float, interval: float, slack_s: float = 0.0) -> float:
    """Return the progress of an evicted job at its last checkpoint, in the unit of `progress_s`.

    Parameters
    ----------
    interval
        Work between two checkpoints, which are counted from the job's first second.
    slack_s
        Tolerance for the work at which a checkpoint counts as reached.
    """
    if interval == 0:
        return progress_s
    if interval == math.inf:
        return 0.0
    return max(0.0, min(progress_s, math.floor((progress_s + slack_s) / interval) * interval))


def capacity_drops(moments: Moments, amounts: Floats) -> Moments:
    """Return the moments, of those at which servers get other amounts, at which one of them gets less."""
    falls = (amounts[1:] < amounts[:-1]).any(axis=1) & (moments.real[1:] == moments.real[:-1])
    return np.asarray(moments[1:][falls])


def evicted_runs(instance: SchedulingInstance, segments: SegmentTable) -> Flags:
    """Return a mask of the evicted runs, which end at a capacity drop and before their job does.

    Runs without named servers are in the pooled cluster.
    """
    first, of, _, end_s = segments.runs
    if not instance.events:
        return np.zeros(len(of), dtype=bool)
    times, amounts = instance.capacity_over_time
    at_drop = np.isin(end_s * 1j, capacity_drops(times * 1j, amounts))
    if segments.servers:
        on = [segments.servers[k] for k in first.tolist()]
        run, server, _ = tasks_on_servers(instance, on)
        hit = np.isin(server + end_s[run] * 1j, capacity_drops(*instance.server_states.over_time()))
        at_drop[run] = False
        at_drop[run[hit]] = True
    return at_drop & ~np.roll(differs(of), -1)


def final_progress(gain: Floats, of: Ints, hit: Flags, interval: Floats, slack: Floats) -> Floats:
    """Return the work that each job has done at its end, less what evictions lost, shape (J,).

    Parameters
    ----------
    gain, of, hit
        Progress by each run, its job, and whether it is evicted; sorted by job, then time.
    interval, slack
        Work between two checkpoints of each job, and its tolerance, shape (J,).
    """
    total = np.bincount(of, gain, len(slack)).astype(float)
    losing = of[hit & (interval[of] > 0)]
    total[losing] = 0.0
    for k in np.flatnonzero(np.isin(of, losing)).tolist():
        j = of[k]
        total[j] += gain[k]
        if hit[k]:
            total[j] = checkpointed_progress_s(total[j], interval[j], slack[j])
    return total


MAX_NAMED = 20
"""Maximum number of violations of one constraint that are listed; the others are counted."""


def segment_violations(instance: SchedulingInstance, segments: SegmentTable) -> Iterator[Violation]:
    """Yield the violations by segments of known jobs: times, arrivals, overlaps, work and capacities."""
    jobs, names = instance.table(), instance.table().names
    of = segments.job

    def named(k: int) -> str:
        return f"{names[int(of[k])]!r}"

    empty = ~(segments.end_s > segments.start_s)
    yield from _listed_violations("time", empty, lambda k: f"{named(k)} ends when it starts, or before")
    early = segments.start_s < jobs.arrival_s[of]
    yield from _listed_violations(
        "arrival",
        early,
        lambda k: f"{named(k)} starts at {segments.start_s[k]:g} s and arrives at {jobs.arrival_s[of[k]]:g}",
    )
    twice = ~differs(of) & (segments.start_s < np.roll(segments.end_s, 1))
    yield from _listed_violations(
        "one at a time", twice, lambda k: f"{named(k)} starts at {segments.start_s[k]:g} s, while it runs"
    )
    yield from _work_violations(instance, segments)
    if empty.any() or not len(of):
        return  # the use over time is not defined then
    yield from _capacity_violations(instance, segments)


def _work_violations(instance: SchedulingInstance, segments: SegmentTable) -> Iterator[Violation]:
    """Yield violations of work, preemption and lease: unfinished jobs, forbidden or early preemptions."""
    jobs = instance.table()
    run, of, length, end = segments.runs
    first = differs(of)
    lost = np.where(first, 0.0, restarts_s(instance)[of])
    hit = evicted_runs(instance, segments)
    menus = instance.menus()
    slack = work_tolerance(instance, np.maximum(segments.completion_s, 0))
    speed = menus.speed[segments.row[run]]
    if jobs.spreading is not None and segments.servers:
        speed = speed * jobs.spreading.speed(of, np.array([len(segments.servers[k]) for k in run.tolist()]))
    # Checkpoints of a malleable job are counted at its requested speed.
    interval = checkpoint_interval_s(instance) * (menus.work / jobs.duration_s)
    progress = final_progress(np.maximum(length - lost, 0) * speed, of, hit, interval, slack)
    yield from _listed_violations(
        "work",
        progress < menus.work - slack,
        lambda j: (
            f"{jobs.names[j]!r} does {progress[j]:g} of {menus.work[j]:g} units of its work"
            if j in jobs.malleable
            else f"{jobs.names[j]!r} runs for {progress[j]:g} s, and needs {menus.work[j]:g}"
        ),
    )
    if instance.preemption == "none":
        starts = np.bincount(of, minlength=len(jobs))
        restarts = np.bincount(of[hit], minlength=len(jobs)) if instance.evict == "restart" else 0
        yield from _listed_violations(
            "preemption",
            starts > 1 + restarts,
            lambda j: f"{jobs.names[j]!r} starts {starts[j]} times, and must not be interrupted",
        )
    # A change of the cluster that evicts a job ends its lease too.
    last = np.roll(first, -1)
    lease = instance.lease_s * (1 - TOLERANCE)
    yield from _listed_violations(
        "lease",
        ~last & (length < lease) & ~np.isin(end, instance.capacity_over_time[0]),
        lambda k: f"{jobs.names[int(of[k])]!r} runs for {length[k]:g} s, and a lease is {instance.lease_s:g}",
    )


def work_tolerance(instance: SchedulingInstance, ends: Floats) -> Floats:
    """Return the amount of work that may be missing of jobs that end at given times, shape (J,).

    It allows for relative errors of the work and of the time since the first arrival, and for the rounding of
    times to doubles; errors of times count at the job's best speed, which is 1 for rigid jobs.
    """
    menus = instance.menus()
    span = np.maximum(ends - instance.table().arrival_s.min(), 0)
    return np.asarray(TOLERANCE * menus.work + menus.best_speed * (TOLERANCE * span + TIME_ROUNDING * ends))


def restarts_s(instance: SchedulingInstance) -> Floats:
    """Return each job's restart time [s], without progress after every start but the first, (J,)."""
    own = instance.table().restart_s
    if instance.preemption != "costs":
        return np.zeros(len(own))
    return np.where(np.isnan(own), instance.restart_s, own)


def _capacity_violations(instance: SchedulingInstance, segments: SegmentTable) -> Iterator[Violation]:
    usage = usage_over_time(instance, segments)
    for name, used, capacity in zip(instance.pool, usage.used.T, usage.capacity.T, strict=True):
        yield from _listed_violations(
            name,
            used > all_loosened(capacity),
            lambda k, used=used, capacity=capacity, name=name: (
                f"{used[k]:g} {name} are used at {usage.at_s[k]:g} s, and there are {capacity[k]:g}"
            ),
        )


def _listed_violations(constraint: str, wrong: Flags, what: Callable[..., Any]) -> Iterator[Violation]:
    """Yield a violation for each of the first marked rows, and one with the number of the others."""
    rows = np.flatnonzero(wrong).tolist()
    for k in rows[:MAX_NAMED]:
        yield Violation(constraint, what(k))
    if len(rows) > MAX_NAMED:
        yield Violation(constraint, f"{len(rows) - MAX_NAMED:,} more of this sort")


def tasks_on_servers(
    instance: SchedulingInstance, servers: Sequence[Mapping[str, int]]
) -> tuple[Ints, Ints, Ints]:
    """Return the segment, the server, −1 if there is none of the name, and the tasks of each placement.

    Parameters
    ----------
    servers
        Server → number of tasks, of each segment.
    """
    index = {name: n for n, name in enumerate(instance.server_states.names)}
    rows = [(k, index.get(name, -1), count) for k, on in enumerate(servers) for name, count in on.items()]
    segment, server, tasks = np.array(rows, dtype=np.int64).reshape(-1, 3).T
    return segment, server, tasks


def placement_violations(instance: SchedulingInstance, segments: SegmentTable) -> Iterator[Violation]:
    """Yield the violations of a plan's assignment of tasks to named servers.

    A plan without names treats the servers as one pool, where spreading slows no job.
    """
    table = instance.table()
    if not segments.servers:
        if instance.servers and table.spreading is not None and (table.spreading.profile >= 0).any():
            yield Violation("servers", "no segment names any, and jobs are slower on several servers")
        return
    segment, server, count = tasks_on_servers(instance, segments.servers)
    tasks = instance.menus().tasks[segments.row]
    placed = np.bincount(segment, count, len(tasks)).astype(np.int64)
    runs = [f"{table.names[j]!r}" for j in segments.job.tolist()]
    named = [name for on in segments.servers for name in on]
    yield from _listed_violations(
        "servers",
        server < 0,
        lambda p: f"there is no server {named[p]!r}, on which {runs[segment[p]]} runs",
    )
    yield from _listed_violations(
        "servers",
        placed != tasks,
        lambda k: f"{placed[k]} tasks of {runs[k]} have servers, and it has {tasks[k]}",
    )
    if (server < 0).any() or (placed != tasks).any():
        return
    demand = instance.menus().usage[segments.row] / tasks[:, None]
    start, end = (server + 1j * time_s[segment] for time_s in (segments.start_s, segments.end_s))
    moments, amounts = instance.server_states.over_time()
    at = np.unique(np.concatenate([start, end, moments]))
    has = amounts[np.searchsorted(moments, at, side="right") - 1]
    used = amounts_in_use(at, start, end, demand[segment] * count[:, None], has.min(axis=0))
    names = instance.server_states.names
    for resource, amount, there in zip(instance.pool, used.T, has.T, strict=True):
        yield from _listed_violations(
            "servers",
            amount > all_loosened(there),
            lambda k, resource=resource, amount=amount, there=there: (
                f"{amount[k]:g} {resource} of {names[int(at[k].real)]!r} are used at {at[k].imag:g} s, "
                f"and it has {there[k]:g}"
            ),
        )
