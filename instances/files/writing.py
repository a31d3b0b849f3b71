"""Tables as Parquet and CSV files, written column by column."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv, parquet

from ..common.errors import OptionError
from .reading import fail

_FORMULA = r"\A('*[=+@-])"
"""How text begins that a spreadsheet would take for a formula; `fields.ESCAPED` is what reading undoes."""


def write_table(table: pa.Table, path: Path) -> None:
    """Write a table to a Parquet or CSV file, as its ending says.

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
            parquet.write_table(table, path, compression="zstd")
    except OSError as error:
        raise fail(str(path), f"cannot be written: {error.strerror or error}") from None


def _write_csv(table: pa.Table, path: Path) -> None:
    for position, field in enumerate(table.schema):
        if not pa.types.is_string(field.type):
            continue
        column = table.column(position)
        if pc.any(pc.not_equal(pc.utf8_trim_whitespace(column), column)).as_py():
            what = "begins or ends with a blank, which CSV loses; write a Parquet table"
            raise OptionError(f"{path}: a text in column {field.name!r} {what}")
        safe = pc.replace_substring_regex(column, pattern=_FORMULA, replacement=r"'\1")
        table = table.set_column(position, field.name, safe)
    try:
        csv.write_csv(table, path, csv.WriteOptions(quoting_style="none"))
    except pa.ArrowInvalid:  # there are commas or quotes in the text
        csv.write_csv(table, path, csv.WriteOptions(quoting_style="needed"))
