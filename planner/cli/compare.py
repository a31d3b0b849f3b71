"""The command `compare`: every solver on every instance."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..exit_codes import BAD_INSTANCE, INTERRUPTED, SOLVED
from .common import (
    AllowOutside,
    Config,
    Engine,
    Files,
    Format,
    Gap,
    HowToPrint,
    Jobs,
    KillAfter,
    Quiet,
    Resume,
    Scheduler,
    Seed,
    Settings,
    Threads,
    TimeLimit,
    Verbose,
    Where,
    batch_options,
    say,
    start_logging,
)

if TYPE_CHECKING:
    from rich.table import Table

    from ..comparison.comparison import Comparison


def compare(
    files: Files,
    solvers: Annotated[
        str | None,
        typer.Option(help="Names, separated by commas. [default: all that can be used here, but auto]"),
    ] = None,
    time_limit: TimeLimit = None,
    gap: Gap = None,
    threads: Threads = None,
    seed: Seed = None,
    memory_limit: Annotated[
        float | None,
        typer.Option(help="GiB of each worker process. [default: a share of 80 % of the machine's]"),
    ] = None,
    settings: Settings = None,
    config: Config = None,
    jobs: Jobs = None,
    resume: Resume = False,
    kill_after: KillAfter = None,
    engine: Where = Engine.local,
    scheduler: Scheduler = None,
    allow_outside: AllowOutside = False,
    format: HowToPrint = Format.table,
    output: Annotated[
        Path | None,
        typer.Option(help="Folder for comparison.html, .csv, .json and .md, and the journal of the solves."),
    ] = None,
    verbose: Verbose = 0,
    quiet: Quiet = False,
) -> None:
    """Compare solvers: every one on every instance, with hard limits on time and memory.

    Seconds are comparable only between solves that do not share cores: raise --jobs with care.
    """
    start_logging(verbose, quiet)
    if engine is Engine.local:
        from ..batch.local import start_early

        start_early()
    from ..comparison.compare import compare as compare_solvers
    from .options import merged_options
    from .progress import Progress

    given = {"time_limit_s": time_limit, "gap": gap, "threads": threads, "seed": seed}
    configured, options = merged_options(config, given, settings or [])
    names = solvers or configured
    batch = batch_options(
        engine,
        scheduler,
        memory_limit,
        jobs=jobs,
        output=output,
        resume=resume,
        kill_after_s=kill_after,
        allow_outside=allow_outside,
    )
    wanted = None if names is None else [name.strip() for name in names.split(",") if name.strip()]
    with Progress(quiet) as progress:
        found = compare_solvers(
            files, wanted, options, batch, on_start=progress.begin, on_record=progress.advance
        )
    _print(found, format)
    for fault in found.faults:
        say(fault)
    if output is not None and (found.rows or not found.interrupted):
        from ..reports.comparison.files import write

        for path in write(found, output):
            if not quiet:
                say(f"written: {path}")
    if found.interrupted:
        say("interrupted; what is shown is complete" + ("; --resume continues it" if output else ""))
        raise typer.Exit(INTERRUPTED)
    raise typer.Exit(BAD_INSTANCE if found.unread else SOLVED)


def _print(comparison: Comparison, format: Format) -> None:
    from ..output.text import MOST_ROWS, console
    from ..reports.comparison.files import to_csv

    if format is Format.json:
        typer.echo(comparison.to_json())
        return
    if format is Format.csv:
        typer.echo(to_csv(comparison), nl=False)
        return
    out = console()
    if 0 < len(comparison.rows) <= MOST_ROWS:
        out.print(rows_table(comparison))
    elif comparison.rows:
        out.print(
            f"{len(comparison.rows):,} rows are too many to show; --output DIR writes them", markup=False
        )
    for line in failures(comparison):
        out.print(line, markup=False)
    if comparison.rows:
        out.print()
        out.print(summary_table(comparison))


def rows_table(comparison: Comparison) -> Table:
    """Return the table of all rows; the name of an instance stands only in its first."""
    from ..output.text import figure, percent, table

    titles = [
        ("instance", False),
        ("solver", False),
        ("status", False),
        ("objective", False),
        ("value", True),
    ]
    titles += [("bound", True), ("to best bound", True), ("to best plan", True), ("seconds", True)]
    cells, before = [], None
    for row in comparison.rows:
        status = row.status if row.limit == "none" else f"{row.status} ({row.limit})"
        name = f"{row.objective_name} [{row.unit}]" if row.unit != row.objective_name else row.objective_name
        figures = [figure(row.objective), figure(row.bound)]
        gaps = [percent(row.gap_to_best_bound), "best" if row.best else percent(row.gap_to_best_plan)]
        head = row.instance if row.instance != before else ""
        cells.append([head, row.solver, status, name or "–", *figures, *gaps, f"{row.runtime_s:.2f}"])
        before = row.instance
    return table(titles, cells)


def failures(comparison: Comparison) -> Iterator[str]:
    """Yield a line for each row without a plan that was not proven to have none."""
    for row in comparison.rows:
        if row.status in ("error", "unknown"):
            yield f"{row.instance}: {row.solver}: {row.message or 'no plan was found'}"


def summary_table(comparison: Comparison) -> Table:
    """Return how each solver did over all instances."""
    from ..output.text import percent, table

    counts = ("instances", "optimal", "plans", "best plan", "failed")
    means = ("mean to best bound", "mean to best plan", "mean seconds")
    titles = [("solver", False), *((title, True) for title in (*counts, *means))]
    cells = [
        [
            summary.solver,
            *map(str, (summary.instances, summary.optimal, summary.plans, summary.wins, summary.failed)),
            percent(summary.mean_gap_to_best_bound),
            percent(summary.mean_gap_to_best_plan),
            f"{summary.mean_runtime_s:.3g}",
        ]
        for summary in comparison.summary()
    ]
    return table(titles, cells)
