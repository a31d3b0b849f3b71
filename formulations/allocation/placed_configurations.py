"""Configurations of jobs on servers: each (p, w) at the least time of any split, or a row for each split.

The table is that of the relaxation in which servers have only their total capacities, and with prices of
pieces one capacity more (see `splits`).
"""

from __future__ import annotations

from collections.abc import Iterator
from types import MappingProxyType

import numpy as np

from ...instances.allocation.instance import AllocationInstance
from ...instances.allocation.job_table import TABLE, JobTable
from ...instances.common.arrays import Floats, Ints, offsets
from ..common.clock import check_time
from ..common.objective import all_loosened, loosened
from .configurations import (
    UNPLACED,
    Configurations,
    demand_of,
    formula_step_s,
    measured_step_s,
    resource_limits,
    task_demands,
)
from .splits import (
    PIECES,
    STAYS,
    PiecePrices,
    Servers,
    SplitTable,
    piece_price,
    remote_tasks,
    sending_workers,
)

NO_PRICES: PiecePrices = MappingProxyType({})


def placed_configurations(
    instance: AllocationInstance, table: JobTable, servers: Servers, prices: PiecePrices = NO_PRICES
) -> Configurations:
    """Return the table of configurations that keep their job's deadline and fit on the empty servers.

    Staying where a job runs is a row of its own.

    Parameters
    ----------
    prices
        Of pieces; without them each (p, w) has the least time of any split.

    Raises
    ------
    TooLargeError
        If a variant has too many splits.
    """
    resources, capacity = resource_limits(instance)
    if prices:
        resources, capacity = (*resources, PIECES), np.append(capacity, servers.earnings(prices))
    splits = SplitTable(table, servers, prices)
    # Columns: variant, p, w, spread, time, price of pieces.
    parts, counts = [], []
    for job in range(len(table)):
        check_time()
        rows = np.concatenate([*_rows_of(table, splits, job)], axis=1)
        rows = rows[:, rows[4] <= loosened(float(table.deadline_s[job]))]
        if table.optional[job]:
            unplaced = np.array([[UNPLACED], [0.0], [0.0], [0.0], [table.unplaced_s[job]], [0.0]])
            rows = np.concatenate([rows, unplaced], axis=1)
        parts.append(rows)
        counts.append(rows.shape[1])
    whole = np.concatenate(parts, axis=1)
    variant, ps, workers, spread = whole[:4].astype(np.int32)
    time_s, price = whole[4:]
    start = offsets(counts)
    placed = variant != UNPLACED
    own = np.repeat(table.first_variant[:-1], counts) + np.where(placed, variant, 0)
    demand = demand_of(task_demands(instance, table), own, ps, workers) * placed[:, None]
    if prices:
        demand = np.column_stack([demand, price])
    columns = variant, ps, workers, time_s, demand
    return Configurations(start, *columns, table.weight, resources, capacity, spread).within(capacity)


def _rows_of(table: JobTable, splits: SplitTable, job: int) -> Iterator[Floats]:
    """Yield the rows of the splits of each variant of a job, and of staying where it runs."""
    first = int(table.first_variant[job])
    current, pieces = int(table.current_variant[job]), splits.servers.current.get(job)
    steps, restart = float(table.remaining_steps[job]), float(table.restart_s[job])
    for variant in range(first, int(table.first_variant[job + 1])):
        found = splits.of(variant)
        index = np.full(len(found.ps), variant)
        step = found.measured_s
        if step is None:
            sending = sending_workers(found.workers, found.spread, splits.servers.share)
            step = formula_step_s(table, index, found.ps, found.workers, sending)
        time = steps * step + restart
        if variant == current and pieces is None:
            same = (found.ps == table.current_ps[job]) & (found.workers == table.current_workers[job])
            time = np.where(same, steps * step, time)
        yield np.stack([index - first, found.ps, found.workers, found.spread, time, found.price])
        if variant == current and pieces is not None:
            yield _staying(table, splits, job, pieces)


def _staying(table: JobTable, splits: SplitTable, job: int, pieces: Ints) -> Floats:
    """Return the row of staying where a job runs; none if it may not, as its servers are too small now."""
    own, servers = slice(job, job + 1), splits.servers
    variant, ps, workers = table.current_variant[own], table.current_ps[own], table.current_workers[own]
    measured = table.model[variant] == TABLE
    inside = (table.min_ps[variant] <= ps) & (ps <= table.max_ps[variant])
    inside &= (table.min_workers[variant] <= workers) & (workers <= table.max_workers[variant])
    demand = pieces[:, 1:] @ np.concatenate([table.ps_demand[variant], table.worker_demand[variant]])
    fits = np.all(demand <= all_loosened(servers.free[pieces[:, 0]]))
    if not (len(pieces) and (inside | measured) and fits):
        return np.zeros((6, 0))
    if measured:
        step_s = measured_step_s(table, variant, ps, workers, np.array([len(pieces)]))
    else:
        remote = np.array([remote_tasks(*pieces.T[1:])])
        sending = sending_workers(workers, remote, servers.share)
        step_s = formula_step_s(table, variant, ps, workers, sending)
    price = piece_price(splits.prices, table.resources, demand).sum()
    index, time_s = variant - table.first_variant[job], table.remaining_steps[own] * step_s
    row = np.stack([index, ps, workers, [STAYS], time_s, [price]])
    return row[:, np.isfinite(step_s)]
