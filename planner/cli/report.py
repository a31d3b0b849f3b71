"""The command `report`: the page of a stored result or frontier."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...instances.common.base import Instance
from ...instances.common.errors import OptionError
from ...instances.documents import load
from ..output.files import write_file
from ..output.terminal import say
from ..reports.frontier_files import frontier_page
from ..reports.plan_page import plan_page
from ..verification.findings import Verification
from ..verification.stored import is_frontier, parse_frontier, parse_result, read_results, verify_stored
from .common import AllowOutside, DeviceMoves, changes_of


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
    page, checked = page_of(load(instance_file, allow_outside, changes_of(device_moves)), result_file)
    write_file(output, page)
    say(f"written: {output}")
    if not checked.complete:
        say(f"{result_file}: {checked.verdict}; the page says so")


def page_of(instance: Instance, path: Path) -> tuple[str, Verification]:
    """Return the page of an instance's last result or frontier in a file, and its verification.

    Raises
    ------
    OptionError
        If the file has none of this instance.
    """
    own = [data for data in read_results(path) if data["instance_sha256"] == instance.sha256()]
    if not own:
        raise OptionError(f"{path}: has no result of {instance.name}, or the instance was changed since")
    last = own[-1]
    checked = verify_stored(instance, last, str(path))
    if not checked.ok:
        raise OptionError(f"{path}: verification failed, so there is no page: {checked.faults[0]}")
    if is_frontier(last):
        return frontier_page(instance, parse_frontier(last, str(path)), checked=checked), checked
    return plan_page(instance, parse_result(last, str(path)), checked), checked
