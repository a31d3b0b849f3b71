"""The plot of cost against throughput."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ...instances.staging.instance import StagingInstance
from ...solvers.staging.frontier_result import FrontierPoint
from ..output.text import percent
from ..reports.frontier_figure import Drawing
from ..reports.plot_style import Figure, layout, line_at, marker, note, place_on, shown, spread_axis
from ..reports.provenance import usd
from ..reports.text import duration, short
from .stages import in_short

CLOSE = 1e-6
"""Plans that are dearer by no more than this part lie on the frontier."""


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
        """The excess of the plan's cost over the frontier's, as a part of the latter."""
        if self.cheapest_usd is None or not self.cheapest_usd:
            return None
        return max(0.0, self.point.cost_usd / self.cheapest_usd - 1)

    @property
    def words(self) -> str:
        """How much dearer the plan is."""
        if self.dearer is None:
            return "–"
        return "on the frontier" if self.dearer <= CLOSE else percent(self.dearer)


def _hover(point: FrontierPoint) -> list[str]:
    return [
        f"{short(point.throughput_samples_per_s, 6)} samples/s",
        usd(point.cost_usd),
        f"{short(point.rate_usd_per_hour, 6)} USD/h for {duration(point.time_s)}",
        shown(in_short(point.plan, 4)),
    ]


# From the fastest to the cheapest: along at the cost of the faster point, then down.
DRAWING = Drawing[FrontierPoint](lambda p: (p.throughput_samples_per_s, p.cost_usd), _hover, "hv")


def frontier_figure(
    instance: StagingInstance,
    points: Sequence[FrontierPoint],
    today: int,
    baselines: Sequence[Baseline],
) -> tuple[Figure, dict[str, int]]:
    """Return the plot, and which of its traces are the frontier, today's choice and the ring."""
    every = [*points, *(baseline.point for baseline in baselines)]
    speeds = [point.throughput_samples_per_s for point in every]
    floor, limit = instance.throughput_floor_samples_per_s, instance.cost_limit_usd
    x = spread_axis("throughput [samples/s]", [*speeds, *([] if floor is None else [floor])])
    near = [limit] if limit is not None and near_limit(instance, points) else []
    y = spread_axis("cost of the training [USD]", [*(point.cost_usd for point in every), *near])
    traces = [DRAWING.line(points), *([_others(baselines, x)] if baselines else [])]
    at = {"line": 0, "star": len(traces), "ring": len(traces) + 1}
    traces += [DRAWING.star(points[today], shown("today's choice")), DRAWING.ring(points[today])]
    if instance.hourly_budget_usd is not None:
        traces.append(_budget(instance, instance.hourly_budget_usd, speeds))
    return {"data": traces, "layout": layout(x, y, 460, **_limits(x, y, floor, near))}, at


def _limits(x: Figure, y: Figure, floor: float | None, costs: Sequence[float]) -> Figure:
    """Return lines at the throughput floor and the cost limit, with their words."""
    shapes, notes = [], []
    if floor is not None:
        shapes.append(line_at("x", floor))
        at = {"x": place_on(x, floor), "y": 1, "yref": "paper"}
        notes.append(note(f"floor {short(floor)}", xanchor="left", yanchor="top", **at))
    for limit in costs:
        shapes.append(line_at("y", limit, "dot"))
        at = {"x": 1, "xref": "paper", "y": place_on(y, limit)}
        notes.append(note(f"cost limit {usd(limit)}", xanchor="right", yanchor="bottom", **at))
    return {"shapes": shapes, "annotations": notes}


def near_limit(instance: StagingInstance, points: Sequence[FrontierPoint]) -> bool:
    """Return whether the cost limit is near enough to be drawn."""
    limit = instance.cost_limit_usd
    return limit is not None and limit <= 1.5 * max(point.cost_usd for point in points)


def _others(baselines: Sequence[Baseline], x: Figure) -> Figure:
    """Return the plans of other methods, each with its name on the side where there is room."""
    middle = sum(x["range"]) / 2
    left = [place_on(x, b.point.throughput_samples_per_s) > middle for b in baselines]
    gap = "\u00a0" * 4
    return {
        **DRAWING.marks([b.point for b in baselines], [shown(b.solver) for b in baselines]),
        "mode": "markers+text",
        "text": [
            name + gap if end else gap + name for name, end in zip(_names(baselines, x), left, strict=True)
        ],
        "textposition": ["middle left" if end else "middle right" for end in left],
        "textfont": {"color": "@muted", "size": 12},
        "cliponaxis": False,
        "marker": marker("diamond", "@s1", 12),
    }


def _names(baselines: Sequence[Baseline], x: Figure) -> list[str]:
    """Return what to write beside each plan; the first of plans that nearly coincide names all of them."""
    low, high = x["range"]
    names = [""] * len(baselines)
    places = [place_on(x, b.point.throughput_samples_per_s) for b in baselines]
    for n, baseline in enumerate(baselines):
        first = next(
            k
            for k in range(n + 1)
            if abs(places[k] - places[n]) <= 0.05 * (high - low)
            and math.isclose(baselines[k].point.cost_usd, baseline.point.cost_usd, rel_tol=0.05)
            and (names[k] or k == n)
        )
        names[first] = ", ".join(part for part in (names[first], shown(baseline.solver)) if part)
    return names


def _budget(instance: StagingInstance, budget: float, speeds: Sequence[float]) -> Figure:
    """Return the costs at which plans spend the whole hourly budget; feasible ones lie below."""
    hours = instance.training.epochs * instance.training.samples / 3600
    low, high = min(speeds), max(speeds)
    at = [low * (high / low) ** (step / 60) for step in range(61)]
    return {
        "type": "scatter",
        "mode": "lines+text",
        "text": ["hourly budget", *[""] * 60],
        "textposition": "top right",
        "textfont": {"color": "@muted", "size": 12},
        "x": at,
        "y": [budget * hours / speed for speed in at],
        "line": {"color": "@muted", "width": 1.5, "dash": "dot"},
        "hovertemplate": f"hourly budget of {short(budget)} USD/h<extra></extra>",
    }
