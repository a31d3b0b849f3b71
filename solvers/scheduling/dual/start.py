"""Where the ascent begins: a grid of times, and prices by how many jobs wait in a schedule.

Capacity at a moment brings forward those that wait then: with N waiting jobs and C units, a unit is worth
about N / C.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ....formulations.scheduling.plan import SegmentTable
from ....formulations.scheduling.price_grid import MOST_EDGES, MOST_FIGURES
from ....instances.common.arrays import Floats
from ....instances.scheduling.instance import SchedulingInstance

CELLS = 2_000
"""Of a trace of some thousand jobs; 5,000 raise its bound by hundredths of a percent."""
CELLS_OF_FEW, CELLS_OF_A_JOB = 40, 20
"""Of small traces so many, and so many for each job, are enough."""
MOST_CELLS, JOBS_OF_A_CELL = 4_000, 20
"""Of large traces there is a cell for so many jobs."""
BUSY_SHARE = 0.5
"""Share of the edges that lie where jobs arrive and end; the others lie evenly."""
SHARPNESS = 8.0
"""Of several resources, the price goes to those that are used most: by this power of the share in use."""
FACTORS = (0.25, 0.5, 1.0, 2.0, 4.0)
"""Multiples of the prices by waiting jobs that are tried."""


def time_grid(instance: SchedulingInstance, segments: SegmentTable, cells: int | None = None) -> Floats:
    """Return edges from the first arrival to the end of a schedule, with the times of events.

    Parameters
    ----------
    cells
        About how many; by default as many as pay for so many jobs.
    """
    arrival, ends = instance.table().arrival_s, segments.completion_s
    most = max(CELLS, min(MOST_CELLS, len(arrival) // JOBS_OF_A_CELL))
    cells = cells or min(most, CELLS_OF_FEW + CELLS_OF_A_JOB * len(arrival))
    cells = max(2, min(cells, MOST_FIGURES // len(instance.pool) // 2))
    first, last = float(arrival.min()), float(ends.max())
    count = int(BUSY_SHARE * cells)
    busy = np.quantile(np.concatenate([arrival, ends]), np.linspace(0, 1, count))
    edges = np.union1d(np.linspace(first, last, cells - count + 1), busy)
    events = instance.capacity_over_time[0]
    events = events[(events > first) & (events < last)]
    if len(edges) + len(events) <= min(MOST_EDGES, 2 * cells):
        edges = np.union1d(edges, events)
    return np.asarray(edges)


def first_prices(
    instance: SchedulingInstance, segments: SegmentTable, edges: Floats, capacity: Floats
) -> Iterator[Floats]:
    """Yield prices to begin with, shape (G − 1, R) each: by jobs that wait, and by all that are there.

    Parameters
    ----------
    capacity
        Unit-seconds of each resource in each cell, shape (G − 1, R).
    """
    length = np.diff(edges)[:, None]
    present = _mean(edges, instance.table().arrival_s, segments.completion_s)
    running = _mean(edges, segments.start_s, segments.end_s)
    usage = instance.menus().usage[segments.row]
    used = np.column_stack(
        [_mean(edges, segments.start_s, segments.end_s, usage[:, r]) for r in range(capacity.shape[1])]
    )
    there = np.maximum(capacity / length, 1e-300)
    share = np.minimum(used / there, 1.0) ** SHARPNESS
    share /= np.maximum(share.sum(axis=1, keepdims=True), 1e-300)
    units = np.maximum(instance.capacity_over_time[1].max(axis=0), 1e-300)
    for jobs in (np.maximum(present - running, 0.0), present):
        if jobs.any():
            for factor in FACTORS:
                yield factor * jobs[:, None] / units * share


def _mean(edges: Floats, starts: Floats, ends: Floats, amounts: Floats | None = None) -> Floats:
    """Return how much there is on average in each cell of what lasts from starts to ends."""
    amounts = np.ones(len(starts)) if amounts is None else amounts

    def until(moments: Floats) -> Floats:
        order = np.argsort(moments)
        total = np.append(0.0, np.cumsum(amounts[order]))
        # Measured from the first edge, so that large times do not cancel.
        weighted = np.append(0.0, np.cumsum(amounts[order] * (moments[order] - edges[0])))
        count = np.searchsorted(moments[order], edges)
        return np.asarray(total[count] * (edges - edges[0]) - weighted[count])

    return np.asarray(np.maximum(np.diff(until(starts) - until(ends)) / np.diff(edges), 0.0))
