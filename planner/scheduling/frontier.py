"""The frontier of scheduling (mean completion time against cluster size): verification, table and page.

For each size the page shows the best plan, and the bound that no scheduler can beat.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from typing import Any

from ...formulations.scheduling.formulation import SchedulingFormulation
from ...instances.common.errors import InstanceError
from ...instances.scheduling.instance import SchedulingInstance
from ...solvers.common.result import Result
from ...solvers.frontier import error_of
from ...solvers.scheduling.frontier import SchedulingFrontier, SizeBound, SizePoint, with_resource_amount
from ..findings import Findings, FrontierCheck, figure_faults, order_faults, records_of
from ..kind import FrontierNotes
from ..reports.frontier_page import SECTIONS, Drawing, FrontierPage, infeasible_area, open_area
from ..reports.page import CellColumn, figure_column, instance_facts, seconds, share, text_column
from ..reports.plot_style import Figure, plot_of, plot_text, spread_axis
from ..reports.text import TextColumn, duration, figure, percent, short, unit_of_time


def size_range_text(frontier: SchedulingFrontier) -> str:
    """Return the range of cluster sizes searched (amounts of the varied resource) as text."""
    return f"from {figure(frontier.least)} to {figure(frontier.most)} {frontier.resource}"


class SchedulingFrontierCheck(FrontierCheck):
    """Verification of a scheduling frontier: plans, figures, bounds and the certified error."""

    # A policy's plan and the bound of its cluster are some per cent apart, and two sizes are too.
    default_error = 0.1
    instance: SchedulingInstance
    frontier: SchedulingFrontier

    def __init__(self, instance: SchedulingInstance, frontier: SchedulingFrontier) -> None:
        super().__init__(instance, frontier)
        self.most = f" {size_range_text(frontier)}"

    def faults(self) -> Iterator[str]:
        """Yield a message for each fault in the stored points, bounds and certified error."""
        frontier = self.frontier
        if frontier.resource not in self.instance.pool:
            yield f"resource: there is no {frontier.resource!r}"
            return
        unknown = sorted(set(frontier.prices_usd_per_hour) - set(self.instance.pool))
        yield from (f"prices_usd_per_hour.{name}: there is no such resource" for name in unknown)
        records = records_of(frontier)
        record_faults = [fault for place in records for fault in self._record(place, records[place])]
        yield from record_faults
        yield from order_faults(frontier)
        stored = frontier.certified_error
        if unknown or record_faults or stored is None:
            return
        bounds = [(record.size, record.bound_s) for record in records.values()]
        if not {frontier.least, frontier.most} <= {size for size, _ in bounds}:
            yield "certified_error is given, and the smallest or the largest size is missing"
        proven = error_of([(point.size, point.mean_completion_s) for point in frontier.points], bounds)
        if proven > stored + 1e-9:
            yield f"certified_error is stored as {stored}; what the certificates prove is {proven}"

    def _record(self, place: str, record: SizeBound) -> Iterator[str]:
        frontier = self.frontier
        if not frontier.least <= record.size <= frontier.most:
            yield f"{place}.size is {record.size:g}, and sizes go {size_range_text(frontier)}"
            return
        try:
            formulation = SchedulingFormulation(
                with_resource_amount(self.instance, frontier.resource, record.size)
            )
        except InstanceError as error:
            yield f"{place}: {str(error).splitlines()[0]}"
            return
        fault = None if record.certificate is None else formulation.certificate_fault(record.certificate)
        if fault is not None:
            yield f"{place}.certificate.{fault}"
            return
        bound = formulation.certified_bounds(record.certificate)[0] or 0.0
        if record.bound_s > bound * (1 + 1e-9):
            yield f"{place}.bound_s is stored as {record.bound_s:.10g}; the check derives {bound:.10g}"
        if isinstance(record, SizePoint):
            yield from self._point(place, record, formulation)

    def _point(self, place: str, point: SizePoint, formulation: SchedulingFormulation) -> Iterator[str]:
        broken = formulation.violations(point.plan)
        yield from (f"{place}: broken constraint: {violation}" for violation in broken)
        if broken:
            return
        value = formulation.evaluate(point.plan)[0]
        yield from figure_faults(f"{place}.mean_completion_s", point.mean_completion_s, value)
        if point.bound_s > value * (1 + 1e-9):
            yield f"{place}.certificate: it would exclude the plan of {place}"
        prices = self.frontier.prices_usd_per_hour
        amounts = formulation.instance.pool
        if prices and point.rate_usd_per_hour is not None:
            rate = sum(price * amounts.get(name, 0.0) for name, price in prices.items())
            yield from figure_faults(f"{place}.rate_usd_per_hour", point.rate_usd_per_hour, rate)

    def check_infeasible(self, findings: Findings) -> None:
        """Record a fault: every job trace has a schedule, so that no frontier is infeasible."""
        findings.faults.append("status is infeasible, and every trace has a plan")

    def given(self) -> Iterator[str]:
        """Yield a note on each price (USD per hour) of the search; none is part of the instance."""
        for name, price in self.frontier.prices_usd_per_hour.items():
            yield f"that {name} costs {price:g} USD/h"


def columns(frontier: SchedulingFrontier) -> list[TextColumn[SizePoint]]:
    """Return the columns of the text table of the frontier's points (cluster sizes)."""
    size_columns: list[TextColumn[SizePoint]] = [(frontier.resource, True, lambda p: figure(p.size, 6))]
    if frontier.prices_usd_per_hour:
        size_columns.append(("USD/h", True, lambda p: figure(p.rate_usd_per_hour, 6)))
    return [
        *size_columns,
        ("mean completion", True, lambda p: duration(p.mean_completion_s)),
        ("no plan is below", True, lambda p: duration(p.bound_s)),
        ("gap", True, lambda p: percent(gap(p))),
        ("found by", False, lambda p: p.solver),
    ]


