"""Progress of many solves on stderr: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as Bar

from ...formulations.common.compiled import compile_listener
from ...formulations.common.objective import Objective
from ...solvers.common.result import SolveOptions
from ...solvers.common.search_control import progress_callback
from ..batch.task import Record
from ..output import say
from ..reports.text import console, figure, percent


class Progress:
    """Shows the progress of a batch: the number of finished solves, and the outcome of each.

    Parameters
    ----------
    quiet
        Show nothing.
    """

    def __init__(self, quiet: bool) -> None:
        self._quiet = quiet
        self._done = self._total = 0
        columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
        self._bar = Bar(
            TextColumn("{task.description}"),
            *columns,
            console=console(stderr=True),
            transient=True,
            disable=quiet or not sys.stderr.isatty(),
        )
        self._task = self._bar.add_task("solving", total=None)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if not self._bar.disable:  # some releases of rich end a bar that was never shown with an empty line
            self._bar.stop()

    def begin(self, finished: int, total: int) -> None:
        """Set the total number of solves, and print how many of them an earlier run has finished."""
        self._total = total
        if finished and not self._quiet:
            say(f"resuming: {finished:,} of {total:,} are finished")
        self._bar.update(self._task, total=total)

    def advance(self, record: Record) -> None:
        """Count one more solve, and show its outcome."""
        self._done += 1
        wrong = record.result is None or record.result.status in ("error", "unknown")
        if not self._bar.disable:
            self._bar.advance(self._task)
            if wrong:
                self._bar.console.print(_line(record))
        elif wrong or not self._quiet:
            say(f"[{self._done:>{len(str(self._total))}}/{self._total}] {_line(record)}")


COMPILING = "compiling its loops, once on a machine"
LONG_S = 2.0
"""What compiling takes at least for a line about it."""


@contextmanager
def working(what: str, options: SolveOptions, quiet: bool) -> Iterator[None]:
    """Show the elapsed time, the time limit and the incumbent of a solve on a terminal while it runs."""
    if quiet:
        yield
        return
    if not sys.stderr.isatty():
        moments: list[float] = []  # when compiling began and ended, in turn
        with compile_listener(lambda _: moments.append(time.perf_counter())):
            yield
        took = sum(moments[1::2]) - sum(moments[::2])
        if took > LONG_S:  # compiled loops that are cached on disk load at once
            say(f"{COMPILING}: {took:.1f} s")
        return
    limit = f"of at most {options.time_limit_s:g} s; " if options.time_limit_s else ""
    nothing = f"{limit}Ctrl-C: the best plan so far"
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        TimeElapsedColumn(),
        TextColumn("{task.fields[found]}", markup=False),
    )
    with Bar(*columns, console=console(stderr=True), transient=True) as shown:
        task = shown.add_task(what, total=None, found=nothing)

        status = nothing

        def show(objective: Objective, value: float | None, bound: float | None) -> None:
            nonlocal status
            status = limit + _incumbent_text(objective, value, bound)
            shown.update(task, found=status)

        def compiles(now: bool) -> None:
            shown.update(task, found=f"{limit}{COMPILING}" if now else status)

        with progress_callback(show), compile_listener(compiles):
            yield


def _incumbent_text(objective: Objective, value: float | None, bound: float | None) -> str:
    """Return the incumbent's objective value and gap as text; without an incumbent, the bound."""
    if value is None:
        return f"{objective.name}: no plan yet, bound {figure(bound)}"
    gap = objective.gap(value, bound)
    return f"{objective.name} {figure(value)}{'' if gap is None else f', gap {percent(gap)}'}"


def _line(record: Record) -> str:
    """Return the outcome of a solve as one line of text: status, objectives, gap and seconds."""
    head = f"{record.source}: {record.solver}"
    result = record.result
    if result is None:
        return f"{head}: {' '.join((record.fault or '').split())}"
    if result.plan is None:
        why = f": {result.message}" if result.message else ""
        return f"{head}: {result.status_text}{why}"
    objective = ", ".join(f"{known.name} {figure(known.value)}" for known in result.objectives)
    return f"{head}: {result.status_text}, {objective}, gap {percent(result.gap)}, {record.seconds:.2f} s"
