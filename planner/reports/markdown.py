"""Markdown, for a repository or a merge request."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

SPECIAL = re.compile(r"([\\`*_\[\]#|~$]|^[-+=]|(?<=^\d)[.)])")


def escaped(text: str) -> str:
    """Return text that Markdown shows literally, in one line."""
    plain = " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return SPECIAL.sub(r"\\\1", plain)


def table_lines(columns: Sequence[tuple[str, bool]], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a table; a column is (title, whether it holds numbers)."""
    yield _line(escaped(title) for title, _ in columns)
    yield _line("---:" if numeric else "---" for _, numeric in columns)
    for row in rows:
        # Figures are made here and need no escape; what is in text columns may come from anywhere.
        yield _line(
            cell if numeric else escaped(cell) for cell, (_, numeric) in zip(row, columns, strict=True)
        )


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
