"""Figures, durations, counts and tables as text: for terminals, CSV and Markdown."""

from __future__ import annotations

import csv
import io
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Any, TypeVar

from rich.box import SIMPLE_HEAD
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from ...instances.common.errors import visible
from ...solvers.common.result import ObjectiveRecord, status_with_limit
from ..output import unwrapped_stream

MAX_ROWS = 60

ItemT = TypeVar("ItemT")
TextColumn = tuple[str, bool, Callable[[ItemT], str]]
"""Title of a column, whether it is numeric, and the function that returns its cell for an item."""
Field = str | Callable[[ItemT], Any]
"""An attribute of an item by its name, such as `objective.value`, or a function that returns its value."""


class VisibleConsole(Console):
    """A console that writes unprintable characters as escapes."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Yield the segments with their text escaped; control segments of rich itself stay."""
        for segment in super().render(renderable, options):
            text = segment.text if segment.control else visible(segment.text)
            yield segment if text == segment.text else Segment(text, segment.style)


def console(stderr: bool = False) -> VisibleConsole:
    """Return a console that takes texts as they are, and cuts no lines where the output is no terminal."""
    stream = unwrapped_stream(sys.stderr if stderr else sys.stdout)
    width = None if stream.isatty() else 200
    return VisibleConsole(file=stream, width=width, markup=False, highlight=False, emoji=False)


def figure(value: float | None, digits: int = 7) -> str:
    """Return a number as text, with a dash for an unknown one."""
    if value is None:
        return "–"
    if value == int(value) and abs(value) < 1e12:
        return f"{int(value):,}"
    if not 1e-3 <= abs(value) < 1e12:
        return f"{value:.4g}"
    return f"{value:,.{max(0, digits - len(str(int(abs(value)))))}f}"


def percent(value: float | None) -> str:
    """Return a share or gap in per cent as text, with a dash for an unknown one."""
    if value is None:
        return "–"
    if value == 0:
        return "0 %"
    return f"{100 * value:.2f} %" if value >= 5e-5 else f"{100 * value:.0e} %"


def value_of(field: Field[ItemT]) -> Callable[[ItemT], Any]:
    """Return the function that returns a field of an item."""
    return attrgetter(field) if isinstance(field, str) else field


def plain_column(title: str, field: Field[ItemT]) -> TextColumn[ItemT]:
    """Return a column of texts, with a dash for a missing one."""
    of = value_of(field)
    return title, False, lambda item: of(item) or "–"


def number_column(
    title: str, field: Field[ItemT], written: Callable[..., str] = figure, **how: Any
) -> TextColumn[ItemT]:
    """Return a column of numbers; `written` returns one as text, with the options `how`."""
    of = value_of(field)
    return title, True, lambda item: written(of(item), **how)


def table(columns: Sequence[tuple[str, bool]], rows: Iterable[Sequence[str]]) -> Table:
    """Return a table of plain text; a column is (title, whether it holds numbers)."""
    made = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="bold")
    for title, numeric in columns:
        made.add_column(Text(title), justify="right" if numeric else "left", no_wrap=numeric, overflow="fold")
    for row in rows:
        made.add_row(*map(Text, row))
    return made


def cells_of(columns: Sequence[TextColumn[ItemT]], items: Iterable[ItemT]) -> list[list[str]]:
    """Return the text cells of a table, with one list for each item."""
    return [[cell(item) for _, _, cell in columns] for item in items]


def table_of(columns: Sequence[TextColumn[ItemT]], items: Iterable[ItemT]) -> Table:
    """Return a table of plain text with a row for each item."""
    return table([(title, numeric) for title, numeric, _ in columns], cells_of(columns, items))


def first_rows(columns: Sequence[TextColumn[ItemT]], items: Sequence[ItemT]) -> Table:
    """Return a table of the first `MAX_ROWS` items, with a caption on how many more there are."""
    made = table_of(columns, items[:MAX_ROWS])
    if len(items) > MAX_ROWS:
        made.caption = f"{len(items) - MAX_ROWS} more; see --format json"
    return made


