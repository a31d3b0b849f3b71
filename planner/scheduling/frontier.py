"""The frontier of scheduling (mean completion time against cluster size): verification, table and page.

For each size the page shows the best plan, and the bound that no scheduler can beat.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...formulations.common.frontier import Sizes
from ...formulations.scheduling.formulation import SchedulingFormulation
from ...instances.common.errors import InstanceError
from ...instances.scheduling.instance import SchedulingInstance
from ...solvers.scheduling.frontier import (
    SchedulingFrontier,
    SizeBound,
    SizePoint,
    find_frontier,
    with_resource_amount,
)
from ..findings import Findings, FrontierCheck, broken_constraints, certificate_faults, figure_faults
from ..kind import FrontierKind
from ..reports.frontier_page import FrontierNotes, FrontierPage, Plot, lower_steps
from ..reports.page import (
    CellColumn,
    Context,
    ScriptData,
    figure_column,
    instance_facts,
    jobs_fact,
    seconds,
    share,
    text_column,
)
from ..reports.plot_style import plot_text
from ..reports.text import duration, figure, percent, short


def size_range_text(frontier: SchedulingFrontier) -> str:
    """Return the range of cluster sizes searched (amounts of the varied resource) as text."""
    return f"from {figure(frontier.least)} to {figure(frontier.most)} {frontier.resource}"


class SchedulingFrontierCheck(FrontierCheck):
    """Verification of a scheduling frontier: plans, figures, bounds and the certified error."""

    # A policy's plan and the bound of its cluster are some per cent apart, and two sizes are too.
    default_error = 0.1
    instance: SchedulingInstance
    frontier: SchedulingFrontier

    @property
    def most(self) -> str:
        """The range of sizes."""
        return f" {size_range_text(self.frontier)}"

    def head_faults(self) -> Iterator[str]:
        """Set the grid of sizes; yield faults in the resource and the prices."""
        frontier = self.frontier
        if frontier.resource not in self.instance.pool:
            yield f"resource: there is no {frontier.resource!r}"
            return
        self.grid = Sizes(frontier.least, frontier.most)
        for name in sorted(set(frontier.prices_usd_per_hour) - set(self.instance.pool)):
            yield f"prices_usd_per_hour.{name}: there is no such resource"

    def record_faults(self, place: str, record: SizeBound) -> Iterator[str]:
        """Yield faults of a size, its bound, and its plan if it has one."""
        frontier, size, stored = self.frontier, record.size, record.bound_s
        if not frontier.least <= size <= frontier.most:
            yield f"{place}.size is {size:g}, and sizes go {size_range_text(frontier)}"
            return
        try:
            instance = with_resource_amount(self.instance, frontier.resource, size)
        except InstanceError as error:
            yield f"{place}: {str(error).splitlines()[0]}"
            return
        formulation = SchedulingFormulation(instance)
        malformed = [*certificate_faults(place, formulation, record.certificate)]
        yield from malformed
        if malformed:
            return
        bound = formulation.certified_bounds(record.certificate)[0] or 0.0
        if stored > bound * (1 + 1e-9):
            yield f"{place}.bound_s is stored as {stored:.10g}; the check derives {bound:.10g}"
        self.bounds[size] = max(stored, self.bounds.get(size, 0.0))
        if isinstance(record, SizePoint):
            yield from self._plan_faults(place, record, formulation)

    def _plan_faults(self, place: str, point: SizePoint, formulation: SchedulingFormulation) -> Iterator[str]:
        broken = broken_constraints(place, formulation, point.plan)
        yield from broken
        if broken:
            return
        value = self.values[point.size] = formulation.evaluate(point.plan)[0]
        yield from figure_faults(f"{place}.mean_completion_s", point.mean_completion_s, value)
        if point.bound_s > value * (1 + 1e-9):
            yield f"{place}.certificate: it would exclude the plan of {place}"
        prices, amounts = self.frontier.prices_usd_per_hour, formulation.instance.pool
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


def gap(point: SizePoint) -> float:
    """Return the relative gap between a point's mean completion time and its lower bound."""
    return max(0.0, 1 - point.bound_s / point.mean_completion_s)


