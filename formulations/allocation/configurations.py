"""The configuration table of an allocation instance, with every configuration of every job.

(p, w) is a finite set, so allocation is a multiple-choice multi-dimensional knapsack (Sinha & Zoltners 1979;
Kellerer, Pferschy & Pisinger 2004, ch. 11): one configuration for each job, one constraint for each
resource. All methods work on these arrays, never on job objects.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...instances.allocation.instance import AllocationInstance
from ...instances.allocation.job_table import MODELS, TABLE, JobTable
from ...instances.common.arrays import Flags, Floats, Ints, NarrowFloats, offsets, run_of_each
from ...instances.common.errors import TooLargeError
from ...instances.common.speed import FORMULAS
from ..common.clock import check_time
from ..common.objective import all_loosened

Shorts = NDArray[np.int32]

MAX_CONFIGURATIONS = 250_000_000
"""Maximum number of configurations in the table, about 16 GB."""
BLOCK_SIZE = 50_000
"""Number of configurations that are built at a time, so that temporary arrays stay in the cache."""
MANY = 10_000_000
"""Number of configurations from which on their demands are stored narrowly."""
UNPLACED = -1
BUDGET = "budget_usd_per_hour"
NETWORKED = {"ps_sync": 2, "ps_async": 1}
"""Speed model → index of its coefficient of w/p, which is the time on the network."""


@dataclass(frozen=True, eq=False)
class RowsByJob:
    """A table whose rows of job j have indices `start[j]` to `start[j + 1]`; shape (jobs + 1,)."""

    start: Ints

    @property
    def jobs(self) -> int:
        """Number of jobs."""
        return len(self.start) - 1

    @property
    def counts(self) -> Ints:
        """Number of rows of each job, shape (jobs,)."""
        return np.diff(self.start)

    @property
    def owner(self) -> Ints:
        """Job of each row, shape (K,)."""
        return run_of_each(self.start)

    def owner_of(self, rows: Ints) -> Ints:
        """Return the job of each of these rows."""
        return np.searchsorted(self.start, rows, side="right") - 1

    def spread(self, of_job: Floats | Ints | Flags) -> Any:
        """Return the figure of its job for each row, shape (K,)."""
        return np.repeat(of_job, self.counts)

    def least(self, figures: Floats) -> Floats:
        """Return the least figure over the rows of each job, which all have some; shape (jobs, …)."""
        return np.minimum.reduceat(figures, self.start[:-1], axis=0)

    def most(self, figures: Floats) -> Floats:
        """Return the largest figure over the rows of each job, which all have some; shape (jobs, …)."""
        return np.maximum.reduceat(figures, self.start[:-1], axis=0)

    def every_job_has(self, flags: Flags) -> bool:
        """Return whether some row of each job is flagged."""
        return bool(np.logical_or.reduceat(flags, self.start[:-1]).all())


@dataclass(frozen=True, eq=False)
class Configurations(RowsByJob):
    """Table of job configurations; those of job j have indices `start[j]` to `start[j + 1]`.

    Attributes
    ----------
    variant, ps, workers
        Shape (K,); `variant` is the index in the job's list, -1 for staying unplaced.
    time_s
        Shape (K,): completion time t.
    demand
        Shape (K, R): a, the demand of the configuration for each resource.
    weight
        Shape (jobs,): ω.
    resources, capacity
        Names and C, with the hourly budget as one more resource where there is one; shape (R,).
    split
        Shape (K,), in an instance with servers: the remote tasks or, of measured speeds, the number of
        servers of the split; −1 where the job stays on its servers.
    """

    variant: Shorts
    ps: Shorts
    workers: Shorts
    time_s: Floats
    demand: Floats
    weight: Floats
    resources: tuple[str, ...]
    capacity: Floats
    split: Shorts | None = None

    def of(self, job: int) -> range:
        """Return the range of indices of the configurations of one job."""
        return range(int(self.start[job]), int(self.start[job + 1]))

    def parts(self) -> Iterator[tuple[int, Configurations]]:
        """Yield consecutive blocks of jobs: the index of the first job, and the block's table."""
        for first, last in _job_blocks(self.counts):
            own = slice(int(self.start[first]), int(self.start[last]))
            start = self.start[first : last + 1] - self.start[first]
            yield first, self.only(own, start=start, weight=self.weight[first:last])

    def only(self, keep: slice | Flags | Ints, **changes: Any) -> Configurations:
        """Return the table of the selected configurations; `changes` must include the new `start`."""
        names = ["variant", "ps", "workers", "time_s", "demand"]
        names += ["split"] if self.split is not None else []
        return replace(self, **{name: getattr(self, name)[keep] for name in names}, **changes)

    def within(self, capacity: Floats) -> Configurations:
        """Return the table without configurations that, alone, exceed the given smaller capacities."""
        smaller = replace(self, capacity=capacity)
        keep: Flags = np.all(self.demand <= smaller.limit, axis=1)
        if keep.all():
            return smaller
        return smaller.only(keep, start=offsets(keep)[self.start])

    @cached_property
    def cost(self) -> Floats:
        """Weighted completion time ω·t of each configuration, shape (K,)."""
        return self.time_s if (self.weight == 1).all() else self.spread(self.weight) * self.time_s

    @cached_property
    def limit(self) -> Floats:
        """Capacity of each resource plus its tolerance, shape (R,)."""
        return all_loosened(self.capacity)


