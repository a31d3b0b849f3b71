"""A frontier as Markdown, for a repository or a merge request."""

from __future__ import annotations

from ...solvers.common.frontier import AnyFrontier
from ..output.text import figure
from ..pareto import shown
from .markdown import escaped, table_lines


def frontier_markdown(frontier: AnyFrontier) -> str:
    """Return the points, thinned where they are many, and the proven error."""
    table, notes = shown(frontier)
    columns = [(str(column.header), column.justify == "right") for column in table.columns]
    rows = list(zip(*([str(cell) for cell in column.cells] for column in table.columns), strict=True))
    lines = [f"# Frontier of {escaped(frontier.instance)}", ""]
    if rows:
        lines += [*table_lines(columns, rows), ""]
    lines += [f"- {escaped(line)}" for line in notes]
    lines += ["", f"Found in {figure(frontier.runtime_s, 3)} s, {frontier.status}."]
    return "\n".join(lines) + "\n"
