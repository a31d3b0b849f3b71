"""What a comparison is written to: a page, a table for people, one for programs, and everything."""

from __future__ import annotations

from pathlib import Path

from ...comparison.comparison import Comparison
from ...output.files import write_all
from ...output.text import csv_text
from .markdown import comparison_markdown
from .page import comparison_page


def to_csv(comparison: Comparison) -> str:
    """Return one line for each row."""
    return csv_text(*comparison.as_table())


def write(comparison: Comparison, folder: Path) -> list[Path]:
    """Write `comparison.html`, `.md`, `.csv` and `.json` into a folder, which is made if it is missing.

    Raises
    ------
    OptionError
        If they cannot be written.
    """
    texts = {
        "comparison.html": comparison_page(comparison),
        "comparison.md": comparison_markdown(comparison),
        "comparison.csv": to_csv(comparison),
        "comparison.json": comparison.to_json() + "\n",
    }
    return write_all(folder, texts)
