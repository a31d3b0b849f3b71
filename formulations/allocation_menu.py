"""The menu of an allocation instance: every configuration a job could have, in columns.

(p, w) is a finite set, so allocation *is* a multiple-choice multi-dimensional knapsack: one configuration
for each job, one row for each resource. All methods work on these arrays, never on job objects.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..instances.allocation import AllocationInstance, Job, Variant
from ..instances.errors import TooLargeError
from ..instances.speed import SpeedTable
from .base import TOLERANCE

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MOST_CONFIGURATIONS = 50_000_000
UNPLACED = -1
BUDGET = "budget_usd_per_hour"


@dataclass(frozen=True)
class Menu:
    """Configurations in columns; those of job j are rows `start[j]` to `start[j + 1]`.

    Attributes
    ----------
    start
        Shape (jobs + 1,).
    variant, ps, workers
        Shape (K,); `variant` is the index in the job's list, -1 for staying unplaced.
    time_s, cost
        Shape (K,): completion time t, and ω·t.
    demand
        Shape (K, R): what the configuration takes of each row of `capacity`.
    rows, capacity
        Resource names, with the hourly budget as one more row where there is one; shape (R,).
    """

    start: Ints
    variant: Ints
    ps: Ints
    workers: Ints
    time_s: Floats
    cost: Floats
    demand: Floats
    rows: tuple[str, ...]
    capacity: Floats

    def of(self, job: int) -> range:
        """Return the rows of one job."""
        return range(int(self.start[job]), int(self.start[job + 1]))

    @property
    def owner(self) -> Ints:
        """Index of the job of each row, shape (K,)."""
        return np.repeat(np.arange(len(self.start) - 1), np.diff(self.start))


def capacity_rows(instance: AllocationInstance) -> tuple[tuple[str, ...], Floats]:
    """Return the names and limits of the rows: every resource, then the hourly budget if there is one."""
    names, limits = list(instance.resources), list(instance.resources.values())
    if instance.budget_usd_per_hour is not None:
        names.append(BUDGET)
        limits.append(instance.budget_usd_per_hour)
    return tuple(names), np.array(limits)


def task_demands(instance: AllocationInstance, variant: Variant) -> tuple[Floats, Floats]:
    """Return what one parameter server and one worker take of each row, two arrays of shape (R,)."""
    names = list(instance.resources)
    pair = []
    for amounts in (variant.ps_demand, variant.worker_demand):
        row = [amounts.get(name, 0.0) for name in names]
        if instance.budget_usd_per_hour is not None:
            row.append(sum(amounts.get(r, 0.0) * price for r, price in instance.prices_usd_per_hour.items()))
        pair.append(np.array(row))
    return pair[0], pair[1]


def completion_time_s(job: Job, index: int, ps: Ints, workers: Ints) -> Floats:
    """Return t = Q / f(p, w), plus the restart where the configuration is not the current one.

    Parameters
    ----------
    index
        Of the variant in the job's list.
    ps, workers
        Arrays of one shape; a `table` must list each pair.
    """
    variant = job.variants[index]
    if isinstance(variant.speed, SpeedTable):
        listed_p, listed_w, listed_time = variant.speed.configurations()
        times = {(int(p), int(w)): t for p, w, t in zip(listed_p, listed_w, listed_time, strict=True)}
        step = np.array([times[int(p), int(w)] for p, w in zip(ps, workers, strict=True)])
    else:
        step = variant.speed.step_time_s(ps, workers)
    time = job.remaining_steps * np.broadcast_to(step, ps.shape)
    if job.restart_s:
        now = job.current
        same = np.zeros(ps.shape, dtype=bool)
        if now is not None and now.variant == variant.name:
            same = (ps == now.ps) & (workers == now.workers)
        time = np.where(same, time, time + job.restart_s)
    return time


def _most(per_task: Floats, capacity: Floats, highest: int) -> int:
    """Return how many tasks fit alone, at most `highest`."""
    taken = per_task > 0
    if not taken.any():
        return highest
    ratio = np.min(capacity[taken] * (1 + 2 * TOLERANCE) / per_task[taken])
    return int(min(highest, np.floor(ratio)))


def _pairs(variant: Variant, ps_row: Floats, worker_row: Floats, capacity: Floats) -> tuple[Ints, Ints]:
    """Return the (ps, workers) of a variant that could fit in the empty cluster."""
    if isinstance(variant.speed, SpeedTable):
        p, w, _ = variant.speed.configurations()
        return p, w
    assert variant.workers is not None
    low_p, high_p = (variant.ps.min, variant.ps.max) if variant.ps else (0, 0)
    high_p = _most(ps_row, capacity, high_p)
    high_w = _most(worker_row, capacity, variant.workers.max)
    count = max(0, high_p - low_p + 1) * max(0, high_w - variant.workers.min + 1)
    if count > MOST_CONFIGURATIONS:
        raise TooLargeError(
            f"variant {variant.name!r} has {count:,} configurations; narrow its ranges of ps and workers"
        )
    w, p = np.meshgrid(
        np.arange(variant.workers.min, high_w + 1), np.arange(low_p, high_p + 1), indexing="ij"
    )
    return p.ravel(), w.ravel()


def build_menu(instance: AllocationInstance) -> Menu:
    """Return every configuration that keeps the job's deadline and fits in the empty cluster.

    Raises
    ------
    TooLargeError
        If there are more than 50 million configurations.
    """
    rows, capacity = capacity_rows(instance)
    columns: list[tuple[Ints, Ints, Ints, Floats, Floats]] = []
    counts, total = [], 0
    for job in instance.jobs:
        count = 0
        for index, variant in enumerate(job.variants):
            ps_row, worker_row = task_demands(instance, variant)
            p, w = _pairs(variant, ps_row, worker_row, capacity)
            demand = p[:, None] * ps_row + w[:, None] * worker_row
            time = completion_time_s(job, index, p, w)
            keep = (demand <= capacity + TOLERANCE * np.maximum(capacity, 1e-9)).all(axis=1)
            if job.deadline_s is not None:
                keep &= time <= job.deadline_s * (1 + TOLERANCE)
            columns.append((np.full(int(keep.sum()), index), p[keep], w[keep], time[keep], demand[keep]))
            count += int(keep.sum())
        if job.unplaced_s is not None:
            zero = np.zeros(1, dtype=np.int64)
            columns.append(
                (zero + UNPLACED, zero, zero, np.array([job.unplaced_s]), np.zeros((1, len(rows))))
            )
            count += 1
        counts.append(count)
        total += count
        if total > MOST_CONFIGURATIONS:
            raise TooLargeError(
                f"more than {MOST_CONFIGURATIONS:,} configurations; narrow the ranges of ps and workers"
            )
    variant_, p_, w_, time_, demand_ = (np.concatenate(column) for column in zip(*columns, strict=True))
    counts_ = np.array(counts)
    weight = np.repeat([job.weight for job in instance.jobs], counts_)
    start = np.concatenate([[0], np.cumsum(counts_)])
    return Menu(start, variant_, p_, w_, time_, weight * time_, demand_, rows, capacity)
