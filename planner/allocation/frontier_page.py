"""The page of an allocation's frontier: clusters, and the best plan for each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ...formulations.allocation.configurations import BUDGET
from ...instances.allocation.instance import AllocationInstance
from ...solvers.allocation.frontier_result import AllocationFrontier, AllocationPoint
from ...solvers.common.result import Result
from ..output.text import percent
from ..reports.frontier_page import MOST_POINTS, FrontierPage
from ..reports.plot_style import Figure
from ..reports.provenance import instance_facts
from ..reports.tables import Cell, CellColumn, Column, number, seconds, share
from ..reports.text import duration, short, unit_of_time
from .frontier import as_fast
from .frontier_figure import allocation_frontier_figure, cluster_words, drawing_of
from .usage import Usage

MOST_ENTRIES = 2_000_000
"""Of all plans that are shown; it takes some seconds to add them up."""
NOTHING = 0.995
"""A mean that is said to be at most so much shorter may as well be zero: that proves nothing."""
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
        """Return how many points are shown at most."""
        return max(50, min(MOST_POINTS, MOST_ENTRIES // len(self.instance.jobs)))

    def first_chosen(self) -> int:
        """Return the point that is best for today's money, or else the cheapest."""
        now, last = self.frontier.current, max(0, len(self.points) - 1)
        if now is None:
            return last
        rate = now.rate_usd_per_hour * (1 + 1e-9)
        return next((i for i, point in enumerate(self.points) if point.rate_usd_per_hour <= rate), last)

    def figures(self, point: AllocationPoint) -> str:
        """Return mean completion time and cost."""
        mean = duration(point.mean_completion_s)
        return f"mean completion {mean} for {short(point.rate_usd_per_hour, 5)} USD/h"

    def trade(self, point: AllocationPoint) -> tuple[float, float]:
        """Return mean completions an hour, and cost."""
        return 1 / point.mean_completion_s, point.rate_usd_per_hour

    def proven(self) -> tuple[str, str, str, str]:
        """Return what is said of the proof; see the base class."""
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
            if error < NOTHING
            else f"Not certified: how far plans could be below the points{most}.",
            f"Not certified: that clusters{most} that are cheaper than the cheapest point have no plan.",
            f"The search ended by itself; it was asked for an error of at most {percent(frontier.error)}.",
        )

    def compared(self) -> Iterator[str]:
        """Yield how today's cluster compares."""
        now = self.frontier.current
        if now is not None:
            cheaper = as_fast(self.frontier, now)
            more = "" if cheaper is None else f"; a cluster of {short(cheaper, 5)} USD/h would be as fast"
            yield f"Today’s cluster: {self.figures(now)}{more}."

    def figure(self) -> tuple[Figure, dict[str, int]]:
        """Return the plot of mean completion time against cost."""
        return allocation_frontier_figure(self.instance, self.frontier, self.points, self.start)

    def data(self) -> dict[str, Any]:
        """Return which column has the bars of what is in use."""
        return {"used": 3}

    def choice(self, point: AllocationPoint) -> dict[str, Any]:
        """Return the figures of a point by the id of their place, and its resources."""
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
        """Return the rows of the table of a cluster: cells as in `COLUMNS`, and the share in use."""
        rows, used = [], self.usage.of(point.plan)
        for name, amount in point.capacities.items():
            today, taken = self.instance.resources.get(name, 0.0), used.get(name, 0.0)
            busy = min(1.0, taken / amount) if amount else 0.0
            cells = [
                short(amount),
                f"{100 * amount / today:.0f} %" if today else "–",
                short(amount * self.prices[name]) if self.prices.get(name) else "–",
                f"{short(taken)}, {100 * busy:.0f} %",
                _saves(self.frontier, point, name),
            ]
            rows.append({"name": name, "cells": cells, "share": round(busy, 4)})
        if (point.prices or {}).get(BUDGET):
            spent = short(point.rate_usd_per_hour)
            cells = [spent, "–", spent, "–", _saves(self.frontier, point, BUDGET)]
            rows.append({"name": "budget [USD/h]", "cells": cells, "share": None})
        return rows

    def columns(self) -> list[CellColumn[AllocationPoint]]:
        """Return figures and cluster."""
        return [
            (Column("USD/h", True), lambda p: number(p.rate_usd_per_hour)),
            (Column("mean completion", True), lambda p: seconds(p.mean_completion_s)),
            (Column("bound", True), lambda p: seconds(p.bound_s)),
            (Column("gap", True), lambda p: share(_gap(p))),
            (Column("cluster", wide=True), lambda p: Cell(cluster_words(p))),
        ]

    def context(self) -> dict[str, Any]:
        """Return what the template shows of the cluster and the instance."""
        instance, frontier = self.instance, self.frontier
        sections = [("certified", "What is certified")]
        if self.points:
            shown = [("plot", "Frontier"), ("cluster-of", "Cluster of a point"), ("table", "All points")]
            sections = [*shown, *sections]
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


def _saves(frontier: AllocationFrontier, point: AllocationPoint, name: str) -> str:
    """Return by how much one more unit lowers the mean: the dual price, and the distance to the bound."""
    if point.prices is None:
        return "–"
    price = point.prices.get(name, 0.0) / frontier.weight
    rest = 0.0 if point.bound_s is None else max(0.0, point.mean_completion_s - point.bound_s)
    if price <= 0 and rest <= 1e-9 * point.mean_completion_s:
        return "nothing"
    return duration(price) + (f" + {duration(rest)}" if rest > 1e-3 * price else "")
