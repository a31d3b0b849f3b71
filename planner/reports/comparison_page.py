"""HTML page and output files of a comparison of solvers: quality of plans, runtimes and failures.

Plots show the gap against seconds, performance profiles, and distributions of the measures that kinds
define, overlaid. Beside the page there are a table in Markdown, one in CSV, and all data as JSON.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..batch.comparison import Comparison
from ..batch.comparison_rows import ComparisonRow, Distribution, Measure
from ..output import write_all
from .page import (
    Cell,
    CellColumn,
    Column,
    Facts,
    Table,
    exact,
    figure_column,
    known_facts,
    number,
    options_text,
    render,
    result_cell,
    seconds,
    share,
    table_of,
    text_column,
    versions_text,
)
from .plot_style import (
    MANY,
    Figure,
    axis,
    colour,
    dash,
    line_at,
    log_axis,
    markers,
    plot_of,
    plot_text,
    size,
    steps,
    symbol,
)
from .text import counted, csv_text, duration, escaped, percent, short, table_lines, unit_of_time

LEAST_GAP = 1e-9
"""Gaps below this are rounding errors, and are drawn as 0."""
LEAST_S = 1e-3
HOVER = (
    "<b>%{customdata[0]}</b><br>%{customdata[1]}, %{customdata[2]}<br>%{customdata[3]}<br>"
    "gap to the best bound: %{customdata[4]}<br>%{customdata[5]}<extra></extra>"
)


@dataclass(frozen=True)
class GapScale:
    """Logarithmic axis of gaps, with separate lines ("rails") below for 0 and above for unknown gaps.

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
        """Return the scale that covers these gaps, or a default one if no gap is known and above 0."""
        drawn = [gap for gap in gaps if gap is not None and gap > LEAST_GAP]
        low = math.floor(math.log10(min(drawn, default=1e-4)))
        high = math.ceil(math.log10(max(drawn, default=1.0)))
        return cls(low, max(high, low + 1), None in gaps)

    def height(self, gap: float | None) -> float:
        """Return the y coordinate at which a relative gap is drawn; None is an unknown gap."""
        if gap is None:
            return 10.0 ** (self.high + 1)
        return gap if gap > LEAST_GAP else 10.0 ** (self.low - 1)

    def axis(self) -> Figure:
        """Return the y axis, with at most about ten ticks and the labels of the rails."""
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
        """Return the horizontal lines that separate the rails from the other gaps."""
        places = [self.low - 0.5, *([self.high + 0.5] if self.unknown else [])]
        return [line_at("y", 10.0**place, "solid") for place in places]


def gap_figure(comparison: Comparison) -> Figure:
    """Return the scatter plot of gap to the best bound against runtime (s), a trace for each solver.

    Gaps that are 0 or unknown lie on rails.
    """
    rows = [row for row in comparison.rows if row.objective is not None]
    scale = GapScale.of([row.gap_to_best_bound for row in rows])
    traces = [
        markers(
            [max(row.runtime_s, LEAST_S) for row in own],
            [scale.height(row.gap_to_best_bound) for row in own],
            customdata=[_hover(row) for row in own],
            hovertemplate=HOVER,
            meta={"key": index},
            marker=_marker(index, len(rows)),
        )
        for index, solver in enumerate(comparison.solvers)
        for own in [[row for row in rows if row.solver == solver]]
    ]
    x = log_axis("seconds of the solve", [max(row.runtime_s, LEAST_S) for row in rows])
    return plot_of(traces, x, scale.axis(), 480, shapes=scale.borders())


def _marker(index: int, points: int) -> Figure:
    """Return the marker style of a solver's points, smaller and more transparent if there are many."""
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
        plot_text(row.instance),
        plot_text(row.solver),
        row.status,
        f"{plot_text(name)}: {short(row.objective, 7)}{plot_text(unit)}",
        percent(row.gap_to_best_bound) if row.gap_to_best_bound is not None else "unknown",
        duration(row.runtime_s),
    ]


