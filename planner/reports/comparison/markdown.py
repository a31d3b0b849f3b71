"""A comparison as Markdown, for a repository or a merge request."""

from __future__ import annotations

from ...comparison.comparison import Comparison
from ..markdown import escaped, table_lines
from ..tables import Table
from .measures import measures_table
from .page import results_tables, summary_table, title


def comparison_markdown(comparison: Comparison) -> str:
    """Return the summary and the table of a comparison."""
    parts = [f"# {title(comparison)}"]
    if comparison.interrupted:
        parts.append("**Interrupted: some pairs are missing.**")
    parts += [escaped(said) for said in comparison.advice]
    measures = measures_table(comparison)
    tables = [summary_table(comparison), *([measures] if measures else []), *results_tables(comparison)]
    parts += [_table(table) for table in tables]
    if comparison.faults:
        parts.append("Left out:")
        parts.append("\n".join(f"- {escaped(fault)}" for fault in comparison.faults))
    return "\n\n".join(parts) + "\n"


def _table(table: Table) -> str:
    columns = [(column.title, column.numeric) for column in table.columns]
    return "\n".join(table_lines(columns, ([cell.text for cell in row] for row in table.rows)))
