"""A comparison as Markdown, for a repository or a merge request."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..tables import Cell, Table
from .page import results_table, summary_table, title

if TYPE_CHECKING:
    from ...comparison.comparison import Comparison

SPECIAL = re.compile(r"([\\`*_\[\]#|~$]|^[-+=]|(?<=^\d)[.)])")


def comparison_markdown(comparison: Comparison) -> str:
    """Return the summary and the table of a comparison."""
    parts = [f"# {title(comparison)}"]
    if comparison.interrupted:
        parts.append("**Interrupted: some pairs are missing.**")
    parts += [_table(summary_table(comparison)), _table(results_table(comparison))]
    if comparison.faults:
        parts.append("Left out:")
        parts.append("\n".join(f"- {escaped(fault)}" for fault in comparison.faults))
    return "\n\n".join(parts) + "\n"


def escaped(text: str) -> str:
    """Return text that Markdown shows literally, in one line."""
    plain = " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return SPECIAL.sub(r"\\\1", plain)


def _table(table: Table) -> str:
    titles = [escaped(column.title) for column in table.columns]
    lines = [_line(titles), _line(["---:" if column.numeric else "---" for column in table.columns])]
    lines += [_line(_cells(table, row)) for row in table.rows]
    return "\n".join(lines)


def _cells(table: Table, row: Sequence[Cell]) -> list[str]:
    # Figures are made here and need no escape; what is in text columns may come from anywhere.
    return [
        cell.text if column.numeric else escaped(cell.text)
        for cell, column in zip(row, table.columns, strict=True)
    ]


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
