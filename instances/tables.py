"""Tables in columns: Parquet files of any size, and large CSV files, read by pyarrow.

A table is untrusted. What `Columns` hands out has been read completely, is of a plain type, and takes no
more memory than the limits here allow. Cells of a CSV file are text that a field may read as a number, as
in `reading.parse_table`; cells of a Parquet file are numbers, truth values or text by themselves.
"""

from __future__ import annotations

import csv
import io
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .errors import Fault, InstanceError
from .fields import NUMBER, WHOLE_NUMBER, Cell
from .reading import (
    MOST_NODES,
    check_header,
    checked_file,
    fail,
    nested_row,
    parse_table,
    read_bytes,
    text_of,
)

if TYPE_CHECKING:
    import pyarrow as pa

MANY_ROWS = 5_000
"""From so many jobs on they are held in columns, and saved in a table beside the document."""
MOST_ROWS = 20_000_000
MOST_COLUMNS = 20_000
MOST_CELLS = 400_000_000
MOST_TABLE_BYTES = 2**32
LONGEST_TEXT = 40_000
"""Bytes; no field takes a longer one."""
MOST_FAULTS = 20
BATCH = 2**17

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]


class Columns:
    """A table in columns.

    Parameters
    ----------
    table
        The cells; a null is a field that is not given. Text is dictionary-encoded in a Parquet file.
    source
        What faults call the table.
    typed
        Whether cells have types of their own; otherwise all are text, from a CSV file.
    """

    def __init__(self, table: pa.Table, source: str, typed: bool) -> None:
        self._table = table
        self._typed = typed
        self.source = source
        self.names: tuple[str, ...] = tuple(table.column_names)

    def __len__(self) -> int:
        return int(self._table.num_rows)

    def given(self, name: str) -> Flags:
        """Return which cells of a column are filled."""
        flags: Flags = self._column(name).is_valid().to_numpy(zero_copy_only=False)
        return flags

    def numbers(self, name: str) -> Floats:
        """Return a column as numbers; NaN where a cell is none."""
        import pyarrow as pa

        column = self._column(name)
        if not self._typed:
            return _parsed(column, NUMBER.pattern)
        if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
            return np.full(len(self), np.nan)
        values: Floats = column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
        return values

    def whole_numbers(self, name: str) -> Floats:
        """Return a column as whole numbers; NaN where a cell is none."""
        if not self._typed:
            return _parsed(self._column(name), WHOLE_NUMBER.pattern)
        values = self.numbers(name)
        return np.where(np.floor(values) == values, values, np.nan)

    def flags(self, name: str) -> Floats:
        """Return a column as truth values: 1, 0, or NaN where a cell is none."""
        import pyarrow as pa

        column = self._column(name)
        if not self._typed:
            codes, words = self.texts(name)
            worth = [{"true": 1.0, "false": 0.0}.get(word.lower(), np.nan) for word in words]
            return np.array([*worth, np.nan])[codes]
        if not pa.types.is_boolean(column.type):
            return np.full(len(self), np.nan)
        values: Floats = column.cast(pa.uint8()).cast(pa.float64()).to_numpy(zero_copy_only=False)
        return values

    def texts(self, name: str) -> tuple[Ints, list[str]]:
        """Return a column as indices into a list of texts; −1 where a cell is none.

        The texts of a CSV file are `Cell`s as in `rows`.
        """
        import pyarrow as pa

        column = self._column(name)
        if not self._typed:
            column = column.dictionary_encode()
        elif not pa.types.is_dictionary(column.type):
            return np.full(len(self), -1), []
        codes: Ints = column.indices.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
        words = column.dictionary.to_pylist()
        return codes, words if self._typed else [Cell(word) for word in words]

    def distinct(self, name: str) -> tuple[Ints, list[Any]]:
        """Return a column as indices into a list of cells, which are as in `rows`; −1 where there is none."""
        import pyarrow as pa

        column = self._column(name)
        if not pa.types.is_dictionary(column.type):
            column = column.dictionary_encode()
        codes: Ints = column.indices.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
        cells = column.dictionary.to_pylist()
        return codes, cells if self._typed else [Cell(cell) for cell in cells]

    def rows(self, indices: Ints | None = None) -> list[dict[str, Any]]:
        """Return rows as `reading.parse_table` would, all of them or some.

        Raises
        ------
        InstanceError
            If two columns clash, or all rows are asked for and they are too many.
        """
        if indices is None and self.cells > MOST_NODES:
            raise fail(self.source, f"holds more than {MOST_NODES:,} values; split it")
        chosen = self._table if indices is None else self._table.take(indices)
        paths = [(name, name.split(".")) for name in self.names]
        columns = [column.to_pylist() for column in chosen.columns]
        found = []
        for values in zip(*columns, strict=True):
            given = [
                (name, path, value if self._typed else Cell(value))
                for (name, path), value in zip(paths, values, strict=True)
                if value is not None
            ]
            found.append(nested_row(given, self.source, "" if self._typed else "line 1"))
        return found

    @property
    def cells(self) -> int:
        """How many cells are filled."""
        return sum(len(self) - int(column.null_count) for column in self._table.columns)

    @cached_property
    def _positions(self) -> dict[str, int]:
        return {name: position for position, name in enumerate(self.names)}

    def _column(self, name: str) -> Any:
        return _joined(self._table.column(self._positions[name]))


