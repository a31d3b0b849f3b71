"""A frontier as Markdown, for a repository or a merge request."""

from __future__ import annotations

from ...solvers.common.frontier import AnyFrontier
from ..output.text import figure
from ..pareto import shown
from .comparison.markdown import escaped


def frontier_markdown(frontier: AnyFrontier) -> str:
    """Return the points, thinned where they are many, and what is proven of them."""
    titles, rows, numeric = _cells(frontier)
    lines = [f"# Frontier of {escaped(frontier.instance)}", ""]
    if rows:
        lines += [_line(titles), _line(["---:" if right else "---" for right in numeric])]
        lines += [_line(row) for row in rows] + [""]
    lines += [f"- {escaped(line)}" for line in shown(frontier)[1]]
    lines += ["", f"Found in {figure(frontier.runtime_s, 3)} s, {frontier.status}."]
    return "\n".join(lines) + "\n"


def _cells(frontier: AnyFrontier) -> tuple[list[str], list[list[str]], list[bool]]:
    """Return titles, rows, and which columns hold numbers, of the table that people see."""
    table = shown(frontier)[0]
    numeric = [column.justify == "right" for column in table.columns]
    columns = [
        [str(cell) if right else escaped(str(cell)) for cell in column.cells]
        for column, right in zip(table.columns, numeric, strict=True)
    ]
    titles = [escaped(str(column.header)) for column in table.columns]
    return titles, [list(row) for row in zip(*columns, strict=True)], numeric


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"
