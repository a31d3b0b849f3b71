"""Reading of CSV tables as rows and columns, with faults located by line.

`records` reads all tables; pyarrow reads large ones faster, if it finds the same rows. A fault of a whole
column is reported once.
"""

from __future__ import annotations

import csv
import io
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..common.errors import Fault, Faults, InstanceError, shown
from ..common.fields import Cell, Model
from .columns import Columns, check_header, joined, nested_row
from .reading import LONGEST_ROW, MAX_SMALL_CELLS, MAX_SMALL_ROWS, fail, read_text

if TYPE_CHECKING:
    import pyarrow as pa


CHUNK = 10_000
"""Rows that are converted to columns in one batch."""


def lines_of(text: str) -> Iterator[str]:
    """Yield the lines of a text with their line ends, without a copy of the whole."""
    start = 0
    while start < len(text):
        end = text.find("\n", start) + 1 or len(text)
        yield text[start:end]
        start = end


def records(
    lines: Iterator[str], source: str, misfits: list[Fault] | None = None
) -> Iterator[tuple[int, list[str]]]:
    """Yield line number and cells of each row of a CSV text that is not blank; the header first.

    Parameters
    ----------
    misfits
        List that receives the faults of rows of another length than the header; by default these are raised.

    Raises
    ------
    InstanceError
        If the text is no CSV, has no rows, a header that is not allowed, or rows of another length.
    """
    taken = 0

    def guarded() -> Iterator[str]:
        """Yield the lines; raise if one row is longer than allowed."""
        nonlocal taken
        for line in lines:
            taken += len(line)
            if taken > LONGEST_ROW:
                raise csv.Error(f"a row has more than {LONGEST_ROW:,} characters, or a quote is never closed")
            yield line

    reader = csv.reader(guarded(), strict=True)
    header: list[str] | None = None
    rows = 0
    faults = Faults()
    try:
        for cells in reader:
            taken = 0
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
                fault = Fault(source, f"line {reader.line_num}", what)
                if misfits is not None:
                    misfits.append(fault)
                    continue
                faults.add(fault)
                if faults.stop():
                    break
            else:
                yield reader.line_num, cells
    except csv.Error as error:
        raise fail(source, f"is not valid CSV: {error}", f"line {reader.line_num}") from None
    if not rows:
        raise fail(source, "has a header but no rows")
    faults.refuse()


def numbered_rows(
    text: str, source: str, misfits: list[Fault] | None = None
) -> tuple[list[str], list[tuple[int, dict[str, Cell]]]]:
    """Return the column names of a CSV text, and line number and filled cells of each row.

    The parameters are those of `records`.

    Raises
    ------
    InstanceError
        If the table has no rows or too many, a repeated column, or a row of another length.
    """
    if text.count("\n") > MAX_SMALL_ROWS:
        raise fail(source, f"has more than {MAX_SMALL_ROWS:,} lines; split it")
    lines = records(lines_of(text), source, misfits)
    header = [name.strip() for name in next(lines)[1]]
    rows = []
    filled = 0
    for number, cells in lines:
        row = {name: Cell(cell) for name, text in zip(header, cells, strict=True) if (cell := text.strip())}
        rows.append((number, row))
        filled += len(row)
        if filled > MAX_SMALL_CELLS:
            raise fail(source, f"has more than {MAX_SMALL_CELLS:,} filled cells; split it")
    return header, rows


def check_separated(header: list[str], source: str) -> None:
    """Check that a table with one column is not one with another separator than the comma.

    Raises
    ------
    InstanceError
        If its header contains another separator.
    """
    if len(header) == 1 and any(sign in header[0] for sign in ";\t|"):
        what = f"is one column, {shown(header[0])}; put commas between the columns of the whole file"
        raise fail(source, what, "line 1")


def model_rows(
    path: Path, model: type[Model], misfits: list[Fault] | None = None
) -> list[tuple[int, dict[str, Cell]]]:
    """Return line number and cells of each row of a CSV file; `misfits` as in `records`.

    Raises
    ------
    InstanceError
        If it is no table, or has no column for a field that the model requires.
    """
    source = str(path)
    header, rows = numbered_rows(read_text(path), source, misfits)
    required = [name for name, field in model.model_fields.items() if field.is_required()]
    missing = [name for name in required if name not in header]
    if missing:
        check_separated(header, source)
        raise fail(source, f"has no column {', '.join(missing)}; needed: {', '.join(required)}", "line 1")
    return rows