def _joined(column: pa.ChunkedArray) -> Any:
    """Return a column in one piece."""
    import pyarrow as pa

    if column.num_chunks == 1:
        return column.chunk(0)
    if column.num_chunks == 0:
        return pa.array([], type=column.type)
    return column.combine_chunks()


def _parsed(column: Any, pattern: str) -> Floats:
    """Return cells of text as numbers; NaN where a cell does not match the pattern."""
    import pyarrow as pa
    import pyarrow.compute as pc

    fits = pc.match_substring_regex(column, pattern=rf"\A(?:{pattern})\z")
    kept = pc.if_else(fits, column, pa.scalar(None, pa.string()))
    try:
        values: Floats = kept.cast(pa.float64()).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid:  # a number that Python reads and Arrow does not
        values = np.array([np.nan if text is None else float(text) for text in kept.to_pylist()])
    return values


def read_table(path: Path, source: str) -> list[dict[str, Any]]:
    """Return the rows of a CSV or Parquet file.

    Raises
    ------
    InstanceError
        If the file is missing or is no table.
    """
    if path.suffix.lower() == ".csv":
        return parse_table(text_of(read_bytes(path, source), source), source)
    return read_parquet(path, source).rows()


def read_large_table(path: Path, source: str) -> list[dict[str, Any]] | Columns:
    """Return a CSV or Parquet file in columns if it has many rows, as rows otherwise.

    Raises
    ------
    InstanceError
        If the file is missing or is no table.
    """
    if path.suffix.lower() != ".csv":
        columns = read_parquet(path, source)
        return columns if len(columns) >= MANY_ROWS else columns.rows()
    raw = read_bytes(path, source)
    if raw.count(b"\n") >= MANY_ROWS:
        text_of(raw, source)
        return _csv_columns(raw, source)
    return parse_table(text_of(raw, source), source)


def _csv_columns(raw: bytes, source: str) -> list[dict[str, Any]] | Columns:
    header, count = _checked_lines(raw, source)
    table = _arrow_csv(raw, header)
    if table is None or table.num_rows != count or count < MANY_ROWS:
        return parse_table(text_of(raw, source), source)
    return Columns(table, source, typed=False)


def _checked_lines(raw: bytes, source: str) -> tuple[list[str], int]:
    """Return the header and the number of rows, by the rules of `reading.numbered_rows`."""
    lines = io.TextIOWrapper(io.BytesIO(raw), encoding="utf-8-sig", newline="\n")
    header: list[str] = []
    faults: list[Fault] = []
    count = 0
    try:
        reader = csv.reader(lines, strict=True)
        header = next(cells for cells in reader if cells)
        for cells in reader:
            count += bool(cells)
            if cells and len(cells) != len(header) and len(faults) < MOST_FAULTS:
                what = f"has {len(cells)} cells; the header has {len(header)}"
                faults.append(Fault(source, f"line {reader.line_num}", what))
    except csv.Error as error:
        raise fail(source, f"is not valid CSV: {error}") from None
    check_header([name.strip() for name in header], source)
    if faults:
        raise InstanceError(faults)
    return header, count