def profile_figure(comparison: Comparison, within: float) -> Figure:
    """Return the plot of the performance profile: share of instances solved by ratio to the fastest."""
    curves = comparison.profile(within).curves
    last = max((curve.ratio[-1] for curve in curves if curve.ratio), default=1.0)
    end = max(10.0, last * 1.5)
    traces = []
    for index, curve in enumerate(curves):
        ratio, share = [*curve.ratio], [*curve.share]
        if ratio:
            ratio, share = [*ratio, end], [*share, share[-1]]
        traces.append(
            steps(
                ratio,
                [100 * part for part in share],
                index,
                {"dash": dash(index), "width": 2.2},
                mode="lines+markers" if len(ratio) <= 60 else "lines",
                marker={"color": colour(index), "symbol": symbol(index), "size": 8},
                meta={"key": index},
                hovertemplate=f"<b>{plot_text(curve.solver)}</b><br>%{{y:.3g}} % of the instances<br>"
                "within %{x:.3g} times the fastest<extra></extra>",
            )
        )
        if "%{" in curve.solver:  # would be read as a field
            traces[-1]["hovertemplate"] = "%{y:.3g} % within %{x:.3g} times the fastest<extra></extra>"
    x = log_axis("seconds, as a multiple of the fastest solver's", [1.0, end])
    y = axis("instances done [%]", range=[-3, 103], dtick=20)
    return plot_of(traces, x, y, 420)


def sentence(rows: Sequence[ComparisonRow]) -> str:
    """Return the caption of the plot of gaps: numbers of plans shown, and of solves without a plan."""
    plans = [row for row in rows if row.objective is not None]
    exact = sum(row.gap_to_best_bound is not None and row.gap_to_best_bound <= LEAST_GAP for row in plans)
    unknown = sum(row.gap_to_best_bound is None for row in plans)
    text = f"{len(plans):,} plans; {exact:,} of them have no gap and lie on the rail at 0"
    if unknown:
        text += f"; of {unknown:,} the gap is unknown, and they lie on the rail at the top"
    missing = len(rows) - len(plans)
    return text + (f"; {missing:,} solves without a plan are only in the table." if missing else ".")


MAX_PLOTS = 6
"""Most instances whose distributions are drawn; the table and the JSON file have those of all."""


@dataclass(frozen=True)
class Plot:
    """A plot of the distributions of one instance's plans.

    Attributes
    ----------
    id
        Id of the figure on the page.
    title, sentence
        Texts over the plot and below it.
    """

    id: str
    title: str
    sentence: str
    figure: Figure


def measures_table(comparison: Comparison) -> Table | None:
    """Return the table of measures, with a row for each plan that has any; None if no plan has any."""
    rows = [row for row in comparison.rows if row.measures and row.measures.figures]
    if not rows:
        return None
    several = len(comparison.instances) > 1
    names = dict.fromkeys(one.name for row in rows if row.measures for one in row.measures.figures)
    return table_of(
        "measures",
        "What else can be said of each plan",
        rows,
        [
            *([INSTANCE] if several else []),
            _solver(comparison),
            figure_column("gap to best bound", "gap_to_best_bound", share),
            *(_column(name) for name in names),
        ],
    )


def _column(name: str) -> CellColumn[ComparisonRow]:
    def cell(row: ComparisonRow) -> Cell:
        figures = row.measures.figures if row.measures else ()
        return measure_cell(next((one for one in figures if one.name == name), None))

    return Column(name, True), cell


def measure_cell(measure: Measure | None) -> Cell:
    """Return the table cell of a measure in its unit, with a dash for a missing value."""
    if measure is None or measure.value is None:
        return Cell("–")
    if measure.unit == "s":
        return seconds(measure.value)
    if measure.unit == "share":
        return Cell(f"{100 * measure.value:.1f} %", measure.value)
    return number(measure.value, 4)


