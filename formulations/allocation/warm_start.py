"""A plan of an earlier instance, made to fit the instance of now: jobs have ended, others are new."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np

from ...instances.allocation.job import Tasks
from ...instances.allocation.job_table import JobTable
from ...instances.common.arrays import Floats
from ..common.objective import all_loosened
from .configurations import UNPLACED, Configurations
from .plan import JobAllocation, Plan
from .splits import Servers


def adapted_plan(
    plan: Plan,
    table: JobTable,
    configs: Configurations,
    servers: Servers | None,
) -> tuple[JobAllocation, ...] | None:
    """Return the plan without jobs that have ended, and with new jobs in their smallest configuration.

    A job with a variant that there is no more, or with tasks on servers that have no more room for them,
    counts as new. An optional job that is new is not placed. The plan may still break another constraint;
    None where no servers have room for a new job.
    """
    known = {entry.job: entry for entry in plan}
    free = np.zeros((0, 0)) if servers is None else servers.free.copy()
    kept, new = [], []
    for j, name in enumerate(table.names):
        listed = table.variant_names[int(table.first_variant[j]) : int(table.first_variant[j + 1])]
        old = known.get(name)
        known_variant = old is not None and (not old.placed or old.variant in listed)
        if old is not None and known_variant and _takes_room(old, table, j, servers, free):
            kept.append(old)
        elif table.optional[j]:
            kept.append(JobAllocation(job=name, placed=False))
        else:
            new.append(j)
    for j in new:
        own = np.arange(configs.start[j], configs.start[j + 1])
        own = own[configs.variant[own] != UNPLACED]
        if not len(own):
            return None
        k = int(own[np.argmin((configs.ps + configs.workers)[own])])
        variant = int(table.first_variant[j] + configs.variant[k])
        tasks = int(configs.ps[k]), int(configs.workers[k])
        placement = None if servers is None else _first_fit(tasks, table, variant, servers, free)
        if servers is not None and placement is None:
            return None
        name, (ps, workers) = table.variant_names[variant], tasks
        added: dict[str, Any] = {"variant": name, "ps": ps, "workers": workers}
        kept.append(JobAllocation(job=table.names[j], placement=placement, **added))
    return tuple(kept)


def _takes_room(
    entry: JobAllocation, table: JobTable, job: int, servers: Servers | None, free: Floats
) -> bool:
    """Return whether there is room for an entry's tasks on its servers; subtract them from `free` then."""
    placement = entry.placement or {}
    if servers is None or entry.variant is None:
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
