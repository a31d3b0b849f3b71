"""A plan of an earlier instance, made to fit the instance of now: jobs have ended, others are new."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import numpy as np

from ...instances.allocation.job import Tasks
from ...instances.allocation.job_table import JobTable
from ...instances.common.arrays import Floats
from ..common.objective import all_loosened
from .configurations import UNPLACED, Configurations
from .plan import JobAllocation, Plan, read_entries, server_use
from .splits import Servers


def adapted_plan(
    plan: Plan,
    table: JobTable,
    index: Mapping[str, int],
    configs: Configurations,
    servers: Servers | None,
) -> tuple[JobAllocation, ...] | None:
    """Return the plan without jobs that have ended, and with new jobs in their smallest configuration.

    A job with a variant, or on a server, that there is no more counts as new. An optional job that is new is
    not placed. The plan may still break a capacity; None where no servers have room for a new job.

    Parameters
    ----------
    index
        Index of each job by name.
    """
    known = {entry.job: entry for entry in plan}
    if servers is not None:
        known = {job: e for job, e in known.items() if (e.placement or {}).keys() <= servers.index.keys()}
    kept, new = [], []
    for j, name in enumerate(table.names):
        listed = table.variant_names[int(table.first_variant[j]) : int(table.first_variant[j + 1])]
        old = known.get(name)
        if old is not None and (not old.placed or old.variant in listed):
            kept.append(old)
        elif table.optional[j]:
            kept.append(JobAllocation(job=name, placed=False))
        else:
            new.append(j)
    if servers is not None:
        free = servers.free - server_use(table, read_entries(table, index, kept, servers), servers)
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
