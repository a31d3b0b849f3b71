"""The command `compare`: every solver on every instance."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from ..batch.local import start_early
from .common import RunOptions, start_logging, taking


@dataclass(frozen=True, kw_only=True)
class CompareOptions(RunOptions):
    """The options of `solve`, three of which have another meaning here."""

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
