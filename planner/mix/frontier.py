"""The frontier of a mix (cost against load, or devices against progress): verification, table and page."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import cast

from ...formulations.mix.plan import Plan
from ...instances.mix.instance import MixInstance
from ...solvers.common.result import Result
from ...solvers.mix.frontier import (
    MixFrontier,
    MixStep,
    figures_of,
    find_frontier,
    grid_of,
    own_size,
    with_size,
)
from ..findings import Findings, FrontierCheck
from ..kind import FrontierKind
from ..reports.frontier_page import FrontierNotes, FrontierPage, Place, Plot
from ..reports.page import (
    CellColumn,
    Context,
    ScriptData,
    figure_column,
    instance_facts,
    share,
)
from ..reports.text import percent, short
from ..verification import verify
from .plan import answer


def words(frontier: MixFrontier) -> tuple[str, str, str]:
    """Return the unit of a size, that of a value, and what no plan does."""
    if frontier.varied == "requests":
        return "% of the requests", "USD/h", "no plan costs less than"
    return "devices", "progress, in jobs", "no plan makes more than"


def sizes_text(frontier: MixFrontier) -> str:
    """Return the range of the search as text."""
    return f"from {frontier.least:,} to {frontier.most:,} {words(frontier)[0]}"


class MixFrontierCheck(FrontierCheck):
    """Verification of a frontier: the result of each size like any other, and the certified error."""

    # Whole machines are bought, so that two sizes are some per cent apart.
    default_error = 0.1
    proves = "the certificates prove"
    instance: MixInstance
    frontier: MixFrontier

    @property
    def most(self) -> str:
        """The range of sizes."""
        return f" {sizes_text(self.frontier)}"

    def head_faults(self) -> Iterator[str]:
        """Set the grid of sizes; yield a fault if they are said to be of something else."""
        self.unproven: dict[str, None] = {}
        self.grid = grid_of(self.instance, self.frontier.least, self.frontier.most)
        if (self.frontier.varied == "requests") != self.instance.serves:
            yield f"varied is stored as {self.frontier.varied}, which the instance does not have"

    def record_faults(self, place: str, record: MixStep) -> Iterator[str]:
        """Yield the faults of the result of a size, which is verified like any other."""
        checked = verify(with_size(self.instance, record.size), record.result)
        yield from (f"{place}.result: {fault}" for fault in checked.faults)
        if place.startswith("points") and record.result.plan is None:
            yield f"{place}.result: has no plan"
        self.unproven |= dict.fromkeys(checked.claimed)
        at = grid_of(self.instance, record.size, record.size).first
        self.values[at], self.bounds[at] = figures_of(record.result)

    def follows(self, before: MixStep, point: MixStep) -> bool:
        """Return whether a point may follow another one; that of the instance itself may cost as much."""
        own = own_size(self.instance) in (before.size, point.size)
        return before.size > point.size if own else super().follows(before, point)

    def claimed(self) -> Iterator[str]:
        """Yield what only the solver says of the results."""
        return iter(self.unproven)

    def check_infeasible(self, findings: Findings) -> None:
        """Record a fault unless the size which asks for least has no plan."""
        if self.bounds.get(self.grid.last) != math.inf:
            findings.faults.append("status is infeasible, and no result says that there is no plan")


def columns(frontier: MixFrontier) -> list[CellColumn[MixStep]]:
    """Return the columns of the table of points, without the point's number."""
    size, value, bound = words(frontier)
    return [
        figure_column(size, "size"),
        figure_column(value, "value"),
        figure_column(bound, "bound"),
        figure_column("gap", lambda p: p.record.certified_gap, share),
    ]


