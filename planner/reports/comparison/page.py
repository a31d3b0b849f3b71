"""The page of a comparison: which solver is how good, how fast, and where it fails."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...comparison.comparison import Comparison
from ...comparison.profile import SolverSummary
from ...comparison.row import ComparisonRow
from ..page import render
from ..provenance import Facts, options_text, result_cell, versions_text
from ..tables import Cell, CellColumn, Column, Table, number, seconds, share, table_of, text
from ..text import counted, duration
from .figures import gap_figure, profile_figure, sentence
from .measures import distribution_plots, measures_table

WITHIN = 1e-3
MOST_FAULTS = 4


def comparison_page(comparison: Comparison) -> str:
    """Return the page of a comparison."""
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
    sections = [("summary", "Summary"), ("plots", "Plots"), ("results", "All results")]
    if comparison.faults:
        sections.insert(0, ("faults", "Left out"))
    if measures:
        sections.insert(-2, ("plans", "Figures of the plans"))
    if failed:
        sections.insert(-1, ("failures", "Failures"))
    return render(
        "comparison.html.j2",
        scripts=(),
        data={"figures": figures},
        title=title(comparison),
        kicker="Comparison of solvers",
        verdict=("interrupted", "bad") if comparison.interrupted else ("complete", "good"),
        claimed=(),
        lead=" ".join([*alone, _lead(comparison, len(failed))]),
        advice=() if alone else comparison.advice,
        measures=measures,
        spread=spread,
        sections=[pair for pair in sections if pair[0] != "plots" or figures],
        figures=figures,
        solvers=comparison.solvers,
        faults=comparison.faults,
        most_faults=MOST_FAULTS,
        interrupted=comparison.interrupted,
        sentence=sentence(rows),
        profile=profile,
        within=f"{100 * WITHIN:g} %",
        summary=summary_table(comparison),
        failures=_failures(failed),
        results=results_tables(comparison),
        footer=_footer(comparison),
    )


def title(comparison: Comparison) -> str:
    """Return how many solvers and instances there are."""
    solvers, instances = len(comparison.solvers), len(comparison.instances)
    return f"{counted(solvers, 'solver')} on {counted(instances, 'instance')}"


def _lead(comparison: Comparison, failed: int) -> str:
    rows = comparison.rows
    proven = sum(row.status == "optimal" and not row.only_claimed for row in rows)
    claimed = sum(row.only_claimed for row in rows)
    seconds = sum(row.runtime_s for row in rows)
    said = f"{claimed:,} optimal as claimed, " if claimed else ""
    text = f"{counted(len(rows), 'solve')}: {proven:,} proven optimal, {said}{failed:,} without an answer, "
    return text + f"{duration(seconds)} in all."


def _footer(comparison: Comparison) -> Facts:
    facts = [("options", options_text(comparison.options)), ("versions", versions_text(comparison.versions))]
    return [pair for pair in facts if pair[1]]


def summary_table(comparison: Comparison) -> Table:
    """Return one row for each solver."""
    colours = _colours(comparison)
    columns: list[CellColumn[SolverSummary]] = [
        (Column("solver"), lambda one: Cell(one.solver, swatch=colours[one.solver])),
        (Column("instances", True), lambda one: number(one.instances)),
        (Column("optimal", True, "proven or claimed"), lambda one: Cell(one.optimal_text, one.optimal)),
        (Column("plans", True), lambda one: number(one.plans)),
        (
            Column("failed", True),
            lambda one: Cell(f"{one.failed:,}", one.failed, "bad" if one.failed else ""),
        ),
        (Column("best plan", True, "ties count for all"), lambda one: number(one.wins)),
        (Column("seconds", True, "geometric mean"), lambda one: seconds(one.mean_runtime_s)),
        (Column("gap to best bound", True, "geometric mean"), lambda one: share(one.mean_gap_to_best_bound)),
        (Column("gap to best plan", True, "geometric mean"), lambda one: share(one.mean_gap_to_best_plan)),
    ]
    return table_of("solvers", "Each solver over all its instances", comparison.summary(), columns)


def _colours(comparison: Comparison) -> dict[str, int]:
    return {solver: index for index, solver in enumerate(comparison.solvers)}


INSTANCE: CellColumn[ComparisonRow] = (Column("instance"), lambda row: Cell(row.instance))
STATUS: CellColumn[ComparisonRow] = (Column("status"), result_cell)
SECONDS: CellColumn[ComparisonRow] = (
    Column("seconds", True),
    lambda row: Cell(f"{row.runtime_s:,.3f}", row.runtime_s),
)


def results_tables(comparison: Comparison) -> list[Table]:
    """Return one row for each solver on each instance, in a table for each objective."""
    found = comparison.by_objective().items()
    return [_results(comparison, place, title, rows) for place, (title, rows) in enumerate(found)]


def _results(comparison: Comparison, place: int, title: str, rows: Sequence[ComparisonRow]) -> Table:
    several, colours = len({row.kind for row in rows}) > 1, _colours(comparison)
    kind: list[CellColumn[ComparisonRow]] = [(Column("kind"), lambda row: Cell(row.kind))] if several else []
    columns: list[CellColumn[ComparisonRow]] = [
        INSTANCE,
        *kind,
        (Column("solver"), lambda row: Cell(row.solver, swatch=colours[row.solver])),
        STATUS,
        (Column(title, True), lambda row: number(row.objective, 8)),
        (Column("bound", True), lambda row: number(row.bound, 8)),
        (Column("own gap", True), lambda row: share(row.gap)),
        (Column("gap to best bound", True), lambda row: share(row.gap_to_best_bound)),
        (Column("gap to best plan", True), _gap_to_best_plan),
        SECONDS,
        (Column("message", wide=True), lambda row: text(row.message)),
    ]
    caption = f"{title}: every solver on every instance; ★ marks plans that no other solver beats"
    wanted = "Show rows with these words (instance, solver, status …)" if len(rows) > 12 else None
    return table_of(f"every{place or ''}", caption, rows, columns, filter=wanted)


def _gap_to_best_plan(row: ComparisonRow) -> Cell:
    gap = share(row.gap_to_best_plan)
    return replace(gap, text=f"★ {gap.text}") if row.best else gap


def _failures(rows: list[ComparisonRow]) -> Table:
    columns: list[CellColumn[ComparisonRow]] = [
        INSTANCE,
        (Column("solver"), lambda row: Cell(row.solver)),
        STATUS,
        SECONDS,
        (Column("what it said", wide=True), lambda row: text(row.message)),
    ]
    return table_of("failed", "Solves that gave no answer, or a wrong one", rows, columns)
