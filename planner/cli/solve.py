"""The commands `solve`, `what-if` and `compare`: their options, read before anything heavy is loaded.

`solve` takes one instance after the other in this process, or many in worker processes; `what-if` solves
one with the changes of scenarios; `compare` runs every solver on every instance.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated

import typer

from ...instances.common.errors import OptionError
from ..batch.engines import start_early
from .options import SCENARIO_CHANGES, RunOptions, argument, option_field, start_logging, taking


@taking(RunOptions)
def solve(run: RunOptions) -> None:
    """Solve instances; every plan is verified before it is shown.

    With --jobs, --resume or --engine it is a batch: solves have processes of their own, and --output DIR
    holds a journal and summary.csv.
    """
    _solve(run)


def _solve(run: RunOptions) -> None:
    start_logging(run.verbose, run.quiet)
    if run.apply is not None and not run.what_if:
        raise OptionError(f"--apply {run.apply!r} names a scenario; give it with --what-if")
    if run.dry_run:
        from .instances.generate import check_files

        raise typer.Exit(check_files(run.files, run.allow_outside, run))
    processes = run.jobs is not None or run.kill_after is not None or run.scheduler is not None
    as_batch = processes or run.resume or run.engine != "local"
    if as_batch and run.engine == "local":
        start_early()  # it loads what it needs while this process does so too
    if run.what_if or run.robust:
        from . import study

        raise typer.Exit(study.study_instance(run, as_batch))
    from . import solving

    raise typer.Exit(solving.solve_files(run, as_batch))


@dataclass(frozen=True, kw_only=True)
class ScenarioOptions(RunOptions):
    """The options of `what-if`: those of `solve`, with the scenarios as arguments."""

    files: list[str] = field(default_factory=list)
    file: Annotated[
        str,
        argument("An instance file, or example:NAME.", "INSTANCE", show_default=False),
    ]
    scenarios: Annotated[
        list[str],
        argument(f"Scenarios. {SCENARIO_CHANGES}", "KEY=VALUE,…", show_default=False),
    ]
    output: Path | None = option_field(
        "Write a page (.html) or everything (.json); with --apply, the plan (.json)."
    )


BATCH = ("jobs", "resume", "kill_after", "engine", "scheduler")
"""Options of batches."""


@taking(ScenarioOptions, leave_out=("files", "what_if", "robust", "dry_run", *BATCH))
def what_if(run: ScenarioOptions) -> None:
    """Compare an instance as it is with scenarios, such as a drained server or two more.

    Each scenario is solved and verified like an instance of its own; --apply keeps the plan of one.
    """
    _solve(replace(run, files=[run.file], what_if=run.scenarios))


@dataclass(frozen=True, kw_only=True)
class CompareOptions(RunOptions):
    """The options of `compare`: those of `solve`, three of them with another meaning."""

    solver: str | None = option_field(
        "Names, separated by commas. [default: all that can be used here, but auto]", "--solvers", "--solver"
    )
    memory_limit: float | None = option_field(
        "GiB of each worker process. [default: a share of 80 % of the machine's]"
    )
    output: Path | None = option_field(
        "Folder for comparison.html, .csv, .json and .md, and the journal of the solves."
    )


@taking(
    CompareOptions,
    leave_out=(
        "provisioning",
        "what_if",
        "apply",
        "robust",
        "dry_run",
        "warm_start",
        "stability",
        "keep_cuts",
    ),
)
def compare(run: CompareOptions) -> None:
    """Compare solvers: every one on every instance, with hard limits on time and memory.

    Seconds are comparable only between solves that do not share cores: raise --jobs with care.
    """
    start_logging(run.verbose, run.quiet)
    if run.engine == "local":
        start_early()  # it loads what it needs while this process does so too
    from . import study

    raise typer.Exit(study.compare_and_show(run))
