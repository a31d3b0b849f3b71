"""Where the ascent begins: a grid of times, and prices that a schedule suggests.

A unit-second that is taken away at t delays the least urgent jobs that run then, and these delay others that
are less urgent still, until nobody waits. Jobs that run at s with weight ω, width a and length p pass on what
is lost at a rate of ω / (a p), Smith's ratio, of the least urgent of them: ρ(s). What is more urgent than all
that was delayed is not delayed. So the price is

    λ(t) = ∫ ρ(s) over the s ≥ t at which ρ(s) is the least since t,

exactly so for a fluid of jobs on one machine. On several the least urgent job that runs may be there only
because nobody else fits, so that quantiles of ρ take the place of the least.
"""

from __future__ import annotations

import numpy as np

from ....formulations.common.tolerance import TIE
from ....formulations.scheduling.certificate import LATEST_S, MOST_EDGES, MOST_FIGURES
from ....formulations.scheduling.plan import SegmentTable
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
URGENCY = (0.5, 0.3, 0.7)
"""Quantiles of ρ that are tried, of what runs."""
FACTORS = (0.8, 1.2, 1.5)
"""Multiples of the prices of the best quantile that are tried."""
WAITING = (0.5, 1.0, 2.0)
"""Prices by how many wait, over the units there are, are tried in these multiples too."""


def time_grid(instance: SchedulingInstance, segments: SegmentTable, cells: int | None = None) -> Floats:
    """Return edges from the first arrival to the end of a schedule, with the times of events.

    Beyond the latest time at which there may be prices, units are free: the bound is one all the same.

    Parameters
    ----------
    cells
        About how many; by default as many as pay for so many jobs.
    """
    arrival, ends = instance.table().arrival_s, np.minimum(segments.completion_s, LATEST_S)
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
) -> tuple[list[Floats], list[Floats]]:
    """Return prices to begin with, shape (G − 1, R) each: by what a lost second delays, and by who waits.

    Parameters
    ----------
    capacity
        Unit-seconds of each resource in each cell, shape (G − 1, R).
    """
    length = np.diff(edges)
    present = _mean(edges, instance.table().arrival_s, segments.completion_s)
    waiting = np.maximum(present - _mean(edges, segments.start_s, segments.end_s), 0.0)
    if not waiting.any():
        return [], []
    usage = instance.menus().usage[segments.row]
    used = np.column_stack(
        [_mean(edges, segments.start_s, segments.end_s, usage[:, r]) for r in range(capacity.shape[1])]
    )
    there = np.maximum(capacity / length[:, None], 1e-300)
    share = np.minimum(used / there, 1.0) ** SHARPNESS
    share /= np.maximum(share.sum(axis=1, keepdims=True), 1e-300)
    units = np.maximum(instance.capacity_over_time[1].max(axis=0), 1e-300)
    price = share / units
    urgent = _urgencies(instance, segments, edges, (usage / units).max(axis=1))
    somebody_waits = waiting > TIE * len(present)
    delays = [_passed_on(np.where(somebody_waits, ratio, 0.0), length) for ratio in urgent]
    return [delay[:, None] * price for delay in delays], [k * waiting[:, None] * price for k in WAITING]


def _urgencies(
    instance: SchedulingInstance, segments: SegmentTable, edges: Floats, width: Floats
) -> list[Floats]:
    """Return quantiles of Smith's ratio of what runs in the middle of each cell, shape (G − 1,) each.

    Parameters
    ----------
    width
        What each segment takes of the resource of which it takes the largest share, shape (S,).
    """
    table, menus = instance.table(), instance.menus()
    weight = table.weight / table.weight.max()
    length_s = menus.work[segments.job] / menus.speed[segments.row]
    ratio = weight[segments.job] / np.maximum(width * length_s, 1e-300)
    middle = (edges[:-1] + edges[1:]) / 2
    first, end = np.searchsorted(middle, segments.start_s), np.searchsorted(middle, segments.end_s)
    count = np.maximum(end - first, 0)
    segment = np.repeat(np.arange(len(count)), count)
    cell = np.arange(len(segment)) - np.repeat(np.cumsum(count) - count, count) + first[segment]
    order = np.lexsort((ratio[segment], cell))
    segment, cell = segment[order], cell[order]
    total = np.bincount(cell, width[segment], len(middle))
    until = np.cumsum(width[segment]) - (np.cumsum(total) - total)[cell]
    found = []
    for quantile in URGENCY:
        reached = np.flatnonzero(until >= quantile * total[cell])
        cells, at = np.unique(cell[reached], return_index=True)
        of_cell = np.zeros(len(middle))
        of_cell[cells] = ratio[segment[reached[at]]]
        found.append(of_cell)
    return found


def _passed_on(ratio: Floats, length: Floats) -> Floats:
    """Return what a second that is lost in each cell costs, shape (G − 1,): see the head of this file."""
    cost = np.append(np.zeros_like(ratio), 0.0)
    rate = np.append(ratio, 0.0)
    later = [len(ratio)]  # cells in which the ratio is less than in all between them and here
    for g in range(len(ratio) - 1, -1, -1):
        while rate[later[-1]] > rate[g]:
            later.pop()
        cost[g] = rate[g] * length[g] + cost[later[-1]]
        later.append(g)
    return cost[:-1]


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