def gap(point: SizePoint) -> float:
    """Return the relative gap between a point's mean completion time and its lower bound."""
    return max(0.0, 1 - point.bound_s / point.mean_completion_s)


def frontier_notes(frontier: SchedulingFrontier) -> FrontierNotes:
    """Return the footnotes of the frontier's text table: certified bound and certified error."""
    return FrontierNotes(
        none="no plan exists",
        about=tuple(bound_sentence(point, frontier) for point in frontier.points[-1:]),
        uncertified=f"not certified: how far plans could be below the points {size_range_text(frontier)}",
        certified=f"certified: for every size {size_range_text(frontier)} there is a point that is no "
        f"larger, and no plan has a mean more than {percent(frontier.certified_error)} below the point's",
    )


def bound_sentence(point: SizePoint, frontier: SchedulingFrontier) -> str:
    """Return a sentence on the certified lower bound on the mean completion time of a cluster size."""
    least = duration(point.bound_s)
    return f"certified: on {figure(point.size)} {frontier.resource} no scheduler averages less than {least}"


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
            return [self._amount(point), plot_text(mean), f"no scheduler is below {duration(point.bound_s)}"]

        self.drawing = Drawing(lambda p: (p.size, p.mean_completion_s / self.unit), hover, "vh")

    def _amount(self, point: SizePoint) -> str:
        rate = point.rate_usd_per_hour
        return f"{short(point.size)} {plot_text(self.frontier.resource)}" + (
            "" if rate is None else f", {short(rate)} USD/h"
        )

    def first_chosen(self) -> int:
        """Return the index of the fastest point within the current size, else of the smallest size."""
        now, last = self.instance.pool.get(self.frontier.resource, 0.0), max(0, len(self.points) - 1)
        return next((i for i, point in enumerate(self.points) if point.size <= now), last)

    def figures(self, point: SizePoint) -> str:
        """Return the mean completion time and the size of a point as text."""
        return f"mean completion {duration(point.mean_completion_s)} on {self._amount(point)}"

    def trade(self, point: SizePoint) -> tuple[float, float]:
        """Return the speed (inverse mean completion time) and the size of a point."""
        return 1 / point.mean_completion_s, point.size

    def proven(self) -> tuple[str, str, str, str]:
        """Return sentences: no plan exists; error certified; error not certified; search complete."""
        frontier = self.frontier
        return (
            "It is proven that there is no plan.",
            "Certified by our own check, which trusts no solver: "
            f"for every size {size_range_text(frontier)} there is a point that is no larger, "
            "and no schedule on that size has a mean completion time more than "
            f"{percent(frontier.certified_error)} below the point’s.",
            f"Not certified: how far schedules could be below the points {size_range_text(frontier)}.",
            f"The search ended by itself; it was asked for an error of at most {percent(frontier.error)}.",
        )

    def compared(self) -> Iterator[str]:
        """Yield sentences on the certified bounds of the current and the smallest size."""
        for index in dict.fromkeys((self.start, len(self.points) - 1)):
            sentence = bound_sentence(self.points[index], self.frontier)
            yield f"On {sentence.removeprefix('certified: on ')}."

    def figure(self) -> tuple[Figure, dict[str, int]]:
        """Return the plot of mean completion time against size."""
        bounds = self._bounds()
        places = [self.drawing.place(point) for point in reversed(self.points)]
        end = self.frontier.most
        x = spread_axis(f"{plot_text(self.frontier.resource)} in the cluster", [self.frontier.least, end])
        every = [*(y for _, y in places), *(bound / self.unit for _, bound in bounds)]
        y = spread_axis(f"mean completion time [{self.unit_name}]", [value for value in every if value > 0])
        traces = []
        if bounds:
            traces.append(infeasible_area(bounds, end, self.unit))
            traces.append(open_area([px for px, _ in places], [py for _, py in places], end))
        at = {"line": len(traces), "star": -1, "ring": len(traces) + 1}
        traces += [self.drawing.line(self.points), self.drawing.ring(self.points[self.start])]
        return plot_of(traces, x, y, 460), at

    def _bounds(self) -> list[tuple[float, float]]:
        """Return the step function of lower bounds: (size, bound on the mean in s), by rising size."""
        records = sorted((*self.frontier.points, *self.frontier.others), key=lambda record: record.size)
        # What a size cannot beat, a smaller one cannot either.
        best = [*accumulate((record.bound_s for record in reversed(records)), max)][::-1]
        starts = [min(below.size + 1, record.size) for below, record in pairwise(records)]
        return [step for step in zip([records[0].size, *starts], best, strict=True) if step[1] > 0]

    def choice(self, point: SizePoint) -> dict[str, Any]:
        """Return a point's figures by HTML element id, for the script."""
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
        """Return the columns of the table of points: size, USD/h, mean, bound, gap and solver."""
        size_columns: list[CellColumn[SizePoint]] = [figure_column(self.frontier.resource, lambda p: p.size)]
        if self.frontier.prices_usd_per_hour:
            size_columns.append(figure_column("USD/h", lambda p: p.rate_usd_per_hour))
        return [
            *size_columns,
            figure_column("mean completion", lambda p: p.mean_completion_s, seconds),
            figure_column("no scheduler is below", lambda p: p.bound_s, seconds),
            figure_column("gap", gap, share),
            text_column("found by", lambda p: p.solver),
        ]

    def context(self) -> dict[str, Any]:
        """Return the template's variables: sections, prices and facts of the instance."""
        frontier = self.frontier
        prices = [
            (f"price of {name}", f"{short(usd)} USD/h") for name, usd in frontier.prices_usd_per_hour.items()
        ]
        here = ["Servers count as one pool here."] if self.instance.servers else []
        if self.instance.objective != "mean_completion_time":
            here.append("The frontier is of mean completion times; the instance asks for the makespan.")
        return {
            "sections": SECTIONS,
            "about": [*instance_facts(self.instance), ("jobs", f"{len(self.instance.jobs):,}"), *prices],
            "assumptions": [*self.instance.assumptions, *here],
        }
