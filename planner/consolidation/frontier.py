"""The frontier of moves (tasks moved against servers or racks freed): verification, table and page."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import cached_property
from typing import Any

from ...formulations.common.frontier import Sizes
from ...formulations.consolidation.formulation import ConsolidationFormulation, freed_units
from ...instances.common.errors import some
from ...instances.consolidation.instance import ConsolidationInstance
from ...solvers.common.result import Result
from ...solvers.consolidation.frontier import FreedPoint, MovesFrontier, find_frontier, moves_of, with_units
from ..findings import Findings, FrontierCheck
from ..kind import FrontierKind
from ..reports.frontier_page import FrontierNotes, FrontierPage, Place, Plot
from ..reports.page import (
    CellColumn,
    Context,
    ScriptData,
    figure_column,
    instance_facts,
    jobs_fact,
    share,
)
from ..reports.plot_style import plot_text
from ..reports.text import counted, figure, percent
from ..verification import verify

MAX_NAMED_UNITS = 40
"""Largest number of freed units that the page names."""


def units_text(frontier: MovesFrontier) -> str:
    """Return the range of the search as text."""
    return f"from {frontier.least:,} to {counted(frontier.most, frontier.per)} freed"


class MovesFrontierCheck(FrontierCheck):
    """Verification of a frontier of moves: each result like any other, and the certified error."""

    default_error = 0.05
    proves = "the certificates prove"
    instance: ConsolidationInstance
    frontier: MovesFrontier

    @property
    def most(self) -> str:
        """The range of numbers of units."""
        return f" {units_text(self.frontier)}"

    def head_faults(self) -> Iterator[str]:
        """Set the grid of numbers of units; it has no faults of its own."""
        self.grid = Sizes(-self.frontier.most, -self.frontier.least)
        return iter(())

    def records(self) -> dict[str, Any]:
        """Return the results by their places in the document."""
        found = {f"{place}.result": point.result for place, point in super().records().items()}
        furthest = self.frontier.furthest
        return found if furthest is None else {**found, "furthest": furthest}

    def record_faults(self, place: str, record: Result) -> Iterator[str]:
        """Yield the faults of a result, which is verified like any other for the number that it says."""
        given = record.instance_options.get("free")
        count = given.get("count") if isinstance(given, dict) else None
        if not isinstance(count, int) or not self.frontier.least <= count:
            yield f"{place}: it does not say how many units are to be freed"
            return
        faults = verify(with_units(self.instance, self.frontier.per, count), record).faults
        yield from (f"{place}: {fault}" for fault in faults)
        if faults or place == "furthest":
            return
        if record.objectives[0].value != count:
            yield f"{place}: its plan does not free the {count} units that it is of"
        moves = moves_of(record)
        self.values[-count], self.bounds[-count] = moves.value or 0.0, moves.certified_bound or 0.0

    def check_infeasible(self, findings: Findings) -> None:
        """Record a fault unless a certified bound says that so many units cannot be freed."""
        frontier = self.frontier
        if frontier.furthest is not None and frontier.furthest.status == "infeasible":
            findings.claimed.append("that there is no plan")
        elif frontier.most_possible is None or frontier.most_possible >= frontier.least:
            findings.faults.append("status is infeasible, and no bound proves it")
        else:
            findings.confirmed.append(frontier_notes(frontier).none)


def columns(frontier: MovesFrontier) -> list[CellColumn[FreedPoint]]:
    """Return the columns of the table of points, without the point's number."""
    return [
        figure_column(f"{frontier.per}s freed", "freed"),
        figure_column("tasks moved", "migrations"),
        figure_column("no plan moves fewer than", "bound"),
        figure_column("gap", "gap", share),
        figure_column(f"moves per {frontier.per}", lambda p: p.migrations / p.freed),
    ]


def possible_sentence(frontier: MovesFrontier) -> Iterator[str]:
    """Yield a sentence on how many units can be freed at most, where that was found out."""
    if frontier.most_possible is not None:
        yield f"certified: no plan frees more than {counted(frontier.most_possible, frontier.per)}"


def frontier_notes(frontier: MovesFrontier) -> FrontierNotes:
    """Return the footnotes of the frontier's text table: certified bound and certified error."""
    return FrontierNotes(
        none=f"no plan frees {counted(frontier.least, frontier.per)}",
        about=tuple(possible_sentence(frontier)),
        uncertified=f"not certified: how few moves could do {units_text(frontier)}",
        certified=f"certified: {units_text(frontier)}, there is always a point that frees as many, and every "
        f"plan that does moves at least {percent(1 - (frontier.certified_error or 0.0))} of its tasks",
    )


class MovesFrontierPage(FrontierPage):
    """The page of a frontier of tasks moved against servers or racks freed."""

    template = "moves_frontier.html.j2"
    script = "size.js"
    columns = staticmethod(columns)
    sentences = staticmethod(frontier_notes)
    kicker = "Consolidation: tasks moved against servers freed"
    noun = "step"
    order = "from the most units to the fewest"
    instance: ConsolidationInstance
    frontier: MovesFrontier
    points: list[FreedPoint]

    @cached_property
    def formulation(self) -> ConsolidationFormulation:
        """The formulation of the instance in which the most units are freed."""
        return ConsolidationFormulation(with_units(self.instance, self.frontier.per, self.frontier.most))

    def place(self, point: FreedPoint) -> Place:
        """Return the units freed and the moves of a point."""
        return point.freed, point.migrations

    # The more units, the better.
    trade = place

    def hover(self, point: FreedPoint) -> list[str]:
        """Return units and moves, and their bound."""
        return [plot_text(self.text(point)), f"no plan moves fewer than {point.bound:,}"]

    def text(self, point: FreedPoint) -> str:
        """Return units and moves of a point as text."""
        moved = counted(point.migrations, "task")
        return f"{counted(point.freed, self.frontier.per)} freed by moving {moved}"

    def _beside_cheapest(self, point: FreedPoint) -> str:
        """Return the moves of a point for each unit, beside those of the point with the fewest, as text."""
        here, least = (figure(p.migrations / p.freed, 3) for p in (point, self.points[-1]))
        return f"{here} moves per {self.frontier.per}, beside {least} of the cheapest"

    def figure(self) -> Plot:
        """Return the plot of moves against units freed, with the area where no plan is."""
        records = sorted((*self.points, *self.frontier.others), key=lambda point: point.freed)
        # What so many units need, more need as well.
        most = itertools.accumulate((float(point.bound) for point in records), max)
        bounds = [(float(point.freed), bound) for point, bound in zip(records, most, strict=True)]
        titles = f"{self.frontier.per}s freed", "tasks moved"
        return self.plot(titles, bounds, [self.frontier.least, self.frontier.most])

    def choice(self, point: FreedPoint) -> ScriptData:
        """Return a point's figures by HTML element id, for the script."""
        units = freed_units(self.formulation, self.formulation.parse_plan(point.result.plan))
        return {
            "figures": {
                "is-freed": f"{point.freed:,}",
                "is-moved": f"{point.migrations:,}",
                "is-bound": f"{point.bound:,}",
                "is-gap": percent(point.gap),
                "is-units": some(units, MAX_NAMED_UNITS),
            }
        }

    def context(self) -> Context:
        """Return the template's variables: facts of the instance."""
        return {"about": [*instance_facts(self.instance), jobs_fact(self.instance)]}


FRONTIER = FrontierKind(
    model=MovesFrontier,
    find=find_frontier,
    check=MovesFrontierCheck,
    page=MovesFrontierPage,
    settings={"least": "a smallest size", "most": "a largest size", "per": "what is counted"},
)
