"""The command `diff`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from ....instances.common.base import Instance
from ....instances.common.errors import OptionError
from ....solvers.common.result import Result
from ...changes import CHANGE_COLUMNS, Changes, place_columns
from ...exit_codes import NOT_VERIFIED, code_of_result
from ...export_plan import verified_result
from ...output.terminal import say
from ...output.text import cells_of, console, csv_text, first_rows
from ...registry import KINDS
from ...verification.stored import read_results
from ..common import AllowOutside, Format, HowToPrint, InstanceFile
from ..moves import DeviceMoves
from .solved_instance import solved_instance


def diff(
    instance_file: InstanceFile,
    results: Annotated[
        list[Path],
        typer.Argument(
            metavar="[BEFORE] RESULT", help="The result; before it one to compare with, else what runs now."
        ),
    ],
    format: HowToPrint = "table",
    allow_outside: AllowOutside = False,
    device_moves: DeviceMoves = False,
) -> None:
    """Show what a plan changes, against what runs now or against another plan.

    Both plans are verified first. JSON holds everything, CSV a line for each job or stage that changes.
    """
    if len(results) > 2:
        raise OptionError(f"diff takes one result or two, not {len(results)}")
    stored = [read_results(file) for file in results]
    instance = solved_instance(instance_file, allow_outside, device_moves, stored[-1])
    compare = KINDS[instance.kind].changes
    if compare is None:
        raise OptionError(f"diff does not know what a plan of {instance.kind} changes")
    plans = [_verified(instance, *each).plan for each in zip(stored, results, strict=True)]
    before = plans[0] if len(plans) > 1 else None
    _print(compare(instance, before, plans[-1] or ()), format)


def _verified(instance: Instance, stored: list[dict[str, Any]], file: Path) -> Result:
    """Return a result with a plan; leave where it has none, or is wrong."""
    result, checked = verified_result(instance, stored, str(file))
    if result is None:
        say(f"{file}: verification failed, so its plan is not compared")
        for fault in checked.faults:
            say(f"  wrong: {fault}")
        raise typer.Exit(NOT_VERIFIED)
    if result.plan is None:
        say(f"{file}: holds no plan: {result.status}")
        raise typer.Exit(code_of_result(result))
    return result


def _print(found: Changes, format: Format) -> None:
    titles = [found.unit, *(title for title, _, _ in CHANGE_COLUMNS[1:])]
    if format == "json":
        typer.echo(json.dumps({"headline": found.headline(), **found.as_data()}, ensure_ascii=False))
    elif format == "csv":
        typer.echo(csv_text(titles, cells_of(CHANGE_COLUMNS, found.changes)), nl=False)
    else:
        out = console()
        for line in (found.headline(), *found.sentences()):
            out.print(line, markup=False)
        columns = [(title, *column[1:]) for title, column in zip(titles, CHANGE_COLUMNS, strict=True)]
        if found.changes:
            out.print("")
            out.print(first_rows(columns, found.changes))
        if found.places:
            out.print("")
            out.print(first_rows(place_columns(found.place), found.places))
