"""The command `compare`: every solver on every instance."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..batch.local import start_early
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
    start_logging,
)

if TYPE_CHECKING:
    pass


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
        start_early()  # it loads what it needs while this process does so too
    from . import comparing

    given = {"time_limit_s": time_limit, "gap": gap, "threads": threads, "seed": seed}
    configured, options = comparing.merged_options(config, given, settings or [])
    names = solvers or configured
    batch = comparing.batch_options(
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
    raise typer.Exit(comparing.compare_and_show(files, wanted, options, batch, format, quiet))
