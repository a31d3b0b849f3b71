"""The command `solve`: one instance after the other here, or many in worker processes."""

from __future__ import annotations

import typer

from ..batch.local import start_early
from .common import RunOptions, start_logging, taking


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
