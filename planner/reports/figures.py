"""Plots as Plotly's plain data.

Colours are the names of custom properties of the page's style, such as `@s0` or `@ink/0.3`, which `page.js`
replaces by the colours of the light or the dark theme. Plotly reads all text as HTML of its own, so
whatever comes from an instance goes through `shown`.
"""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from typing import Any

COLOURS = 8
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "x", "cross", "triangle-down")
DASHES = ("solid", "dash", "dot", "dashdot")
HATCHES = ("", "/", ".", "x")
LONGEST = 60

Figure = dict[str, Any]


def shown(name: str) -> str:
    """Return a name as Plotly shows it literally, cut where it is long."""
    return html.escape(name if len(name) <= LONGEST else name[: LONGEST - 1] + "…")


def colour(index: int, alpha: float | None = None) -> str:
    """Return the colour of the type, solver or job of this number."""
    return f"@s{index % COLOURS}" + ("" if alpha is None else f"/{alpha:g}")


def symbol(index: int) -> str:
    """Return the marker of this number; with the colours it repeats only after 56."""
    return SYMBOLS[index % len(SYMBOLS)]


def dash(index: int) -> str:
    """Return the line of this number."""
    return DASHES[index // COLOURS % len(DASHES)]


def axis(title: str, **more: Any) -> Figure:
    """Return an axis."""
    return {
        "title": {"text": title, "standoff": 8},
        "gridcolor": "@grid",
        "linecolor": "@edge",
        "zerolinecolor": "@grid",
        "tickfont": {"color": "@muted"},
        "automargin": True,
        **more,
    }


def log_axis(title: str, values: Sequence[float], **more: Any) -> Figure:
    """Return a logarithmic axis over these values, with ticks that people write."""
    given = [value for value in values if value > 0]
    low, high = (min(given), max(given)) if given else (1.0, 10.0)
    span = math.log10(high / low)
    ticks = {"dtick": 1} if span >= 2 else {"dtick": "D2"}
    pad = max(0.06 * span, 0.04)
    return axis(
        title,
        type="log",
        range=[math.log10(low) - pad, math.log10(high) + pad],
        exponentformat="power" if high >= 1e7 or low < 1e-4 else "none",
        separatethousands=True,
        minorloglabels="none",
        **ticks,
        **more,
    )


def layout(xaxis: Figure, yaxis: Figure, height: int = 420, **more: Any) -> Figure:
    """Return the layout of a plot."""
    return {
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
