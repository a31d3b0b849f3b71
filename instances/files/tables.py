"""Parquet and CSV files of tables: untrusted ones are read in columns, and columns are written.

A table is untrusted: of a Parquet file the metadata are read first, then the first rows. Columns that are
returned have plain types, and take no more memory than the limits allow. Large CSV files are read by
pyarrow.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..common.errors import InstanceError, OptionError, refuse_faults
from .columns import Columns, check_header, joined
from .csv_tables import CsvColumns, parse_table
from .reading import (
    LONGEST_TEXT,
    MAX_CELLS,
    MAX_COLUMNS,
    MAX_ROWS,
    MAX_TABLE_BYTES,
    checked_file,
    fail,
    is_stream,
    read_bytes,
    text_of,
)

if TYPE_CHECKING:
    import pyarrow as pa


BATCH = 2**25
"""Cells that are read at a time; every batch holds the texts of its group of rows anew."""
MAX_GROUPS = 10_000
"""Limit of the row groups of a Parquet file."""


class ParquetColumns(Columns):
    """A Parquet file as a table in columns; its rows are read and checked when they are first used.

    Raises
    ------
    InstanceError
        If the file is missing, broken or too large, or a column is neither numbers, truth values nor text.
    """

    def __init__(self, path: Path, source: str) -> None:
        checked_file(path, source)
        if is_stream(path):
            raise fail(source, "is a pipe; a Parquet table is read from a regular file alone")
        self._path = path
        with _opened(path, source) as file:
            _check_size(file, source)
            names = [name.strip() for name in file.schema_arrow.names]
            check_header(names, source, "")
            _check_types(file.schema_arrow, source)
            self._rows = int(file.metadata.num_rows)
        super().__init__(None, source, typed=True, names=tuple(names))

    def __len__(self) -> int:
        return self._rows

    @cached_property
    def _table(self) -> pa.Table:
        with _opened(self._path, self.source) as file:
            return self._plain(_read_whole(file, self.source))

    def head(self, rows: int) -> Columns:
        """Return the first rows as a table, without reading the others."""
        import pyarrow as pa

        with _opened(self._path, self.source) as file:
            batch = next(file.iter_batches(batch_size=rows))
            batch.validate(full=True)
            table = self._plain(pa.Table.from_batches([batch]))
        return Columns(table, self.source, typed=True)

    def _plain(self, table: pa.Table) -> pa.Table:
        """Return a table with columns of plain types, each contiguous."""
        import pyarrow as pa

        columns = table.columns
        del table
        for index, name in enumerate(self.names):  # the memory of each is freed once the plain one is made
            columns[index] = _plain(columns[index], name, self.source)
        return pa.table(columns, names=list(self.names))


@contextmanager
def _opened(path: Path, source: str) -> Iterator[Any]:
    """Open a Parquet file; errors while it is open are raised as `InstanceError`.

    Text stays dictionary-encoded, so that a long one that occurs in every row is stored once.
    """
    import pyarrow as pa
    from pyarrow import parquet

    try:
        with path.open("rb") as stream:
            plain = parquet.ParquetFile(stream)
            texts = [field.name for field in plain.schema_arrow if _is_text(field.type)]
            yield parquet.ParquetFile(stream, metadata=plain.metadata, read_dictionary=texts)
    except (pa.ArrowException, OSError, ValueError, KeyError, MemoryError, StopIteration) as error:
        what = " ".join((getattr(error, "strerror", None) or str(error)).split())[:200]
        raise fail(source, f"cannot be read as a Parquet file: {what or type(error).__name__}") from None


def _check_size(file: Any, source: str) -> None:
    """Refuse a file that is too large by its own metadata; its true size is checked while it is read."""
    metadata = file.metadata
    rows, columns = metadata.num_rows, metadata.num_columns
    if not rows or not columns:
        raise fail(source, "has no rows")
    if rows > MAX_ROWS or columns > MAX_COLUMNS or rows * columns > MAX_CELLS:
        raise fail(
            source,
            f"has {rows:,} rows of {columns:,} columns; at most {MAX_ROWS:,} rows, {MAX_COLUMNS:,} "
            f"columns and {MAX_CELLS:,} cells are read: split it",
        )
    if metadata.num_row_groups > MAX_GROUPS:
        raise fail(
            source,
            f"has {metadata.num_row_groups:,} groups of rows; at most {MAX_GROUPS:,} are read: write it anew",
        )
    kinds = file.schema_arrow.types
    plain = rows * sum(map(_width, kinds))
    # The metadata of single columns are not read: if they are broken, pyarrow aborts the process.
    declared = sum(metadata.row_group(index).total_byte_size for index in range(metadata.num_row_groups))
    words = max(0, declared - plain) if any(map(_is_text, kinds)) else 0
    if plain + 2 * words > MAX_TABLE_BYTES:
        raise _too_much_memory(source)


def _width(kind: Any) -> float:
    """Return the bytes that one cell of an Arrow type takes, without the text it may refer to."""
    from pyarrow import types

    return 4 if _is_text(kind) else 0.2 if types.is_boolean(kind) or types.is_null(kind) else 8


def _too_much_memory(source: str) -> InstanceError:
    return fail(source, f"takes more than {MAX_TABLE_BYTES // 2**20} MiB of memory; split it")


def _is_text(kind: Any) -> bool:
    from pyarrow import types

    if types.is_dictionary(kind):
        kind = kind.value_type
    return bool(types.is_string(kind) or types.is_large_string(kind))


def _check_types(schema: Any, source: str) -> None:
    from pyarrow import types

    complaints = []
    for field in schema:
        kind = field.type.value_type if types.is_dictionary(field.type) else field.type
        plain = (types.is_boolean, types.is_integer, types.is_floating, types.is_decimal, types.is_null)
        if not (_is_text(kind) or any(test(kind) for test in plain)):
            what = f"holds {str(kind)[:60]}; a column may hold numbers, text or truth values"
            complaints.append((f"column {field.name!r}", what))
    refuse_faults(source, complaints)


def _read_whole(file: Any, source: str) -> pa.Table:
    """Read a file batch by batch; refuse it once the table exceeds the memory limit."""
    import pyarrow as pa

    batches, size = [], 0
    for batch in file.iter_batches(batch_size=max(1, BATCH // file.metadata.num_columns)):
        batch.validate(full=True)
        size += batch.nbytes
        if size > MAX_TABLE_BYTES:
            raise _too_much_memory(source)
        batches.append(batch)
    return pa.Table.from_batches(batches).unify_dictionaries()


def _plain(column: pa.ChunkedArray, name: str, source: str) -> Any:
    """Return a column as one contiguous array of numbers, truth values or dictionary-encoded text."""
    import pyarrow as pa
    import pyarrow.compute as pc

    whole = joined(column)
    if _is_text(whole.type):
        if not pa.types.is_dictionary(whole.type):
            whole = whole.cast(pa.large_string()).dictionary_encode()
        elif whole.dictionary.null_count:
            given = pc.take(whole.dictionary.is_valid(), whole.indices)
            codes = pc.if_else(given, whole.indices, pa.scalar(None, whole.indices.type))
            whole = pa.DictionaryArray.from_arrays(codes, whole.dictionary.fill_null(""))
        longest = pc.max(pc.binary_length(whole.dictionary)).as_py() or 0
        if longest > LONGEST_TEXT:
            raise fail(
                source, f"holds a text of {longest:,} bytes; at most {LONGEST_TEXT:,}", f"column {name!r}"
            )
        return whole
    if pa.types.is_dictionary(whole.type):
        whole = whole.dictionary_decode()
    return whole.cast(pa.float64()) if pa.types.is_decimal(whole.type) else whole


MANY_ROWS = 5_000
"""Number of rows from which on a list is stored in columns, and saved in a table beside the document."""


def read_table(path: Path, source: str, in_columns: bool = False) -> list[dict[str, Any]] | Columns:
    """Return the rows of a CSV or Parquet file; a table in columns if it is long and `in_columns` is set.

    Raises
    ------
    InstanceError
        If the file is missing or is no table.
    """
    if path.suffix.lower() != ".csv":
        columns = ParquetColumns(path, source)
        return columns if in_columns and len(columns) >= MANY_ROWS else columns.rows()
    raw = read_bytes(path, source)
    lines = raw.count(b"\n")
    if in_columns and lines > MAX_ROWS:
        raise fail(source, f"has {lines:,} lines; at most {MAX_ROWS:,} are read: split it")
    text = text_of(raw, source)
    return CsvColumns(raw, source) if in_columns and lines >= MANY_ROWS else parse_table(text, source)


_FORMULA = r"\A('*[=+@-])"
"""Start of text that a spreadsheet would read as a formula; reading undoes the escape (`fields.ESCAPED`)."""


NO_COLUMN = (
    "a resource has a name with a dot, a number for a name, or a blank at its ends, which no column can be "
    "called; rename it, or ask for no table"
)
"""Error message for resources that cannot be columns."""


def can_be_columns(resources: Iterable[str]) -> bool:
    """Return whether every resource can be part of a column's name, which dots and numbers would split."""
    return not any("." in name or name.isdigit() or name != name.strip() for name in resources)


