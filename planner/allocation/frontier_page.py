"""HTML page of an allocation frontier: its plot, the clusters, and the best plan for each."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...formulations.allocation.cluster_grids import ClusterGrid, cluster_grid_of
from ...formulations.allocation.configurations import BUDGET
from ...instances.allocation.instance import AllocationInstance
from ...instances.common.errors import OptionError, TooLargeError
from ...solvers.allocation.frontier_result import AllocationFrontier, AllocationPoint, ClusterBound
from ...solvers.common.result import Result
from ..reports.frontier_page import MAX_POINTS, Drawing, FrontierPage, infeasible_area, open_area
from ..reports.page import CellColumn, Column, figure_column, instance_facts, seconds, share, text_column
from ..reports.plot_style import Figure, plot_of, plot_text, spread_axis
from ..reports.text import duration, percent, short, unit_of_time
from .frontier import rate_of_cheaper_point
from .plan import Usage

Corners = list[tuple[float, float]]


def lower_bound_steps(instance: AllocationInstance, frontier: AllocationFrontier) -> Corners:
    """Return the corners (USD/h, s) of the step function of lower bounds on the mean completion time.

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
    """Return hourly cost, capacities and lower bound on the mean (s) of each cluster, by rising cost."""
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
    """Return the hourly cost (USD) of the next more expensive cluster on the grid of clusters."""
    step = grid.step_of(rate, capacities)
    return rate if step is None else max(rate, grid.rate(grid.next(step)))


def cluster_text(point: AllocationPoint) -> str:
    """Return the amounts of a cluster's resources as text."""
    return ", ".join(f"{short(amount, 5)} {name}" for name, amount in point.capacities.items())


def drawing_of(unit: float) -> Drawing[AllocationPoint]:
    """Return how clusters are drawn: hourly cost against mean completion time in units of `unit` s."""

    def hover(point: AllocationPoint) -> list[str]:
        mean = f"mean completion {duration(point.mean_completion_s)}"
        return [f"{short(point.rate_usd_per_hour)} USD/h", mean, plot_text(cluster_text(point))]

    # From right to left: where a cluster can no longer be had, up to the mean of the next.
    return Drawing(lambda point: (point.rate_usd_per_hour, point.mean_completion_s / unit), hover, "vh")


def allocation_frontier_figure(
    instance: AllocationInstance, frontier: AllocationFrontier, points: Sequence[AllocationPoint], start: int
) -> tuple[Figure, dict[str, int]]:
    """Return the plot, and the indices of its traces of frontier, current cluster and selected point."""
    unit, name = unit_of_time(points[-1].mean_completion_s)
    drawing, lower = drawing_of(unit), lower_bound_steps(instance, frontier)
    places = [drawing.place(p) for p in sorted(points, key=lambda point: point.rate_usd_per_hour)]
    rates, means = [x for x, _ in places], [y for _, y in places]
    every = [*places, *([drawing.place(frontier.current)] if frontier.current else [])]
    every += [(rate, bound / unit) for rate, bound in lower]
    x = spread_axis("cost of the cluster [USD/h]", [x for x, _ in every])
    y = spread_axis(f"mean completion time [{name}]", [y for _, y in every])
    traces = []
    if lower:
        end = max(rates[-1], lower[-1][0])
        traces += [infeasible_area(lower, end, unit), open_area(rates, means, end)]
    at = {"line": len(traces), "star": -1, "ring": len(traces) + 1}
    traces += [drawing.line(points), drawing.ring(points[start])]
    if frontier.current is not None:
        at["star"] = len(traces)
        traces.append(drawing.star(frontier.current, "today's cluster"))
    return plot_of(traces, x, y, 460), at


MAX_ENTRIES = 2_000_000
"""Most entries of all plans shown together; summing them up takes some seconds."""
VACUOUS_ERROR = 0.995
"""Certified error from which on the certificate is shown as proving nothing."""
MIX = {
    "fixed": "the cluster as it is, scaled",
    "any": "any amounts of the resources that have a price",
}


