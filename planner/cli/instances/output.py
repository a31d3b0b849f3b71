"""Output of the commands that make instances: the document, and the progress of their steps on stderr.

On a terminal a line shows the step that runs; elsewhere there is a line for each step.
"""

from __future__ import annotations

import inspect
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from ....instances.common.base import Instance
from ....instances.common.errors import OptionError
from ....instances.documents import save, to_text, wants_tables
from ...output import say
from ...reports.text import console
from ..options import option

Output = Annotated[Path | None, option("YAML or JSON file to write; YAML on stdout if not given.")]

BY_NAME = inspect.Parameter.KEYWORD_ONLY


def emit(instance: Instance, output: Path | None, table: Literal["parquet", "csv"] | None = None) -> None:
    """Write an instance to a file, or to stdout if there is none.

    Raises
    ------
    OptionError
        If it has too many jobs for stdout.
    """
    if output is None:
        if table is not None:
            raise OptionError("--table needs --output FILE; the table is written beside that file")
        if wants_tables(instance):
            raise OptionError(
                "so many jobs go into a table beside the document, not to stdout; give --output FILE"
            )
        typer.echo(to_text(instance), nl=False)
        return
    save(instance, output, table)
    say(f"{output}: {instance.kind} instance {instance.name!r}")
    for assumption in instance.assumptions:
        say(f"  assumed: {assumption}")


class Steps:
    """Reports on stderr which step of a command runs, and the seconds that each step took.

    Parameters
    ----------
    quiet
        Show nothing.
    """

    def __init__(self, quiet: bool) -> None:
        self.quiet = quiet

    @contextmanager
    def step(self, what: str) -> Iterator[None]:
        """Report that a step runs while the block does; afterwards, the seconds that it took."""
        if self.quiet:
            yield
            return
        begun = time.perf_counter()
        if sys.stderr.isatty():
            columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
            with Progress(*columns, console=console(stderr=True), transient=True) as shown:
                shown.add_task(what, total=None)
                yield
        else:
            say(f"{what} …")
            yield
        self.done(what, time.perf_counter() - begun)

    def done(self, what: str, seconds: float) -> None:
        """Report that a step is done, and the seconds that it took."""
        if not self.quiet:
            say(f"{what}: done in {seconds:.1f} s")
