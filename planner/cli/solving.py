"""What `solve` does, apart from its options, so that these are read before anything heavy is loaded."""

from __future__ import annotations

import sys
from pathlib import Path

import typer
from rich.text import Text

from ...instances.common.errors import ClusterplanError, InstanceError, OptionError
from ...instances.documents import load
from ...solvers.common.options import SolveOptions
from ...solvers.common.result import Result
from ..api import solve
from ..exit_codes import code_of_error, code_of_result, worst
from ..output.results import COLUMNS, csv_row, notes, plan_table, summary
from ..output.terminal import say
from ..output.text import console, csv_line
from .batch import solve_batch
from .common import Format, write_text
from .options import batch_options, merged_options

__all__ = ["batch_options", "merged_options", "solve_batch", "solve_in_turn"]


def solve_in_turn(
    files: list[str],
    solver: str,
    options: SolveOptions,
    format: Format,
    output: Path | None,
    quiet: bool,
    allow_outside: bool,
) -> int:
    """Solve one file after the other in this process; return the exit code."""
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
    instance = load(file, allow_outside)
    if quiet or not sys.stderr.isatty():
        return solve(instance, solver, options)
    limit = f", at most {options.time_limit_s:g} s" if options.time_limit_s else ""
    with console(stderr=True).status(Text(f"{instance.name}: {solver}{limit} …")):
        return solve(instance, solver, options)
