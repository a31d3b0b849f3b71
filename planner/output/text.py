"""How results are shown: tables for people, JSON lines and CSV for programs."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from rich.box import SIMPLE_HEAD
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from ...instances.common.printable import visible
from .terminal import below

MOST_ROWS = 60

ItemT = TypeVar("ItemT")
TextColumn = tuple[str, bool, Callable[[ItemT], str]]
"""Title of a column, whether it holds numbers, and the cell of an item."""


class VisibleConsole(Console):
    """A console that writes unprintable characters as escapes."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Yield the segments with their text escaped; control segments of rich itself stay."""
        for segment in super().render(renderable, options):
            text = segment.text if segment.control else visible(segment.text)
            yield segment if text == segment.text else Segment(text, segment.style)


def console(stderr: bool = False) -> VisibleConsole:
    """Return a console that does not cut lines where the output is not a terminal."""
    stream = below(sys.stderr if stderr else sys.stdout)
    width = None if stream.isatty() else 200
    return VisibleConsole(file=stream, width=width, highlight=False, emoji=False)


def figure(value: float | None, digits: int = 7) -> str:
    """Return a number for people; an unknown one is a dash."""
    if value is None:
        return "–"
    if value == int(value) and abs(value) < 1e12:
        return f"{int(value):,}"
    if not 1e-3 <= abs(value) < 1e12:
        return f"{value:.4g}"
    return f"{value:,.{max(0, digits - len(str(int(abs(value)))))}f}"


def percent(value: float | None) -> str:
    """Return a gap in per cent; a proven one is 0."""
    if value is None:
        return "–"
    if value == 0:
        return "0 %"
    return f"{100 * value:.2f} %" if value >= 5e-5 else f"{100 * value:.0e} %"


def table(columns: Sequence[tuple[str, bool]], rows: Iterable[Sequence[str]]) -> Table:
    """Return a table of plain text; a column is (title, whether it holds numbers)."""
    made = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="bold")
    for title, numeric in columns:
        made.add_column(Text(title), justify="right" if numeric else "left", no_wrap=numeric, overflow="fold")
    for row in rows:
        made.add_row(*map(Text, row))
    return made


def cells_of(columns: Sequence[TextColumn[ItemT]], items: Iterable[ItemT]) -> list[list[str]]:
    """Return the cells of each item."""
    return [[cell(item) for _, _, cell in columns] for item in items]


def table_of(columns: Sequence[TextColumn[ItemT]], items: Iterable[ItemT]) -> Table:
    """Return a table of plain text with a row for each item."""
    return table([(title, numeric) for title, numeric, _ in columns], cells_of(columns, items))


def first_rows(columns: Sequence[TextColumn[ItemT]], items: Sequence[ItemT]) -> Table:
    """Return a table of the first `MOST_ROWS` items, which says how many more there are."""
    made = table_of(columns, items[:MOST_ROWS])
    if len(items) > MOST_ROWS:
        made.caption = f"{len(items) - MOST_ROWS} more; see --format json"
    return made


def safe_cell(value: Any) -> Any:
    """Return a CSV cell that no spreadsheet takes for a formula, and no terminal for a command."""
    if not isinstance(value, str):
        return value
    return visible(f"'{value}" if value[:1] in ("=", "+", "-", "@", "\t", "\r") else value)


def csv_line(cells: Sequence[Any]) -> str:
    """Return one line of CSV without its end."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\r\n").writerow(cells)  # cells with either character are quoted
    return text.getvalue().removesuffix("\r\n")


def csv_text(titles: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return a table as CSV, its cells made safe."""
    lines = [csv_line(titles), *(csv_line([safe_cell(cell) for cell in row]) for row in rows)]
    return "\n".join(lines) + "\n"
