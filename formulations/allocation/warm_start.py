"""A plan of an earlier instance, made to fit the instance of now: jobs have ended, others are new."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from ...instances.allocation.job import Tasks
from ...instances.allocation.job_table import JobTable
from ...instances.common.arrays import Floats, Ints
from ..common.objective import all_loosened
from .configurations import UNPLACED, Configurations
from .plan import MANY_ENTRIES, Entries, Plan, PlanTable
from .splits import Servers


def adapted_plan(
    plan: Plan, entries: Entries, table: JobTable, configs: Configurations, servers: Servers | None
) -> Plan | None:
    """Return the plan without jobs that have ended, and with new jobs in their smallest configuration.

    A job with a variant that there is no more, or with tasks on servers that have no more room for them,
    counts as new. An optional job that is new is not placed. The plan may still break another constraint;
    None where a new job has no configuration, or no servers have room for it.

    Parameters
    ----------
    entries
        The plan as arrays.
    """
    jobs, known = len(table), np.zeros(len(table), dtype=bool)
    variant, ps, workers = np.full(jobs, UNPLACED), np.zeros(jobs, np.int64), np.zeros(jobs, np.int64)
    known[entries.job], variant[entries.job] = True, entries.variant
    ps[entries.job], workers[entries.job] = entries.ps, entries.workers
    placements: dict[str, dict[str, Tasks]] = {}
    if servers is not None:
        free = servers.free.copy()
        placements = {entry.job: entry.placement or {} for entry in plan}
        pieces = np.split(entries.pieces[:, 1:], np.cumsum(entries.servers)[:-1])
        for row in np.argsort(entries.job).tolist():
            if entries.variant[row] >= 0:
                known[entries.job[row]] = _takes_room(pieces[row], table, entries.variant[row], free)
    for j in np.flatnonzero(~known).tolist():
        variant[j], ps[j], workers[j] = UNPLACED, 0, 0
        if table.optional[j]:
            continue
        own = np.arange(configs.start[j], configs.start[j + 1])
        if not len(own):
            return None
        k = own[np.argmin(configs.ps[own] + configs.workers[own])]
        ps[j], workers[j] = configs.ps[k], configs.workers[k]
        variant[j] = table.first_variant[j] + configs.variant[k]
        if servers is not None:
            tasks = _first_fit((int(ps[j]), int(workers[j])), table, int(variant[j]), servers, free)
            if tasks is None:
                return None
            placements[table.names[j]] = tasks
    names = [table.variant_names[v] if v >= 0 else None for v in variant.tolist()]
    made = PlanTable(table.names, variant >= 0, names, ps, workers, np.full(jobs, np.nan))
    if servers is None:
        return made if len(made) >= MANY_ENTRIES else tuple(made)
    return tuple(
        entry.model_copy(update={"placement": placements[entry.job]}) if entry.placed else entry
        for entry in made
    )


def _takes_room(pieces: Ints, table: JobTable, variant: int, free: Floats) -> bool:
    """Return whether there is room for pieces of a variant on their servers; subtract them from `free` then.

    Parameters
    ----------
    pieces
        Server (−1: unknown), parameter servers and workers of each.
    """
    at = pieces[:, 0]
    demand = pieces[:, 1:] @ np.stack([table.ps_demand[variant], table.worker_demand[variant]])
    fits = bool((at >= 0).all() and (demand <= all_loosened(free[at])).all())
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
