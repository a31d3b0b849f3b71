"""HTML page of a prediction: GPUs to rent, training time, cost, and their uncertainty."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from operator import itemgetter
from typing import Any

from ...instances.prediction import OF_MEMORY, Prediction
from ...instances.prediction import short as roughly
from .page import (
    Cell,
    CellColumn,
    Column,
    Facts,
    Table,
    figure_column,
    inside_cell,
    render,
    table_of,
    text,
    text_column,
)
from .plot_style import LEGEND_ABOVE, Figure, axis, colour, line_at, plot_of, plot_text

Row = dict[str, Any]
IN_TIME = {"surely": "good", "probably": "fair", "late": "bad"}
"""CSS class of each answer to whether the deadline is met."""
STEP_PARTS = (
    ("compute_s", "computation"),
    ("waiting_s", "waiting"),
    ("communication_s", "communication"),
    ("update_s", "update"),
)
MEMORY_PARTS = (
    ("parameters_gb", "parameters"),
    ("gradients_gb", "gradients"),
    ("optimiser_gb", "optimiser"),
    ("activations_gb", "activations"),
)
PERCENT = 100


def prediction_page(prediction: Prediction) -> str:
    """Return the HTML page of a prediction."""
    rows = prediction.rows()
    feasible = [row for row in rows if row["fits"]]
    figures = _figures(feasible, prediction.work.within_h)
    best = prediction.best
    return render(
        "prediction.html.j2",
        data={"figures": figures},
        title=f"{prediction.model.name}: which GPUs?",
        kicker="Prediction: time, memory and cost of training a model",
        verdict=_verdict(None if best is None else best.in_time, rows),
        lead=prediction.answer(),
        rent=table_of(
            "offers",
            "The best way to train it on each sort of hardware",
            rows,
            rent_columns(None if best is None else best.rented.name),
            sortable=False,
        ),
        measured=_measured(rows),
        step=_step(feasible),
        memory=_memory(rows),
        sentences=prediction.sentences(),
        footer=_footer(prediction),
    )


def _verdict(in_time: str | None, rows: Sequence[Row]) -> tuple[str, str]:
    if not any(row["fits"] for row in rows):
        memory = all(row["why_not"] == OF_MEMORY.short for row in rows)
        return "fits nowhere" if memory else "not possible", "bad"
    if in_time is None:
        return "predicted", "fair"
    words = {"surely": "in time", "probably": "probably in time", "late": "too late"}
    return words[in_time], IN_TIME[in_time]


def _footer(prediction: Prediction) -> Facts:
    facts = [
        ("made by", "clusterplan predict"),
        ("model", f"{prediction.model.name}: {prediction.model.source}"),
    ]
    sources = {one.rented.gpu.name: one.rented.gpu.source for one in prediction.forecasts}
    return facts + [(f"data sheet of {name}", source) for name, source in sources.items()]


def _rough(value: float | None) -> Cell:
    return Cell("–" if value is None else roughly(value), value)


def _interval(title: str, value: str, low: str, high: str) -> CellColumn[Row]:
    """Return the column of a predicted figure with its 90 % interval, sorted by the figure."""

    def cell(row: Row) -> Cell:
        if row[value] is None:
            return text(None)
        return Cell(f"{roughly(row[value])} ({roughly(row[low])} – {roughly(row[high])})", row[value])

    return Column(f"{title}, 90 % interval", True), cell


HARDWARE: CellColumn[Row] = text_column("hardware", itemgetter("hardware"))


MEASURED: CellColumn[Row] = (
    Column("what was measured"),
    lambda row: text(None) if row["inside"] is None else inside_cell(row["inside"]),
)
GB_THERE: CellColumn[Row] = figure_column("GB there", itemgetter("gpu_memory_gb"), _rough)
GB_NEEDED: CellColumn[Row] = (
    Column("GB needed", True),
    lambda row: replace(_rough(row["memory_gb"]), mark="" if row["fits"] else "bad"),
)


def rent_columns(best: str | None = None) -> list[CellColumn[Row]]:
    """Return the columns on what to rent; the best hardware is marked."""
    return [
        (Column("GPUs"), lambda row: Cell(_gpus(row), mark="good" if row["hardware"] == best else "")),
        (Column("as"), _machines),
        text_column("precision", itemgetter("precision")),
        text_column("divided", itemgetter("parallelism"), wide=True),
        _interval("hours", "hours", "hours_low", "hours_high"),
        _interval("USD", "cost_usd", "cost_low_usd", "cost_high_usd"),
        (Column("in time"), lambda row: text(row["in_time"], IN_TIME.get(row["in_time"] or "", ""))),
    ]


def overview_columns() -> list[CellColumn[Row]]:
    """Return the columns of the table in terminals."""
    return [*rent_columns(), GB_NEEDED, GB_THERE, MEASURED]


def _gpus(row: Row) -> str:
    """Return the number and the name of the rented GPUs as text."""
    return row["hardware"] if row["gpus"] is None else f"{row['gpus']:,} × {row['gpu']}"


def _machines(row: Row) -> Cell:
    if row["machine"] is None:
        return Cell(row["why_not"], mark="bad")
    return Cell(f"{row['machines']:,} × {row['machine']}")


def _measured(rows: Sequence[Row]) -> Table:
    return table_of(
        "basis",
        "Whether it lies inside what was measured",
        rows,
        [
            HARDWARE,
            MEASURED,
            text_column("rests on", itemgetter("basis"), wide=True),
        ],
        sortable=False,
    )


def _step(rows: Sequence[Row]) -> Table:
    def share(row: Row, part: str) -> Cell:
        part_of = row[part] / row["step_s"]
        return Cell(f"{PERCENT * part_of:.1f} %", part_of)

    return table_of(
        "steps",
        "A step of the optimiser, and its parts",
        rows,
        [
            HARDWARE,
            figure_column("samples", itemgetter("global_batch"), note="of all GPUs"),
            _interval("seconds", "step_s", "step_low_s", "step_high_s"),
            *((Column(name, True), lambda row, part=part: share(row, part)) for part, name in STEP_PARTS),
            figure_column("one batch", itemgetter("batch_s"), _rough, "on one GPU"),
        ],
        sortable=False,
    )


def _memory(rows: Sequence[Row]) -> Table:
    notes = [] if all(row["fits"] for row in rows) else ["What does not fit is shown undivided, on one GPU."]
    return table_of(
        "bytes",
        "The fullest GPU",
        rows,
        [
            HARDWARE,
            GB_THERE,
            GB_NEEDED,
            *(figure_column(name, itemgetter(part), _rough) for part, name in MEMORY_PARTS),
        ],
        sortable=False,
        footnotes=notes,
    )


def _figures(rows: Sequence[Row], within_h: float | None) -> dict[str, Figure]:
    """Return the bar plots by name: hours and USD with intervals, parts of a training step, and memory."""
    if not rows:
        return {}
    names = [plot_text(row["hardware"]) for row in rows]
    figures = {"hours": _interval_bars(names, rows, ("hours", "hours_low", "hours_high"), "hours", 0)}
    if within_h is not None:
        figures["hours"]["layout"]["shapes"] = [line_at("x", within_h)]
    if all(row["cost_usd"] is not None for row in rows):
        figures["cost"] = _interval_bars(names, rows, ("cost_usd", "cost_low_usd", "cost_high_usd"), "USD", 1)
    figures["parts"] = _stacked(names, rows, STEP_PARTS, "seconds of a step")
    figures["bytes-figure"] = _stacked(names, rows, MEMORY_PARTS, "GB on the fullest GPU")
    return figures


def _height(rows: Sequence[Row]) -> int:
    return 100 + 34 * len(rows)


def _category() -> Figure:
    return axis("", autorange="reversed", type="category")


def _interval_bars(
    names: list[str], rows: Sequence[Row], keys: tuple[str, str, str], title: str, index: int
) -> Figure:
    """Return the bar plot of one predicted figure of each row, with its interval as an error bar."""
    value, low, high = keys
    trace = {
        "type": "bar",
        "orientation": "h",
        "y": names,
        "x": [row[value] for row in rows],
        "marker": {"color": colour(index)},
        "error_x": {
            "type": "data",
            "symmetric": False,
            "array": [row[high] - row[value] for row in rows],
            "arrayminus": [row[value] - row[low] for row in rows],
            "color": "@ink",
            "thickness": 1.5,
        },
        "hovertemplate": f"%{{y}}: %{{x:,.3~g}} {title}<extra></extra>",
    }
    x = axis(title, rangemode="tozero", separatethousands=True)
    return plot_of([trace], x, _category(), _height(rows))


def _stacked(names: list[str], rows: Sequence[Row], parts: Sequence[tuple[str, str]], title: str) -> Figure:
    traces = [
        {
            "type": "bar",
            "orientation": "h",
            "name": name,
            "y": names,
            "x": [row[part] for row in rows],
            "marker": {"color": colour(index)},
            "hovertemplate": f"%{{y}}, {name}: %{{x:,.3~g}}<extra></extra>",
        }
        for index, (part, name) in enumerate(parts)
    ]
    legend = {**LEGEND_ABOVE, "traceorder": "normal"}
    x = axis(title, rangemode="tozero", separatethousands=True)
    return plot_of(
        traces, x, _category(), _height(rows) + 30, barmode="stack", legend=legend, showlegend=True
    )
