"""Implementation of `solve --what-if` and `solve --robust`: sensitivity analysis on the command line.

`--what-if` solves one instance as it is, and with the changes of each scenario; `--robust` solves it at
the ends of its uncertainty intervals.
"""

from __future__ import annotations

from collections.abc import Callable

import typer

from ...instances.common.errors import OptionError
from ...instances.documents import load
from ...solvers.common.result import SolveOptions
from ..exit_codes import code_of_result, worst
from ..output import say
from ..reports.sensitivity_page import robust_page, what_if_page
from ..reports.text import cells_of, console, csv_text, table_of
from ..sensitivity import REGRET_COLUMNS, SCENARIO_COLUMNS, Robust, WhatIf, robust, what_if
from .options import RunOptions, write_text
from .progress import working

SCENARIO_ENDINGS: dict[str, Callable[[WhatIf], str]] = {
    ".html": what_if_page,
    ".json": lambda found: found.to_json() + "\n",
}
"""Functions that return the text of an output file, by its ending."""


def compare_scenarios(run: RunOptions, as_batch: bool, solver: str, options: SolveOptions) -> int:
    """Solve the scenarios of one instance, show the comparison and return the exit code."""
    if len(run.files) != 1 or as_batch:
        raise OptionError("--what-if compares scenarios of one file, without the options of a batch")
    ending = run.output.suffix.lower() if run.output is not None else ".json"
    if ending not in SCENARIO_ENDINGS:
        raise OptionError(f"{run.output}: with --what-if a page (.html) or everything (.json) is written")
    instance = load(run.files[0], run.allow_outside, run.changes())
    analysis = what_if(
        instance,
        run.what_if or (),
        solver,
        options,
        lambda name: working(f"{instance.name}, {name}: {solver}", options, run.quiet),
    )
    if run.output is None:
        _print_scenarios(analysis, run.format)
    else:
        write_text(run.output, SCENARIO_ENDINGS[ending](analysis))
        if not run.quiet:
            say(f"{analysis.headline()} Written: {run.output}")
    return worst(code_of_result(scenario.result) for scenario in analysis.all())


def _print_scenarios(analysis: WhatIf, format: str) -> None:
    if format == "json":
        typer.echo(analysis.to_json())
    elif format == "csv":
        titles = [title for title, _, _ in SCENARIO_COLUMNS]
        typer.echo(csv_text(titles, cells_of(SCENARIO_COLUMNS, analysis.rows())), nl=False)
    else:
        out = console()
        out.print(analysis.headline(), markup=False)
        out.print("")
        out.print(table_of(SCENARIO_COLUMNS, analysis.rows()))
        for line in analysis.sentences():
            out.print(line, markup=False)


REGRET_ENDINGS: dict[str, Callable[[Robust], str]] = {
    ".html": robust_page,
    ".json": lambda found: found.to_json() + "\n",
}
"""Functions that return the text of an output file, by its ending."""


def plan_at_ends(run: RunOptions, as_batch: bool, solver: str, options: SolveOptions) -> int:
    """Solve one instance at the ends of its uncertainty intervals, show regrets, return the exit code."""
    if len(run.files) != 1 or as_batch or run.what_if:
        raise OptionError("--robust takes one file, without --what-if and the options of a batch")
    ending = run.output.suffix.lower() if run.output is not None else ".json"
    if ending not in REGRET_ENDINGS:
        raise OptionError(f"{run.output}: with --robust a page (.html) or everything (.json) is written")
    instance = load(run.files[0], run.allow_outside, run.changes())
    analysis = robust(
        instance,
        solver,
        options,
        lambda name: working(f"{instance.name}, {name} end: {solver}", options, run.quiet),
    )
    if run.output is None:
        _print_regret(analysis, run.format)
    else:
        write_text(run.output, REGRET_ENDINGS[ending](analysis))
        if not run.quiet:
            say(f"{analysis.headline()} Written: {run.output}")
    return worst(code_of_result(end.result) for end in analysis.ends)


def _print_regret(analysis: Robust, format: str) -> None:
    if format == "json":
        typer.echo(analysis.to_json())
    elif format == "csv":
        titles = [title for title, _, _ in REGRET_COLUMNS]
        typer.echo(csv_text(titles, cells_of(REGRET_COLUMNS, analysis.regrets)), nl=False)
    else:
        out = console()
        out.print(analysis.headline(), markup=False)
        out.print("")
        out.print(table_of(REGRET_COLUMNS, analysis.regrets))
        for line in analysis.sentences():
            out.print(line, markup=False)
