"""A plan of an earlier instance, made to fit the instance of now: jobs have ended, others are new."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from ...instances.allocation.job import Tasks
from ...instances.allocation.job_table import JobTable
from ...instances.common.arrays import Floats
from ..common.objective import all_loosened
from .configurations import UNPLACED, Configurations
from .plan import JobAllocation
from .splits import Servers


def adapted_plan(
    plan: Sequence[JobAllocation], table: JobTable, configs: Configurations, servers: Servers | None
) -> tuple[JobAllocation, ...] | None:
    """Return the plan without jobs that have ended, and with new jobs in their smallest configuration.

    A job with a variant, or on a server, that there is no more counts as new. An optional job that is new is
    not placed. The plan may still break a capacity; None where no servers have room for a new job.
    """
    known: dict[str, JobAllocation] = {}
    for entry in plan:
        gone = servers is not None and any(name not in servers.index for name in entry.placement or {})
        known |= {} if gone else {entry.job: entry}
    adapted: list[JobAllocation | None] = []
    for j, name in enumerate(table.names):
        listed = table.variant_names[int(table.first_variant[j]) : int(table.first_variant[j + 1])]
        old = known.get(name)
        kept = old is not None and (not old.placed or old.variant in listed)
        unplaced = JobAllocation(job=name, placed=False)
        adapted.append(old if kept else unplaced if table.optional[j] else None)
    free = None if servers is None else _free_beside(adapted, table, servers)
    for j, name in enumerate(table.names):
        if adapted[j] is not None:
            continue
        own = np.arange(configs.start[j], configs.start[j + 1])
        own = own[configs.variant[own] != UNPLACED]
        if not len(own):
            return None
        k = int(own[np.argmin((configs.ps + configs.workers)[own])])
        variant = int(table.first_variant[j] + configs.variant[k])
        entry = JobAllocation(
            job=name,
            variant=table.variant_names[variant],
            ps=int(configs.ps[k]),
            workers=int(configs.workers[k]),
        )
        if servers is not None and free is not None:
            placement = _first_fit(entry, table, variant, servers, free)
            if placement is None:
                return None
            adapted[j] = entry.model_copy(update={"placement": placement})
        else:
            adapted[j] = entry
    return tuple(entry for entry in adapted if entry is not None)


def _free_beside(plan: Sequence[JobAllocation | None], table: JobTable, servers: Servers) -> Floats:
    """Return what a plan leaves on each server, shape (S, R)."""
    free = servers.free.copy()
    for j, entry in enumerate(plan):
        if entry is None or not entry.placed:
            continue
        first = int(table.first_variant[j])
        v = next(v for v in range(first, len(table.variant_names)) if table.variant_names[v] == entry.variant)
        for name, (x, y) in zip(entry.placement or {}, entry.pieces, strict=True):
            free[servers.index[name]] -= x * table.ps_demand[v] + y * table.worker_demand[v]
    return free


def _first_fit(
    entry: JobAllocation, table: JobTable, variant: int, servers: Servers, free: Floats
) -> dict[str, Tasks] | None:
    """Place the tasks of a job one by one on the first server with room; None if there is none."""
    placed: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    demands = (table.ps_demand[variant], table.worker_demand[variant])
    for sort, count in enumerate((entry.ps, entry.workers)):
        for _ in range(count):
            room = np.flatnonzero((demands[sort] <= all_loosened(free)).all(axis=1))
            if not len(room):
                return None
            free[room[0]] -= demands[sort]
            placed[servers.names[room[0]]][sort] += 1
    return {name: Tasks(ps=x, workers=y) for name, (x, y) in placed.items()}