def write_table(table: pa.Table, path: Path) -> None:
    """Write a table to a Parquet or CSV file, as the ending of the path says.

    Raises
    ------
    InstanceError
        If the file cannot be written.
    OptionError
        If a text would not survive CSV.
    """
    try:
        if path.suffix == ".csv":
            _write_csv(table, path)
        else:
            from pyarrow import parquet

            parquet.write_table(table, path, compression="zstd")
    except OSError as error:
        raise fail(str(path), f"cannot be written: {error.strerror or error}") from None


def _write_csv(table: pa.Table, path: Path) -> None:
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow import csv

    for position, field in enumerate(table.schema):
        if not pa.types.is_string(field.type):
            continue
        column = table.column(position)
        if pc.any(pc.not_equal(pc.utf8_trim_whitespace(column), column)).as_py():
            raise OptionError(
                f"{path}: a text in column {field.name!r} begins or ends with a blank, which CSV loses; "
                "write a Parquet table"
            )
        safe = pc.replace_substring_regex(column, pattern=_FORMULA, replacement=r"'\1")
        table = table.set_column(position, field.name, safe)
    try:
        csv.write_csv(table, path, csv.WriteOptions(quoting_style="none"))
    except pa.ArrowInvalid:  # there are commas or quotes in the text
        csv.write_csv(table, path, csv.WriteOptions(quoting_style="needed"))
