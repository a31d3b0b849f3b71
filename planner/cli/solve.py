"""The command `solve`: one instance after the other here, or many in worker processes."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ...instances.common.errors import ClusterplanError, InstanceError, OptionError
from ..exit_codes import code_of_error, code_of_result, worst
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
    write_text,
)

if TYPE_CHECKING:
    from ...solvers.common.options import SolveOptions
    from ...solvers.common.result import Result


class Provisioning(StrEnum):
    """How units are found once types are chosen."""

    load_balance = "load-balance"
    exact = "exact"


def solve(
    files: Files,
    solver: Annotated[
        str | None, typer.Option(help="A name from 'clusterplan solvers'. [default: auto]")
    ] = None,
    time_limit: TimeLimit = None,
    gap: Gap = None,
    threads: Threads = None,
    seed: Seed = None,
    memory_limit: Annotated[
        float | None,
        typer.Option(help="GiB that the backend, or in a batch each worker process, may take."),
    ] = None,
    settings: Settings = None,
    provisioning: Annotated[
        Provisioning | None,
        typer.Option(help="How HeterPS's methods find units. [default: load-balance]"),
    ] = None,
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
        typer.Option(help="Also write the results here, one JSON object a line; of a batch, a folder."),
    ] = None,
    verbose: Verbose = 0,
    quiet: Quiet = False,
) -> None:
    """Solve instances; every plan is verified before it is shown.

    With --jobs, --resume or --engine it is a batch: solves have processes of their own, and --output DIR
    holds a journal and summary.csv.
    """
    start_logging(verbose, quiet)
    together = jobs is not None or resume or kill_after is not None or engine is not Engine.local
    together = together or scheduler is not None
    if together and engine is Engine.local:
        from ..batch.local import start_early

        start_early()
    from .options import merged_options

    given = {"time_limit_s": time_limit, "gap": gap, "threads": threads, "seed": seed}
    if not together:
        given["memory_limit_gib"] = memory_limit
    more = [f"provisioning={provisioning.value}"] if provisioning else []
    configured, options = merged_options(config, given, [*(settings or []), *more])
    name = solver or configured or "auto"
    if together:
        from .batch import solve_batch

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
        raise typer.Exit(solve_batch(files, name, options, batch, format, quiet))
    raise typer.Exit(_solve_in_turn(files, name, options, format, output, quiet, allow_outside))


def _solve_in_turn(
    files: list[str],
    solver: str,
    options: SolveOptions,
    format: Format,
    output: Path | None,
    quiet: bool,
    allow_outside: bool,
) -> int:
    """Solve one file after the other in this process; return the exit code."""
    from ..output.results import COLUMNS, csv_row, notes, plan_table, summary
    from ..output.text import console, csv_line

    if output is not None:
        if output.is_dir():
            raise OptionError(
                f"{output}: is a folder; give a file, or --jobs N for a batch, which has a folder"
            )
        write_text(output, "", append=True)  # what is there stays until there is a result
    if format is Format.csv:
        typer.echo(csv_line(COLUMNS))
    codes: list[int] = []
    results: list[Result] = []
    for file in files:
        try:
            result = _solve_one(file, solver, options, quiet, allow_outside)
        except ClusterplanError as error:
            say(str(error) if isinstance(error, InstanceError) else f"{file}: {error}")
            codes.append(code_of_error(error))
            continue
        results.append(result)
        codes.append(code_of_result(result))
        if output is not None:
            write_text(output, result.to_json() + "\n", append=len(results) > 1)
        if format is Format.json:
            typer.echo(result.to_json())
        elif format is Format.csv:
            typer.echo(csv_line(csv_row(result)))
    if format is Format.table and results:
        out = console()
        for part in summary(results, out.width):
            out.print(part, markup=False)
        plan = plan_table(results[0]) if len(files) == 1 else None
        if plan is not None:
            out.print(plan)
        for result in results:
            for line in notes(result):
                out.print(line if len(files) == 1 else f"{result.instance}: {line}", markup=False)
    return worst(codes)


def _solve_one(file: str, solver: str, options: SolveOptions, quiet: bool, allow_outside: bool) -> Result:
    from rich.text import Text

    from ...instances.documents import load
    from ..api import solve as solve_instance
    from ..output.text import console

    instance = load(file, allow_outside)
    if quiet or not sys.stderr.isatty():
        return solve_instance(instance, solver, options)
    limit = f", at most {options.time_limit_s:g} s" if options.time_limit_s else ""
    with console(stderr=True).status(Text(f"{instance.name}: {solver}{limit} …")):
        return solve_instance(instance, solver, options)
