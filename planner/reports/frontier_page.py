"""HTML page of a Pareto frontier: its plot, its knee, the plan of each point, and a table of all points.

The knee is the point after which more speed costs much more.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any, ClassVar, Literal

import numpy as np

from ...solvers.common.result import AnyFrontier, Result
from ..findings import Verification
from .page import CellColumn, Column, Context, ScriptData, Table, headline, number, provenance, render
from .plot_style import Figure, marker, markers, place_on, plot_of, spread_axis, steps
from .text import counted, percent, unit_of_time

Place = tuple[float, float]
"""Coordinates in the plot; or speed and cost."""
Plot = tuple[Figure, dict[str, int]]
"""A figure, and the indices of the traces that the script changes."""


def lower_steps(bounds: Mapping[float, float], after: Callable[[float], float]) -> list[Place]:
    """Return the corners of the step function of lower bounds: from where on each one holds.

    Parameters
    ----------
    bounds
        Bound by size or cost; it holds for what is smaller too. Infinite where there is no plan.
    after
        Returns the next larger size or cost.
    """
    places = sorted(bounds)
    best = [*accumulate((bounds[place] for place in reversed(places)), max)][::-1]
    starts = [*places[:1], *map(after, places[:-1])]
    return [(start, bound) for start, bound in zip(starts, best, strict=True) if 0 < bound < math.inf]


def infeasible_area(lower: Sequence[Place], end: float) -> Figure:
    """Return the trace of the area without a plan, below the steps `lower` up to `end`."""
    x, y = zip(*lower, (end, lower[-1][1]), strict=True)
    return steps(
        x,
        y,
        2,
        fill="tozeroy",
        fillcolor="@panel",
        fillpattern={
            "shape": "/",
            "fgcolor": "@s2/0.5",
            "bgcolor": "@panel",
            "size": 7,
            "solidity": 0.12,
        },
        hovertemplate="no plan is below %{y:.5g}<extra></extra>",
    )


def open_area(points: Sequence[Place], end: float) -> Figure:
    """Return the trace that fills the area between bounds and points, where better plans may exist."""
    x, y = zip(*points, (end, points[-1][1]), strict=True)
    return steps(x, y, 0, {"width": 0}, fill="tonexty", fillcolor="@s0/0.22", hoverinfo="skip")


LEAST_BEND = 0.1
"""Least distance of a knee from the line, as a share of the frontier's height."""
MANY = 2.995
"""Ratio from which on a trade-off is written as a multiple, not in per cent."""


def knee(trades: Sequence[Place]) -> int | None:
    """Return the index of the knee: the point farthest below the line from the cheapest to the fastest one.

    This is the knee of Satopää, Albrecht, Irwin and Raghavan (2011), for few points and no noise. Speeds and
    costs are compared as ratios, so that the line is straight where each per cent of speed costs the same.

    Parameters
    ----------
    trades
        Speed and cost of each point.
    """
    logs = np.log(trades) if len(trades) >= 3 and np.min(trades) > 0 else np.zeros((1, 2))
    spread = np.ptp(logs, axis=0)
    if not spread.all():
        return None
    faster, dearer = ((logs - logs.min(axis=0)) / spread).T
    best = int(np.argmax(faster - dearer))
    return best if faster[best] - dearer[best] >= LEAST_BEND else None


def trade_off_text(speed: float, cost: float) -> str:
    """Return a trade-off as text; speed and cost are ratios to those of the cheapest point."""
    faster = f"{_added(speed)} faster" if speed < MANY else f"{speed:.1f} times as fast"
    dearer = f"{_added(cost)} more" if cost < MANY else f"{cost:.1f} times the cost"
    return f"{faster} for {dearer}"


def _added(ratio: float) -> str:
    return f"{100 * (ratio - 1):.0f} %"


MAX_POINTS = 1500
"""Most points of a frontier that a page shows."""


def evenly_spaced(points: Sequence[Any], most: int) -> list[Any]:
    """Return at most `most` points, evenly spaced from the first to the last."""
    if len(points) <= most:
        return list(points)
    return [points[index] for index in np.linspace(0, len(points) - 1, most).round().astype(int)]


@dataclass(frozen=True)
class FrontierNotes:
    """Footnotes of a frontier's table of points.

    Attributes
    ----------
    none
        Note that no plan exists.
    uncertified, certified
        Meaning of the certified error, if there is none and if there is one.
    about
        Further notes.
    """

    none: str
    uncertified: str
    certified: str
    about: tuple[str, ...] = ()


VACUOUS_ERROR = 0.995
"""Certified error from which on a certificate proves nothing."""


def is_certified(frontier: AnyFrontier) -> bool:
    """Return whether something is certified of the error of a frontier."""
    return frontier.certified_error is not None and frontier.certified_error < VACUOUS_ERROR