def resource_limits(instance: AllocationInstance) -> tuple[tuple[str, ...], Floats]:
    """Return names and capacities of the resources, with the hourly budget last if there is one."""
    limits = dict(instance.resources)
    if instance.budget_usd_per_hour is not None:
        limits[BUDGET] = instance.budget_usd_per_hour
    return tuple(limits), np.array([*limits.values()])


def task_demands(instance: AllocationInstance, table: JobTable) -> tuple[Floats, Floats]:
    """Return the demands of one parameter server and of one worker of each variant, both (V, R)."""
    if instance.budget_usd_per_hour is None:
        return table.ps_demand, table.worker_demand
    # The budget is one more resource, of which a task takes its hourly cost.
    prices = np.array([instance.prices_usd_per_hour.get(name, 0.0) for name in table.resources])
    per_ps, per_worker = (
        np.column_stack([demand, (demand * prices).sum(axis=1)])
        for demand in (table.ps_demand, table.worker_demand)
    )
    return per_ps, per_worker


def demand_of(per_task: tuple[Floats, Floats], variant: Ints | int, ps: Ints, workers: Ints) -> Floats:
    """Return what these tasks of variants take, shape (K, R).

    Parameters
    ----------
    per_task
        Demands of one parameter server and of one worker of each variant, both (V, R).
    """
    per_ps, per_worker = per_task
    return ps[:, None] * per_ps[variant] + workers[:, None] * per_worker[variant]


def completion_time_s(
    table: JobTable, variant: Ints, ps: Ints, workers: Ints, step_s: Floats, moved: Flags | bool = False
) -> Floats:
    """Return the completion time t = Q / f(p, w) [s], plus the restart time if the configuration changes.

    Parameters
    ----------
    variant
        Indices of variants in the table of jobs; all arrays have one shape.
    step_s
        1/f, from `formula_step_s` or a measurement.
    moved
        Whether the tasks are on other servers than now.
    """
    job = table.owner[variant]
    time = table.remaining_steps[job] * step_s
    same = (table.current_variant[job] == variant) & (table.current_ps[job] == ps)
    same &= (table.current_workers[job] == workers) & ~np.asarray(moved)
    return np.where(same, time, time + table.restart_s[job])


def formula_step_s(
    table: JobTable, variant: Ints, ps: Ints, workers: Ints, sending: Floats | None = None
) -> Floats:
    """Return the step time 1/f(p, w) [s] by the variant's speed formula; NaN where speed is measured.

    Parameters
    ----------
    sending
        What stands for w in w/p where some tasks are on one server (see `splits`); None: w.
    """
    step = np.full(len(variant), np.nan)
    model = table.model[variant]
    for code, name in enumerate(MODELS):
        here = np.flatnonzero(model == code)
        if len(here):
            count, formula = FORMULAS[name]
            rows = variant[here]
            theta = [table.theta[rows, index] for index in range(count)]
            p, w = ps[here].astype(float), workers[here].astype(float)
            if sending is not None and name in NETWORKED:
                theta[NETWORKED[name]] = theta[NETWORKED[name]] * (sending[here] / w)
            step[here] = formula(theta, table.batch[rows], p, w)
    return step


