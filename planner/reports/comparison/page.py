"""The page of a comparison: which solver is how good, how fast, and where it fails."""

from __future__ import annotations

from ...comparison.comparison import Comparison
from ...comparison.row import ComparisonRow
from ..page import render
from ..provenance import Facts, options_text, status_cell, versions_text
from ..tables import Cell, Column, Table, number, seconds, share, text
from ..text import counted, duration
from .figures import gap_figure, profile_figure, sentence

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
    sections = [("summary", "Summary"), ("plots", "Plots"), ("results", "All results")]
    if comparison.faults:
        sections.insert(0, ("faults", "Left out"))
    if failed:
        sections.insert(-1, ("failures", "Failures"))
    return render(
        "comparison.html.j2",
        scripts=(),
        data={"figures": figures},
        title=title(comparison),
        kicker="Comparison of solvers",
        verdict=("interrupted", "bad") if comparison.interrupted else ("complete", "good"),
        lead=_lead(comparison, len(failed)),
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
        results=results_table(comparison),
        footer=_footer(comparison),
    )


def title(comparison: Comparison) -> str:
    """Return how many solvers and instances there are."""
    solvers, instances = len(comparison.solvers), len(comparison.instances)
    return f"{counted(solvers, 'solver')} on {counted(instances, 'instance')}"


def _lead(comparison: Comparison, failed: int) -> str:
    rows = comparison.rows
    proven = sum(row.status == "optimal" for row in rows)
    seconds = sum(row.runtime_s for row in rows)
    text = f"{counted(len(rows), 'solve')}: {proven:,} proven optimal, {failed:,} without an answer, "
    return text + f"{duration(seconds)} in all."


def _footer(comparison: Comparison) -> Facts:
    facts = [("options", options_text(comparison.options)), ("versions", versions_text(comparison.versions))]
    return [pair for pair in facts if pair[1]]


def summary_table(comparison: Comparison) -> Table:
    """Return one row for each solver."""
    columns = [
        Column("solver"),
        Column("instances", True),
        Column("optimal", True, "proven"),
        Column("plans", True),
        Column("failed", True),
        Column("best plan", True, "ties count for all"),
        Column("seconds", True, "geometric mean"),
        Column("gap to best bound", True, "geometric mean"),
        Column("gap to best plan", True, "geometric mean"),
    ]
    rows = [
        [
            Cell(one.solver, swatch=index),
            number(one.instances),
            number(one.optimal),
            number(one.plans),
            Cell(f"{one.failed:,}", one.failed, "bad" if one.failed else ""),
            number(one.wins),
            seconds(one.mean_runtime_s),
            share(one.mean_gap_to_best_bound),
            share(one.mean_gap_to_best_plan),
        ]
        for index, one in enumerate(comparison.summary())
    ]
    return Table("solvers", "Each solver over all its instances", columns, rows)


def results_table(comparison: Comparison) -> Table:
    """Return one row for each solver on each instance."""
    several = len({row.kind for row in comparison.rows}) > 1
    columns = [
        Column("instance"),
        *([Column("kind")] if several else []),
        Column("solver"),
        Column("status"),
        Column("objective"),
        Column("value", True),
        Column("bound", True),
        Column("own gap", True),
        Column("gap to best bound", True),
        Column("gap to best plan", True),
        Column("seconds", True),
        Column("message", wide=True),
    ]
    number_of = {solver: index for index, solver in enumerate(comparison.solvers)}
    rows = [_row(row, number_of[row.solver], several) for row in comparison.rows]
    caption = "Every solver on every instance; ★ marks plans that no other solver beats"
    wanted = "Show rows with these words (instance, solver, status …)"
    return Table("every", caption, columns, rows, filter=wanted if len(rows) > 12 else None)


def _row(row: ComparisonRow, index: int, several: bool) -> list[Cell]:
    name = row.objective_name or "–"
    best = Cell(f"{'★ ' if row.best else ''}{share(row.gap_to_best_plan).text}", row.gap_to_best_plan)
    return [
        Cell(row.instance),
        *([Cell(row.kind)] if several else []),
        Cell(row.solver, swatch=index),
        status_cell(row.status, row.limit),
        Cell(name if row.unit in (None, name) else f"{name} [{row.unit}]"),
        number(row.objective, 8),
        number(row.bound, 8),
        share(row.gap),
        share(row.gap_to_best_bound),
        best,
        Cell(f"{row.runtime_s:,.3f}", row.runtime_s),
        text(row.message),
    ]


def _failures(rows: list[ComparisonRow]) -> Table:
    columns = [Column("instance"), Column("solver"), Column("status"), Column("seconds", True)]
    columns.append(Column("what it said", wide=True))
    cells = [
        [
            Cell(row.instance),
            Cell(row.solver),
            status_cell(row.status, row.limit),
            Cell(f"{row.runtime_s:,.3f}", row.runtime_s),
            text(row.message),
        ]
        for row in rows
    ]
    return Table("failed", "Solves that gave no answer, or a wrong one", columns, cells)
