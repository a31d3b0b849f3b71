"""Tables as files, and which columns a reader asks for."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import yaml
from pyarrow import parquet

from clusterplan.instances.common.errors import InstanceError
from clusterplan.instances.documents import load
from clusterplan.instances.files import tables

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
    """Write rows of cells as the ending says; CSV cells that are text stand as they are.

    A column of a Parquet file has one type: cells of several become text.
    """
    names = list(dict.fromkeys(name for row in cells for name in row))
    if path.suffix == ".parquet":
        columns = [_of_one_type([row.get(name) for row in cells]) for name in names]
        parquet.write_table(pa.table([pa.array(column) for column in columns], names=names), path)
        return
    lines = [",".join(names)]
    for row in cells:
        texts = ["" if row.get(name) is None else str(row[name]) for name in names]
        quoted = ['"' + text.replace('"', '""') + '"' for text in texts]
        pairs = zip(texts, quoted, strict=True)
        lines.append(",".join(q if set(text) & set(',"\n\r') else text for text, q in pairs))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8", newline="")


def _of_one_type(column: list[Any]) -> list[Any]:
    if len({int if type(cell) is float else type(cell) for cell in column if cell is not None}) < 2:
        return column
    return [None if cell is None else str(cell) for cell in column]


def put(folder: Path, ending: str, document: Mapping[str, Any], **lists: list[dict[str, Any]]) -> Path:
    """Write a document with lists that are tables of these cells; return its path."""
    for key, cells in lists.items():
        write_table(folder / f"{key}.{ending}", cells)
    path = folder / "d.yaml"
    references = {key: f"{key}.{ending}" for key in lists}
    path.write_text(yaml.safe_dump({**document, **references}), encoding="utf-8")
    return path


def outcome(path: Path, many: int) -> tuple[list[str], str, Any]:
    """Return the faults of a document, or its hash and the instance, with columns from `many` rows on."""
    before, tables.MANY_ROWS = tables.MANY_ROWS, many
    try:
        instance = load(path)
    except InstanceError as error:
        return str(error).split("\n"), "", None
    finally:
        tables.MANY_ROWS = before
    return [], instance.sha256(), instance


def fine_jobs() -> list[dict[str, Any]]:
    """Return the cells of one fine job of each speed model, then two with all that a job may have."""
    demand = {"worker_demand.cpu": 1, "worker_demand.gpu": 1.5, "ps_demand.cpu": 2}
    ranges = {"workers.min": 2, "workers.max": 4, "ps.min": 1, "ps.max": 3}
    theta = {f"speed.theta.{k}": 0.1 * k for k in range(5)}
    sync = {"name": "v", **demand, **ranges, "speed.model": "ps_sync", **theta, "speed.batch": 16}
    asynchronous = {k: v for k, v in sync.items() if k not in ("speed.theta.4", "speed.batch")}
    asynchronous |= {"name": "a", "speed.model": "ps_async"}
    ring = {k: v for k, v in sync.items() if k != "speed.theta.4" and not k.startswith("ps.")}
    ring |= {"name": "r", "speed.model": "ring_allreduce"}
    rows = {f"speed.rows.{k}.{c}": v for k in (0, 1) for c, v in (("workers", 2 - k), ("steps_per_s", 1.5))}
    measured = {"name": "t", "worker_demand.gpu": 1, "speed.model": "table", **rows, "speed.rows.0.ps": 1}
    optional = {"optional": True, "unplaced_s": 5, "deadline_s": 10}
    now = {
        "current.variant": "t",
        "current.ps": 1,
        "current.workers": 2,
        "restart_s": 3,
        "stage": "beginning",
    }
    made = [([sync], {}), ([asynchronous], {}), ([ring], {}), ([measured], {})]
    made += [([measured, sync], optional), ([ring, measured, asynchronous], now)]
    return [
        {"name": f"j{j}", "remaining_steps": 100, **more}
        | {f"variants.{v}.{k}": c for v, variant in enumerate(variants) for k, c in variant.items()}
        for j, (variants, more) in enumerate(made)
    ]


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
