"""Job tables as Parquet and CSV files, written column by column."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..common.arrays import Flags, Ints
from ..common.speed import FORMULAS
from ..files.writing import write_table
from .job_table import MODELS, TABLE, JobTable

if TYPE_CHECKING:
    import pyarrow as pa


def write_jobs(table: JobTable, path: Path) -> None:
    """Write jobs to a Parquet or CSV file, as its ending says.

    Raises
    ------
    InstanceError
        If the file cannot be written.
    OptionError
        If a name would not survive CSV.
    """
    import pyarrow as pa

    write_table(pa.table(dict(_columns(table))), path)


def _columns(table: JobTable) -> Iterator[tuple[str, Any]]:
    """Yield name and cells of each column; columns that hold nothing but defaults are left out."""
    import pyarrow as pa

    yield "name", pa.array(table.names, type=pa.string())
    yield "remaining_steps", table.remaining_steps
    if (table.weight != 1).any():
        yield "weight", table.weight
    if table.beginning.any():
        yield "stage", _words(("running", "beginning"), table.beginning.astype(int))
    deadline = np.isfinite(table.deadline_s)
    if deadline.any():
        yield "deadline_s", _cells(table.deadline_s, deadline)
    if table.optional.any():
        yield "optional", table.optional
        yield "unplaced_s", _cells(table.unplaced_s, table.optional)
    if table.restart_s.any():
        yield "restart_s", table.restart_s
    running = table.current_variant >= 0
    if running.any():
        names = np.asarray(table.variant_names, dtype=object)[table.current_variant]
        yield "current.variant", pa.array(names, type=pa.string(), mask=~running)
        yield "current.ps", _cells(table.current_ps, running)
        yield "current.workers", _cells(table.current_workers, running)
    counts = np.diff(table.first_variant)
    for v in range(int(counts.max())):
        for name, cells in _variant_columns(table, v, counts > v):
            yield f"variants.{v}.{name}", cells


def _variant_columns(table: JobTable, v: int, present: Flags) -> Iterator[tuple[str, Any]]:
    """Yield name and cells of each column of the variant with number v."""
    import pyarrow as pa

    at = np.where(present, table.first_variant[:-1] + v, 0)
    names = np.asarray(table.variant_names, dtype=object)[at]
    yield "name", pa.array(names, type=pa.string(), mask=~present)
    for r, resource in enumerate(table.resources):
        yield f"worker_demand.{resource}", _cells(table.worker_demand[at, r], present)
        if table.ps_demand[at[present], r].any():
            yield f"ps_demand.{resource}", _cells(table.ps_demand[at, r], present)
    model = np.where(present, table.model[at], TABLE)
    for key, low, high in (
        ("workers", table.min_workers, table.max_workers),
        ("ps", table.min_ps, table.max_ps),
    ):
        there = present & (high[at] > 0)
        if there.any():
            yield f"{key}.min", _cells(low[at], there)
            yield f"{key}.max", _cells(high[at], there)
    yield (
        "speed.model",
        _words((*MODELS, "table"), np.where(present, table.model[at] % (len(MODELS) + 1), -1)),
    )
    counts = np.array([*(FORMULAS[name][0] for name in MODELS), 0])[model]
    for k in range(int(counts.max())):
        yield f"speed.theta.{k}", _cells(table.theta[at, k], k < counts)
    batched = (model >= 0) & (model != MODELS.index("ps_async"))
    if batched.any():
        yield "speed.batch", _cells(table.batch[at], batched)
    yield from _measured_columns(table, np.where(present, at, -1))


def _measured_columns(table: JobTable, at: Ints) -> Iterator[tuple[str, Any]]:
    """Yield name and cells of each column of measured speeds; `at` is −1 where there is no variant."""
    counts = np.where(at < 0, 0, np.diff(table.first_row)[at])
    for k in range(int(counts.max())):
        there = counts > k
        row = np.where(there, table.first_row[at] + k, 0)
        yield f"speed.rows.{k}.workers", _cells(table.row_workers[row], there)
        yield f"speed.rows.{k}.ps", _cells(table.row_ps[row], there)
        yield f"speed.rows.{k}.steps_per_s", _cells(table.row_steps_per_s[row], there)


def _cells(values: Any, there: Flags) -> pa.Array:
    """Return numbers as cells, null where there is none."""
    import pyarrow as pa

    return pa.array(values, mask=~there)


def _words(words: tuple[str, ...], codes: Ints) -> pa.Array:
    """Return a few words as cells, null where the code is −1."""
    import pyarrow as pa

    return pa.array(words, type=pa.string()).take(pa.array(codes, mask=codes < 0))
