"""Why a job cannot run even alone: which deadline or resource excludes each of its variants."""

from __future__ import annotations

import numpy as np

from ...instances.allocation.instance import AllocationInstance
from ...instances.allocation.job_table import TABLE, JobTable
from ...instances.common.arrays import Ints
from ..common.tolerance import within
from .configurations import BUDGET, completion_time_s, formula_step_s, resource_limits, task_demands

MOST_PAIRS = 1_000_000
"""Configurations that are examined; beyond, the largest numbers of tasks are left out."""


def why_never(instance: AllocationInstance, table: JobTable, j: int) -> list[str]:
    """Return for each variant of a job that cannot run alone what it breaks, and by how much."""
    return [
        f"job {table.names[j]!r}, variant {table.variant_names[v]!r}: {_reason(instance, table, j, v)}"
        for v in range(int(table.first_variant[j]), int(table.first_variant[j + 1]))
    ]


def _reason(instance: AllocationInstance, table: JobTable, j: int, v: int) -> str:
    ps, workers = _pairs(table, v)
    variant = np.full(len(ps), v)
    step = formula_step_s(table, variant, ps, workers)
    if table.model[v] == TABLE:
        step = 1.0 / table.row_steps_per_s[table.first_row[v] : table.first_row[v + 1]]
    time = completion_time_s(table, variant, ps, workers, step)
    deadline = float(table.deadline_s[j])
    early = np.array([within(t, deadline) for t in time.tolist()])
    if not early.any():
        return f"takes at least {time.min():g} s; its deadline of {deadline:g} s is earlier"
    ps_demand, worker_demand = task_demands(instance, table)
    # The least of each resource over all configurations in time; two of these need not go together.
    least = (ps[early, None] * ps_demand[v] + workers[early, None] * worker_demand[v]).min(axis=0)
    names, limits = resource_limits(instance)
    short = [
        f"{need:g} {'USD/h' if name == BUDGET else name}, {need - limit:g} more than the {limit:g} "
        f"{'of budget_usd_per_hour' if name == BUDGET else 'there are'}"
        for name, need, limit in sorted(zip(names, least.tolist(), limits.tolist(), strict=True))
        if not within(need, limit)
    ]
    kept = f" to keep its deadline of {deadline:g} s" if not early.all() else ""
    if short:
        return f"needs at least {'; '.join(short)}{kept}"
    return f"none of its configurations fits in the cluster{kept}"


def _pairs(table: JobTable, v: int) -> tuple[Ints, Ints]:
    """Return the parameter servers and workers of each configuration of a variant."""
    if table.model[v] == TABLE:
        rows = slice(table.first_row[v], table.first_row[v + 1])
        return table.row_ps[rows], table.row_workers[rows]
    low_p, low_w = int(table.min_ps[v]), int(table.min_workers[v])
    wide_p = min(int(table.max_ps[v]) - low_p + 1, MOST_PAIRS)
    wide_w = max(1, min(int(table.max_workers[v]) - low_w + 1, MOST_PAIRS // wide_p))
    place = np.arange(wide_p * wide_w)
    return low_p + place % wide_p, low_w + place // wide_p
