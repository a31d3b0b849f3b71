"""The rows of CSV tables, and how a row's cells become fields."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from typing import Any

from ..common.errors import Fault, Faults
from ..common.fields import Cell
from .limits import (
    DEEPEST_COLUMN,
    LONGEST_ROW,
    MOST_COLUMNS,
    MOST_SMALL_CELLS,
    MOST_SMALL_ROWS,
)
from .reading import fail


def _place(row: dict[Any, Any], path: list[str], cell: Cell) -> None:
    """Put a cell where its column name, a path such as ``variants.0.speed.theta.2``, says."""
    here: Any = row
    for step in path[:-1]:
        here = here.setdefault(step, {})
        if not isinstance(here, dict):
            raise KeyError(step)
    here[path[-1]] = cell


def _lists(value: Any) -> Any:
    """Turn mappings whose keys are 0, 1, 2, … into lists."""
    if not isinstance(value, dict):
        return value
    if value and set(value) == {str(index) for index in range(len(value))}:
        return [_lists(value[str(index)]) for index in range(len(value))]
    return {key: _lists(item) for key, item in value.items()}


def check_header(header: list[str], source: str, where: str = "line 1") -> None:
    """Make sure that columns have names of their own.

    Raises
    ------
    InstanceError
        If there are too many, one has no name or another one's, or a name leads down too many levels.
    """
    if len(header) > MOST_COLUMNS:
        raise fail(source, f"has {len(header):,} columns; at most {MOST_COLUMNS:,} are read", where)
    if max((name.count(".") for name in header), default=0) > DEEPEST_COLUMN:
        raise fail(source, f"has a column name with more than {DEEPEST_COLUMN} dots", where)
    if len(set(header)) < len(header) or "" in header:
        raise fail(source, "has a column without a name, or two of the same name", where)


def nested_row(
    cells: Iterable[tuple[int, list[str], Any]], source: str, where: str = "line 1", lists: bool = True
) -> dict[str, Any]:
    """Return the filled cells of a row, each with its column's number and path, as a mapping of fields.

    Parameters
    ----------
    lists
        Whether a path may have a number in it, which is a place in a list.

    Raises
    ------
    InstanceError
        If a cell stands where another column has fields.
    """
    row: dict[Any, Any] = {}
    for number, path, cell in cells:
        try:
            _place(row, path, cell)
        except (KeyError, TypeError):
            raise fail(source, f"column {number} clashes with another column", where) from None
    nested: dict[str, Any] = _lists(row) if lists else row
    return nested


class RowLines:
    """The lines of a CSV text, for a reader that may need several for one row.

    Attributes
    ----------
    taken
        Characters that were handed out since somebody set it to 0; more than a row may have are an error.
    """

    def __init__(self, lines: Iterator[str]) -> None:
        self._lines = lines
        self.taken = 0

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = next(self._lines)
        self.taken += len(line)
        if self.taken > LONGEST_ROW:
            raise csv.Error(f"a row has more than {LONGEST_ROW:,} characters, or a quote is never closed")
        return line


def _lines(text: str) -> Iterator[str]:
    start = 0
    while start < len(text):
        end = text.find("\n", start) + 1 or len(text)
        yield text[start:end]
        start = end


def records(lines: Iterator[str], source: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the cells of each row that is not blank, with the number of its last line; the header first.

    Raises
    ------
    InstanceError
        If the text is no CSV, has no rows, a header that is not allowed, or rows of another length.
    """
    guarded = RowLines(lines)
    reader = csv.reader(guarded, strict=True)
    header: list[str] | None = None
    rows = 0
    faults = Faults()
    try:
        for cells in reader:
            guarded.taken = 0
            if not cells:
                continue
            if header is None:
                header = cells
                check_header([name.strip() for name in header], source)
                yield reader.line_num, header
                continue
            rows += 1
            if len(cells) != len(header):
                what = f"has {len(cells):,} cells; the header has {len(header):,}"
                faults.add(Fault(source, f"line {reader.line_num}", what))
                if faults.stop():
                    break
            else:
                yield reader.line_num, cells
    except csv.Error as error:
        raise fail(source, f"is not valid CSV: {error}", f"line {reader.line_num}") from None
    if not rows:
        raise fail(source, "has a header but no rows")
    faults.refuse()


def numbered_rows(text: str, source: str) -> tuple[list[str], list[tuple[int, dict[str, Cell]]]]:
    """Return the columns of a CSV text, and the filled cells of each row with the number of its line.

    Raises
    ------
    InstanceError
        If the table has no rows or too many, a repeated column, or a row of another length.
    """
    if text.count("\n") > MOST_SMALL_ROWS:
        raise fail(source, f"has more than {MOST_SMALL_ROWS:,} lines; split it")
    found = records(_lines(text), source)
    header = [name.strip() for name in next(found)[1]]
    rows = []
    filled = 0
    for number, cells in found:
        row = {name: Cell(cell) for name, text in zip(header, cells, strict=True) if (cell := text.strip())}
        rows.append((number, row))
        filled += len(row)
        if filled > MOST_SMALL_CELLS:
            raise fail(source, f"has more than {MOST_SMALL_CELLS:,} filled cells; split it")
    return header, rows


def parse_table(text: str, source: str) -> list[dict[str, Any]]:
    """Return the rows of a CSV text.

    The first line names the columns; a dot in a name leads into a nested field (``compute_s.V100``), a
    number into a list (``variants.0.name``). An empty cell is a field that is not given.

    Raises
    ------
    InstanceError
        If the table has no rows, a repeated or clashing column, or a row of another length.
    """
    header, rows = numbered_rows(text, source)
    columns = {name: (number, name.split(".")) for number, name in enumerate(header, 1)}
    lists = any(step.isdigit() for _, path in columns.values() for step in path)
    return [
        nested_row(((*columns[name], cell) for name, cell in cells.items()), source, lists=lists)
        for _, cells in rows
    ]
