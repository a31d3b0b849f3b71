"""Rows and columns of tables as fields of a document: the name of a column is the path of a field.

Rows come from CSV files and from tables of pandas. Columns of a large table are read without an object for
each row.

Cells of a CSV file are text that a field may read as a number, as in `csv_tables.parse_table`; cells of a
Parquet file are typed: numbers, truth values or text.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from ..common.arrays import Flags, Floats, Ints
from ..common.fields import NUMBER, WHOLE_NUMBER, Cell, Fields, unescaped
from .reading import DEEPEST_COLUMN, MAX_COLUMNS, MAX_SMALL_CELLS, MAX_SMALL_ROWS, fail

if TYPE_CHECKING:
    import pyarrow as pa


def _place(row: dict[Any, Any], path: list[str], cell: Cell) -> None:
    """Put a cell into a nested row at the dotted path that its column name gives."""
    here: Any = row
    for step in path[:-1]:
        here = here.setdefault(step, {})
        if not isinstance(here, dict):
            raise KeyError(step)
    here[path[-1]] = cell


def _lists(value: Any) -> Any:
    """Convert mappings whose keys are 0, 1, 2, … to lists, recursively."""
    if not isinstance(value, dict):
        return value
    if value and set(value) == {str(index) for index in range(len(value))}:
        return [_lists(value[str(index)]) for index in range(len(value))]
    return {key: _lists(item) for key, item in value.items()}


def check_header(header: list[str], source: str, where: str = "line 1") -> None:
    """Check that columns have valid and unique names.

    Raises
    ------
    InstanceError
        If there are too many, a name is empty or repeated, or a name has too many levels.
    """
    if len(header) > MAX_COLUMNS:
        raise fail(source, f"has {len(header):,} columns; at most {MAX_COLUMNS:,} are read", where)
    if max((name.count(".") for name in header), default=0) > DEEPEST_COLUMN:
        raise fail(source, f"has a column name with more than {DEEPEST_COLUMN} dots", where)
    if len(set(header)) < len(header) or "" in header:
        raise fail(source, "has a column without a name, or two of the same name", where)


def nested_row(
    cells: Iterable[tuple[int, list[str], Any]], source: str, where: str = "line 1", lists: bool = True
) -> Fields:
    """Return the filled cells of a row, given with number and path of their columns, as nested fields.

    Parameters
    ----------
    lists
        Whether numbers in a path are indices of a list.

    Raises
    ------
    InstanceError
        If one column is a field inside another column.
    """
    row: dict[Any, Any] = {}
    for number, path, cell in cells:
        try:
            _place(row, path, cell)
        except (KeyError, TypeError):
            raise fail(source, f"column {number} clashes with another column", where) from None
    nested: Fields = _lists(row) if lists else row
    return nested


def is_frame(value: Any) -> bool:
    """Return whether a value is a pandas table, without importing pandas."""
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(value, pandas.DataFrame)


def frame_rows(value: Any, source: str) -> Any:
    """Return the rows of a pandas table as mappings of fields, and any other value unchanged.

    A cell that is None or NaN is a field that is not given.

    Raises
    ------
    InstanceError
        If two columns have one name, or one column is a field inside another column.
    """
    if not is_frame(value):
        return value
    names = [str(name).strip() for name in value.columns]
    check_header(names, source, "the table")
    paths = [(number, name.split(".")) for number, name in enumerate(names, 1)]
    columns = [value.iloc[:, position].tolist() for position in range(len(names))]
    rows = []
    for cells in zip(*columns, strict=True):
        given = [(n, path, cell) for (n, path), cell in zip(paths, cells, strict=True) if not _missing(cell)]
        rows.append(nested_row(given, source, "the table"))
    return rows


def _missing(cell: Any) -> bool:
    """Return whether a cell is empty: None, NaN, or one of pandas' own missing values."""
    if cell is None or type(cell).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(cell, float) and math.isnan(cell)


class Columns:
    """A table in columns, as text from a CSV file or typed from a Parquet file.

    Parameters
    ----------
    table
        The cells; a null is a field that is not given. Text is dictionary-encoded in a Parquet file.
    source
        The name of the table in error messages.
    typed
        Whether cells are typed; otherwise all are text, from a CSV file.
    """

    def __init__(
        self, table: pa.Table | None, source: str, typed: bool, names: tuple[str, ...] | None = None
    ) -> None:
        if table is not None:
            self._table = table
        self._typed = typed
        self.source = source
        self.names = tuple(self._table.column_names) if names is None else names

    def __len__(self) -> int:
        return int(self._table.num_rows)

    def given(self, name: str) -> Flags:
        """Return a mask of the filled cells of a column."""
        flags: Flags = self._column(name).is_valid().to_numpy(zero_copy_only=False)
        return flags

    def numbers(self, name: str) -> Floats:
        """Return a column as numbers; NaN where a cell is no number."""
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
        """Return a column of truth values as 1 and 0; NaN where a cell is none."""
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
        """Return a column as (indices, texts): index −1 where a cell is no text."""
        import pyarrow as pa

        if self._typed and not pa.types.is_dictionary(self._column(name).type):
            return np.full(len(self), -1), []
        codes, words = self._coded(name)
        return codes, words if self._typed else list(map(unescaped, words))

    def distinct(self, name: str) -> tuple[Ints, list[Any]]:
        """Return a column as (indices, distinct cells): index −1 where a cell is empty."""
        codes, cells = self._coded(name)
        return codes, cells if self._typed else [Cell(cell) for cell in cells]

    def _coded(self, name: str) -> tuple[Ints, list[Any]]:
        import pyarrow as pa

        column = self._column(name)
        if not pa.types.is_dictionary(column.type):
            column = column.dictionary_encode()
        codes: Ints = column.indices.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
        return codes, column.dictionary.to_pylist()

    def rows(self, indices: Ints | None = None) -> list[Fields]:
        """Return all or some rows as nested fields, as `csv_tables.parse_table` would.

        Raises
        ------
        InstanceError
            If two columns clash, or all rows are requested and they are too many.
        """
        if indices is None and (len(self) > MAX_SMALL_ROWS or self.cells > MAX_SMALL_CELLS):
            raise fail(
                self.source,
                f"is read row by row, and then at most {MAX_SMALL_ROWS:,} rows and {MAX_SMALL_CELLS:,} "
                "filled cells are read; split it",
            )
        # Requested rows are cut out first, so that no others become objects.
        chosen = self._table if indices is None else self._table.take(indices)
        paths = [(number, name.split(".")) for number, name in enumerate(self.names, 1)]
        columns = [column.to_pylist() for column in chosen.columns]
        nested = []
        for values in zip(*columns, strict=True):
            given = [
                (number, path, value if self._typed else Cell(value))
                for (number, path), value in zip(paths, values, strict=True)
                if value is not None
            ]
            nested.append(nested_row(given, self.source, "" if self._typed else "line 1"))
        return nested

    def head(self, rows: int) -> Columns:
        """Return the first rows as a table in columns."""
        return Columns(self._table.slice(0, rows), self.source, self._typed)

    @property
    def cells(self) -> int:
        """The number of filled cells."""
        return sum(len(self) - int(column.null_count) for column in self._table.columns)

    @cached_property
    def positions(self) -> dict[str, int]:
        """The place of each column by its name."""
        return {name: position for position, name in enumerate(self.names)}

    def _column(self, name: str) -> Any:
        return joined(self._table.column(self.positions[name]))


def joined(column: pa.ChunkedArray) -> Any:
    """Return a chunked column as one contiguous array."""
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
