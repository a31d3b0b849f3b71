"""Tables written cell by cell."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

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
