"""The commands `solve` and `compare`: their options, which are read before anything heavy is loaded.

`solve` takes one instance after the other in this process, or many in worker processes; `compare` runs
every solver on every instance.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from ..batch.local import start_early
from .options import RunOptions, start_logging, taking


@taking(RunOptions)
def solve(run: RunOptions) -> None:
    """Solve instances; every plan is verified before it is shown.

    With --jobs, --resume or --engine it is a batch: solves have processes of their own, and --output DIR
    holds a journal and summary.csv.
    """
    start_logging(run.verbose, run.quiet)
    processes = run.jobs is not None or run.kill_after is not None or run.scheduler is not None
    as_batch = processes or run.resume or run.engine != "local"
    if as_batch and run.engine == "local":
        start_early()  # it loads what it needs while this process does so too
    from . import solving

    raise typer.Exit(solving.solve_files(run, as_batch))


@dataclass(frozen=True, kw_only=True)
class CompareOptions(RunOptions):
    """The options of `compare`: those of `solve`, three of them with another meaning."""

    solver: Annotated[
        str | None,
        typer.Option(
            "--solvers",
            "--solver",
            help="Names, separated by commas. [default: all that can be used here, but auto]",
        ),
    ] = None
    memory_limit: Annotated[
        float | None,
        typer.Option(help="GiB of each worker process. [default: a share of 80 % of the machine's]"),
    ] = None
    output: Annotated[
        Path | None,
        typer.Option(help="Folder for comparison.html, .csv, .json and .md, and the journal of the solves."),
    ] = None


@taking(CompareOptions, leave_out=("provisioning", "what_if", "robust"))
def compare(run: CompareOptions) -> None:
    """Compare solvers: every one on every instance, with hard limits on time and memory.

    Seconds are comparable only between solves that do not share cores: raise --jobs with care.
    """
    start_logging(run.verbose, run.quiet)
    if run.engine == "local":
        start_early()  # it loads what it needs while this process does so too
    from . import comparing

    raise typer.Exit(comparing.compare_and_show(run))
