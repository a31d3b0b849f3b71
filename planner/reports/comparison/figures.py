"""The plots of a comparison: gap against seconds, and performance profiles."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ...comparison.comparison import Comparison
from ...comparison.row import ComparisonRow
from ...output.text import percent
from ..plot_style import MANY, Figure, axis, colour, dash, layout, line_at, log_axis, shown, size, symbol
from ..text import duration, short

LEAST_GAP = 1e-9
"""Gaps below this are drawn as 0: they tell of rounding."""
LEAST_S = 1e-3
HOVER = (
    "<b>%{customdata[0]}</b><br>%{customdata[1]}, %{customdata[2]}<br>%{customdata[3]}<br>"
    "gap to the best bound: %{customdata[4]}<br>%{customdata[5]}<extra></extra>"
)


@dataclass(frozen=True)
class GapScale:
    """The logarithmic axis of gaps: whole powers of ten, with a rail below for 0 and one above for unknown.

    Attributes
    ----------
    low, high
        Powers of ten between which all known gaps lie that are not 0.
    unknown
        Whether there are unknown gaps, so that the upper rail is drawn.
    """

    low: int
    high: int
    unknown: bool

    @classmethod
    def of(cls, gaps: Sequence[float | None]) -> GapScale:
        """Return the scale of these gaps; of none that is known and not 0 a usual one."""
        drawn = [gap for gap in gaps if gap is not None and gap > LEAST_GAP]
        low = math.floor(math.log10(min(drawn, default=1e-4)))
        high = math.ceil(math.log10(max(drawn, default=1.0)))
        return cls(low, max(high, low + 1), None in gaps)

    def height(self, gap: float | None) -> float:
        """Return where a gap is drawn."""
        if gap is None:
            return 10.0 ** (self.high + 1)
        return gap if gap > LEAST_GAP else 10.0 ** (self.low - 1)

    def axis(self) -> Figure:
        """Return the axis, with at most some ten ticks and the names of the rails."""
        powers = range(self.low, self.high + 1)
        ticks = {10.0**power: _tick(power) for power in powers[:: max(1, len(powers) // 8)]}
        ticks[self.height(0.0)] = "0"
        if self.unknown:
            ticks[self.height(None)] = "unknown"
        top = self.high + (1.4 if self.unknown else 0.3)
        return axis(
            "gap to the best bound",
            type="log",
            range=[self.low - 1.4, top],
            zeroline=False,
            tickvals=[*ticks],
            ticktext=[*ticks.values()],
        )

    def borders(self) -> list[Figure]:
        """Return the lines that part the rails from the gaps."""
        places = [self.low - 0.5, *([self.high + 0.5] if self.unknown else [])]
        return [line_at("y", 10.0**place, "solid") for place in places]


def gap_figure(comparison: Comparison) -> Figure:
    """Return gap against seconds, one trace for each solver; gaps of 0, and unknown ones, have rails."""
    rows = [row for row in comparison.rows if row.objective is not None]
    scale = GapScale.of([row.gap_to_best_bound for row in rows])
    traces = [
        {
            "type": "scatter",
            "mode": "markers",
            "x": [max(row.runtime_s, LEAST_S) for row in own],
            "y": [scale.height(row.gap_to_best_bound) for row in own],
            "customdata": [_hover(row) for row in own],
            "hovertemplate": HOVER,
            "meta": {"key": index},
            "marker": _marker(index, len(rows)),
        }
        for index, solver in enumerate(comparison.solvers)
        for own in [[row for row in rows if row.solver == solver]]
    ]
    x = log_axis("seconds of the solve", [max(row.runtime_s, LEAST_S) for row in rows])
    return {"data": traces, "layout": layout(x, scale.axis(), 480, shapes=scale.borders())}


def _marker(index: int, points: int) -> Figure:
    """Return the look of a solver's points; where there are many they are small and clear."""
    many = points >= MANY
    return {
        "color": colour(index, 0.55 if many else 0.85),
        "symbol": symbol(index),
        "size": size(index, points),
        "line": {"width": 0 if many else 1, "color": "@panel"},
    }


def _tick(power: int) -> str:
    value = 100 * 10.0**power
    return f"{value:g} %" if -5 <= power <= 4 else f"10<sup>{power + 2}</sup> %"


def _hover(row: ComparisonRow) -> list[str]:
    name = row.objective_name or "objective"
    unit = f" {row.unit}" if row.unit and row.unit != name else ""
    return [
        shown(row.instance),
        shown(row.solver),
        row.status,
        f"{shown(name)}: {short(row.objective, 7)}{shown(unit)}",
        percent(row.gap_to_best_bound) if row.gap_to_best_bound is not None else "unknown",
        duration(row.runtime_s),
    ]


def profile_figure(comparison: Comparison, within: float) -> Figure:
    """Return the share of instances done against the ratio to the fastest solver's seconds."""
    curves = comparison.profile(within).curves
    last = max((curve.ratio[-1] for curve in curves if curve.ratio), default=1.0)
    end = max(10.0, last * 1.5)
    traces = []
    for index, curve in enumerate(curves):
        ratio, share = [*curve.ratio], [*curve.share]
        if ratio:
            ratio, share = [*ratio, end], [*share, share[-1]]
        traces.append(
            {
                "type": "scatter",
                "mode": "lines+markers" if len(ratio) <= 60 else "lines",
                "x": ratio,
                "y": [100 * part for part in share],
                "line": {"shape": "hv", "color": colour(index), "dash": dash(index), "width": 2.2},
                "marker": {"color": colour(index), "symbol": symbol(index), "size": 8},
                "meta": {"key": index},
                "hovertemplate": f"<b>{shown(curve.solver)}</b><br>%{{y:.3g}} % of the instances<br>"
                "within %{x:.3g} times the fastest<extra></extra>",
            }
        )
        if "%{" in curve.solver:  # would be read as a field
            traces[-1]["hovertemplate"] = "%{y:.3g} % within %{x:.3g} times the fastest<extra></extra>"
    x = log_axis("seconds, as a multiple of the fastest solver's", [1.0, end])
    y = axis("instances done [%]", range=[-3, 103], dtick=20)
    return {"data": traces, "layout": layout(x, y, 420)}


def sentence(rows: Sequence[ComparisonRow]) -> str:
    """Return a caption: how many plans the plot of gaps shows, and how many solves it leaves out."""
    plans = [row for row in rows if row.objective is not None]
    exact = sum(row.gap_to_best_bound is not None and row.gap_to_best_bound <= LEAST_GAP for row in plans)
    unknown = sum(row.gap_to_best_bound is None for row in plans)
    text = f"{len(plans):,} plans; {exact:,} of them have no gap and lie on the rail at 0"
    if unknown:
        text += f"; of {unknown:,} the gap is unknown, and they lie on the rail at the top"
    missing = len(rows) - len(plans)
    return text + (f"; {missing:,} solves without a plan are only in the table." if missing else ".")
