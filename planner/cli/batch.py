"""Batches on the command line: progress while they run, tables and `summary.csv` at the end."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import typer
from rich.table import Table

from ...instances.common.base import Instance
from ...solvers.common.options import SolveOptions
from ...solvers.common.result import Result
from ..batch.journal import NAME as JOURNAL
from ..batch.journal import read_journal
from ..batch.record import Record
from ..batch.solve_many import BatchOptions, check_solvers, labelled
from ..batch.solve_many import run as solve_each
from ..exit_codes import INTERRUPTED, worst
from ..output.files import write_all
from ..output.results import COLUMNS, csv_row, notes
from ..output.terminal import say
from ..output.text import MOST_ROWS, console, csv_line, figure, percent, safe_cell, table
from .common import Format, RunOptions
from .progress import Progress

SUMMARY = "summary.csv"
TITLES = ("source", *COLUMNS, "message", "seconds", "exit_code")


def solve_batch(run: RunOptions, solver: str, options: SolveOptions, batch: BatchOptions) -> int:
    """Solve files as a batch, show how it goes, and return the exit code."""
    named = labelled(run.files)
    check_solvers([solver])
    if len(named) < len(run.files):
        say(f"{len(run.files) - len(named)} files stand twice; each is solved once")
    if run.format == "csv" and batch.output is None:
        typer.echo(csv_line(("source", *COLUMNS)))
    records, interrupted = _solve_all(run, named, solver, options, batch)
    if run.format == "table" and (batch.output is None or not run.quiet):
        _show(records, batch.output)
    if batch.output is not None:
        write_summary(records, batch.output)
        if not run.quiet:
            say(f"written: {batch.output / SUMMARY}, and every result in {batch.output / JOURNAL}")
    if interrupted:
        how = "; --resume continues it" if batch.output is not None else ""
        say(f"interrupted: {len(records)} of {len(named)} are finished{how}")
        return INTERRUPTED
    return worst(record.code for record in records)


def _solve_all(
    run: RunOptions,
    named: Mapping[str, str | Instance],
    solver: str,
    options: SolveOptions,
    batch: BatchOptions,
) -> tuple[list[Record], bool]:
    """Return the finished records in the order of the files, and whether the batch was interrupted."""
    records: dict[str, Record] = {}
    interrupted = False
    with Progress(run.quiet) as progress:
        try:
            for record in solve_each(
                named, [(name, solver) for name in named], options, batch, progress.begin
            ):
                records[record.source] = record.light()
                if record.result is not None and batch.output is None:
                    print_result(record.result, run.format, safe_cell(record.source))
                progress.advance(record)
        except KeyboardInterrupt:
            interrupted = True
    if interrupted:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # what is left to do is short, and must not be cut off
        # The journal may hold records that were written but not yet handed over, and those of earlier runs.
        for record in read_journal(batch.output) if batch.output is not None else ():
            if record.solver == solver and record.source in named:
                records.setdefault(record.source, record.light())
    return [records[name] for name in named if name in records], interrupted


def print_result(result: Result, format: Format, *head: Any) -> None:
    """Print a result at once, for programs; tables have to wait for the last one."""
    if format == "json":
        typer.echo(result.to_json())
    elif format == "csv":
        typer.echo(csv_line([*head, *csv_row(result)]))


def write_summary(records: Sequence[Record], folder: Path) -> Path:
    """Write one line for each record to `summary.csv`; an older one is replaced as a whole.

    Raises
    ------
    OptionError
        If it cannot be written.
    """
    lines = [csv_line(TITLES)]
    for record in records:
        cells = [None] * len(COLUMNS) if record.result is None else csv_row(record.result)
        message = record.fault if record.result is None else record.result.message
        tail = [safe_cell(message), round(record.seconds, 6), record.code]
        lines.append(csv_line([safe_cell(record.source), *cells, *tail]))
    (path,) = write_all(folder, {SUMMARY: "\n".join(lines) + "\n"})
    return path


def _show(records: Sequence[Record], folder: Path | None) -> None:
    """Print a line for each, and how many ended how; beside a folder only, on stderr, what went wrong."""
    out = console(stderr=folder is not None)
    wrong = [record for record in records if record.result is None or record.result.plan is None]
    shown = wrong[:MOST_ROWS] if folder is not None else records
    if shown:
        out.print(_table(shown))
    for record in shown:
        for line in notes(record.result) if record in wrong and record.result is not None else ():
            out.print(f"{record.source}: {line}", markup=False)
    counts = Counter(record.result.status if record.result else "not solved" for record in records)
    ended = ", ".join(f"{count:,} {status}" for status, count in counts.most_common())
    seconds = sum(record.seconds for record in records)
    out.print(f"{len(records):,} instances: {ended or 'none'}; {seconds:,.1f} s of work", markup=False)


def _table(records: Sequence[Record]) -> Table:
    """Return the table of a batch: one line each, however many objectives there are."""
    titles = [("source", False), ("status", False), ("objective", False)]
    titles += [("value", True), ("gap", True), ("certified gap", True), ("seconds", True)]
    cells = []
    for record in records:
        result, seconds = record.result, f"{record.seconds:.2f}"
        if result is None:
            cells.append([record.source, "not solved", *["–"] * 4, seconds])
            continue
        name = ", ".join(known.name for known in result.objectives) or "–"
        values = ", ".join(figure(known.value) for known in result.objectives) or "–"
        figures = [values, percent(result.gap), percent(result.certified_gap)]
        cells.append([record.source, result.status_text, name, *figures, seconds])
    return table(titles, cells)
