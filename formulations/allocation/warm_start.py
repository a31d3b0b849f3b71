"""A plan of an earlier instance, made to fit the instance of now: jobs have ended, others are new."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from ...instances.allocation.job import Tasks
from ...instances.allocation.job_table import JobTable
from ...instances.common.arrays import Floats
from ..common.objective import all_loosened
from .configurations import Configurations
from .plan import MANY_ENTRIES, JobAllocation, Plan, PlanTable
from .splits import Servers


def adapted_plan(
    plan: Plan, table: JobTable, configs: Configurations, servers: Servers | None
) -> Plan | None:
    """Return the plan without jobs that have ended, and with new jobs in their smallest configuration.

    A job with a variant that there is no more, or with tasks on servers that have no more room for them,
    counts as new. An optional job that is new is not placed. The plan may still break another constraint;
    None where a new job has no configuration, or no servers have room for it.
    """
    old, names, first = PlanTable.of(plan), table.variant_names, table.first_variant
    rows = {job: row for row, job in enumerate(old.names)}
    row = np.array([rows.get(job, -1) for job in table.names])
    variants = [old.variants[r] if r >= 0 else None for r in row.tolist()]
    ends = zip(row.tolist(), variants, first[:-1].tolist(), first[1:].tolist(), strict=True)
    known = np.array([r >= 0 and (own is None or own in names[low:high]) for r, own, low, high in ends])
    placements: dict[int, dict[str, Tasks]] = {}
    if servers is not None:
        free = servers.free.copy()
        for j in np.flatnonzero(known).tolist():
            entry = plan[int(row[j])]
            known[j] = _takes_room(entry, table, j, servers, free)
            placements[j] = entry.placement or {}
    # The row −1 of a job that is new is one behind the last.
    placed, ps, workers = (
        np.where(known, np.append(column, 0)[row], 0) for column in (old.placed, old.ps, old.workers)
    )
    for j in np.flatnonzero(~known).tolist():
        variants[j] = None
        if table.optional[j]:
            continue
        own = np.arange(configs.start[j], configs.start[j + 1])
        if not len(own):
            return None
        k = int(own[np.argmin(configs.ps[own] + configs.workers[own])])
        variant = int(first[j] + configs.variant[k])
        variants[j], placed[j], ps[j], workers[j] = names[variant], True, configs.ps[k], configs.workers[k]
        if servers is not None:
            tasks = _first_fit((int(ps[j]), int(workers[j])), table, variant, servers, free)
            if tasks is None:
                return None
            placements[j] = tasks
    made = PlanTable(table.names, placed.astype(bool), variants, ps, workers, np.full(len(row), np.nan))
    if servers is None:
        return made if len(made) >= MANY_ENTRIES else tuple(made)
    return tuple(
        entry.model_copy(update={"placement": placements[j]}) if entry.placed else entry
        for j, entry in enumerate(made)
    )


def _takes_room(entry: JobAllocation, table: JobTable, job: int, servers: Servers, free: Floats) -> bool:
    """Return whether there is room for an entry's tasks on its servers; subtract them from `free` then."""
    placement = entry.placement or {}
    if entry.variant is None:
        return True
    if not placement.keys() <= servers.index.keys():
        return False
    variant = table.variant_names.index(entry.variant, int(table.first_variant[job]))
    at = [servers.index[name] for name in placement]
    counts = np.array([[tasks.ps, tasks.workers] for tasks in placement.values()]).reshape(-1, 2)
    demand = counts @ np.stack([table.ps_demand[variant], table.worker_demand[variant]])
    fits = bool((demand <= all_loosened(free[at])).all())
    if fits:
        free[at] -= demand
    return fits


def _first_fit(
    tasks: tuple[int, int], table: JobTable, variant: int, servers: Servers, free: Floats
) -> dict[str, Tasks] | None:
    """Place parameter servers and workers one by one on the first server with room; None if there is none.

    What they take is subtracted from `free`, shape (S, R).
    """
    placed: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    demands = (table.ps_demand[variant], table.worker_demand[variant])
    for sort, count in enumerate(tasks):
        for _ in range(count):
            room = np.flatnonzero((demands[sort] <= all_loosened(free)).all(axis=1))
            if not len(room):
                return None
            free[room[0]] -= demands[sort]
            placed[servers.names[room[0]]][sort] += 1
    return {name: Tasks(ps=x, workers=y) for name, (x, y) in placed.items()}
