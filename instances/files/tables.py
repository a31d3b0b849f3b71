"""Tables in files: Parquet files of any size, and CSV files, the large ones read by pyarrow.

A table is untrusted. What is handed out is of a plain type, and takes no more memory than the limits allow.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .columns import Columns
from .csv_tables import CsvColumns, parse_table
from .limits import MOST_ROWS
from .parquet_reading import ParquetColumns
from .reading import fail, read_bytes, text_of

MANY_ROWS = 5_000
"""From so many jobs on they are held in columns, and saved in a table beside the document."""


def read_table(path: Path, source: str, in_columns: bool = False) -> list[dict[str, Any]] | Columns:
    """Return the rows of a CSV or Parquet file, or the file in columns if it has many and that is asked for.

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
    if in_columns and lines > MOST_ROWS:
        raise fail(source, f"has {lines:,} lines; at most {MOST_ROWS:,} are read: split it")
    text = text_of(raw, source)
    return CsvColumns(raw, source) if in_columns and lines >= MANY_ROWS else parse_table(text, source)