def measured_step_s(table: JobTable, variant: Ints, ps: Ints, workers: Ints, servers: Ints) -> Floats:
    """Return the measured step time [s] of each configuration; NaN if it has none.

    Parameters
    ----------
    servers
        Number of servers of the tasks; 0 where these are in one pool.
    """
    step = np.full(len(variant), np.nan)
    if not len(table.row_ps):
        return step
    of_row = run_of_each(table.first_row)
    if table.row_servers is not None:
        # Few measurements name servers: a dictionary is simpler than a search in four sorted columns.
        rows = np.stack([of_row, table.row_ps, table.row_workers, table.row_servers], axis=1).tolist()
        listed = dict(zip(map(tuple, rows), (1.0 / table.row_steps_per_s).tolist(), strict=True))
        wanted = np.stack([variant, ps, workers, servers], axis=1)
        for i, (v, p, w, k) in enumerate(wanted.tolist()):
            step[i] = listed.get((v, p, w, k), listed.get((v, p, w, 0), np.nan))
        return step
    widest, most = int(table.row_workers.max()) + 1, int(table.row_ps.max()) + 1
    keys = (of_row * widest + table.row_workers) * most + table.row_ps
    wanted = (variant * widest + np.minimum(workers, widest)) * most + np.minimum(ps, most)
    # Keys of counts beyond the widest may collide, so that the row is compared below.
    row = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    found = (of_row[row] == variant) & (table.row_workers[row] == workers) & (table.row_ps[row] == ps)
    step[found] = 1.0 / table.row_steps_per_s[row[found]]
    return step


