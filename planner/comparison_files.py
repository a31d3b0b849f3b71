"""What a comparison is written to: a page, a table for people, one for programs, and everything."""

from __future__ import annotations

from pathlib import Path

from ..instances.errors import OptionError
from .comparison import Comparison, ComparisonRow
from .output import csv_line, safe_cell


def to_csv(comparison: Comparison) -> str:
    """Return one line for each row."""
    titles = list(ComparisonRow.model_fields)
    lines = [csv_line(titles)]
    for row in comparison.rows:
        data = row.model_dump()
        lines.append(csv_line([safe_cell(data[title]) for title in titles]))
    return "\n".join(lines) + "\n"


def write(comparison: Comparison, folder: Path) -> list[Path]:
    """Write `comparison.html`, `.md`, `.csv` and `.json` into a folder, which is made if it is missing.

    Raises
    ------
    OptionError
        If they cannot be written.
    """
    from .reports.comparison_page import comparison_page
    from .reports.comparison_markdown import comparison_markdown

    texts = {
        "html": comparison_page(comparison),
        "md": comparison_markdown(comparison),
        "csv": to_csv(comparison),
        "json": comparison.to_json() + "\n",
    }
    paths = [folder / f"comparison.{ending}" for ending in texts]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, text in zip(paths, texts.values(), strict=True):
            path.write_text(text, encoding="utf-8")
    except OSError as error:
        where = error.filename or folder
        raise OptionError(f"{where}: cannot be written: {error.strerror or error}") from None
    return paths