COLUMNS = (
    Column("resource"),
    Column("units", True),
    Column("of today's cluster", True),
    Column("USD/h", True),
    Column("in use", True),
    Column("one more unit saves at most", True, "of the mean completion time"),
)


class AllocationFrontierPage(FrontierPage):
    """The page of a frontier of mean completion time against the hourly cost of the cluster."""

    template = "allocation_frontier.html.j2"
    script = "cluster.js"
    kicker = "Allocation: mean completion time against the cost of the cluster"
    noun = "cluster"
    order = "from the dearest to the cheapest"
    instance: AllocationInstance
    frontier: AllocationFrontier
    points: list[AllocationPoint]

    def __init__(
        self, instance: AllocationInstance, frontier: AllocationFrontier, results: Sequence[Result] = ()
    ) -> None:
        super().__init__(instance, frontier, results)
        self.usage = Usage(instance)
        self.prices = frontier.prices_usd_per_hour or instance.prices_usd_per_hour
        if self.points:
            self.drawing = drawing_of(unit_of_time(self.points[-1].mean_completion_s)[0])

    def most_points(self) -> int:
        """Return the maximum number of points of the frontier shown on the page."""
        return max(50, min(MAX_POINTS, MAX_ENTRIES // len(self.instance.jobs)))

    def first_chosen(self) -> int:
        """Return the index of the fastest point within the current cluster's cost, else the cheapest."""
        now, last = self.frontier.current, max(0, len(self.points) - 1)
        if now is None:
            return last
        rate = now.rate_usd_per_hour * (1 + 1e-9)
        return next((i for i, point in enumerate(self.points) if point.rate_usd_per_hour <= rate), last)

    def figures(self, point: AllocationPoint) -> str:
        """Return the mean completion time and the cost of a point as text."""
        mean = duration(point.mean_completion_s)
        return f"mean completion {mean} for {short(point.rate_usd_per_hour, 5)} USD/h"

    def trade(self, point: AllocationPoint) -> tuple[float, float]:
        """Return the speed (inverse mean completion time) and the cost of a point."""
        return 1 / point.mean_completion_s, point.rate_usd_per_hour

    def proven(self) -> tuple[str, str, str, str]:
        """Return sentences: no plan exists; error certified; error not certified; search complete."""
        frontier = self.frontier
        limit = frontier.most_usd_per_hour
        most = "" if limit is None else f" of at most {short(limit)} USD/h"
        error = frontier.certified_error or 0.0
        below = f"has a mean completion time more than {percent(error)} below the point’s"
        certified = (
            f"Certified by our own check, which trusts no solver: for every cluster{most} there is a point "
            f"that costs no more, and no plan for the cluster {below}."
        )
        return (
            f"It is proven that no cluster{most} has a plan.",
            certified
            if error < VACUOUS_ERROR
            else f"Not certified: how far plans could be below the points{most}.",
            f"Not certified: that clusters{most} that are cheaper than the cheapest point have no plan.",
            f"The search ended by itself; it was asked for an error of at most {percent(frontier.error)}.",
        )

    def compared(self) -> Iterator[str]:
        """Yield a sentence that compares the current cluster with the frontier."""
        now = self.frontier.current
        if now is not None:
            cheaper = rate_of_cheaper_point(self.frontier, now)
            more = "" if cheaper is None else f"; a cluster of {short(cheaper, 5)} USD/h would be as fast"
            yield f"Today’s cluster: {self.figures(now)}{more}."

    def figure(self) -> tuple[Figure, dict[str, int]]:
        """Return the plot of mean completion time against cost."""
        return allocation_frontier_figure(self.instance, self.frontier, self.points, self.start)

    def data(self) -> dict[str, Any]:
        """Return the index of the column with usage bars in the table of resources, for the script."""
        return {"used": 3}

    def choice(self, point: AllocationPoint) -> dict[str, Any]:
        """Return a point's figures by HTML element id, and its rows of the table of resources."""
        placed = sum(entry.placed for entry in point.plan)
        figures = {
            "is-rate": f"{short(point.rate_usd_per_hour)} USD/h",
            "is-mean": duration(point.mean_completion_s),
            "is-bound": duration(point.bound_s),
            "is-gap": percent(_gap(point)),
            "is-placed": f"{placed:,} of {len(point.plan):,}",
        }
        return {"figures": figures, "resources": self._resources(point)}

    def _resources(self, point: AllocationPoint) -> list[dict[str, Any]]:
        """Return the rows of the table of resources: cells in the order of `COLUMNS`, and utilisation."""
        rows, used = [], self.usage.of(point.plan)
        for name, amount in point.capacities.items():
            today, taken = self.instance.resources.get(name, 0.0), used.get(name, 0.0)
            busy = min(1.0, taken / amount) if amount else 0.0
            cells = [
                short(amount),
                f"{100 * amount / today:.0f} %" if today else "–",
                short(amount * self.prices[name]) if self.prices.get(name) else "–",
                f"{short(taken)}, {100 * busy:.0f} %",
                _saving_text(self.frontier, point, name),
            ]
            rows.append({"name": name, "cells": cells, "share": round(busy, 4)})
        if (point.prices or {}).get(BUDGET):
            spent = short(point.rate_usd_per_hour)
            cells = [spent, "–", spent, "–", _saving_text(self.frontier, point, BUDGET)]
            rows.append({"name": "budget [USD/h]", "cells": cells, "share": None})
        return rows

    def columns(self) -> list[CellColumn[AllocationPoint]]:
        """Return the columns of the table of points: hourly cost, mean, bound, gap and cluster."""
        return [
            figure_column("USD/h", lambda p: p.rate_usd_per_hour),
            figure_column("mean completion", lambda p: p.mean_completion_s, seconds),
            figure_column("bound", lambda p: p.bound_s, seconds),
            figure_column("gap", _gap, share),
            text_column("cluster", cluster_text, wide=True),
        ]

    def context(self) -> dict[str, Any]:
        """Return the template's variables: sections, prices and facts of the instance."""
        instance, frontier = self.instance, self.frontier
        sections = [("certified", "What is certified")]
        if self.points:
            of_points = [("plot", "Frontier"), ("cluster-of", "Cluster of a point"), ("table", "All points")]
            sections = [*of_points, *sections]
        prices = [(f"price of {name}", f"{short(usd)} USD/h per unit") for name, usd in self.prices.items()]
        jobs, clusters = ("jobs", f"{len(instance.jobs):,}"), ("clusters", MIX[frontier.mix])
        return {
            "sections": [*sections, ("about", "The instance")],
            "has_current": frontier.current is not None,
            "has_bounds": any(point.bound_s is not None for point in self.points),
            "columns": COLUMNS,
            "about": [*instance_facts(instance), jobs, clusters, *prices],
            "assumptions": [*instance.assumptions, *frontier.assumptions],
        }


def _gap(point: AllocationPoint) -> float | None:
    return None if point.bound_s is None else max(0.0, 1 - point.bound_s / point.mean_completion_s)


def _saving_text(frontier: AllocationFrontier, point: AllocationPoint, name: str) -> str:
    """Return the saving by one more unit as text: its dual price, and the distance to the lower bound."""
    if point.prices is None:
        return "–"
    price = point.prices.get(name, 0.0) / frontier.weight
    rest = 0.0 if point.bound_s is None else max(0.0, point.mean_completion_s - point.bound_s)
    if price <= 0 and rest <= 1e-9 * point.mean_completion_s:
        return "nothing"
    return duration(price) + (f" + {duration(rest)}" if rest > 1e-3 * price else "")
