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
from fractions import Fraction
from typing import Any

import numpy as np

from ...instances.common.arrays import Flags, Floats, Ints
from ...instances.scheduling.instance import SchedulingInstance
from ...instances.scheduling.jobs import JobTable
from ..common.objective import TOLERANCE, Violation, all_loosened
from .plan import Segment, SegmentTable

EPSILON = float(np.finfo(float).eps)
TIME_ROUNDING = 4e-15
"""Relative rounding error of times as doubles."""


def cumulative_sums(changes: Floats, least: float) -> Floats:
    """Return the cumulative sums of an array, with rounding errors well below TOLERANCE × `least`.

    Doubles are added where that is exact enough, otherwise integer multiples of a unit: a change of 1 would
    be lost beside an amount of 10^12.
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

    @property
    def length_s(self) -> Floats:
        """Length of the interval from each time to the next, in seconds, shape (K − 1,)."""
        return np.diff(self.at_s)


def usage_over_time(instance: SchedulingInstance, segments: SegmentTable) -> Usage:
    """Return resource use, capacity, and running and waiting jobs over time, as step functions."""
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
        totals = cumulative_sums(change, float(least[r]))
        used[:, r] = np.where(last >= 0, totals[last], 0.0)
    running = np.cumsum(np.bincount(starts, minlength=len(at)) - np.bincount(ends, minlength=len(at)))
    arrived = np.bincount(np.searchsorted(at, jobs.arrival_s), minlength=len(at))
    finished = np.bincount(np.searchsorted(at, done[np.isfinite(done)]), minlength=len(at))
    present = np.cumsum(arrived - finished)
    capacity = amounts[np.searchsorted(times, at, side="right") - 1]
    return Usage(at, used, capacity, running, present - running)


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
    used, idle, available = (
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
    _, member = np.unique(group, return_inverse=True)
    means = np.bincount(member, values) / np.bincount(member)
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


class CapacityDrops:
    """The times at which the capacity of the whole cluster, or of a server, drops."""

    def __init__(self, instance: SchedulingInstance) -> None:
        times, amounts = instance.capacity_over_time
        falls = (amounts[1:] < amounts[:-1]).any(axis=1)
        self.of_all: Floats = times[1:][falls]
        self._of_servers: set[tuple[float, str]] = set()
        if instance.servers:
            states = instance.server_states
            now = states.amounts.copy()
            for at_s, n, available in states.changes:
                if (available < now[n]).any():
                    self._of_servers.add((at_s, states.names[n]))
                now[n] = available

    def evicts(self, end_s: float, servers: Mapping[str, int]) -> bool:
        """Return whether a run that ends at a time is evicted by a drop of capacity.

        Without named servers the run is in the pooled cluster.
        """
        if servers:
            return any((end_s, name) in self._of_servers for name in servers)
        return bool((self.of_all == end_s).any())


def evicted_runs(
    instance: SchedulingInstance, of: Ints, end_s: Floats, servers: Sequence[Mapping[str, int]]
) -> Flags:
    """Return a mask of the evicted runs, which end at a capacity drop and before their job does.

    Parameters
    ----------
    servers
        Servers of each run; empty where no segment names any.
    """
    evicted = np.zeros(len(of), dtype=bool)
    if not instance.events:
        return evicted
    falls = CapacityDrops(instance)
    later = np.zeros(len(of), dtype=bool)
    later[:-1] = of[1:] == of[:-1]
    moments = instance.capacity_over_time[0] if instance.servers else falls.of_all
    for k in np.flatnonzero(later & np.isin(end_s, moments)).tolist():
        evicted[k] = falls.evicts(float(end_s[k]), servers[k] if servers else {})
    return evicted


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
    if not interval.any():
        return total
    for j in np.unique(of[hit]).tolist():
        progress = 0.0
        first, beyond = np.searchsorted(of, [j, j + 1]).tolist()
        for k in range(first, beyond):
            progress += float(gain[k])
            if hit[k]:
                progress = checkpointed_progress_s(progress, float(interval[j]), float(slack[j]))
        total[j] = progress
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
    twice = np.zeros(len(of), dtype=bool)
    twice[1:] = (of[1:] == of[:-1]) & (segments.start_s[1:] < segments.end_s[:-1])
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
    of, length, end = segments.runs
    first = np.ones(len(of), dtype=bool)
    first[1:] = of[1:] != of[:-1]
    lost = np.where(first, 0.0, restarts_s(instance)[of])
    servers = [segments.servers[k] for k in segments.first_of_run.tolist()] if segments.servers else []
    hit = evicted_runs(instance, of, end, servers)
    menus = instance.menus()
    slack = work_tolerance(instance, np.maximum(segments.completion_s, 0))
    speed = menus.speed[segments.row[segments.first_of_run]] * _speeds(instance, of, servers)
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
        restarts = hit if instance.evict == "restart" else np.zeros(len(of), dtype=bool)
        starts = np.bincount(of, minlength=len(jobs))
        yield from _listed_violations(
            "preemption",
            starts > 1 + np.bincount(of[restarts], minlength=len(jobs)),
            lambda j: f"{jobs.names[j]!r} starts {starts[j]} times, and must not be interrupted",
        )
    # A change of the cluster that evicts a job ends its lease too.
    last = np.ones(len(of), dtype=bool)
    last[:-1] = of[1:] != of[:-1]
    lease = instance.lease_s * (1 - TOLERANCE)
    yield from _listed_violations(
        "lease",
        ~last & (length < lease) & ~np.isin(end, instance.capacity_over_time[0]),
        lambda k: f"{jobs.names[int(of[k])]!r} runs for {length[k]:g} s, and a lease is {instance.lease_s:g}",
    )


def _speeds(instance: SchedulingInstance, of: Ints, servers: Sequence[Mapping[str, int]]) -> Floats:
    """Return each run's relative speed, which depends on the number of servers, shape (runs,)."""
    spreading = instance.table().spreading
    if spreading is None or not servers:
        return np.ones(len(of))
    return spreading.speed(of, np.array([len(names) for names in servers]))


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
    for r, name in enumerate(instance.pool):
        used, capacity = usage.used[:, r], usage.capacity[:, r]
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


