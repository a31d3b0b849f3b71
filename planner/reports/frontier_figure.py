"""The points of a frontier as traces of a plot."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

from .plot_style import Figure, marker

PointT = TypeVar("PointT")


@dataclass(frozen=True)
class Drawing(Generic[PointT]):
    """How points are drawn.

    Attributes
    ----------
    place
        Where a point lies.
    hover
        The lines of its hover text below the title.
    step
        How the line goes from a point to the next: first along (`hv`) or first up or down (`vh`).
    """

    place: Callable[[PointT], tuple[float, float]]
    hover: Callable[[PointT], list[str]]
    step: Literal["hv", "vh"]

    def marks(self, points: Sequence[PointT], titles: Sequence[str]) -> Figure:
        """Return points with their hover texts; titles are HTML."""
        hover = [[title, *self.hover(point)] for point, title in zip(points, titles, strict=True)]
        lines = [f"<br>%{{customdata[{line}]}}" for line in range(1, len(hover[0]))]
        return {
            "type": "scatter",
            "mode": "markers",
            "x": [self.place(point)[0] for point in points],
            "y": [self.place(point)[1] for point in points],
            "customdata": hover,
            "hovertemplate": f"<b>%{{customdata[0]}}</b>{''.join(lines)}<extra></extra>",
        }

    def line(self, points: Sequence[PointT]) -> Figure:
        """Return the frontier, a step at each point."""
        return {
            **self.marks(points, [f"point {index + 1}" for index in range(len(points))]),
            "mode": "lines+markers",
            "line": {"shape": self.step, "color": "@s0", "width": 2},
            "marker": {
                "color": "@s0",
                "size": 8 if len(points) <= 80 else 5,
                "line": {"color": "@panel", "width": 1},
            },
        }

    def star(self, point: PointT, title: str) -> Figure:
        """Return the mark of the point of today."""
        return {**self.marks([point], [title]), "marker": marker("star", "@accent", 17)}

    def ring(self, point: PointT) -> Figure:
        """Return the mark of the point that is chosen, which a script moves."""
        x, y = self.place(point)
        return {
            "type": "scatter",
            "mode": "markers",
            "x": [x],
            "y": [y],
            "hoverinfo": "skip",
            "marker": marker("circle-open", "@ink", 20, 3),
        }


def nothing_below(lower: Sequence[tuple[float, float]], end: float, unit: float) -> Figure:
    """Return the area that is proven to hold no plan; corners are costs with bounds in seconds."""
    return {
        "type": "scatter",
        "mode": "lines",
        "x": [*(rate for rate, _ in lower), end],
        "y": [*(bound / unit for _, bound in lower), lower[-1][1] / unit],
        "line": {"shape": "hv", "color": "@s2", "width": 1.5},
        "fill": "tozeroy",
        "fillcolor": "@panel",
        "fillpattern": {
            "shape": "/",
            "fgcolor": "@s2/0.5",
            "bgcolor": "@panel",
            "size": 7,
            "solidity": 0.12,
        },
        "hovertemplate": "no plan is below %{y:.5g}<extra></extra>",
    }


def between(rates: Sequence[float], means: Sequence[float], end: float) -> Figure:
    """Return the invisible upper edge of what is still open."""
    return {
        "type": "scatter",
        "mode": "lines",
        "x": [*rates, end],
        "y": [*means, means[-1]],
        "line": {"shape": "hv", "width": 0, "color": "@s0"},
        "fill": "tonexty",
        "fillcolor": "@s0/0.22",
        "hoverinfo": "skip",
    }
