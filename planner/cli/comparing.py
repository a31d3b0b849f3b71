"""Implementation of the command `compare`: solvers run on instances; the comparison printed and written.

The options are defined in `solve`, since they are read before anything heavy is loaded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import typer
from rich.table import Table

from ..batch.comparison import Comparison, compare
from ..batch.comparison_rows import ComparisonRow, SolverSummary
from ..exit_codes import BAD_INSTANCE, INTERRUPTED, SOLVED
from ..output import say
from ..reports.comparison_page import measures_table, to_csv, write
from ..reports.text import MAX_ROWS, TextColumn, console, figure, percent, table, table_of
from .options import Format, RunOptions
from .progress import Progress
from .solving import batch_options, search_options


def compare_and_show(run: RunOptions) -> int:
    """Compare solvers, print and write the comparison, and return the exit code."""
    named, options = search_options(run)
    batch = batch_options(run)
    solvers = None if named is None else [name.strip() for name in named.split(",") if name.strip()]
    with Progress(run.quiet) as progress:
        comparison = compare(
            run.files, solvers, options, batch, on_start=progress.begin, on_record=progress.advance
        )
    if batch.output is None:
        _print(comparison, run.format)
    else:
        for line in failures(comparison):
            say(line)
    for fault in comparison.faults:
        say(fault)
    if batch.output is not None and (comparison.rows or not comparison.interrupted):
        for path in write(comparison, batch.output):
            if not run.quiet:
                say(f"written: {path}")
    if comparison.interrupted:
        say("interrupted; what is shown is complete" + ("; --resume continues it" if batch.output else ""))
        return INTERRUPTED
    return BAD_INSTANCE if comparison.unread else SOLVED


def _print(comparison: Comparison, format: Format) -> None:
    if format == "json":
        typer.echo(comparison.to_json())
        return
    if format == "csv":
        typer.echo(to_csv(comparison), nl=False)
        return
    out = console()
    if 0 < len(comparison.rows) <= MAX_ROWS:
        for place, (objective, rows) in enumerate(comparison.by_objective().items()):
            if place:
                out.print()
            out.print(rows_table(objective, rows))
    elif comparison.rows:
        out.print(
            f"{len(comparison.rows):,} rows are too many to show; --output DIR writes them", markup=False
        )
    for line in failures(comparison):
        out.print(line, markup=False)
    if comparison.rows:
        out.print()
        out.print(summary_table(comparison))
    measures = measures_table(comparison)
    if measures is not None and len(measures.rows) <= MAX_ROWS:
        titles = [(column.title, column.numeric) for column in measures.columns]
        out.print()
        out.print(table(titles, [[cell.text for cell in row] for row in measures.rows]))
    for advice in comparison.advice:
        out.print()
        out.print(advice, markup=False)


def rows_table(objective: str, rows: Sequence[ComparisonRow]) -> Table:
    """Return the text table of solves that share an objective, a row for each solver on each instance.

    An instance's name is only in its first row.
    """
    titles = [("instance", False), ("solver", False), ("status", False), (objective, True), ("bound", True)]
    titles += [("to best bound", True), ("to best plan", True), ("seconds", True)]
    cells, before = [], None
    for row in rows:
        figures = [figure(row.objective), figure(row.bound)]
        gaps = [percent(row.gap_to_best_bound), "best" if row.best else percent(row.gap_to_best_plan)]
        head = row.instance if row.instance != before else ""
        cells.append([head, row.solver, row.status_text, *figures, *gaps, f"{row.runtime_s:.2f}"])
        before = row.instance
    return table(titles, cells)


def failures(comparison: Comparison) -> Iterator[str]:
    """Yield a line for each solve without an answer, and for each optimum that is only claimed."""
    for row in comparison.rows:
        if row.only_claimed or row.status in ("error", "unknown"):
            yield f"{row.instance}: {row.solver}: {row.message or 'no plan was found'}"


def summary_table(comparison: Comparison) -> Table:
    """Return the text table of aggregate results, with a row for each solver."""
    columns: list[TextColumn[SolverSummary]] = [
        ("solver", False, lambda one: one.solver),
        ("instances", True, lambda one: str(one.instances)),
        ("optimal", True, lambda one: one.optimal_text),
        ("plans", True, lambda one: str(one.plans)),
        ("best plan", True, lambda one: str(one.wins)),
        ("failed", True, lambda one: str(one.failed)),
        ("mean to best bound", True, lambda one: percent(one.mean_gap_to_best_bound)),
        ("mean to best plan", True, lambda one: percent(one.mean_gap_to_best_plan)),
        ("mean seconds", True, lambda one: f"{one.mean_runtime_s:.3g}"),
    ]
    return table_of(columns, comparison.summary())