class FrontierPage(ABC):
    """Base class of the HTML pages of frontiers.

    Attributes
    ----------
    template, script
        Names of the packaged template, and of the script that draws the chosen point.
    kicker, noun, order
        Texts: the objectives traded off; the noun for a point; and the order of the points.
    line_shape
        How the line goes from a point to the next: first along (`hv`) or first up or down (`vh`).
    points
        The points shown, evenly spaced from the first to the last.
    start
        Index of the point selected at first.
    """

    template: ClassVar[str]
    script: ClassVar[str]
    kicker: ClassVar[str]
    noun: ClassVar[str]
    order: ClassVar[str]
    line_shape: ClassVar[Literal["hv", "vh"]] = "hv"

    def __init__(self, instance: Any, frontier: Any, results: Sequence[Result] = ()) -> None:
        self.instance, self.frontier, self.results = instance, frontier, results
        self.points: list[Any] = evenly_spaced(frontier.points, self.most_points())
        costs = [getattr(point, frontier.dear) for point in self.points]
        last = max(0, len(costs) - 1)
        self.start = next((i for i, cost in enumerate(costs) if cost <= self.today() * (1 + 1e-9)), last)

    def most_points(self) -> int:
        """Return the maximum number of points of the frontier shown on the page."""
        return MAX_POINTS

    def today(self) -> float:
        """Return what may be spent today; the best point for it is selected at first, else the cheapest."""
        return -math.inf

    @cached_property
    def unit(self) -> tuple[float, str]:
        """The unit of the times that are plotted: its length in seconds, and its name."""
        return unit_of_time(getattr(self.points[-1], self.frontier.slow) if self.points else 1.0)

    def place(self, point: Any) -> Place:
        """Return the coordinates of a point in the plot, such as cost and time."""
        return getattr(point, self.frontier.dear), getattr(point, self.frontier.slow) / self.unit[0]

    @abstractmethod
    def hover(self, point: Any) -> list[str]:
        """Return the lines of a point's hover text below the title."""

    @abstractmethod
    def text(self, point: Any) -> str:
        """Return the two objectives of a point as text."""

    def trade(self, point: Any) -> Place:
        """Return the speed and the cost of a point, in any units, from which the knee is computed."""
        return 1 / getattr(point, self.frontier.slow), getattr(point, self.frontier.dear)

    @abstractmethod
    def figure(self) -> Plot:
        """Return the plot, and the indices of the traces that the script changes."""

    def marks(self, points: Sequence[Any], titles: Sequence[str]) -> Figure:
        """Return a trace of points with hover texts; titles are HTML."""
        hover = [[title, *self.hover(point)] for point, title in zip(points, titles, strict=True)]
        lines = [f"<br>%{{customdata[{line}]}}" for line in range(1, len(hover[0]))]
        x, y = zip(*map(self.place, points), strict=True)
        text = f"<b>%{{customdata[0]}}</b>{''.join(lines)}<extra></extra>"
        return markers(x, y, customdata=hover, hovertemplate=text)

    def line(self) -> Figure:
        """Return the trace of the frontier as a step function."""
        size = 8 if len(self.points) <= 80 else 5
        return {
            **self.marks(self.points, [f"point {index + 1}" for index in range(len(self.points))]),
            "mode": "lines+markers",
            "line": {"shape": self.line_shape, "color": "@s0", "width": 2},
            "marker": {"color": "@s0", "size": size, "line": {"color": "@panel", "width": 1}},
        }

    def star(self, point: Any, title: str) -> Figure:
        """Return the trace that marks the current or preferred point."""
        return {**self.marks([point], [title]), "marker": marker("star", "@accent", 17)}

    def ring(self) -> Figure:
        """Return the trace that marks the selected point, which a script moves."""
        x, y = self.place(self.points[self.start])
        return markers([x], [y], hoverinfo="skip", marker=marker("circle-open", "@ink", 20, 3))

    def plot(
        self,
        titles: tuple[str, str],
        lower: Sequence[Place],
        ends: Sequence[float] = (),
        today: Any = None,
    ) -> Plot:
        """Return the plot of the points above the steps of lower bounds, and the indices of its traces.

        Parameters
        ----------
        titles
            Of the horizontal and the vertical axis.
        ends
            Of the horizontal axis; by default those of what is plotted.
        today
            Today's cluster, if it is to be marked.
        """
        places = sorted(map(self.place, self.points))
        every = [*places, *lower, *([] if today is None else [self.place(today)])]
        x = spread_axis(titles[0], ends or [place for place, _ in every])
        y = spread_axis(titles[1], [value for _, value in every if value > 0] or [1])
        end = ends[-1] if ends else max(place for place, _ in (*places, *lower))
        areas = [infeasible_area(lower, end)] if lower else []
        if lower and self.line_shape == "vh":  # what lies between the line and the bounds is not settled
            areas.append(open_area(places, end))
        at = {"line": len(areas), "star": -1, "ring": len(areas) + 1}
        traces = [*areas, self.line(), self.ring()]
        if today is not None:
            at["star"] = len(traces)
            traces.append(self.star(today, "today's cluster"))
        return plot_of(traces, x, y, 460), at

    def data(self) -> ScriptData:
        """Return the data for the script, other than the points."""
        return {}

    @abstractmethod
    def choice(self, point: Any) -> ScriptData:
        """Return the data of a point for the script that shows its figures and plan."""

    @staticmethod
    @abstractmethod
    def columns(frontier: Any) -> list[CellColumn[Any]]:
        """Return the columns of the table of points, without the point's number."""

    @staticmethod
    @abstractmethod
    def sentences(frontier: Any) -> FrontierNotes:
        """Return the footnotes of the text table, which the page says as sentences."""

    @abstractmethod
    def context(self) -> Context:
        """Return further variables of the template."""

    def html(self, checked: Verification | None) -> str:
        """Return the HTML page.

        Parameters
        ----------
        checked
            Verification of a stored frontier; the page lists its unconfirmed claims.
        """
        frontier = self.frontier
        context = {"assumptions": self.instance.assumptions, **self.context()}
        return render(
            self.template,
            scripts=("choose.js", self.script),
            data=self._data(),
            title=self.instance.name,
            kicker=self.kicker,
            verdict=headline(frontier.status, frontier.limit, checked),
            claimed=checked.claimed if checked else (),
            lead=self._lead(),
            certified=list(self._certified()),
            diagnosis=frontier.diagnosis,
            count=len(self.points),
            start=self.start,
            points=self._table(),
            footer=provenance(frontier),
            **context,
        )

    def _lead(self) -> str:
        points = self.frontier.points
        if not points:
            return "There is no point."
        if len(points) == 1:
            return f"One {self.noun} beats all others: {self.text(points[0])}."
        ends = f"from {self.text(points[0])} to {self.text(points[-1])}"
        bend = self._knee()
        best = "" if bend is None else f"The knee is {self.text(bend)}: {self._beside_cheapest(bend)}. "
        return f"{best}{counted(len(points), self.noun)}, {ends}."

    def _knee(self) -> Any | None:
        """Return the knee of the points shown; None if there is no clear one."""
        index = knee([self.trade(point) for point in self.points])
        return None if index is None else self.points[index]

    def _beside_cheapest(self, point: Any) -> str:
        """Return the speed and the cost of a point relative to the cheapest point, as text.

        A knee has no figure that is zero.
        """
        (speed, cost), (slowest, least) = self.trade(point), self.trade(self.points[-1])
        return f"{trade_off_text(speed / slowest, cost / least)}, beside the cheapest"

    def _certified(self) -> Iterator[str]:
        """Yield sentences on what is proven of the frontier, and on whether its search is complete."""
        frontier, notes = self.frontier, self.sentences(self.frontier)
        if frontier.status == "infeasible":
            yield f"It is proven that {notes.none}."
        yield from (f"{_begun(note)}." for note in notes.about)
        if frontier.status == "infeasible":
            return
        if is_certified(frontier):
            yield f"{_begun(notes.certified)}. Our own check derives this and trusts no solver."
        elif frontier.points:
            yield f"{_begun(notes.uncertified)}."
        if frontier.status == "complete":
            asked = percent(frontier.error)
            yield f"The search ended by itself; it was asked for an error of at most {asked}."
        else:
            stopped = "" if frontier.limit == "none" else f" ({frontier.limit} limit)"
            yield f"The search was stopped{stopped}: points are plans, but better ones may be missing."
        if len(self.points) < len(frontier.points):
            yield f"{len(self.points):,} of {len(frontier.points):,} points are on this page, evenly chosen."

    def _data(self) -> ScriptData:
        if not self.points:
            return {"figures": {}}
        plot, at = self.figure()
        if (bend := self._knee()) is not None:
            self._mark_knee(plot["layout"], bend)
        choice = {
            "plot": "frontier",
            **at,
            "today": self.start,
            "start": self.start,
            "points": self._choices(),
        }
        return {"figures": {"frontier": plot}, **self.data(), "choice": choice}

    def _mark_knee(self, layout: Figure, point: Any) -> None:
        x, y = self.place(point)
        place = {"x": place_on(layout["xaxis"], x), "y": place_on(layout["yaxis"], y)}
        ax, ay = (34, 24) if self.line_shape == "hv" else (28, -32)  # away from the line
        arrow = {"ax": ax, "ay": ay, "arrowcolor": "@muted", "arrowwidth": 1, "standoff": 5}
        words = {"text": "knee", "font": {"color": "@ink", "size": 13}}
        layout["annotations"] = [*layout.get("annotations", ()), {**place, **arrow, **words}]

    def _choices(self) -> list[ScriptData]:
        """Return the coordinates, text and data of each point, for the script."""
        choices = []
        for index, point in enumerate(self.points):
            x, y = self.place(point)
            words = f"Point {index + 1} of {len(self.points)}: {self.text(point)}"
            choices.append({"x": x, "y": y, "words": words, **self.choice(point)})
        return choices

    def _table(self) -> Table:
        columns = self.columns(self.frontier)
        titles = [Column("point", True), *(column for column, _ in columns)]
        rows = [
            [number(index), *(cell(point) for _, cell in columns)]
            for index, point in enumerate(self.points, 1)
        ]
        return Table("points", f"Points of the frontier, {self.order}", titles, rows)


def _begun(note: str) -> str:
    """Return a note as the beginning of a sentence."""
    return note[:1].upper() + note[1:]
