"""Tables of pandas as rows of a document; a column's name is the path of a field, as in a CSV file."""

from __future__ import annotations

import math
import sys
from typing import Any

from .table_rows import check_header, nested_row


def is_frame(value: Any) -> bool:
    """Return whether a value is a pandas table; pandas is not loaded to find out."""
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(value, pandas.DataFrame)


def frame_rows(value: Any, source: str) -> Any:
    """Return the rows of a pandas table as mappings of fields, and any other value as it is.

    A cell that is None or NaN is a field that is not given.

    Raises
    ------
    InstanceError
        If two columns have one name, or one stands where another has fields.
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
    """Return whether a cell holds nothing; pandas writes that as None, NaN or a value of its own."""
    if cell is None or type(cell).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(cell, float) and math.isnan(cell)