def parse_table(text: str, source: str) -> list[dict[str, Any]]:
    """Return the rows of a CSV text as nested fields.

    The first line names the columns; a dot in a name denotes a nested field (``compute_s.V100``), a number an
    entry of a list (``variants.0.name``). An empty cell is a field that is not given.

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


class CsvColumns(Columns):
    """A CSV text as a table in columns; its rows are read and checked when they are first used.

    Parameters
    ----------
    raw
        The text, valid UTF-8.

    Raises
    ------
    InstanceError
        If it has no header, or an invalid one.
    """

    def __init__(self, raw: bytes, source: str) -> None:
        self._raw = raw
        self._header = next(_records(raw, source))
        super().__init__(None, source, typed=False, names=tuple(name.strip() for name in self._header))

    def head(self, rows: int) -> Columns:
        """Return the first rows as a table, without reading the others."""
        return Columns(self._of(itertools.islice(self._rows(self._raw), rows)), self.source, typed=False)

    def _rows(self, raw: bytes) -> Iterator[list[str]]:
        return itertools.islice(_records(raw, self.source), 1, None)

    @cached_property
    def _table(self) -> pa.Table:
        raw, self._raw = self._raw, b""
        table = self._by_arrow(raw)
        # Without quotes every line is a row; with quotes, pyarrow has to find as many rows as `csv` does.
        plain = b"\r" not in raw and raw.find(b'"', raw.find(b"\n")) < 0
        if table is None or not (plain or table.num_rows == sum(1 for _ in self._rows(raw))):
            table = self._of(self._rows(raw))
        if not table.num_rows:
            raise fail(self.source, "has a header but no rows")
        return table

    def _by_arrow(self, raw: bytes) -> pa.Table | None:
        """Return the table as pyarrow reads it, cells stripped and null if empty; None if it cannot."""
        import pyarrow as pa
        import pyarrow.compute as pc
        import pyarrow.csv as arrow_csv

        types = dict.fromkeys(self._header, pa.string())
        try:
            table = arrow_csv.read_csv(
                pa.BufferReader(raw),
                parse_options=arrow_csv.ParseOptions(newlines_in_values=True),
                convert_options=arrow_csv.ConvertOptions(column_types=types),
            )
        except pa.ArrowException:
            return None
        if table.column_names != self._header:
            return None
        columns = table.columns
        del table
        for index in range(len(columns)):  # the memory of each is free once the plain one is made
            stripped = pc.utf8_trim_whitespace(joined(columns[index]))
            columns[index] = pc.if_else(pc.equal(stripped, ""), pa.scalar(None, pa.string()), stripped)
        return pa.table(columns, names=list(self.names))

    def _of(self, rows: Iterable[list[str]]) -> pa.Table:
        """Return the table of rows that Python's `csv` has read."""
        import pyarrow as pa

        schema = pa.schema([(name, pa.string()) for name in self.names])
        remaining = iter(rows)
        batches = []
        while part := list(itertools.islice(remaining, CHUNK)):
            cells = [[cell.strip() or None for cell in column] for column in zip(*part, strict=True)]
            batches.append(pa.record_batch(cells, schema=schema))
        return pa.Table.from_batches(batches, schema)


def _records(raw: bytes, source: str) -> Iterator[list[str]]:
    """Yield the header, then the cells of each row."""
    lines = io.TextIOWrapper(io.BytesIO(raw), encoding="utf-8-sig", newline="\n")
    return (cells for _, cells in records(lines, source))


_ROW = re.compile(r"(\w+)\[([0-9]+)\](?:\.(.*))?", re.DOTALL)


class TableFile(NamedTuple):
    """A CSV file that holds a list of a document, and its name in error messages."""

    path: Path
    source: str


def by_lines(error: InstanceError, files: Mapping[str, TableFile]) -> InstanceError:
    """Return an error in which faults in rows of CSV files name file, line and column.

    Parameters
    ----------
    files
        Key of the document → the file that holds its list, one row for each entry.
    """
    matches = [_ROW.fullmatch(fault.path) for fault in error.faults]
    last: dict[str, int] = {}
    for match in matches:
        if match is not None and match[1] in files:
            last[match[1]] = max(int(match[2]), last.get(match[1], 0))
    read = {key: _lines(files[key], row) for key, row in last.items()}
    grouped: dict[tuple[str, str, str], list[Fault]] = {}
    for fault, match in zip(error.faults, matches, strict=True):
        if match is None or match[1] not in read:
            grouped[fault.source, fault.path, fault.what] = [fault]
            continue
        header, lines = read[match[1]]
        located = _located(match[3] or "", fault.what, files[match[1]].source, header, lines[int(match[2])])
        grouped.setdefault((located.source, match[3] or "", located.what), []).append(located)
    faults = [_merged(alike) for alike in grouped.values()]
    # A missing column is a fault of every row, which is not counted again.
    whole = all(fault.path == "line 1" for fault in faults)
    return InstanceError(faults, 0 if whole else error.more, error.stopped and not whole)


def _lines(file: TableFile, last: int) -> tuple[list[str], list[int]]:
    """Return the header of a file that was read before, and the line numbers of the rows up to `last`."""
    rows = records(lines_of(read_text(file.path, file.source)), file.source)
    header = [name.strip() for name in next(rows)[1]]
    return header, [line for line, _ in itertools.islice(rows, last + 1)]


def _located(column: str, what: str, source: str, header: list[str], line: int) -> Fault:
    """Return a fault of a row with its line number, or at the header for a missing or unknown column."""
    if what.startswith("is missing") and not any(name.split(".")[0] == column for name in header):
        return Fault(source, "line 1", f"has no column {column}; the columns are: {', '.join(header)}")
    if what.startswith("unknown key"):
        return Fault(source, "line 1", f"column {column}: {what}")
    return Fault(source, f"line {line}" + (f": {column}" if column else ""), what)


def _merged(alike: list[Fault]) -> Fault:
    """Merge faults of rows that differ only in their line number into one fault."""
    first, more = alike[0], len(alike) - 1
    if not more or first.path == "line 1":
        return first
    return Fault(first.source, first.path, f"{first.what} (and so in {more} more line{'s'[: more > 1]})")