def frontier_notes(frontier: MixFrontier) -> FrontierNotes:
    """Return the footnotes of the frontier's text table: certified bound and certified error."""
    sizes, size = sizes_text(frontier), words(frontier)[0]
    none = [step.size for step in frontier.others if step.result.status == "infeasible"]
    about = []
    if none and frontier.points:
        end = (
            f"{min(none):,} {size} and more"
            if frontier.varied == "requests"
            else f"{max(none):,} {size} and fewer"
        )
        about.append(f"there is no plan for {end}")
    if frontier.limit == "node":
        about.append("no more sizes are solved; a narrower range or a larger error needs fewer")
    return FrontierNotes(
        none=f"there is no plan {sizes}",
        about=tuple(about),
        uncertified=f"not certified: how much better plans could be {sizes}",
        certified=f"certified: for every size {sizes} that has a plan, some point is within "
        f"{percent(frontier.certified_error)} of the best one",
    )


class MixFrontierPage(FrontierPage):
    """The page of a frontier of cost against load, or of devices against progress."""

    template = "mix_frontier.html.j2"
    script = "size.js"
    columns = staticmethod(columns)
    sentences = staticmethod(frontier_notes)
    kicker = "Mix: what more takes"
    noun = "size"
    order = "from the most to the least"
    instance: MixInstance
    frontier: MixFrontier
    points: list[MixStep]

    def __init__(self, instance: MixInstance, frontier: MixFrontier, results: Sequence[Result] = ()) -> None:
        super().__init__(instance, frontier, results)
        self.own = own_size(instance)
        self.start = next((i for i, point in enumerate(self.points) if point.size <= self.own), self.start)

    def place(self, point: MixStep) -> Place:
        """Return requests/s and USD/h of a point, or progress and devices."""
        rates = [one.requests_per_s or 0.0 for one in self.instance.types]
        return (sum(rates) * point.size / 100 if self.instance.serves else point.value), point.spent

    # The more is served or done, the better.
    trade = place

    def hover(self, point: MixStep) -> list[str]:
        """Return what is gained and spent, and the bound."""
        return [self.text(point), f"{words(self.frontier)[2]} {short(point.bound, 5)}"]

    def text(self, point: MixStep) -> str:
        """Return what is gained and spent as text."""
        gained, spent = (short(amount, 5) for amount in self.place(point))
        if self.instance.serves:
            return f"{gained} requests/s ({point.size:,} %) for {spent} USD/h"
        return f"a progress of {gained} jobs on {spent} devices"

    def _beside_cheapest(self, point: MixStep) -> str:
        more, price = (a / b for a, b in zip(self.place(point), self.place(self.points[-1]), strict=True))
        return f"{more:.3g} times as much as at the cheapest, for {price:.3g} times the price"

    def figure(self) -> Plot:
        """Return the plot of what is spent against what is gained, with the area where no plan is."""
        steps = sorted((*self.points, *self.frontier.others), key=lambda step: step.size)
        steps = [step for step in steps if step.result.plan is not None]
        if not self.instance.serves:
            lower = [(step.bound, step.size + 1.0) for step in steps[:-1]]
            return self.plot(("progress, in jobs", "devices"), lower)
        # What a load costs at least, a larger one costs too.
        least = accumulate((step.bound for step in steps), max)
        lower = [(self.place(step)[0], usd) for step, usd in zip(steps, least, strict=True)]
        return self.plot(("requests/s", "USD/h"), lower)

    def choice(self, point: MixStep) -> ScriptData:
        """Return a point's figures by HTML element id, for the script."""
        plan = answer(with_size(self.instance, point.size), cast(Plan, point.result.plan))
        bound, gap = short(point.bound, 5), percent(point.record.certified_gap)
        return {"figures": {"is-bound": bound, "is-gap": gap, "is-plan": plan}}

    def context(self) -> Context:
        """Return the template's variables: what a bound says, and facts of the instance."""
        start = "as it is" if self.own in {point.size for point in self.points} else "the nearest"
        return {"bound": words(self.frontier)[2], "about": instance_facts(self.instance), "as_it_is": start}


FRONTIER = FrontierKind(
    model=MixFrontier,
    find=find_frontier,
    check=MixFrontierCheck,
    page=MixFrontierPage,
    settings={"least": "a smallest size", "most": "a largest size"},
)
