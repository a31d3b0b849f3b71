"""Tables as Parquet and CSV files, written column by column."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from ..common.errors import OptionError
from .reading import fail

if TYPE_CHECKING:
    import pyarrow as pa

_FORMULA = r"\A('*[=+@-])"
"""How text begins that a spreadsheet would take for a formula; `fields.ESCAPED` is what reading undoes."""


NO_COLUMN = (
    "a resource has a name with a dot, a number for a name, or a blank at its ends, which no column can be "
    "called; rename it, or ask for no table"
)
"""What is wrong with resources that cannot be columns."""


def can_be_columns(resources: Iterable[str]) -> bool:
    """Return whether every resource can stand in the name of a column, where dots and numbers lead down."""
    return not any("." in name or name.isdigit() or name != name.strip() for name in resources)


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
            what = "begins or ends with a blank, which CSV loses; write a Parquet table"
            raise OptionError(f"{path}: a text in column {field.name!r} {what}")
        safe = pc.replace_substring_regex(column, pattern=_FORMULA, replacement=r"'\1")
        table = table.set_column(position, field.name, safe)
    try:
        csv.write_csv(table, path, csv.WriteOptions(quoting_style="none"))
    except pa.ArrowInvalid:  # there are commas or quotes in the text
        csv.write_csv(table, path, csv.WriteOptions(quoting_style="needed"))