def max_tasks(demand: Floats, limit: Floats, highest: Ints) -> Ints:
    """Return the number of tasks of each variant that fit in the empty cluster, at most `highest`."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        # Rounding may let one task too many through; exact demands are compared afterwards.
        ratio = np.where(demand > 0, all_loosened(limit) / demand, np.inf).min(axis=1)
    fitting: Ints = np.floor(np.minimum(ratio, 1e9)).astype(np.int64)
    return np.minimum(highest, fitting)


def _grid_sizes(table: JobTable, per_task: tuple[Floats, Floats], limit: Floats) -> tuple[Ints, Ints]:
    """Return, for each variant, the number of values of p, and of pairs (p, w), that may fit alone.

    For measured speeds the second is the number of measured rows.
    """
    measured = table.model == TABLE
    wide_ps = np.maximum(max_tasks(per_task[0], limit, table.max_ps) - table.min_ps + 1, 0)
    wide_workers = np.maximum(max_tasks(per_task[1], limit, table.max_workers) - table.min_workers + 1, 0)
    count = np.where(measured, np.diff(table.first_row), wide_ps * wide_workers)
    return np.maximum(wide_ps, 1), count


def _job_blocks(count: Ints) -> Iterator[tuple[int, int]]:
    """Yield consecutive blocks of jobs of limited total size, as first and last job (exclusive)."""
    start, first = offsets(count), 0
    while first < len(count):
        last = max(first + 1, int(np.searchsorted(start, start[first] + BLOCK_SIZE)) - 1)
        yield first, min(last, len(count))
        first = last


def build_configurations(instance: AllocationInstance, table: JobTable) -> Configurations:
    """Return the table of configurations that keep the job's deadline and fit in the empty cluster.

    Raises
    ------
    TooLargeError
        If there are more than 250 million configurations.
    """
    resources, capacity = resource_limits(instance)
    limit = all_loosened(capacity)
    per_task = task_demands(instance, table)
    grids = _grid_sizes(table, per_task, limit)
    count = np.add.reduceat(grids[1], table.first_variant[:-1]) + table.optional
    if count.sum() > MAX_CONFIGURATIONS:
        raise TooLargeError(
            f"there are {count.sum():,} configurations, and at most {MAX_CONFIGURATIONS:,} can be "
            "held; narrow the ranges of ps and workers"
        )
    most = int(count.sum())
    columns: list[Any] = [np.empty(most, np.int32) for _ in range(3)]
    demand_shape = most, len(resources)
    columns += [np.empty(most), np.empty(demand_shape) if most < MANY else NarrowFloats(demand_shape)]
    filled, counts = 0, []
    for first, last in _job_blocks(count):
        check_time()
        own, *part = _block_columns(table, grids, per_task, limit, first, last)
        counts.append(own)
        for column, piece in zip(columns, part, strict=True):
            column[filled : filled + own.sum()] = piece
        filled += own.sum()
    start = offsets(np.concatenate(counts))
    *others, demand = columns
    if isinstance(demand, NarrowFloats):
        demand.truncate(filled)
    else:
        demand = demand[:filled]
    variant, ps, workers, time = (column[:filled] for column in others)
    return Configurations(start, variant, ps, workers, time, demand, table.weight, resources, capacity)


def grid_rows(table: JobTable, variant: Ints, place: Ints, wide_ps: Ints) -> tuple[Ints, Ints, Floats]:
    """Return p, w and the step time 1/f(p, w) [s] at places of the variants' grids.

    Place k of a grid is p = low + k mod width, w = low + k div width: p varies fastest. Of measured speeds it
    is the k-th row.

    Parameters
    ----------
    wide_ps
        Width of the grid of each variant, shape (V,).
    """
    ps = table.min_ps[variant] + place % wide_ps[variant]
    workers = table.min_workers[variant] + place // wide_ps[variant]
    step = formula_step_s(table, variant, ps, workers)
    measured = np.flatnonzero(table.model[variant] == TABLE)
    row = table.first_row[variant[measured]] + place[measured]
    ps[measured], workers[measured] = table.row_ps[row], table.row_workers[row]
    step[measured] = 1.0 / table.row_steps_per_s[row]
    return ps, workers, step


def _block_columns(
    table: JobTable,
    grids: tuple[Ints, Ints],
    per_task: tuple[Floats, Floats],
    limit: Floats,
    first: int,
    last: int,
) -> tuple[Any, ...]:
    """Return each job's number of configurations, and the columns of the table, for a block of jobs.

    The columns: variant, ps, workers, completion time in seconds, demand of each resource.
    """
    low, high = int(table.first_variant[first]), int(table.first_variant[last])
    wide_ps, count = grids[0], grids[1][low:high]
    variant = np.repeat(np.arange(low, high), count)
    place = np.arange(len(variant)) - np.repeat(np.cumsum(count) - count, count)
    ps, workers, step = grid_rows(table, variant, place, wide_ps)
    time = completion_time_s(table, variant, ps, workers, step)
    demand = demand_of(per_task, variant, ps, workers)
    job = table.owner[variant]
    keep = (demand <= limit).all(axis=1) & (time <= all_loosened(table.deadline_s[first:last])[job - first])
    index = variant - table.first_variant[job]
    columns: list[Any] = [job, index, ps, workers, time, demand]
    if not keep.all():
        columns = [column[keep] for column in columns]
    optional = first + np.flatnonzero(~np.isnan(table.unplaced_s[first:last]))
    if len(optional):
        columns = _with_unplaced(columns, optional, table.unplaced_s[optional])
    job, *others = columns
    return np.bincount(job - first, minlength=last - first), *others


def _with_unplaced(columns: list[Any], jobs: Ints, time_s: Floats) -> list[Any]:
    """Append the configuration `unplaced` to the table columns of each optional job."""
    where = np.searchsorted(columns[0], jobs, side="right")
    zero = np.zeros(len(jobs), dtype=np.int64)
    nothing = np.zeros((len(jobs), columns[5].shape[1]))
    added = [jobs, zero + UNPLACED, zero, zero, time_s, nothing]
    return [np.insert(old, where, new, axis=0) for old, new in zip(columns, added, strict=True)]
