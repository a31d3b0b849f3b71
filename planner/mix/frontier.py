"""The frontier of a mix (cost against load, or devices against progress): verification, table and page."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import accumulate, pairwise
from typing import cast

from ...formulations.mix.plan import Plan
from ...instances.mix.instance import MixInstance
from ...solvers.mix.frontier import MixFrontier, MixStep, figures_of, find_frontier, grid_of, with_size
from ..findings import Findings, FrontierCheck
from ..kind import FrontierKind, FrontierNotes
from ..reports.frontier_page import SECTIONS, FrontierPage, Place, Plot
from ..reports.page import (
    CellColumn,
    Context,
    ScriptData,
    as_text_column,
    figure_column,
    instance_facts,
    share,
)
from ..reports.plot_style import plot_text
from ..reports.text import TextColumn, percent, short
from ..verification import verify
from .plan import answer


def range_text(frontier: MixFrontier) -> str:
    """Return the range of the search as text."""
    unit = "% of the requests" if _serves(frontier) else "devices"
    return f"from {frontier.least:,} to {frontier.most:,} {unit}"


def _serves(frontier: MixFrontier) -> bool:
    """Return whether the frontier is of requests."""
    return any(step.record.sense == "min" for step in (*frontier.points, *frontier.others))


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
        return f" {range_text(self.frontier)}"

    def head_faults(self) -> Iterator[str]:
        """Set the grid of sizes; it has no faults of its own."""
        self.unproven: dict[str, None] = {}
        self.grid = grid_of(self.instance.serves, self.frontier.least, self.frontier.most)
        return iter(())

    def record_faults(self, place: str, record: MixStep) -> Iterator[str]:
        """Yield the faults of a size and of its result."""
        size, result = record.size, record.result
        if not self.frontier.least <= size <= self.frontier.most:
            yield f"{place}.size is {size}, and sizes go {range_text(self.frontier)}"
            return
        if result.plan is None and (place.startswith("points") or result.status != "infeasible"):
            yield f"{place}: its result has no plan"
            return
        checked = verify(with_size(self.instance, size), result)
        yield from (f"{place}.result: {fault}" for fault in checked.faults)
        if checked.ok:
            self.unproven |= dict.fromkeys(checked.claimed)
            at = -size if self.instance.serves else size
            self.values[at], self.bounds[at] = figures_of(result)

    def error_faults(self) -> Iterator[str]:
        """Yield faults of the certified error, which needs the smallest and the largest size."""
        if (
            self.frontier.certified_error is not None
            and not {self.grid.first, self.grid.last} <= self.bounds.keys()
        ):
            yield "certified_error is given, and the smallest or the largest size is missing"
        yield from super().error_faults()

    def claimed(self) -> Iterator[str]:
        """Yield what only the solver says of the results."""
        return iter(self.unproven)

    def check_infeasible(self, findings: Findings) -> None:
        """Record a fault unless the size for which there most likely is a plan has none."""
        if not math.isinf(self.values.get(self.grid.last, 0.0)):
            findings.faults.append("status is infeasible, and no result says that there is no plan")


def cell_columns(frontier: MixFrontier) -> list[CellColumn[MixStep]]:
    """Return the columns of the table of points, without the point's number."""
    serves = _serves(frontier)
    return [
        figure_column("% of the requests" if serves else "devices", lambda p: p.size),
        figure_column("USD/h" if serves else "progress, in jobs", lambda p: p.value),
        figure_column("no plan costs less than" if serves else "no plan makes more than", lambda p: p.bound),
        figure_column("gap", lambda p: p.gap, share),
    ]


def columns(frontier: MixFrontier) -> list[TextColumn[MixStep]]:
    """Return the columns of the text table of the points."""
    return [*map(as_text_column, cell_columns(frontier))]


def frontier_notes(frontier: MixFrontier) -> FrontierNotes:
    """Return the footnotes of the frontier's text table: certified bound and certified error."""
    error, among = percent(frontier.certified_error), range_text(frontier)
    if _serves(frontier):
        says = f"{among} some point serves as many, and no plan costs more than {error} less than it"
    else:
        says = f"{among} some point has no more, and no plan makes more than {error} more progress"
    missing = [step.size for step in frontier.others if step.result.plan is None]
    return FrontierNotes(
        none=f"there is no plan {among}",
        about=(f"there is no plan for {_run(missing)}",) if missing and frontier.points else (),
        uncertified=f"not certified: how much better plans could be {among}",
        certified=f"certified: for every size {says}",
    )


