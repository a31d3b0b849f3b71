"""The page of a frontier of sizes: the best plan for each, and what no scheduler can beat."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from ...instances.scheduling.instance import SchedulingInstance
from ...solvers.common.result import Result
from ...solvers.scheduling.frontier_result import SchedulingFrontier, SizePoint
from ..output.text import percent
from ..reports.frontier_figure import Drawing, between, nothing_below
from ..reports.frontier_page import FrontierPage
from ..reports.plot_style import Figure, layout, shown, spread_axis
from ..reports.provenance import instance_facts
from ..reports.tables import Cell, CellColumn, Column, number, seconds, share
from ..reports.text import duration, short, unit_of_time
from .frontier import gap, said_of, sizes


class SchedulingFrontierPage(FrontierPage):
    """The page of a frontier of mean completion time against the size of the cluster."""

    template = "scheduling_frontier.html.j2"
    script = "size.js"
    kicker = "Scheduling: mean completion time against the size of the cluster"
    noun = "size"
    order = "from the largest to the smallest"
    instance: SchedulingInstance
    frontier: SchedulingFrontier
    points: list[SizePoint]

    def __init__(
        self, instance: SchedulingInstance, frontier: SchedulingFrontier, results: Sequence[Result] = ()
    ) -> None:
        super().__init__(instance, frontier, results)
        self.unit, self.unit_name = unit_of_time(self.points[-1].mean_completion_s if self.points else 1.0)

        def hover(point: SizePoint) -> list[str]:
            mean = f"mean completion {duration(point.mean_completion_s)}, by {point.solver}"
            return [self._amount(point), shown(mean), f"no scheduler is below {duration(point.bound_s)}"]

        self.drawing = Drawing(lambda p: (p.size, p.mean_completion_s / self.unit), hover, "vh")

    def _amount(self, point: SizePoint) -> str:
        rate = point.rate_usd_per_hour
        return f"{short(point.size)} {shown(self.frontier.resource)}" + (
            "" if rate is None else f", {short(rate)} USD/h"
        )

    def first_chosen(self) -> int:
        """Return the point that is best for as much as there is now, or else the smallest."""
        now, last = self.instance.pool.get(self.frontier.resource, 0.0), max(0, len(self.points) - 1)
        return next((i for i, point in enumerate(self.points) if point.size <= now), last)

    def figures(self, point: SizePoint) -> str:
        """Return mean completion time and size."""
        return f"mean completion {duration(point.mean_completion_s)} on {self._amount(point)}"

    def trade(self, point: SizePoint) -> tuple[float, float]:
        """Return mean completions an hour, and size."""
        return 1 / point.mean_completion_s, point.size

    def proven(self) -> tuple[str, str, str, str]:
        """Return what is said of the proof; see the base class."""
        frontier = self.frontier
        return (
            "It is proven that there is no plan.",
            f"Certified by our own check, which trusts no solver: for every size {sizes(frontier)} there is "
            f"a point that is no larger, and no schedule on that size has a mean completion time more than "
            f"{percent(frontier.certified_error)} below the point’s.",
            f"Not certified: how far schedules could be below the points {sizes(frontier)}.",
            f"The search ended by itself; it was asked for an error of at most {percent(frontier.error)}.",
        )

    def compared(self) -> Iterator[str]:
        """Yield what is proven of the size that there is, and of the smallest."""
        for point in dict.fromkeys((self.points[self.start].size, self.points[-1].size)):
            found = next(each for each in self.points if each.size == point)
            yield "On " + said_of(found, self.frontier).removeprefix("certified: on ") + "."

    def figure(self) -> tuple[Figure, dict[str, int]]:
        """Return the plot of mean completion time against size."""
        bounds = self._bounds()
        places = [self.drawing.place(point) for point in reversed(self.points)]
        end = self.frontier.most
        x = spread_axis(f"{shown(self.frontier.resource)} in the cluster", [self.frontier.least, end])
        every = [*(y for _, y in places), *(bound / self.unit for _, bound in bounds)]
        y = spread_axis(f"mean completion time [{self.unit_name}]", [value for value in every if value > 0])
        traces = []
        if bounds:
            traces.append(nothing_below(bounds, end, self.unit))
            traces.append(between([px for px, _ in places], [py for _, py in places], end))
        at = {"line": len(traces), "star": -1, "ring": len(traces) + 1}
        traces += [self.drawing.line(self.points), self.drawing.ring(self.points[self.start])]
        return {"data": traces, "layout": layout(x, y, 460)}, at

    def _bounds(self) -> list[tuple[float, float]]:
        """Return from which size on which bound holds: that of the next size with one, or a better one."""
        records = sorted((*self.frontier.points, *self.frontier.others), key=lambda record: record.size)
        best, found = 0.0, list[tuple[float, float]]()
        for below, record in reversed([(None, records[0]), *pairwise(records)]):
            best = max(best, record.bound_s)
            found.append((record.size if below is None else min(below.size + 1, record.size), best))
        return [(size, bound) for size, bound in reversed(found) if bound > 0]

    def data(self) -> dict[str, Any]:
        """Return nothing else."""
        return {}

    def choice(self, point: SizePoint) -> dict[str, Any]:
        """Return the figures of a point by the id of their place."""
        return {
            "figures": {
                "is-size": self._amount(point),
                "is-mean": duration(point.mean_completion_s),
                "is-bound": duration(point.bound_s),
                "is-gap": percent(gap(point)),
                "is-by": point.solver,
            }
        }

    def columns(self) -> list[CellColumn[SizePoint]]:
        """Return the columns of the table of all points."""
        found: list[CellColumn[SizePoint]] = [
            (Column(self.frontier.resource, True), lambda p: number(p.size))
        ]
        if self.frontier.prices_usd_per_hour:
            found.append((Column("USD/h", True), lambda p: number(p.rate_usd_per_hour)))
        return [
            *found,
            (Column("mean completion", True), lambda p: seconds(p.mean_completion_s)),
            (Column("no scheduler is below", True), lambda p: seconds(p.bound_s)),
            (Column("gap", True), lambda p: share(gap(p))),
            (Column("found by"), lambda p: Cell(p.solver)),
        ]

    def context(self) -> dict[str, Any]:
        """Return what the template shows of the sizes and the instance."""
        frontier = self.frontier
        prices = [
            (f"price of {name}", f"{short(usd)} USD/h") for name, usd in frontier.prices_usd_per_hour.items()
        ]
        here = ["Servers count as one pool here."] if self.instance.servers else []
        if self.instance.objective != "mean_completion_time":
            here.append("The frontier is of mean completion times; the instance asks for the makespan.")
        return {
            "sections": [
                ("plot", "Frontier"),
                ("table", "All points"),
                ("certified", "What is certified"),
                ("about", "The instance"),
            ],
            "about": [*instance_facts(self.instance), ("jobs", f"{len(self.instance.jobs):,}"), *prices],
            "assumptions": [*self.instance.assumptions, *here],
        }
