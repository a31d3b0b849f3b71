"""What kinds say of plans in a comparison beside their objectives: a table, and distributions overlaid."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...comparison.comparison import Comparison
from ...comparison.measures import Distribution, Measure
from ...comparison.row import ComparisonRow
from ..plot_style import Figure, axis, colour, dash, layout, log_axis, shown
from ..tables import Cell, CellColumn, Column, Table, number, seconds, share, table_of
from ..text import duration, unit_of_time

MOST_PLOTS = 6
"""Instances whose distributions are drawn; the table and the JSON file have those of all."""


@dataclass(frozen=True)
class Plot:
    """Distributions of the plans of one instance.

    Attributes
    ----------
    id
        Of the figure on the page.
    title, sentence
        Over the plot and below it.
    """

    id: str
    title: str
    sentence: str
    figure: Figure


def measures_table(comparison: Comparison) -> Table | None:
    """Return one row for each plan that has figures; None if there is none."""
    rows = [row for row in comparison.rows if row.measures and row.measures.figures]
    if not rows:
        return None
    colours = {solver: index for index, solver in enumerate(comparison.solvers)}
    several = len(comparison.instances) > 1
    instance: list[CellColumn[ComparisonRow]] = [(Column("instance"), lambda row: Cell(row.instance))]
    names = dict.fromkeys(one.name for row in rows if row.measures for one in row.measures.figures)
    columns: list[CellColumn[ComparisonRow]] = [
        *(instance if several else []),
        (Column("solver"), lambda row: Cell(row.solver, swatch=colours[row.solver])),
        (Column("gap to best bound", True), lambda row: share(row.gap_to_best_bound)),
        *(_column(name) for name in names),
    ]
    return table_of("measures", "What else can be said of each plan", rows, columns)


def _column(name: str) -> CellColumn[ComparisonRow]:
    return Column(name, True), lambda row: measure_cell(_named(row, name))


def _named(row: ComparisonRow, name: str) -> Measure | None:
    figures = row.measures.figures if row.measures else ()
    return next((one for one in figures if one.name == name), None)


def measure_cell(measure: Measure | None) -> Cell:
    """Return the cell of a figure in its unit; a dash where there is none."""
    if measure is None or measure.value is None:
        return Cell("–")
    if measure.unit == "s":
        return seconds(measure.value)
    if measure.unit == "share":
        return Cell(f"{100 * measure.value:.1f} %", measure.value)
    return number(measure.value, 4)


def distribution_plots(comparison: Comparison) -> list[Plot]:
    """Return a plot for each of the first instances whose plans have distributions."""
    plots: list[Plot] = []
    for name in comparison.instances:
        rows = [row for row in comparison.rows if row.instance == name]
        drawn = [(row.solver, row.measures.distribution) for row in rows if row.measures]
        spread = [(solver, one) for solver, one in drawn if one is not None]
        if spread and len(plots) < MOST_PLOTS:
            of_all = spread[0][1]
            title = f"{of_all.name.capitalize()} of the {of_all.of}"
            if len(comparison.instances) > 1:
                title += f": {name}"
            sentence = (
                f"Share of the {of_all.of} with at most this {of_all.name}; the higher a curve, the better. "
                "Time is on a logarithmic axis."
            )
            figure = _overlaid(spread, comparison.solvers)
            plots.append(Plot(f"distribution{len(plots)}", title, sentence, figure))
    return plots


def _overlaid(spread: Sequence[tuple[str, Distribution]], solvers: Sequence[str]) -> Figure:
    """Return the distributions as steps over the logarithm of time."""
    every = [value for _, one in spread for value in one.seconds if value > 0]
    # The median and not the largest, so that minutes are not told in days.
    unit, word = unit_of_time(sorted(every)[len(every) // 2]) if every else (1.0, "s")
    traces = []
    for solver, one in spread:
        index = list(solvers).index(solver)
        points = [pair for pair in zip(one.seconds, one.shares, strict=True) if pair[0] > 0]
        traces.append(
            {
                "type": "scatter",
                "mode": "lines",
                "x": [float(f"{value / unit:.6g}") for value, _ in points],
                "y": [round(100 * part, 3) for _, part in points],
                "text": [duration(value) for value, _ in points],
                "line": {"shape": "hv", "color": colour(index), "dash": dash(index), "width": 1.8},
                "meta": {"key": index},
                "name": shown(solver),
                "hovertemplate": f"%{{y:.3g}} % of the {shown(one.of)} within %{{text}}",
            }
        )
    of_all = spread[0][1]
    x = log_axis(f"{of_all.name} [{word}]", [value / unit for value in every])
    y = axis(f"share of the {of_all.of} [%]", range=[0, 102], dtick=20)
    return {"data": traces, "layout": layout(x, y, 440)}
