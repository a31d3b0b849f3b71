"""What a frontier is written to: a page, a table for people, one for programs, and everything."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ...instances.common.base import Instance
from ...solvers.common.frontier import AnyFrontier
from ...solvers.common.result import Result
from ..output.files import write_all
from ..output.text import csv_text
from ..registry import TRADED
from ..verification.findings import Verification
from .frontier_markdown import frontier_markdown
from .provenance import check_same

MOST_PLAIN = 2_000_000
"""Characters of a document that is not packed."""


def to_csv(frontier: AnyFrontier) -> str:
    """Return the points as CSV."""
    frame = frontier.to_frame()
    return csv_text(list(frame.columns), frame.astype(object).to_numpy().tolist())


def frontier_page(
    instance: Instance,
    frontier: AnyFrontier,
    baselines: Sequence[Result] = (),
    checked: Verification | None = None,
) -> str:
    """Return the page of a frontier.

    Parameters
    ----------
    baselines
        Results of solvers on the same instance, to be seen beside the frontier.
    checked
        What the check of a stored frontier found; the page shows what is only claimed.

    Raises
    ------
    OptionError
        If the frontier or a baseline is of another instance.
    """
    check_same(instance, frontier.instance_sha256, "the frontier")
    for result in baselines:
        check_same(instance, result.instance_sha256, f"the result of {result.solver}")
    return TRADED[instance.kind].page(instance, frontier, baselines).html(checked)


def write(
    instance: Instance, frontier: AnyFrontier, folder: Path, baselines: Sequence[Result] = ()
) -> list[Path]:
    """Write `frontier.html`, `.md`, `.csv` and `.json` into a folder, which is made if it is missing.

    A large document of thousands of plans is `frontier.json.gz` instead, which is read like the plain one.

    Parameters
    ----------
    baselines
        Results of solvers on the same staging instance, to be seen beside the frontier.

    Raises
    ------
    OptionError
        If they cannot be written.
    """
    everything = frontier.to_json() + "\n"
    plain, packed = "frontier.json", "frontier.json.gz"
    name, other = (packed, plain) if len(everything) > MOST_PLAIN else (plain, packed)
    texts = {
        "frontier.html": frontier_page(instance, frontier, baselines),
        "frontier.md": frontier_markdown(frontier),
        "frontier.csv": to_csv(frontier),
        name: everything,
    }
    written = write_all(folder, texts)
    (folder / other).unlink(missing_ok=True)  # of an earlier run, of which the other files are gone
    return written
