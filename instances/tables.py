"""Tables in files: Parquet files of any size, and CSV files, the large ones read by pyarrow.

A table is untrusted. What is handed out has been read completely, is of a plain type, and takes no more
memory than the limits allow.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .columns import Columns, joined
from .limits import MOST_ROWS
from .parquet_reading import read_parquet
from .reading import fail, read_bytes, text_of
from .table_rows import parse_table, records

if TYPE_CHECKING:
    import pyarrow as pa

MANY_ROWS = 5_000
"""From so many jobs on they are held in columns, and saved in a table beside the document."""


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
    lines = raw.count(b"\n")
    if lines > MOST_ROWS:
        raise fail(source, f"has {lines:,} lines; at most {MOST_ROWS:,} are read: split it")
    text = text_of(raw, source)
    if lines < MANY_ROWS:
        return parse_table(text, source)
    del text
    return _csv_columns(raw, source)


def _csv_columns(raw: bytes, source: str) -> list[dict[str, Any]] | Columns:
    header, count = _checked_lines(raw, source)
    table = _arrow_csv(raw, header)
    if table is None or table.num_rows != count or count < MANY_ROWS:
        return parse_table(text_of(raw, source), source)
    return Columns(table, source, typed=False)


def _checked_lines(raw: bytes, source: str) -> tuple[list[str], int]:
    """Return the header and the number of rows."""
    found = records(io.TextIOWrapper(io.BytesIO(raw), encoding="utf-8-sig", newline="\n"), source)
    _, header = next(found)
    return header, sum(1 for _ in found)


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
        stripped = pc.utf8_trim_whitespace(joined(column))
        empty = pc.equal(stripped, "")
        columns.append(pc.if_else(empty, pa.scalar(None, pa.string()), stripped))
    return pa.table(columns, names=[name.strip() for name in header])
