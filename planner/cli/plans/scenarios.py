"""The work of `solve --what-if`: one instance as it is, and with the changes of each scenario."""

from __future__ import annotations

from collections.abc import Callable

import typer

from ....instances.common.errors import OptionError
from ....instances.documents import load
from ....solvers.common.options import SolveOptions
from ...exit_codes import code_of_result, worst
from ...output.terminal import say
from ...output.text import cells_of, console, csv_text, table_of
from ...reports.what_if_page import what_if_page
from ...what_if import COLUMNS, WhatIf, what_if
from ..common import RunOptions, write_text
from ..progress import working

ENDINGS: dict[str, Callable[[WhatIf], str]] = {
    ".html": what_if_page,
    ".json": lambda found: found.to_json() + "\n",
}
"""What is written to a file of this ending."""


def compare_scenarios(run: RunOptions, as_batch: bool, solver: str, options: SolveOptions) -> int:
    """Solve the scenarios of one file, show the comparison and return the exit code."""
    if len(run.files) != 1 or as_batch:
        raise OptionError("--what-if compares scenarios of one file, without the options of a batch")
    ending = run.output.suffix.lower() if run.output is not None else ".json"
    if ending not in ENDINGS:
        raise OptionError(f"{run.output}: with --what-if a page (.html) or everything (.json) is written")
    instance = load(run.files[0], run.allow_outside, run.changes())
    found = what_if(
        instance,
        run.what_if or (),
        solver,
        options,
        lambda name: working(f"{instance.name}, {name}: {solver}", options, run.quiet),
    )
    if run.output is None:
        _print(found, run.format)
    else:
        write_text(run.output, ENDINGS[ending](found))
        if not run.quiet:
            say(f"{found.headline()} Written: {run.output}")
    return worst(code_of_result(scenario.result) for scenario in found.all())


def _print(found: WhatIf, format: str) -> None:
    if format == "json":
        typer.echo(found.to_json())
    elif format == "csv":
        titles = [title for title, _, _ in COLUMNS]
        typer.echo(csv_text(titles, cells_of(COLUMNS, found.rows())), nl=False)
    else:
        out = console()
        out.print(found.headline(), markup=False)
        out.print("")
        out.print(table_of(COLUMNS, found.rows()))
        for line in found.sentences():
            out.print(line, markup=False)
