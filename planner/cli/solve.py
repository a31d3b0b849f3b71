"""The command `solve`: one instance after the other here, or many in worker processes."""

from __future__ import annotations

from enum import StrEnum
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
        start_early()  # it loads what it needs while this process does so too
    from . import solving

    given = {"time_limit_s": time_limit, "gap": gap, "threads": threads, "seed": seed}
    if not together:
        given["memory_limit_gib"] = memory_limit
    more = [f"provisioning={provisioning.value}"] if provisioning else []
    configured, options = solving.merged_options(config, given, [*(settings or []), *more])
    name = solver or configured or "auto"
    if together:
        batch = solving.batch_options(
            engine,
            scheduler,
            memory_limit,
            jobs=jobs,
            output=output,
            resume=resume,
            kill_after_s=kill_after,
            allow_outside=allow_outside,
        )
        raise typer.Exit(solving.solve_batch(files, name, options, batch, format, quiet))
    raise typer.Exit(solving.solve_in_turn(files, name, options, format, output, quiet, allow_outside))
