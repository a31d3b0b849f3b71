"""The work of `solve`, apart from its options, which are read before anything heavy is loaded."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import typer

from ...instances.common.base import Instance
from ...instances.common.errors import ClusterplanError, InstanceError, OptionError
from ...instances.documents import load
from ...solvers.common.options import SolveOptions
from ...solvers.common.result import Result
from ..api import solve
from ..exit_codes import code_of_error, code_of_result, worst
from ..output.files import write_file
from ..output.results import COLUMNS, csv_row, notes, plan_table, summary
from ..output.terminal import say
from ..output.text import console, csv_line
from ..reports.plan_page import plan_page
from .batch import print_result, solve_batch
from .common import Format, RunOptions, write_text
from .instances.steps import Steps
from .options import batch_options, merged_options, search_options
from .plans.ends import plan_at_ends
from .plans.scenarios import compare_scenarios
from .progress import working


def solve_files(run: RunOptions, as_batch: bool) -> int:
    """Solve the files, in this process or as a batch in others, and return the exit code."""
    settings = [f"provisioning={run.provisioning}"] if run.provisioning else []
    # In a batch the limit is on each worker process, which holds whatever the backend does.
    more = {} if as_batch else {"memory_limit_gib": run.memory_limit}
    solver, options = search_options(run, settings, **more)
    if run.robust:
        return plan_at_ends(run, as_batch, solver or "auto", options)
    if run.what_if:
        return compare_scenarios(run, as_batch, solver or "auto", options)
    if as_batch:
        return solve_batch(run, solver or "auto", options, batch_options(run))
    return _solve_in_turn(run, solver or "auto", options)


def _solve_in_turn(run: RunOptions, solver: str, options: SolveOptions) -> int:
    """Solve one file after the other in this process; return the exit code."""
    made = run.output is not None and not run.output.exists()
    if run.output is not None:
        if run.output.is_dir():
            raise OptionError(
                f"{run.output}: is a folder; give a file, or --jobs N for a batch, which has a folder"
            )
        write_text(run.output, "", append=True)  # what is there stays until there is a result
    form: Format = "json" if run.format == "table" and run.output is not None else run.format
    if form == "csv" and run.output is None:
        typer.echo(csv_line(COLUMNS))
    codes: list[int] = []
    results: list[Result] = []
    for file in run.files:
        try:
            instance = load(file, run.allow_outside, run.changes())
            if len(run.files) == 1:
                run.check_pins(instance)
            with working(f"{instance.name}: {solver}", options, run.quiet):
                result = solve(instance, solver, options)
        except ClusterplanError as error:
            say(str(error) if isinstance(error, InstanceError) else f"{file}: {error}")
            codes.append(code_of_error(error))
            continue
        results.append(result)
        codes.append(code_of_result(result))
        if run.output is None:
            print_result(result, form)
            continue
        head = [csv_line(COLUMNS)] if form == "csv" and len(results) == 1 else []
        line = result.to_json() if form == "json" else csv_line(csv_row(result))
        write_text(run.output, "\n".join([*head, line, ""]), append=len(results) > 1)
        if not run.quiet:
            say(f"{run.output}: {result.instance}: {result.status_text}")
    if form == "table" and results:
        show_results(results, alone=len(run.files) == 1)
    if run.output is not None and made and not results:
        run.output.unlink()
    return worst(codes)


def show_results(results: list[Result], alone: bool) -> None:
    """Print tables of results, and the plan too of one that was asked for alone."""
    out = console()
    for part in summary(results, out.width):
        out.print(part, markup=False)
    plan = plan_table(results[0]) if alone else None
    if plan is not None:
        out.print(plan)
    for result in results:
        for line in notes(result):
            out.print(line if alone else f"{result.instance}: {line}", markup=False)


def solve_imported(
    instance: Instance, solver: str, time_limit_s: float | None, report: Path | None, steps: Steps
) -> int:
    """Solve what was imported, print its table, write its page, and return the exit code.

    Parameters
    ----------
    time_limit_s
        0 is none; by default that of `solve`.
    report
        Where the page goes, if one is asked for.
    """
    _, options = merged_options(None, {"time_limit_s": time_limit_s}, [])
    begun = time.perf_counter()
    if not sys.stderr.isatty() and not steps.quiet:
        say("solving …")
    with working(f"solving with {solver}", options, steps.quiet):
        result = solve(instance, solver, options)
    steps.done("solving", time.perf_counter() - begun)
    if report is not None:
        with steps.step("writing the page"):
            write_file(report, plan_page(instance, result))
        if not steps.quiet:
            say(f"written: {report}")
    show_results([result], alone=report is None)
    return code_of_result(result)
