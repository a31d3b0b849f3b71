"""Progress of a command of several steps on stderr: a line on a terminal, a line for each step elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from ...output.terminal import say
from ...output.text import console


class Steps:
    """Says which step runs, and how long each has taken.

    Parameters
    ----------
    quiet
        Say nothing.
    """

    def __init__(self, quiet: bool) -> None:
        self.quiet = quiet

    @contextmanager
    def step(self, what: str) -> Iterator[None]:
        """Show that a step runs; when it has ended, how long it took."""
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
        """Say that a step is done, and how long it took."""
        if not self.quiet:
            say(f"{what}: done in {seconds:.1f} s")
