"""Large CSV tables in columns: pyarrow reads them, where it reads them as Python does."""

from __future__ import annotations

import io
import itertools
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING

from .columns import Columns, joined
from .reading import fail
from .table_rows import records

if TYPE_CHECKING:
    import pyarrow as pa

CHUNK = 10_000


class CsvColumns(Columns):
    """The table in a CSV text; its rows are read when they are wanted, and what is wrong shows then.

    Parameters
    ----------
    raw
        The text, which is known to be UTF-8.

    Raises
    ------
    InstanceError
        If it has no header, or a wrong one.
    """

    def __init__(self, raw: bytes, source: str) -> None:
        self._raw = raw
        self._header = next(_records(raw, source))
        super().__init__(None, source, typed=False, names=tuple(name.strip() for name in self._header))

    def __len__(self) -> int:
        return int(self._table.num_rows)

    def head(self, rows: int) -> Columns:
        """Return the first rows as a table; the others are not read for it."""
        found = itertools.islice(_records(self._raw, self.source), 1, rows + 1)
        return Columns(self._of(found), self.source, typed=False)

    @cached_property
    def _table(self) -> pa.Table:
        raw, self._raw = self._raw, b""
        # Without quotes every line is a row, for pyarrow and for Python alike.
        plain = b"\r" not in raw and raw.find(b'"', raw.find(b"\n")) < 0
        table = self._by_arrow(raw) if plain else None
        if table is None:
            rows = sum(1 for _ in _records(raw, self.source)) - 1
            table = None if plain else self._by_arrow(raw)
            if table is None or table.num_rows != rows:
                table = self._of(itertools.islice(_records(raw, self.source), 1, None))
        if not table.num_rows:
            raise fail(self.source, "has a header but no rows")
        return table

    def _by_arrow(self, raw: bytes) -> pa.Table | None:
        """Return the cells as stripped text, null where empty; None if pyarrow cannot read them."""
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
        """Return the cells of rows as Python has read them."""
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
