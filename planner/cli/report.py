"""The command `report`: the page of a stored result or frontier."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ...instances.common.base import Instance
from ...instances.common.errors import OptionError
from ..output.files import write_file
from ..output.terminal import say
from ..reports.frontier_files import frontier_page
from ..reports.plan_page import plan_page
from ..verification.findings import Verification
from ..verification.stored import is_frontier, parse_frontier, parse_result, read_results, verify_stored
from .common import AllowOutside
from .moves import DeviceMoves
from .plans.solved_instance import solved_instance


def report(
    instance_file: Annotated[
        str,
        typer.Argument(metavar="INSTANCE", help="The instance that was solved, or example:NAME."),
    ],
    result_file: Annotated[
        Path,
        typer.Argument(metavar="RESULT", help="A stored result or frontier, or the journal of a batch."),
    ],
    output: Annotated[Path, typer.Option(help="HTML file to write.")],
    allow_outside: AllowOutside = False,
    device_moves: DeviceMoves = False,
) -> None:
    """Write a stored result or frontier as one HTML page that opens without a network.

    Of a file with several results it takes the last one of the instance.
    """
    stored = read_results(result_file)
    instance = solved_instance(instance_file, allow_outside, device_moves, stored)
    page, checked = page_of(instance, stored, str(result_file))
    write_file(output, page)
    say(f"written: {output}")
    if not checked.complete:
        say(f"{result_file}: {checked.verdict}; the page says so")


def page_of(instance: Instance, stored: list[dict[str, Any]], source: str) -> tuple[str, Verification]:
    """Return the page of an instance's last result or frontier of those stored, and its verification.

    Raises
    ------
    OptionError
        If none is of this instance.
    """
    own = [data for data in stored if data["instance_sha256"] == instance.sha256()]
    if not own:
        raise OptionError(f"{source}: has no result of {instance.name}, or the instance was changed since")
    last = own[-1]
    checked = verify_stored(instance, last, source)
    if not checked.ok:
        raise OptionError(f"{source}: verification failed, so there is no page: {checked.faults[0]}")
    if is_frontier(last):
        return frontier_page(instance, parse_frontier(last, source), checked=checked), checked
    return plan_page(instance, parse_result(last, source), checked), checked
