"""What is made of answers, as calls: the page of a plan or frontier, its plots, and orders to carry out."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from ..instances.common.base import Instance
from ..instances.common.errors import OptionError
from ..solvers.common.frontier import AnyFrontier
from ..solvers.common.result import Result
from .export_plan import export_plan as write_plan
from .output.files import write_file
from .registry import KINDS, TRADED
from .reports.frontier_files import frontier_page
from .reports.page import HERE
from .reports.plan_page import plan_page
from .reports.plot_style import Figure
from .reports.provenance import check_same
from .verification.findings import Verification
from .verification.result import verify
from .verification.stored import verify_frontier

_TOKEN = re.compile(r"@([a-z0-9]+)(?:/([0-9.]+))?")


def report(instance: Instance, found: Result | AnyFrontier, path: str | Path | None = None) -> str:
    """Return the page of a result or frontier, one HTML file that opens without a network.

    Parameters
    ----------
    instance, found
        What was solved, and the answer; it is verified first.
    path
        Where to write the page as well.

    Raises
    ------
    OptionError
        If the answer is of another instance, does not pass the check, or the file cannot be written.
    """
    if isinstance(found, Result):
        check_same(instance, found.instance_sha256, "the result")
        # Without a plan the page says why there is none.
        page = plan_page(
            instance, found, _checked(verify(instance, found)) if found.plan is not None else None
        )
    else:
        check_same(instance, found.instance_sha256, "the frontier")
        page = frontier_page(instance, found, checked=_checked(verify_frontier(instance, found)))
    if path is not None:
        write_file(Path(path), page)
    return page


def _checked(verification: Verification) -> Verification:
    if not verification.ok:
        raise OptionError(f"{verification.instance}: verification failed: {verification.faults[0]}")
    return verification


def plot(instance: Instance, found: Result | AnyFrontier) -> dict[str, Figure]:
    """Return the plots of a page by name, each as plain data: ``plotly.graph_objects.Figure(plots[name])``.

    Parameters
    ----------
    instance, found
        What was solved, and the answer. A plan without a plot of its own has none here.

    Raises
    ------
    OptionError
        If the answer is of another instance.
    """
    check_same(instance, found.instance_sha256, "the result")
    if isinstance(found, Result):
        figures = KINDS[instance.kind].page(instance, found)["data"]["figures"] if found.plan else {}
    else:
        figures = (
            {"frontier": TRADED[instance.kind].page(instance, found).figure()[0]} if found.points else {}
        )
    colours = _light_theme()
    return {name: _coloured(figure, "", colours) for name, figure in figures.items()}


def _light_theme() -> dict[str, str]:
    """Return the colours of the page's light theme, by name."""
    style = (HERE / "assets" / "page.css").read_text(encoding="utf-8")
    return dict(re.findall(r"--([a-z0-9]+):\s*(#[0-9a-f]{6})", style[: style.index("@media")]))


def _coloured(value: Any, key: str, colours: dict[str, str]) -> Any:
    """Return plain data with colours in place of their names; other texts may be names in an instance."""
    if isinstance(value, dict):
        return {name: _coloured(item, name, colours) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_coloured(item, key, colours) for item in value]
    match = _TOKEN.fullmatch(value) if isinstance(value, str) and "color" in key else None
    if match is None or match[1] not in colours:
        return value
    plain = colours[match[1]]
    if match[2] is None:
        return plain
    red, green, blue = (int(plain[at : at + 2], 16) for at in (1, 3, 5))
    return f"rgba({red},{green},{blue},{match[2]})"


def export_plan(instance: Instance, result: Result, format: str = "json", every: bool = False) -> str:
    """Return a plan as text for those who carry it out; it is verified first.

    Parameters
    ----------
    instance, result
        What was solved, and its result with a plan.
    format
        `json`, or one of the forms that the kind has, as the command `export-plan` lists them.
    every
        Where jobs run already, other forms than `json` hold those to start and to move; with this every job
        that is placed.

    Raises
    ------
    InstanceError
        If the format cannot hold a name.
    OptionError
        If the result has no plan, does not pass the check, or the format is not for its kind.
    """
    checked = _checked(verify(instance, result)) if result.plan is not None else None
    return write_plan(instance, result, format, every, checked)
