"""What a frontier is written to: a page, a table for people, one for programs, and everything."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ...instances.common.base import Instance
from ...solvers.common.result import Result
from ..frontier.pareto import AnyFrontier
from ..output.files import write_all
from ..output.text import csv_line, safe_cell


def rows(frontier: AnyFrontier) -> tuple[list[str], list[list[Any]]]:
    """Return titles and rows of a table with one line for each point."""
    frame = frontier.to_frame()
    return list(frame.columns), frame.astype(object).to_numpy().tolist()


def to_csv(frontier: AnyFrontier) -> str:
    """Return the points as CSV."""
    titles, cells = rows(frontier)
    lines = [csv_line(titles), *(csv_line([safe_cell(cell) for cell in row]) for row in cells)]
    return "\n".join(lines) + "\n"


def write(
    instance: Instance, frontier: AnyFrontier, folder: Path, baselines: Sequence[Result] = ()
) -> list[Path]:
    """Write `frontier.html`, `.md`, `.csv` and `.json` into a folder, which is made if it is missing.

    Parameters
    ----------
    baselines
        Results of solvers on the same staging instance, to be seen beside the frontier.

    Raises
    ------
    OptionError
        If they cannot be written.
    """
    from ..staging.frontier_page import frontier_page
    from .frontier_markdown import frontier_markdown

    texts = {
        "frontier.html": frontier_page(instance, frontier, baselines),
        "frontier.md": frontier_markdown(frontier),
        "frontier.csv": to_csv(frontier),
        "frontier.json": frontier.to_json() + "\n",
    }
    return write_all(folder, texts)