def _run(sizes: list[int]) -> str:
    return f"{min(sizes):,} and what is beyond"


class MixFrontierPage(FrontierPage):
    """The page of a frontier of cost against load, or of devices against progress."""

    template = "mix_frontier.html.j2"
    script = "size.js"
    kicker = "Mix: what more costs"
    noun = "size"
    order = "from the most to the least"
    instance: MixInstance
    frontier: MixFrontier
    points: list[MixStep]

    def place(self, point: MixStep) -> Place:
        """Return requests/s and USD/h of a point, or progress and devices."""
        return self._rate(point.gained), point.spent

    # The more is served or done, the better.
    trade = place

    def _rate(self, gained: float) -> float:
        """Return the requests/s of a load in per cent; a progress stays as it is."""
        return (
            gained * sum(one.requests_per_s or 0.0 for one in self.instance.types) / 100
            if self.instance.serves
            else gained
        )

    def today(self) -> float:
        """Return what the requests of the instance cost; for jobs, any number of devices."""
        own = 100 if self.instance.serves else self.frontier.most
        return min((point.spent for point in self.points if point.size >= own), default=math.inf)

    def hover(self, point: MixStep) -> list[str]:
        """Return what is gained and spent, and the bound."""
        than = "costs less" if self.instance.serves else "makes more"
        return [plot_text(self.text(point)), f"no plan {than} than {short(point.bound, 5)}"]

    def text(self, point: MixStep) -> str:
        """Return what is gained and spent as text."""
        gained, spent = (short(amount, 5) for amount in self.place(point))
        if self.instance.serves:
            return f"{gained} requests/s for {spent} USD/h"
        return f"progress of {gained} jobs on {spent} devices"

    def _beside_cheapest(self, point: MixStep) -> str:
        (more, dearer), (least, cheapest) = self.place(point), self.place(self.points[-1])
        return f"{more / least:.3g} times as much as the least, for {dearer / cheapest:.3g} times the price"

    def proven(self) -> tuple[str, str, str, str]:
        """Return sentences: no plan exists; error certified; error not certified; search complete."""
        notes, asked = frontier_notes(self.frontier), percent(self.frontier.error)
        return (
            f"It is proven that {notes.none}.",
            f"{notes.certified.capitalize()}. Our own check derives this and trusts no solver.",
            f"{notes.uncertified.capitalize()}.",
            f"The search ended by itself; it was asked for an error of at most {asked}.",
        )

    def compared(self) -> Iterator[str]:
        """Yield a sentence on the sizes without a plan."""
        yield from (f"{line.capitalize()}." for line in frontier_notes(self.frontier).about)

    def figure(self) -> Plot:
        """Return the plot of what is spent against what is gained, with the area where no plan is."""
        steps = sorted(
            (p for p in (*self.points, *self.frontier.others) if p.result.plan is not None),
            key=lambda p: p.size,
        )
        if self.instance.serves:  # what a load costs at least, a larger one does too
            least = accumulate((step.bound for step in steps), max)
            lower = [(self._rate(step.size), usd) for step, usd in zip(steps, least, strict=True)]
            return self.plot(("requests/s", "USD/h"), lower)
        lower = [(a.bound, float(a.size + 1)) for a, _ in pairwise(steps)]
        return self.plot(("progress, in jobs", "devices"), lower)

    def choice(self, point: MixStep) -> ScriptData:
        """Return a point's figures by HTML element id, for the script."""
        figures = {
            "is-gained": short(self.place(point)[0], 5),
            "is-spent": short(point.spent, 5),
            "is-bound": short(point.bound, 5),
            "is-gap": percent(point.gap),
            "is-plan": answer(with_size(self.instance, point.size), cast(Plan, point.result.plan)),
        }
        return {"figures": figures}

    def columns(self) -> list[CellColumn[MixStep]]:
        """Return the columns of the table of points, without the point's number."""
        return cell_columns(self.frontier)

    def context(self) -> Context:
        """Return the template's variables: sections and facts of the instance."""
        return {"sections": SECTIONS, "serves": self.instance.serves, "about": instance_facts(self.instance)}


FRONTIER = FrontierKind(
    model=MixFrontier,
    find=find_frontier,
    check=MixFrontierCheck,
    page=MixFrontierPage,
    columns=columns,
    sentences=frontier_notes,
    settings={"least": "a smallest size", "most": "a largest size"},
)
