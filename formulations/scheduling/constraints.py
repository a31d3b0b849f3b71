"""The constraints of scheduling, checked from the segments of a plan alone, on whole columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ...instances.common.arrays import Flags, Floats, Ints
from ...instances.scheduling.instance import SchedulingInstance
from ..common.objective import Violation
from ..common.tolerance import TOLERANCE, all_loosened
from .check.elementary import ROUNDING
from .losses import hit_runs, interval_s, progress_of
from .plan import SegmentTable
from .usage import usage_over_time

MOST_NAMED = 20
"""Faults of one sort that are named; the others are counted."""


def broken_constraints(instance: SchedulingInstance, segments: SegmentTable) -> Iterator[Violation]:
    """Yield what is wrong with segments of known jobs."""
    jobs, names = instance.table(), instance.table().names
    of = segments.job

    def named(k: int) -> str:
        return f"{names[int(of[k])]!r}"

    empty = ~(segments.end_s > segments.start_s)
    yield from _listed("time", empty, lambda k: f"{named(k)} ends when it starts, or before")
    early = segments.start_s < jobs.arrival_s[of]
    yield from _listed(
        "arrival",
        early,
        lambda k: f"{named(k)} starts at {segments.start_s[k]:g} s and arrives at {jobs.arrival_s[of[k]]:g}",
    )
    twice = np.zeros(len(of), dtype=bool)
    twice[1:] = (of[1:] == of[:-1]) & (segments.start_s[1:] < segments.end_s[:-1])
    yield from _listed(
        "one at a time", twice, lambda k: f"{named(k)} starts at {segments.start_s[k]:g} s, while it runs"
    )
    yield from _progress(instance, segments)
    if empty.any() or not len(of):
        return  # what is used over time makes no sense then
    yield from _capacity(instance, segments)


def _progress(instance: SchedulingInstance, segments: SegmentTable) -> Iterator[Violation]:
    """Yield jobs that lack work, that are interrupted although they must not be, or that are so too soon."""
    jobs = instance.table()
    of, length, end = segments.runs
    first = np.ones(len(of), dtype=bool)
    first[1:] = of[1:] != of[:-1]
    lost = np.where(first, 0.0, restarts_s(instance)[of])
    servers = [segments.servers[k] for k in segments.first_of_run.tolist()] if segments.servers else []
    hit = hit_runs(instance, of, end, servers)
    menus = instance.menus()
    slack = missing_work(instance, np.maximum(segments.completion_s, 0))
    speed = menus.speed[segments.row[segments.first_of_run]] * _speeds(instance, of, servers)
    # Of a malleable job checkpoints are counted at the speed that is requested.
    interval = interval_s(instance) * (menus.work / jobs.duration_s)
    progress = progress_of(np.maximum(length - lost, 0) * speed, of, hit, interval, slack)
    yield from _listed(
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
        yield from _listed(
            "preemption",
            starts > 1 + np.bincount(of[restarts], minlength=len(jobs)),
            lambda j: f"{jobs.names[j]!r} starts {starts[j]} times, and must not be interrupted",
        )
    # A job that loses its place to a change of the cluster loses its lease too.
    last = np.ones(len(of), dtype=bool)
    last[:-1] = of[1:] != of[:-1]
    lease = instance.lease_s * (1 - TOLERANCE)
    yield from _listed(
        "lease",
        ~last & (length < lease) & ~np.isin(end, instance.capacity_over_time[0]),
        lambda k: f"{jobs.names[int(of[k])]!r} runs for {length[k]:g} s, and a lease is {instance.lease_s:g}",
    )


def _speeds(instance: SchedulingInstance, of: Ints, servers: Sequence[Mapping[str, int]]) -> Floats:
    """Return how fast each run is, for being spread over servers."""
    spreading = instance.table().spreading
    if spreading is None or not servers:
        return np.ones(len(of))
    return spreading.speed(of, np.array([len(names) for names in servers]))


def missing_work(instance: SchedulingInstance, ends: Floats) -> Floats:
    """Return how much work may be missing of jobs that end at these times, shape (J,).

    A moment is as exact as the seconds since the first arrival allow, and no more than doubles are; what
    could have been done in the time between counts at the job's best speed, which is 1 for rigid jobs.
    """
    menus = instance.menus()
    span = np.maximum(ends - instance.table().arrival_s.min(), 0)
    return np.asarray(TOLERANCE * menus.work + menus.best_speed * (TOLERANCE * span + ROUNDING * ends))


def restarts_s(instance: SchedulingInstance) -> Floats:
    """Return how long each job makes no progress after a start that is not its first, shape (J,)."""
    own = instance.table().restart_s
    if instance.preemption != "costs":
        return np.zeros(len(own))
    return np.where(np.isnan(own), instance.restart_s, own)


def _capacity(instance: SchedulingInstance, segments: SegmentTable) -> Iterator[Violation]:
    usage = usage_over_time(instance, segments)
    for r, name in enumerate(instance.pool):
        used, capacity = usage.used[:, r], usage.capacity[:, r]
        yield from _listed(
            name,
            used > all_loosened(capacity),
            lambda k, used=used, capacity=capacity, name=name: (
                f"{used[k]:g} {name} are used at {usage.at_s[k]:g} s, and there are {capacity[k]:g}"
            ),
        )


def _listed(constraint: str, wrong: Flags, what: Callable[..., Any]) -> Iterator[Violation]:
    """Yield a violation for each row that is wrong; of many the first ones."""
    rows = np.flatnonzero(wrong).tolist()
    for k in rows[:MOST_NAMED]:
        yield Violation(constraint, what(k))
    if len(rows) > MOST_NAMED:
        yield Violation(constraint, f"{len(rows) - MOST_NAMED:,} more of this sort")
