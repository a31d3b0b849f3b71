"""Tables of a report: columns, and cells with the value by which they are sorted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ..output.text import percent
from .text import duration, short


@dataclass(frozen=True)
class Column:
    """A column; one of numbers is aligned to the right and sorted by value.

    Attributes
    ----------
    note
        What the title means, in a few words.
    wide
        Whether it holds sentences.
    """

    title: str
    numeric: bool = False
    note: str | None = None
    wide: bool = False


@dataclass(frozen=True)
class Cell:
    """What a cell shows.

    Attributes
    ----------
    value
        What it is sorted by in a column of numbers; None is unknown, and comes last.
    mark
        Class of the cell's style, such as `good` or `bad`.
    swatch
        Number of the colour that stands before the text.
    share
        Length of a bar behind the text, at most 1.
    """

    text: str
    value: float | None = None
    mark: str = ""
    swatch: int | None = None
    share: float | None = None


@dataclass(frozen=True)
class Table:
    """A table with a caption; the first column names the row.

    Attributes
    ----------
    id
        Unique on the page.
    filter
        What may be typed to see only some rows; None where there is nothing to filter.
    """

    id: str
    caption: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    sortable: bool = True
    filter: str | None = None
    footnotes: Sequence[str] = field(default=())


ItemT = TypeVar("ItemT")
CellColumn = tuple[Column, Callable[[ItemT], Cell]]
"""A column, and its cell in the row of an item."""


def table_of(
    id: str, caption: str, items: Iterable[ItemT], columns: Sequence[CellColumn[ItemT]], **more: Any
) -> Table:
    """Return a table with a row for each item.

    Parameters
    ----------
    more
        Further fields of the table.
    """
    rows = [[cell(item) for _, cell in columns] for item in items]
    return Table(id, caption, [column for column, _ in columns], rows, **more)


def number(value: float | None, digits: int = 6) -> Cell:
    """Return the cell of a number."""
    return Cell(short(value, digits), value)


def share(value: float | None) -> Cell:
    """Return the cell of a gap, in per cent."""
    return Cell(percent(value), value)


def seconds(value: float | None) -> Cell:
    """Return the cell of a duration."""
    return Cell(duration(value), value)


def text(value: str | None, mark: str = "") -> Cell:
    """Return the cell of a text; none is a dash."""
    return Cell(value or "–", mark=mark)