def columns(frontier: SchedulingFrontier) -> list[CellColumn[SizePoint]]:
    """Return the columns of the table of points: size, USD/h, mean, bound, gap and solver."""
    rate: CellColumn[SizePoint] = figure_column("USD/h", "rate_usd_per_hour")
    return [
        figure_column(frontier.resource, "size"),
        *([rate] if frontier.prices_usd_per_hour else []),
        figure_column("mean completion", "mean_completion_s", seconds),
        figure_column("no scheduler is below", "bound_s", seconds),
        figure_column("gap", gap, share),
        text_column("found by", "solver"),
    ]


def frontier_notes(frontier: SchedulingFrontier) -> FrontierNotes:
    """Return the footnotes of the frontier's text table: the bound of the smallest size, and the error."""
    return FrontierNotes(
        none="no plan exists",
        about=tuple(
            f"certified: on {figure(point.size)} {frontier.resource} no scheduler averages less than "
            f"{duration(point.bound_s)}"
            for point in frontier.points[-1:]
        ),
        uncertified=f"not certified: how far plans could be below the points {size_range_text(frontier)}",
        certified=f"certified: for every size {size_range_text(frontier)} there is a point that is no "
        f"larger, and no plan has a mean more than {percent(frontier.certified_error)} below the point's",
    )


class SchedulingFrontierPage(FrontierPage):
    """The page of a frontier of mean completion time against the size of the cluster."""

    template = "scheduling_frontier.html.j2"
    script = "size.js"
    columns = staticmethod(columns)
    sentences = staticmethod(frontier_notes)
    kicker = "Scheduling: mean completion time against the size of the cluster"
    noun = "size"
    order = "from the largest to the smallest"
    line_shape = "vh"
    instance: SchedulingInstance
    frontier: SchedulingFrontier
    points: list[SizePoint]

    def _amount(self, point: SizePoint) -> str:
        rate = point.rate_usd_per_hour
        return f"{short(point.size)} {plot_text(self.frontier.resource)}" + (
            "" if rate is None else f", {short(rate)} USD/h"
        )

    def today(self) -> float:
        """Return the current size."""
        return self.instance.pool.get(self.frontier.resource, 0.0)

    def hover(self, point: SizePoint) -> list[str]:
        """Return the size, the mean completion time and its bound."""
        mean = f"mean completion {duration(point.mean_completion_s)}, by {point.solver}"
        return [self._amount(point), plot_text(mean), f"no scheduler is below {duration(point.bound_s)}"]

    def text(self, point: SizePoint) -> str:
        """Return the mean completion time and the size of a point as text."""
        return f"mean completion {duration(point.mean_completion_s)} on {self._amount(point)}"

    def figure(self) -> Plot:
        """Return the plot of mean completion time against size."""
        frontier = self.frontier
        # What a size cannot beat, a smaller one cannot either.
        bounds = {record.size: record.bound_s for record in (*frontier.points, *frontier.others)}
        unit, name = self.unit
        lower = [(size, bound / unit) for size, bound in lower_steps(bounds, lambda size: size + 1)]
        titles = f"{plot_text(frontier.resource)} in the cluster", f"mean completion time [{name}]"
        return self.plot(titles, lower, [frontier.least, frontier.most])

    def choice(self, point: SizePoint) -> ScriptData:
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

    def context(self) -> Context:
        """Return the template's variables: prices and facts of the instance."""
        frontier = self.frontier
        prices = [
            (f"price of {name}", f"{short(usd)} USD/h") for name, usd in frontier.prices_usd_per_hour.items()
        ]
        here = ["Servers count as one pool here."] if self.instance.servers else []
        if self.instance.objective != "mean_completion_time":
            here.append("The frontier is of mean completion times; the instance asks for the makespan.")
        return {
            "about": [*instance_facts(self.instance), jobs_fact(self.instance), *prices],
            "assumptions": [*self.instance.assumptions, *here],
        }


FRONTIER = FrontierKind(
    model=SchedulingFrontier,
    find=find_frontier,
    check=SchedulingFrontierCheck,
    page=SchedulingFrontierPage,
    settings={
        "prices": "a price",
        "resource": "a resource",
        "least": "a smallest size",
        "most": "a largest size",
    },
)
