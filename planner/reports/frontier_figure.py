"""The plot of cost against throughput."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...instances.staging import StagingInstance
from ...solvers.frontier import FrontierPoint
from ..output import percent
from .chains import in_short
from .facts import usd
from .figures import Figure, layout, line_at, marker, note, place_on, ring, shown, spread_axis
from .words import duration, short

CLOSE = 1e-6
HOVER = (
    "<b>%{customdata[0]}</b><br>%{customdata[1]}<br>%{customdata[2]}<br>%{customdata[3]}<br>"
    "%{customdata[4]}<extra></extra>"
)


@dataclass(frozen=True)
class Baseline:
    """The plan of another method.

    Attributes
    ----------
    cheapest_usd
        Cost of the cheapest point that is at least as fast; None if there is none.
    """

    solver: str
    point: FrontierPoint
    cheapest_usd: float | None
    runtime_s: float

    @property
    def dearer(self) -> float | None:
        """By which part of the frontier's cost the plan is dearer."""
        if self.cheapest_usd is None or not self.cheapest_usd:
            return None
        return max(0.0, self.point.cost_usd / self.cheapest_usd - 1)

    @property
    def words(self) -> str:
        """How much dearer the plan is."""
        if self.dearer is None:
            return "–"
        return "on the frontier" if self.dearer <= CLOSE else percent(self.dearer)


def frontier_figure(
    instance: StagingInstance,
    points: Sequence[FrontierPoint],
    today: int,
    baselines: Sequence[Baseline],
) -> Figure:
    """Return the plot: the frontier, today's point, the chosen one, other methods, and the limits."""
    every = [*points, *(baseline.point for baseline in baselines)]
    speeds = [point.throughput_samples_per_s for point in every]
    floor, limit = instance.throughput_floor_samples_per_s, instance.cost_limit_usd
    x = spread_axis("throughput [samples/s]", [*speeds, *([] if floor is None else [floor])])
    y = spread_axis("cost of the training [USD]", [point.cost_usd for point in every])
    traces = [
        _line(points),
        {**_marks([points[today]], ["today's choice"]), "marker": marker("star", "@accent", 17)},
        ring(points[today].throughput_samples_per_s, points[today].cost_usd),
    ]
    if baselines:
        names = [baseline.solver for baseline in baselines]
        traces.append(
            {
                **_marks([baseline.point for baseline in baselines], names),
                "mode": "markers+text",
                "text": [shown(name) for name in names],
                "textposition": "top center",
                "textfont": {"color": "@muted", "size": 12},
                "cliponaxis": False,
                "marker": marker("diamond", "@s1", 11),
            }
        )
    shapes, notes = [], []
    if floor is not None:
        shapes.append(line_at("x", floor))
        notes.append(
            note(
                f"floor {short(floor)}",
                x=place_on(x, floor),
                xanchor="left",
                yref="paper",
                y=1,
                yanchor="top",
            )
        )
    if limit is not None and limit <= 1.5 * max(point.cost_usd for point in every):
        shapes.append(line_at("y", limit, "dot"))
        notes.append(
            note(
                f"cost limit {usd(limit)}",
                y=place_on(y, limit),
                yanchor="bottom",
                xref="paper",
                x=0,
                xanchor="left",
            )
        )
    if instance.hourly_budget_usd is not None:
        traces.append(_budget(instance, instance.hourly_budget_usd, speeds))
    return {"data": traces, "layout": layout(x, y, 460, shapes=shapes, annotations=notes)}


def _marks(points: Sequence[FrontierPoint], titles: Sequence[str]) -> Figure:
    """Return points with what is shown when one hovers over them."""
    return {
        "type": "scatter",
        "mode": "markers",
        "x": [point.throughput_samples_per_s for point in points],
        "y": [point.cost_usd for point in points],
        "customdata": [_hover(point, title) for point, title in zip(points, titles, strict=True)],
        "hovertemplate": HOVER,
    }


def _hover(point: FrontierPoint, title: str) -> list[str]:
    return [
        shown(title),
        f"{short(point.throughput_samples_per_s, 6)} samples/s",
        usd(point.cost_usd),
        f"{short(point.rate_usd_per_hour, 6)} USD/h for {duration(point.time_s)}",
        shown(in_short(point.plan, 4)),
    ]


def _line(points: Sequence[FrontierPoint]) -> Figure:
    """Return the frontier: what a throughput costs at least, a step at each point."""
    titles = [f"point {index + 1}" for index in range(len(points))]
    return {
        **_marks(points, titles),
        "mode": "lines+markers",
        # From the fastest to the cheapest: along at the cost of the faster point, then down.
        "line": {"shape": "hv", "color": "@s0", "width": 2},
        "marker": {
            "color": "@s0",
            "size": 8 if len(points) <= 80 else 5,
            "line": {"color": "@panel", "width": 1},
        },
    }


def _budget(instance: StagingInstance, budget: float, speeds: Sequence[float]) -> Figure:
    """Return the costs at which plans take the whole hourly budget; feasible ones lie below."""
    hours = instance.training.epochs * instance.training.samples / 3600
    low, high = min(speeds), max(speeds)
    at = [low * (high / low) ** (step / 60) for step in range(61)]
    return {
        "type": "scatter",
        "mode": "lines",
        "x": at,
        "y": [budget * hours / speed for speed in at],
        "line": {"color": "@muted", "width": 1.5, "dash": "dot"},
        "hovertemplate": f"hourly budget of {short(budget)} USD/h<extra></extra>",
    }
