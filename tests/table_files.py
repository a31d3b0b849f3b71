"""Tables as files, and which columns a reader asks for."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet

FORMATS = ("csv", "parquet")


ENDLESS = 10**9


def flat(value: Any, path: str = "") -> dict[str, Any]:
    """Return nested data as the cells of a row."""
    if isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        return {
            k: c for key, item in items for k, c in flat(item, f"{path}.{key}" if path else str(key)).items()
        }
    return {path: value}


def write_table(path: Path, cells: list[dict[str, Any]]) -> None:
    """Write rows of cells as the ending says; CSV cells that are text stand as they are."""
    names = list(dict.fromkeys(name for row in cells for name in row))
    if path.suffix == ".parquet":
        columns = [[row.get(name) for row in cells] for name in names]
        parquet.write_table(pa.table([pa.array(column) for column in columns], names=names), path)
        return
    lines = [",".join(names)]
    for row in cells:
        texts = ["" if row.get(name) is None else str(row[name]) for name in names]
        quoted = ['"' + text.replace('"', '""') + '"' for text in texts]
        pairs = zip(texts, quoted, strict=True)
        lines.append(",".join(q if set(text) & set(',"\n\r') else text for text, q in pairs))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8", newline="")


def clusterplan_command(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the command in a folder."""
    command = [sys.executable, "-m", "clusterplan", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


class CountedColumn(np.ndarray):  # type: ignore[type-arg]
    """A column that notes the largest piece of it that a calculation took."""

    most = 0

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        """Calculate as usual, and note the size."""
        CountedColumn.most = max(CountedColumn.most, *(np.size(given) for given in inputs))
        plain = [given.view(np.ndarray) if isinstance(given, CountedColumn) else given for given in inputs]
        return getattr(ufunc, method)(*plain, **options)


def most_cells_for_a_row(table: Any) -> int:
    """Return how many cells of one column, at most, are computed with when a table makes its rows."""
    columns = {field.name: getattr(table, field.name) for field in fields(table)}
    counted = {
        name: column.view(CountedColumn) for name, column in columns.items() if isinstance(column, np.ndarray)
    }
    watched: Sequence[Any] = replace(table, **counted)
    CountedColumn.most = 0
    assert list(watched) == list(table)
    return CountedColumn.most
