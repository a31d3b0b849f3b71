"""Functions and colours that build plots as plain data for Plotly.

Colours are the names of custom properties of the page's style, such as `@s0` or `@ink/0.3`, which `page.js`
replaces by the colours of the light or the dark theme. Plotly reads all text as HTML of its own, so
whatever comes from an instance goes through `shown`.
"""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from typing import Any

COLOURS = 8
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "x", "cross", "triangle-down")
DASHES = ("solid", "dash", "dot", "dashdot")
LONGEST = 60
MANY = 1000
WIDE = 12.0
"""Ratio of the largest to the least value from which on axes are logarithmic."""

Figure = dict[str, Any]
NO_FIELDS: Mapping[str, Any] = {}


def plot_text(name: str, most: int = LONGEST) -> str:
    """Return a name escaped for Plotly, and shortened if it has more characters than this."""
    return html.escape(name if len(name) <= most else name[: most - 1] + "…")


def colour(index: int, alpha: float | None = None) -> str:
    """Return the name of the colour with this index, such as that of a hardware type, solver or job."""
    return f"@s{index % COLOURS}" + ("" if alpha is None else f"/{alpha:g}")


def symbol(index: int) -> str:
    """Return the marker symbol with this index; pairs of symbol and colour repeat only after 56."""
    return SYMBOLS[index % len(SYMBOLS)]


def size(index: int, points: int) -> int:
    """Return the size of marker `index` in a plot of `points` points; triangles get a larger size."""
    larger = symbol(index).startswith("triangle")
    return (9 if points < MANY else 6) + (2 if larger else 0)


def dash(index: int) -> str:
    """Return the dash style of the line with this index."""
    return DASHES[index // COLOURS % len(DASHES)]


def axis(title: str, **more: Any) -> Figure:
    """Return a Plotly axis in the common style."""
    return {
        "title": {"text": title, "standoff": 8},
        "gridcolor": "@grid",
        "linecolor": "@edge",
        "zerolinecolor": "@grid",
        "tickfont": {"color": "@muted"},
        "automargin": True,
        **more,
    }


def log_axis(title: str, values: Sequence[float]) -> Figure:
    """Return a logarithmic axis over these values, with ticks at round numbers."""
    given = [value for value in values if value > 0]
    low, high = (min(given), max(given)) if given else (1.0, 10.0)
    span = math.log10(high / low)
    pad = max(0.06 * span, 0.04)
    ticks = _log_ticks(low * 10**-pad, high * 10**pad)
    return axis(
        title,
        type="log",
        range=[math.log10(low) - pad, math.log10(high) + pad],
        tickvals=ticks,
        ticktext=[_tick(tick) for tick in ticks],
    )


def _log_ticks(low: float, high: float) -> list[float]:
    """Return at most nine round tick values of a logarithmic axis between two bounds."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    # From the finest steps to the coarsest, until no more than nine ticks are left.
    for digits in ((1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8, 9), (1, 1.5, 2, 3, 4, 5, 7), (1, 2, 5), (1,)):
        ticks = [digit * 10.0**power for power in powers for digit in digits]
        ticks = [tick for tick in ticks if low <= tick <= high]
        if len(ticks) <= 9:
            return ticks
    return ticks[:: math.ceil(len(ticks) / 9)]


def _tick(value: float) -> str:
    if 1e-4 <= value < 1e6:
        return f"{value:,.10g}"
    power = math.floor(math.log10(value) + 1e-9)
    digit = value / 10.0**power
    return f"10<sup>{power}</sup>" if abs(digit - 1) < 1e-9 else f"{digit:g}·10<sup>{power}</sup>"


def plot_of(traces: Sequence[Figure], xaxis: Figure, yaxis: Figure, height: int, **more: Any) -> Figure:
    """Return a Plotly figure of traces, with its layout in the common style.

    Parameters
    ----------
    more
        Further fields of the layout, or others in place of the common ones.
    """
    layout = {
        "height": height,
        "margin": {"l": 56, "r": 16, "t": 16, "b": 48},
        "paper_bgcolor": "@panel",
        "plot_bgcolor": "@panel",
        "font": {"family": "system-ui, sans-serif", "size": 13, "color": "@ink"},
        "hoverlabel": {
            "bgcolor": "@raised",
            "bordercolor": "@edge",
            "font": {"color": "@ink", "size": 13},
            "align": "left",
            "namelength": -1,
        },
        "showlegend": False,
        "hovermode": "closest",
        "separators": ".,",
        "uirevision": "keep",
        "xaxis": xaxis,
        "yaxis": yaxis,
        **more,
    }
    return {"data": traces, "layout": layout}


def steps(
    x: Sequence[float], y: Sequence[float], index: int, line: Mapping[str, Any] = NO_FIELDS, **more: Any
) -> Figure:
    """Return the trace of a step function in a colour, constant from each point to the next.

    Parameters
    ----------
    line, more
        Further fields of the line, and of the trace.
    """
    style = {"shape": "hv", "color": colour(index), "width": 1.5, **line}
    return {"type": "scatter", "mode": "lines", "x": x, "y": y, "line": style, **more}


def markers(x: Sequence[float], y: Sequence[float], **more: Any) -> Figure:
    """Return the trace of points; `more` are its further fields."""
    return {"type": "scatter", "mode": "markers", "x": x, "y": y, **more}


LEGEND_ABOVE = {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0}
"""A legend in one line above the plot."""


def line_at(axis_name: str, value: float, dash_style: str = "dash") -> Figure:
    """Return a line across the plot at a value of one axis."""
    along, across = ("x", "y") if axis_name == "x" else ("y", "x")
    return {
        "type": "line",
        f"{along}0": value,
        f"{along}1": value,
        f"{across}0": 0,
        f"{across}1": 1,
        f"{across}ref": f"{across} domain",
        "line": {"color": "@muted", "width": 1.5, "dash": dash_style},
    }


def spread_axis(title: str, values: Sequence[float]) -> Figure:
    """Return an axis over these values, logarithmic if their range is wide."""
    if min(values) > 0 and max(values) > WIDE * min(values):
        return log_axis(title, values)
    low, high = min(values), max(values)
    pad = 0.06 * (high - low) or 0.1 * high or 1.0
    return axis(
        title, range=[max(0.0, low - pad) if low >= 0 else low - pad, high + pad], separatethousands=True
    )


def place_on(axis_: Figure, value: float) -> float:
    """Return the coordinate of an annotation: on a logarithmic axis, the logarithm of the value."""
    return math.log10(value) if axis_.get("type") == "log" else value


def note(text: str, **where: object) -> Figure:
    """Return a text annotation inside the plot."""
    return {
        "text": plot_text(text),
        "showarrow": False,
        "font": {"color": "@muted", "size": 12},
        "borderpad": 3,
        **where,
    }


def marker(form: str, fill: str, size: int, width: float = 1) -> Figure:
    """Return the marker style of a point."""
    return {
        "symbol": form,
        "color": fill,
        "size": size,
        "line": {"color": "@panel" if width == 1 else fill, "width": width},
    }
