"""Configurations of jobs on servers: each (p, w) at the least time of any split, or a row for each split.

The table is that of the relaxation in which servers have only their total capacities, and with prices of
pieces one capacity more (see `splits`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ...instances.allocation.instance import AllocationInstance
from ...instances.allocation.job_table import TABLE, JobTable
from ...instances.common.arrays import Floats, Ints
from ..common.clock import check_time
from ..common.objective import all_loosened, loosened
from .configurations import (
    UNPLACED,
    Configurations,
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

SIGMA = 1.0
"""Share of the time per worker and parameter server that is spent on the network, if none is given."""


def network_share(instance: AllocationInstance) -> float:
    """Return σ of an instance with servers."""
    return SIGMA if instance.network_share is None else instance.network_share


def placed_configurations(
    instance: AllocationInstance, table: JobTable, servers: Servers, prices: PiecePrices | None = None
) -> Configurations:
    """Return the table of configurations that keep their job's deadline and fit on the empty servers.

    Parameters
    ----------
    prices
        Of pieces; without them each (p, w) has one row, with the least time of any split.

    Raises
    ------
    TooLargeError
        If a variant has too many splits.
    """
    resources, capacity = resource_limits(instance)
    if prices is not None:
        resources, capacity = (*resources, PIECES), np.append(capacity, servers.earnings(prices))
    splits = SplitTable(table, servers, prices)
    # Columns: variant, p, w, spread, time, price of pieces.
    parts, counts = [], []
    for job in range(len(table)):
        check_time()
        rows = np.concatenate([*_rows_of(instance, table, splits, job)], axis=1)
        rows = rows[:, rows[4] <= loosened(float(table.deadline_s[job]))]
        if prices is None:
            rows = _fastest(rows)
        if table.optional[job]:
            unplaced = np.array([[UNPLACED], [0.0], [0.0], [0.0], [table.unplaced_s[job]], [0.0]])
            rows = np.concatenate([rows, unplaced], axis=1)
        parts.append(rows)
        counts.append(rows.shape[1])
    variant, ps, workers, spread, time_s, price = np.concatenate(parts, axis=1)
    start = np.concatenate([[0], np.cumsum(counts)])
    placed = variant != UNPLACED
    own = np.repeat(table.first_variant[:-1], counts) + np.where(placed, variant, 0).astype(np.int64)
    per_ps, per_worker = task_demands(instance, table)
    demand = (ps[:, None] * per_ps[own] + workers[:, None] * per_worker[own]) * placed[:, None]
    if prices is not None:
        demand = np.column_stack([demand, price])
    columns = (variant.astype(np.int32), ps.astype(np.int32), workers.astype(np.int32), time_s, demand)
    spreads = spread.astype(np.int32)
    whole = Configurations(start, *columns, table.weight, resources, capacity, spreads)
    return whole.within(capacity)


def _rows_of(instance: AllocationInstance, table: JobTable, splits: SplitTable, job: int) -> Iterator[Floats]:
    """Yield the rows of the splits of each variant of a job, and of staying where it runs."""
    first = int(table.first_variant[job])
    current, placement = int(table.current_variant[job]), current_pieces(instance, job)
    steps, restart = float(table.remaining_steps[job]), float(table.restart_s[job])
    for variant in range(first, int(table.first_variant[job + 1])):
        found = splits.of(variant)
        index = np.full(len(found.ps), variant)
        step = found.measured_s
        if step is None:
            sending = sending_workers(found.workers, found.spread, network_share(instance))
            step = formula_step_s(table, index, found.ps, found.workers, sending)
        time = steps * step + restart
        if variant == current and placement is None:
            same = (found.ps == table.current_ps[job]) & (found.workers == table.current_workers[job])
            time = np.where(same, steps * step, time)
        columns = [index - first, found.ps, found.workers, found.spread, time, found.price]
        rows: Floats = np.stack(columns).astype(float)
        if variant == current and placement is not None:
            rows = np.append(rows, _staying(instance, table, splits, job, placement), axis=1)
        yield rows


def _staying(
    instance: AllocationInstance,
    table: JobTable,
    splits: SplitTable,
    job: int,
    placement: dict[str, tuple[int, int]],
) -> Floats:
    """Return the row of staying where a job runs; none if it may not, as its servers are too small now."""
    variant, servers = int(table.current_variant[job]), splits.servers
    ps, workers = int(table.current_ps[job]), int(table.current_workers[job])
    inside = table.min_ps[variant] <= ps <= table.max_ps[variant]
    inside &= table.min_workers[variant] <= workers <= table.max_workers[variant]
    pieces = list(placement.values())
    demand = np.array(
        [x * table.ps_demand[variant] + y * table.worker_demand[variant] for x, y in pieces]
    ).reshape(len(pieces), len(table.resources))
    free = servers.free[[servers.index[name] for name in placement]]
    inside |= table.model[variant] == TABLE
    if not (pieces and inside and np.all(demand <= all_loosened(free))):
        return np.zeros((6, 0))
    step_s = placed_step_s(instance, table, variant, pieces)
    price = piece_price(splits.prices or {}, table.resources, demand).sum()
    index = variant - int(table.first_variant[job])
    time = float(table.remaining_steps[job]) * step_s.item()
    row = np.array([[index], [ps], [workers], [STAYS], [time], [price]], dtype=float)
    return row[:, np.isfinite(step_s)]


def current_pieces(instance: AllocationInstance, job: int) -> dict[str, tuple[int, int]] | None:
    """Return server → parameter servers and workers of a running job, where it has any; None if unknown."""
    current = instance.jobs[job].current if instance.has_placements else None
    if current is None or current.placement is None:
        return None
    held = {name: (tasks.ps, tasks.workers) for name, tasks in current.placement.items()}
    return {name: tasks for name, tasks in held.items() if any(tasks)}


def placed_step_s(
    instance: AllocationInstance, table: JobTable, variant: int, pieces: list[tuple[int, int]]
) -> Floats:
    """Return the step time [s] of a variant whose tasks are in these pieces; NaN if it is not measured."""
    one = np.array([variant])
    ps, workers = (np.array([sum(tasks)]) for tasks in zip(*pieces, strict=True))
    if table.model[variant] == TABLE:
        return measured_step_s(table, one, ps, workers, np.array([len(pieces)]))
    remote = np.array([remote_tasks(pieces, int(ps[0]), int(workers[0]))])
    return formula_step_s(table, one, ps, workers, sending_workers(workers, remote, network_share(instance)))


def _fastest(rows: Any) -> Any:
    """Return the rows without those that have more time for the same tasks of the same variant."""
    order = np.lexsort((rows[4], rows[1], rows[2], rows[0]))
    rows = rows[:, order]
    first: Ints = np.flatnonzero((np.diff(rows[:3], axis=1, prepend=-1) != 0).any(axis=0))
    return rows[:, first]
