"""Tables in columns, from which fields are read without an object for each row.

Cells of a CSV file are text that a field may read as a number, as in `csv_tables.parse_table`; cells of a
Parquet file are numbers, truth values or text by themselves.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from ..common.arrays import Flags, Floats, Ints
from ..common.fields import NUMBER, WHOLE_NUMBER, Cell, unescaped
from .limits import MOST_SMALL_CELLS, MOST_SMALL_ROWS
from .reading import fail
from .table_rows import nested_row

if TYPE_CHECKING:
    import pyarrow as pa


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
        """Return a column as indices into a list of texts; −1 where a cell is none."""
        import pyarrow as pa

        if self._typed and not pa.types.is_dictionary(self._column(name).type):
            return np.full(len(self), -1), []
        codes, words = self._coded(name)
        return codes, words if self._typed else list(map(unescaped, words))

    def distinct(self, name: str) -> tuple[Ints, list[Any]]:
        """Return a column as indices into a list of cells, which are as in `rows`; −1 where there is none."""
        codes, cells = self._coded(name)
        return codes, cells if self._typed else [Cell(cell) for cell in cells]

    def _coded(self, name: str) -> tuple[Ints, list[Any]]:
        import pyarrow as pa

        column = self._column(name)
        if not pa.types.is_dictionary(column.type):
            column = column.dictionary_encode()
        codes: Ints = column.indices.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
        return codes, column.dictionary.to_pylist()

    def rows(self, indices: Ints | None = None) -> list[dict[str, Any]]:
        """Return rows as `csv_tables.parse_table` would, all of them or some.

        Raises
        ------
        InstanceError
            If two columns clash, or all rows are asked for and they are too many.
        """
        if indices is None and (len(self) > MOST_SMALL_ROWS or self.cells > MOST_SMALL_CELLS):
            most = f"{MOST_SMALL_ROWS:,} rows and {MOST_SMALL_CELLS:,} filled cells"
            raise fail(self.source, f"is read row by row, and then at most {most} are read; split it")
        # Rows that are wanted alone are cut out first, so that no others become objects.
        chosen = self._table if indices is None else self._table.take(indices)
        paths = [(number, name.split(".")) for number, name in enumerate(self.names, 1)]
        columns = [column.to_pylist() for column in chosen.columns]
        found = []
        for values in zip(*columns, strict=True):
            given = [
                (number, path, value if self._typed else Cell(value))
                for (number, path), value in zip(paths, values, strict=True)
                if value is not None
            ]
            found.append(nested_row(given, self.source, "" if self._typed else "line 1"))
        return found

    def head(self, rows: int) -> Columns:
        """Return the first rows as a table."""
        return Columns(self._table.slice(0, rows), self.source, self._typed)

    @property
    def cells(self) -> int:
        """How many cells are filled."""
        return sum(len(self) - int(column.null_count) for column in self._table.columns)

    @cached_property
    def _positions(self) -> dict[str, int]:
        return {name: position for position, name in enumerate(self.names)}

    def _column(self, name: str) -> Any:
        return joined(self._table.column(self._positions[name]))


def joined(column: pa.ChunkedArray) -> Any:
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