def safe_cell(value: Any) -> Any:
    """Return a CSV cell escaped against spreadsheet formulas and control characters."""
    if not isinstance(value, str):
        return value
    return visible(f"'{value}" if value[:1] in ("=", "+", "-", "@", "\t", "\r") else value)


def csv_line(cells: Sequence[Any]) -> str:
    """Return one line of CSV without its line ending."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\r\n").writerow(cells)  # cells with either character are quoted
    return text.getvalue().removesuffix("\r\n")


def csv_text(titles: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return a table as CSV, its cells made safe."""
    lines = [csv_line(titles), *(csv_line([safe_cell(cell) for cell in row]) for row in rows)]
    return "\n".join(lines) + "\n"


def csv_of(columns: Sequence[TextColumn[ItemT]], items: Iterable[ItemT]) -> str:
    """Return a table as CSV with a line for each item."""
    return csv_text([title for title, _, _ in columns], cells_of(columns, items))


MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0
STATUS = {
    "optimal": "proven optimal",
    "feasible": "a plan, not proven optimal",
    "infeasible": "proven to have no plan",
    "unknown": "no plan was found",
    "error": "failed",
    "complete": "complete",
    "partial": "stopped before it was complete",
}
MARK = {"optimal": "good", "complete": "good", "infeasible": "bad", "error": "bad"}


def short(value: float | None, digits: int = 6) -> str:
    """Return a number as text without trailing zeros, with a dash for an unknown one."""
    if value is not None and 0 < abs(value) < 1:
        return f"{value:.{digits}g}"
    written = figure(value, digits)
    return written.rstrip("0").rstrip(".") if "." in written and "e" not in written else written


def duration(seconds: float | None) -> str:
    """Return a duration as text in a suitable unit, with a dash for an unknown one."""
    if seconds is None:
        return "–"
    if 0 < seconds < 0.1:
        return f"{1000 * seconds:.3g} ms"
    if seconds < 2 * MINUTE:
        return f"{seconds:.3g} s"
    return in_unit(seconds, unit_of_time(seconds))


def in_unit(seconds: float, unit: tuple[float, str]) -> str:
    """Return a duration as text in a unit, given as its length in seconds and its name."""
    return f"{short(seconds / unit[0], 4)} {unit[1]}"


def unit_of_time(seconds: float) -> tuple[float, str]:
    """Return a suitable unit for a duration: its length in seconds, and its short name."""
    if seconds < 2 * MINUTE:
        return 1.0, "s"
    if seconds < 2 * HOUR:
        return MINUTE, "min"
    return (HOUR, "h") if seconds < 4 * DAY else (DAY, "days")


def status_words(status: str, limit: str) -> str:
    """Return a status as text, with the limit that was hit."""
    return status_with_limit(STATUS[status], status, limit)


def titled(record: ObjectiveRecord) -> str:
    """Return the name of an objective with its unit."""
    return record.name if record.unit == record.name else f"{record.name} [{record.unit}]"


def counted(count: int, one: str, many: str | None = None) -> str:
    """Return a count with its noun in the singular or plural."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def listed(names: list[str], most: int = 8) -> str:
    """Return names separated by commas, with only a number of the last ones if there are many."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more:,} more" if more > 0 else "")


SPECIAL = re.compile(r"([\\`*_\[\]#|~$]|^[-+=]|(?<=^\d)[.)])")


def escaped(text: str) -> str:
    """Return text escaped for Markdown, in one line."""
    plain = " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return SPECIAL.sub(r"\\\1", plain)


def table_lines(columns: Sequence[tuple[str, bool]], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a Markdown table; a column is (title, whether it holds numbers)."""
    yield _line(escaped(title) for title, _ in columns)
    yield _line("---:" if numeric else "---" for _, numeric in columns)
    for row in rows:
        # Figures are made here and need no escape; what is in text columns may come from anywhere.
        yield _line(
            cell if numeric else escaped(cell) for cell, (_, numeric) in zip(row, columns, strict=True)
        )


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
