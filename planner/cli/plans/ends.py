"""The work of `solve --robust`: one instance at the ends of its intervals."""

from __future__ import annotations

from collections.abc import Callable

import typer

from ....instances.common.errors import OptionError
from ....instances.documents import load
from ....solvers.common.options import SolveOptions
from ...exit_codes import code_of_result, worst
from ...output.terminal import say
from ...output.text import cells_of, console, csv_text, table_of
from ...reports.robust_page import robust_page
from ...robust import COLUMNS, Robust, robust
from ..common import RunOptions, write_text
from ..progress import working

ENDINGS: dict[str, Callable[[Robust], str]] = {
    ".html": robust_page,
    ".json": lambda found: found.to_json() + "\n",
}
"""What is written to a file of this ending."""


def plan_at_ends(run: RunOptions, as_batch: bool, solver: str, options: SolveOptions) -> int:
    """Solve one file at the ends of its intervals, show the regrets and return the exit code."""
    if len(run.files) != 1 or as_batch or run.what_if:
        raise OptionError("--robust takes one file, without --what-if and the options of a batch")
    ending = run.output.suffix.lower() if run.output is not None else ".json"
    if ending not in ENDINGS:
        raise OptionError(f"{run.output}: with --robust a page (.html) or everything (.json) is written")
    instance = load(run.files[0], run.allow_outside, run.changes())
    found = robust(
        instance,
        solver,
        options,
        lambda name: working(f"{instance.name}, {name} end: {solver}", options, run.quiet),
    )
    if run.output is None:
        _print(found, run.format)
    else:
        write_text(run.output, ENDINGS[ending](found))
        if not run.quiet:
            say(f"{found.headline()} Written: {run.output}")
    return worst(code_of_result(end.result) for end in found.ends)


def _print(found: Robust, format: str) -> None:
    if format == "json":
        typer.echo(found.to_json())
    elif format == "csv":
        titles = [title for title, _, _ in COLUMNS]
        typer.echo(csv_text(titles, cells_of(COLUMNS, found.regrets)), nl=False)
    else:
        out = console()
        out.print(found.headline(), markup=False)
        out.print("")
        out.print(table_of(COLUMNS, found.regrets))
        for line in found.sentences():
            out.print(line, markup=False)