MAX_NAMED_SERVERS = 20
"""Maximum number of listed violations of one kind on servers."""


@dataclass(frozen=True)
class ServerTasks:
    """Task counts of the segments of a plan on servers, as arrays over pairs of segment and server.

    Attributes
    ----------
    segment, server, tasks
        Index into the plan, index of the server, and number of tasks of the job on it; shape (P,).
    """

    segment: Ints
    server: Ints
    tasks: Ints


def placement_violations(instance: SchedulingInstance, plan: Sequence[Segment]) -> Iterator[Violation]:
    """Yield the violations of a plan's assignment of tasks to named servers.

    A plan without names treats the servers as one pool, where spreading slows no job.
    """
    if not any(entry.servers for entry in plan):
        spreading = instance.table().spreading
        if instance.servers and spreading is not None and (spreading.profile >= 0).any():
            yield Violation("servers", "no segment names any, and jobs are slower on several servers")
        return
    states = instance.server_states
    index = {name: n for n, name in enumerate(states.names)}
    faults = list(_server_name_violations(instance, plan, index))
    yield from faults[:MAX_NAMED_SERVERS]
    if len(faults) > MAX_NAMED_SERVERS:
        yield Violation("servers", f"{len(faults) - MAX_NAMED_SERVERS:,} more of this sort")
    if not faults:
        yield from _server_capacity_violations(instance, plan, index)