def distribution_plots(comparison: Comparison) -> list[Plot]:
    """Return a plot for each of the first instances whose plans have cumulative distributions."""
    plots: list[Plot] = []
    for name in comparison.instances:
        spread = [
            (row.solver, row.measures.distribution)
            for row in comparison.rows
            if row.instance == name and row.measures and row.measures.distribution
        ]
        if spread and len(plots) < MAX_PLOTS:
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
    """Return the plot of the solvers' cumulative distributions on a logarithmic time axis."""
    every = [value for _, one in spread for value in one.seconds if value > 0]
    # The median and not the largest, so that minutes are not told in days.
    unit, word = unit_of_time(sorted(every)[len(every) // 2]) if every else (1.0, "s")
    traces = []
    for solver, one in spread:
        index = list(solvers).index(solver)
        points = [pair for pair in zip(one.seconds, one.shares, strict=True) if pair[0] > 0]
        traces.append(
            steps(
                [float(f"{value / unit:.6g}") for value, _ in points],
                [round(100 * part, 3) for _, part in points],
                index,
                {"dash": dash(index), "width": 1.8},
                text=[duration(value) for value, _ in points],
                meta={"key": index},
                name=plot_text(solver),
                hovertemplate=f"%{{y:.3g}} % of the {plot_text(one.of)} within %{{text}}",
            )
        )
    of_all = spread[0][1]
    x = log_axis(f"{of_all.name} [{word}]", [value / unit for value in every])
    y = axis(f"share of the {of_all.of} [%]", range=[0, 102], dtick=20)
    return plot_of(traces, x, y, 440)


WITHIN = 1e-3
MAX_FAULTS = 4


def comparison_page(comparison: Comparison) -> str:
    """Return the HTML page of a comparison."""
    rows = comparison.rows
    failed = [row for row in rows if row.status in ("error", "unknown")]
    figures = {}
    if any(row.objective is not None for row in rows):
        figures["gaps"] = gap_figure(comparison)
    profile = comparison.profile(WITHIN)
    if profile.instances:
        figures["profile"] = profile_figure(comparison, WITHIN)
    # What is said of many instances is a list, and no paragraph.
    alone = comparison.advice if len(comparison.advice) == 1 else ()
    measures, spread = measures_table(comparison), distribution_plots(comparison)
    figures |= {plot.id: plot.figure for plot in spread}
    return render(
        "comparison.html.j2",
        data={"figures": figures},
        title=title(comparison),
        kicker="Comparison of solvers",
        verdict=("interrupted", "bad") if comparison.interrupted else ("complete", "good"),
        lead=" ".join([*alone, _lead(comparison, len(failed))]),
        advice=() if alone else comparison.advice,
        measures=measures,
        spread=spread,
        comparison=comparison,
        most_faults=MAX_FAULTS,
        sentence=sentence(rows),
        profile=profile,
        within=f"{100 * WITHIN:g} %",
        summary=summary_table(comparison),
        failures=_failures(failed),
        results=results_tables(comparison),
        footer=_footer(comparison),
    )


def title(comparison: Comparison) -> str:
    """Return the title of a comparison: its numbers of solvers and instances."""
    solvers, instances = len(comparison.solvers), len(comparison.instances)
    return f"{counted(solvers, 'solver')} on {counted(instances, 'instance')}"


def _lead(comparison: Comparison, failed: int) -> str:
    rows = comparison.rows
    proven = sum(row.status == "optimal" and not row.only_claimed for row in rows)
    claimed = sum(row.only_claimed for row in rows)
    seconds = sum(row.runtime_s for row in rows)
    claims = f"{claimed:,} optimal as claimed, " if claimed else ""
    text = f"{counted(len(rows), 'solve')}: {proven:,} proven optimal, {claims}{failed:,} without an answer, "
    return text + f"{duration(seconds)} in all."


def _footer(comparison: Comparison) -> Facts:
    return known_facts(
        ("options", options_text(comparison.options)), ("versions", versions_text(comparison.versions))
    )


def summary_table(comparison: Comparison) -> Table:
    """Return the table of aggregate results, with a row for each solver."""
    return table_of(
        "solvers",
        "Each solver over all its instances",
        comparison.summary(),
        [
            _solver(comparison),
            figure_column("instances", "instances"),
            (Column("optimal", True, "proven or claimed"), lambda one: Cell(one.optimal_text, one.optimal)),
            figure_column("plans", "plans"),
            (
                Column("failed", True),
                lambda one: Cell(f"{one.failed:,}", one.failed, "bad" if one.failed else ""),
            ),
            figure_column("best plan", "wins", note="ties count for all"),
            figure_column("mean seconds", "mean_runtime_s", seconds, note="geometric"),
            figure_column("mean gap to best bound", "mean_gap_to_best_bound", share, note="geometric"),
            figure_column("mean gap to best plan", "mean_gap_to_best_plan", share, note="geometric"),
        ],
    )


def _solver(comparison: Comparison) -> CellColumn[Any]:
    """Return the column of the solvers of rows, each with its colour."""
    colours = {solver: index for index, solver in enumerate(comparison.solvers)}
    return Column("solver"), lambda row: Cell(row.solver, swatch=colours[row.solver])


INSTANCE: CellColumn[ComparisonRow] = text_column("instance", "instance")
STATUS: CellColumn[ComparisonRow] = (Column("status"), result_cell)
SECONDS: CellColumn[ComparisonRow] = (
    Column("seconds", True),
    lambda row: Cell(f"{row.runtime_s:,.3f}", row.runtime_s),
)


def results_tables(comparison: Comparison) -> list[Table]:
    """Return the tables of all results, one for each objective."""
    groups = comparison.by_objective().items()
    return [_results(comparison, place, title, rows) for place, (title, rows) in enumerate(groups)]


def _results(comparison: Comparison, place: int, title: str, rows: Sequence[ComparisonRow]) -> Table:
    several = len({row.kind for row in rows}) > 1
    kind: list[CellColumn[ComparisonRow]] = [text_column("kind", "kind")] if several else []
    caption = f"{title}: every solver on every instance; ★ marks plans that no other solver beats"
    filter = "Show rows with these words (instance, solver, status …)"
    return table_of(
        f"every{place or ''}",
        caption,
        rows,
        [
            INSTANCE,
            *kind,
            _solver(comparison),
            *figure_columns(title),
            text_column("message", "message", wide=True),
        ],
        filter=filter,
    )


def figure_columns(objective: str) -> list[CellColumn[ComparisonRow]]:
    """Return the columns of what a solve found, on pages and in terminals."""
    return [
        STATUS,
        figure_column(objective, "objective", exact),
        figure_column("bound", "bound", exact),
        figure_column("own gap", "gap", share),
        figure_column("gap to best bound", "gap_to_best_bound", share),
        (Column("gap to best plan", True), _gap_to_best_plan),
        SECONDS,
    ]


def _gap_to_best_plan(row: ComparisonRow) -> Cell:
    gap = share(row.gap_to_best_plan)
    return replace(gap, text=f"★ {gap.text}") if row.best else gap


def _failures(rows: list[ComparisonRow]) -> Table:
    return table_of(
        "failed",
        "Solves that gave no answer, or a wrong one",
        rows,
        [
            INSTANCE,
            text_column("solver", "solver"),
            STATUS,
            SECONDS,
            text_column("what it said", "message", wide=True),
        ],
    )


def comparison_markdown(comparison: Comparison) -> str:
    """Return the Markdown report of a comparison: advice, summary, measures and all results."""
    parts = [f"# {title(comparison)}"]
    if comparison.interrupted:
        parts.append("**Interrupted: some pairs are missing.**")
    parts += [escaped(advice) for advice in comparison.advice]
    measures = measures_table(comparison)
    tables = [summary_table(comparison), *([measures] if measures else []), *results_tables(comparison)]
    parts += ["\n".join(table_lines(table.head, table.texts)) for table in tables]
    if comparison.faults:
        parts.append("Left out:")
        parts.append("\n".join(f"- {escaped(fault)}" for fault in comparison.faults))
    return "\n\n".join(parts) + "\n"


def to_csv(comparison: Comparison) -> str:
    """Return the rows of a comparison as CSV."""
    return csv_text(*comparison.as_table())


def write(comparison: Comparison, folder: Path) -> list[Path]:
    """Write `comparison.html`, `.md`, `.csv` and `.json` into a folder, created if missing.

    Raises
    ------
    OptionError
        If they cannot be written.
    """
    texts = {
        "comparison.html": comparison_page(comparison),
        "comparison.md": comparison_markdown(comparison),
        "comparison.csv": to_csv(comparison),
        "comparison.json": comparison.to_json() + "\n",
    }
    return write_all(folder, texts)
