"""Library calls that return pages, plots and exported plans of verified results and frontiers.

Plans are exported as JSON, options of Slurm, node affinity of Kubernetes, or scripts. Only a plan that
passes `verify` is written. Names come from untrusted documents: they are quoted where the format can
quote them, and refused where it cannot hold them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..instances.common.base import Instance
from ..instances.common.errors import OptionError
from ..solvers.common.result import AnyFrontier, Result
from .findings import Verification
from .output import grouped, some_lines, write_file
from .registry import KINDS, formats, frontier_kinds
from .reports.page import HERE, check_same
from .reports.plot_style import Figure
from .reports.result_page import frontier_page, plan_page
from .reports.text import listed
from .stored_results import (
    verify_frontier,
)
from .verification import verify

NAMED = 6
"""Most jobs named that are left out for the same reason."""
HEAD = ("instance", "kind", "instance_sha256", "plan_sha256", "status")
"""Fields at the head of a plan exported as JSON."""


def plan_text(
    instance: Instance,
    result: Result,
    format: str,
    every: bool = False,
    checked: Verification | None = None,
) -> str:
    """Return a plan as text in an export format.

    Parameters
    ----------
    instance, result
        The instance, and its result with a plan.
    format
        `json`, or one of the kind's export formats.
    every
        Whether formats other than `json` contain every placed job, not only those to start or to move.
    checked
        Verification of the result; its unconfirmed claims are written where the format allows it.

    Raises
    ------
    InstanceError
        If the format cannot hold a name.
    OptionError
        If the result has no plan, or the format is not for its kind.
    """
    if result.plan is None:
        raise OptionError(f"{result.instance}: the result has no plan to export; it is {result.status}")
    if format == "json":
        head = {name: getattr(result, name) for name in HEAD}
        data = {**head, **KINDS[instance.kind].as_data(instance, result.plan)}
        if checked is not None:
            data |= {"complete": checked.complete, "claimed": list(checked.claimed)}
        return json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    kind = KINDS[instance.kind]
    if format not in kind.formats:
        able = " and ".join(name for name, other in KINDS.items() if format in other.formats)
        if not able:
            raise OptionError(f"no format {format!r}; there are: {', '.join(formats())}")
        raise OptionError(
            f"--format {format} is for plans of {able}; a plan of {result.kind} is exported as "
            + listed(["json", *kind.formats])
        )
    written = kind.formats[format]
    entries = result.plan if written.whole else kind.to_carry_out(result.plan, every)
    lines = list(written.lines(instance, entries))
    if checked is not None and written.comment is not None:
        lines = [*(f"{written.comment}ONLY CLAIMED: {_plain(line)}" for line in checked.claimed), *lines]
    return "".join(line + "\n" for line in lines)


def _plain(text: str) -> str:
    """Return text without line breaks and control characters, which are written as escapes."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def notes(instance: Instance, result: Result, format: str, every: bool = False) -> Iterator[str]:
    """Yield notes on an exported plan: jobs that keep running, stop, move or are left out."""
    kind, plan = KINDS[instance.kind], result.plan or ()
    yield from kind.actions(instance, plan)
    written = kind.formats.get(format)
    if written is not None:
        yield from written.notes(instance, plan if written.whole else kind.to_carry_out(plan, every))
    by_reason = grouped((reason, job) for job, reason in kind.left_out(instance, plan))
    out = [f"not placed: {_jobs(jobs)}: {reason}" for reason, jobs in by_reason.items()]
    yield from some_lines(out, "not placed: jobs for {:,} more reasons; the result says which")


def _jobs(names: list[str]) -> str:
    """Return the names of a few jobs as text, with the number of jobs if there are several."""
    return names[0] if len(names) == 1 else f"{len(names):,} jobs ({listed(names, NAMED)})"


_TOKEN = re.compile(r"@([a-z0-9]+)(?:/([0-9.]+))?")


def report(instance: Instance, found: Result | AnyFrontier, path: str | Path | None = None) -> str:
    """Return the report of a result or frontier as one HTML page without external files.

    Parameters
    ----------
    instance, found
        The instance, and its result or frontier, which is verified first.
    path
        Where to write the page as well.

    Raises
    ------
    OptionError
        If it is of another instance, does not pass the check, or the file cannot be written.
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
        The instance, and its result or frontier; some plans have no plots.

    Raises
    ------
    OptionError
        If it is of another instance.
    """
    check_same(instance, found.instance_sha256, "the result")
    if isinstance(found, Result):
        figures = KINDS[instance.kind].page(instance, found)["data"]["figures"] if found.plan else {}
    else:
        figures = (
            {"frontier": frontier_kinds()[instance.kind].page(instance, found).figure()[0]}
            if found.points
            else {}
        )
    colours = _light_theme()
    return {name: _coloured(figure, "", colours) for name, figure in figures.items()}


def _light_theme() -> dict[str, str]:
    """Return the colours of the page's light theme, by name."""
    style = (HERE / "assets" / "page.css").read_text(encoding="utf-8")
    return dict(re.findall(r"--([a-z0-9]+):\s*(#[0-9a-f]{6})", style[: style.index("@media")]))


def _coloured(value: Any, key: str, colours: dict[str, str]) -> Any:
    """Return plot data with colour names replaced by colour values; other strings stay unchanged."""
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
    """Verify a plan and return it as text in an export format.

    Parameters
    ----------
    instance, result
        The instance, and its result with a plan.
    format
        `json`, or one of the kind's export formats, as the command `export-plan` lists them.
    every
        Whether formats other than `json` contain every placed job, not only those to start or to move.

    Raises
    ------
    InstanceError
        If the format cannot hold a name.
    OptionError
        If the result has no plan, does not pass the check, or the format is not for its kind.
    """
    checked = _checked(verify(instance, result)) if result.plan is not None else None
    return plan_text(instance, result, format, every, checked)
