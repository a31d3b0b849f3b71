"""The plot of mean completion time against the hourly cost of the cluster."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from ...formulations.allocation.cluster_grid import ClusterGrid
from ...formulations.allocation.cluster_grids import cluster_grid_of
from ...instances.allocation.instance import AllocationInstance
from ...instances.common.errors import OptionError, TooLargeError
from ...solvers.allocation.frontier_result import AllocationFrontier, AllocationPoint, ClusterBound
from ..reports.frontier_figure import Drawing, between, nothing_below
from ..reports.plot_style import Figure, layout, shown, spread_axis
from ..reports.text import duration, short, unit_of_time

Corners = list[tuple[float, float]]


def lower_steps(instance: AllocationInstance, frontier: AllocationFrontier) -> Corners:
    """Return the lower envelope of bounds: hourly costs from which on no plan has a lower mean.

    The bound of a cluster holds for all cheaper ones down to the next one with a bound. Left of the first
    corner it is proven that there is no plan, or nothing is known.
    """
    known = _known_bounds(frontier)
    try:
        grid = cluster_grid_of(
            instance, frontier.mix, frontier.prices_usd_per_hour, frontier.most_usd_per_hour
        )
        starts = [_next_rate(grid, rate, capacities) for rate, capacities, _ in known]
    except (OptionError, TooLargeError):
        starts = [rate for rate, _, _ in known]  # where the cluster above begins is not known: too early
    corners: Corners = []
    best = 0.0
    for index in reversed(range(len(known))):
        best = max(best, known[index][2])
        if math.isinf(best):
            break
        start = starts[index - 1] if index else known[index][0]
        if best > 0:
            corners.append((start, best))
    return corners[::-1]


def _known_bounds(frontier: AllocationFrontier) -> list[tuple[float, Mapping[str, float], float]]:
    """Return rate, capacities and bound of each cluster that has one, in the order of the rates."""
    known: list[tuple[float, Mapping[str, float], float]] = []
    records: tuple[AllocationPoint | ClusterBound, ...] = (*frontier.points, *frontier.others)
    for record in records:
        certified, proven = record.certified_bound_s, record.bound_s
        bound = certified if certified is not None else proven if proven is not None else 0.0
        if isinstance(record, ClusterBound) and record.no_plan:
            bound = math.inf
        known.append((record.rate_usd_per_hour, record.capacities, bound))
    return sorted(known, key=lambda cluster: cluster[0])


def _next_rate(grid: ClusterGrid, rate: float, capacities: Mapping[str, float]) -> float:
    """Return the hourly cost of the next dearer cluster."""
    step = grid.step_of(rate, capacities)
    return rate if step is None else max(rate, grid.rate(grid.next(step)))


def cluster_words(point: AllocationPoint) -> str:
    """Return what is in a cluster."""
    return ", ".join(f"{short(amount, 5)} {name}" for name, amount in point.capacities.items())


def drawing_of(unit: float) -> Drawing[AllocationPoint]:
    """Return how clusters are drawn, with mean completion times in a unit of so many seconds."""

    def hover(point: AllocationPoint) -> list[str]:
        mean = f"mean completion {duration(point.mean_completion_s)}"
        return [f"{short(point.rate_usd_per_hour)} USD/h", mean, shown(cluster_words(point))]

    # From right to left: where a cluster can no longer be had, up to the mean of the next.
    return Drawing(lambda point: (point.rate_usd_per_hour, point.mean_completion_s / unit), hover, "vh")


def allocation_frontier_figure(
    instance: AllocationInstance, frontier: AllocationFrontier, points: Sequence[AllocationPoint], start: int
) -> tuple[Figure, dict[str, int]]:
    """Return the plot, and which of its traces are the frontier, the current cluster and the ring."""
    unit, name = unit_of_time(points[-1].mean_completion_s)
    drawing, lower = drawing_of(unit), lower_steps(instance, frontier)
    places = [drawing.place(p) for p in sorted(points, key=lambda point: point.rate_usd_per_hour)]
    rates, means = [x for x, _ in places], [y for _, y in places]
    every = [*places, *([drawing.place(frontier.current)] if frontier.current else [])]
    every += [(rate, bound / unit) for rate, bound in lower]
    x = spread_axis("cost of the cluster [USD/h]", [x for x, _ in every])
    y = spread_axis(f"mean completion time [{name}]", [y for _, y in every])
    traces = []
    if lower:
        end = max(rates[-1], lower[-1][0])
        traces += [nothing_below(lower, end, unit), between(rates, means, end)]
    at = {"line": len(traces), "star": -1, "ring": len(traces) + 1}
    traces += [drawing.line(points), drawing.ring(points[start])]
    if frontier.current is not None:
        at["star"] = len(traces)
        traces.append(drawing.star(frontier.current, "today's cluster"))
    return {"data": traces, "layout": layout(x, y, 460)}, at