def _arrow_csv(raw: bytes, header: list[str]) -> pa.Table | None:
    """Return the cells as stripped text, null where empty; None if pyarrow reads the file differently."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.csv as arrow_csv

    try:
        table = arrow_csv.read_csv(
            pa.BufferReader(raw),
            parse_options=arrow_csv.ParseOptions(newlines_in_values=True),
            convert_options=arrow_csv.ConvertOptions(column_types=dict.fromkeys(header, pa.string())),
        )
    except pa.ArrowException:
        return None
    if table.column_names != header:
        return None
    columns = []
    for column in table.columns:
        stripped = pc.utf8_trim_whitespace(_joined(column))
        empty = pc.equal(stripped, "")
        columns.append(pc.if_else(empty, pa.scalar(None, pa.string()), stripped))
    return pa.table(columns, names=[name.strip() for name in header])


def read_parquet(path: Path, source: str) -> Columns:
    """Return a Parquet file in columns.

    Raises
    ------
    InstanceError
        If the file is missing, broken or too large, or a column is neither numbers, truth values nor text.
    """
    import pyarrow as pa
    from pyarrow import parquet

    checked_file(path, source)
    try:
        with path.open("rb") as stream:
            plain = parquet.ParquetFile(stream)
            _check_size(plain.metadata, source)
            schema = plain.schema_arrow
            check_header([name.strip() for name in schema.names], source, "")
            _check_types(schema, source)
            texts = [field.name for field in schema if _is_text(field.type)]
            # Text stays dictionary-encoded, so that a long one that stands in every row is held once.
            file = parquet.ParquetFile(stream, metadata=plain.metadata, read_dictionary=texts)
            columns = [
                _plain(column, name, source)
                for name, column in zip(schema.names, _read_whole(file, source).columns, strict=True)
            ]
    except (pa.ArrowException, OSError, ValueError, KeyError, MemoryError) as error:
        what = " ".join((getattr(error, "strerror", None) or str(error)).split())[:200]
        raise fail(source, f"cannot be read as a Parquet file: {what or type(error).__name__}") from None
    return Columns(pa.table(columns, names=[name.strip() for name in schema.names]), source, typed=True)


def _check_size(metadata: Any, source: str) -> None:
    rows, columns = metadata.num_rows, metadata.num_columns
    if not rows or not columns:
        raise fail(source, "has no rows")
    if rows > MOST_ROWS or columns > MOST_COLUMNS or rows * columns > MOST_CELLS:
        allowed = f"{MOST_ROWS:,} rows, {MOST_COLUMNS:,} columns and {MOST_CELLS:,} cells"
        raise fail(source, f"has {rows:,} rows of {columns:,} columns; at most {allowed} are read: split it")
    size = sum(metadata.row_group(group).total_byte_size for group in range(metadata.num_row_groups))
    if size > MOST_TABLE_BYTES:
        raise _too_much_memory(source)


def _too_much_memory(source: str) -> InstanceError:
    return fail(source, f"takes more than {MOST_TABLE_BYTES // 2**30} GiB of memory; split it")


def _is_text(kind: Any) -> bool:
    from pyarrow import types

    if types.is_dictionary(kind):
        kind = kind.value_type
    return bool(types.is_string(kind) or types.is_large_string(kind))


def _check_types(schema: Any, source: str) -> None:
    from pyarrow import types

    faults = []
    for field in schema:
        kind = field.type.value_type if types.is_dictionary(field.type) else field.type
        plain = (types.is_boolean, types.is_integer, types.is_floating, types.is_decimal, types.is_null)
        if not (_is_text(kind) or any(test(kind) for test in plain)):
            what = f"holds {str(kind)[:60]}; a column may hold numbers, text or truth values"
            faults.append(Fault(source, f"column {field.name!r}", what))
    if faults:
        raise InstanceError(faults[:MOST_FAULTS])


def _read_whole(file: Any, source: str) -> pa.Table:
    """Read batch after batch, and stop where the table takes more memory than a file may say it does."""
    import pyarrow as pa

    batches, size = [], 0
    for batch in file.iter_batches(batch_size=BATCH):
        batch.validate(full=True)
        size += batch.nbytes
        if size > MOST_TABLE_BYTES:
            raise _too_much_memory(source)
        batches.append(batch)
    return pa.Table.from_batches(batches).unify_dictionaries()


def _plain(column: pa.ChunkedArray, name: str, source: str) -> Any:
    """Return a column of numbers or truth values, or of text in a dictionary, in one piece."""
    import pyarrow as pa
    import pyarrow.compute as pc

    joined = _joined(column)
    if _is_text(joined.type):
        if not pa.types.is_dictionary(joined.type) or joined.dictionary.null_count:
            joined = joined.cast(pa.large_string()).dictionary_encode()
        longest = pc.max(pc.binary_length(joined.dictionary)).as_py() or 0
        if longest > LONGEST_TEXT:
            raise fail(
                source, f"holds a text of {longest:,} bytes; at most {LONGEST_TEXT:,}", f"column {name!r}"
            )
        return joined
    if pa.types.is_dictionary(joined.type):
        joined = joined.dictionary_decode()
    return joined.cast(pa.float64()) if pa.types.is_decimal(joined.type) else joined