def _server_name_violations(
    instance: SchedulingInstance, plan: Sequence[Segment], index: dict[str, int]
) -> Iterator[Violation]:
    table = instance.table()
    jobs = {name: j for j, name in enumerate(table.names)}
    for entry in plan:
        placed, tasks = sum(entry.servers.values()), task_count(table, jobs[entry.job], entry.configuration)
        if placed != tasks:
            yield Violation("servers", f"{placed} tasks of {entry.job!r} have servers, and it has {tasks}")
        for name in entry.servers:
            if name not in index:
                yield Violation("servers", f"there is no server {name!r}, on which {entry.job!r} runs")


def task_count(table: JobTable, j: int, configuration: str) -> int:
    """Return the number of tasks of a job in a configuration; 1 if it runs on a single server."""
    job = table.malleable.get(j)
    if job is None:
        return int(table.tasks[j])
    return int(configuration) if job.speeds is not None and configuration.isdecimal() else 1


def _server_capacity_violations(
    instance: SchedulingInstance, plan: Sequence[Segment], index: dict[str, int]
) -> Iterator[Violation]:
    """Yield the violations of the capacities of single servers over time."""
    states, table = instance.server_states, instance.table()
    jobs = {name: j for j, name in enumerate(table.names)}
    rows = [(s, index[name], n) for s, entry in enumerate(plan) for name, n in entry.servers.items()]
    pieces = ServerTasks(*np.array(rows, dtype=np.int64).T)
    job = np.array([jobs[entry.job] for entry in plan])
    row = instance.menus().rows(job, [entry.configuration for entry in plan])
    pairs = zip(job.tolist(), plan, strict=True)
    tasks = np.array([task_count(table, j, entry.configuration) for j, entry in pairs])
    demand = np.where(
        np.isin(job, instance.menus().malleable)[:, None],
        instance.menus().usage[row] / tasks[:, None],
        table.demand[job],
    )
    start = np.array([entry.start_s for entry in plan])[pieces.segment]
    end = np.array([entry.end_s for entry in plan])[pieces.segment]
    amount = demand[pieces.segment] * pieces.tasks[:, None]
    changes = states.changes
    at = np.array([c[0] for c in changes])
    what = np.array([c[2] for c in changes]).reshape(-1, amount.shape[1])
    # At equal times ends and changes of capacity come before starts.
    moment = np.concatenate([end, at, start])
    server = np.concatenate([pieces.server, np.array([c[1] for c in changes], dtype=np.int64), pieces.server])
    order = np.lexsort((np.repeat([0, 1, 2], [len(end), len(at), len(start)]), moment, server))
    used = np.concatenate([-amount, np.zeros_like(what), amount])[order]
    server, moment = server[order], moment[order]
    first = np.r_[True, server[1:] != server[:-1]]
    last = np.r_[(server[1:] != server[:-1]) | (moment[1:] != moment[:-1]), True]
    available = np.where(first[:, None], states.amounts[server], np.nan)
    is_change = (order >= len(end)) & (order < len(end) + len(at))
    available[is_change] = what[order[is_change] - len(end)]
    # The capacity of a server holds until it changes.
    given = np.where(first | is_change, np.arange(len(order)), 0)
    available = available[np.maximum.accumulate(given)]
    for r, name in enumerate(table.resources):
        least = float(available[:, r].min())
        in_use = _group_cumulative_sums(used[:, r], first, least)
        has = available[:, r]
        for k in np.flatnonzero(last & (in_use > all_loosened(has)))[:MAX_NAMED_SERVERS].tolist():
            amounts = f"{in_use[k]:g} {name} of {states.names[int(server[k])]!r}"
            yield Violation("servers", f"{amounts} are used at {moment[k]:g} s, and it has {has[k]:g}")


def _group_cumulative_sums(values: Floats, first: Flags, least: float) -> Floats:
    """Return cumulative sums that restart at the first row of each group of rows."""
    starts = np.flatnonzero(first).tolist()
    groups = np.split(values, starts[1:])
    return np.concatenate([cumulative_sums(group, least) for group in groups])
