"""Jobs in columns: the table that all allocation solvers use, and its Parquet and CSV files.

A table holds a million jobs. It is a sequence of `Job` objects, each made when it is
accessed. Ragged parts are cut by offsets: the variants of job j are `first_variant[j]` to
`first_variant[j + 1]`, the measured rows of variant v `first_row[v]` to `first_row[v + 1]`. Files are
written column by column.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from ..common.arrays import Flags, Floats, Ints
from ..common.speed import FORMULA_MODELS, FORMULAS, FormulaModel, Range, SpeedRow, SpeedTable
from ..files.tables import write_table
from .job import Configuration, Job, Variant

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


TABLE = -1
"""Model code of measured speeds; the other codes count through `FORMULAS`."""
MODELS = tuple(FORMULAS)
MAX_THETA = 5


@dataclass(frozen=True, eq=False)
class JobTable(Sequence[Job]):
    """Jobs, their variants and their measured speeds, in three sets of columns.

    Attributes
    ----------
    resources
        Names of the columns of the demands.
    names, remaining_steps, weight, beginning, restart_s
        One each for the J jobs.
    deadline_s, unplaced_s
        Shape (J,); infinite where a job has no deadline, NaN where it is not optional.
    current_variant, current_ps, current_workers
        Shape (J,); row of the variant with which a job runs now, -1 where it does not run.
    first_variant
        Shape (J + 1,).
    variant_names, worker_demand, ps_demand
        One each for the V variants; demands have shape (V, R).
    min_workers, max_workers, min_ps, max_ps
        Shape (V,); all 0 for measured speeds.
    model, theta, batch
        Shapes (V,), (V, 5), (V,): code of the speed model, θ filled up with 0, and M where it counts.
    first_row
        Shape (V + 1,).
    row_ps, row_workers, row_steps_per_s
        Measured speeds, sorted by workers, then parameter servers, within each variant.
    """

    resources: tuple[str, ...]
    names: Sequence[str]
    remaining_steps: Floats
    weight: Floats
    beginning: Flags
    deadline_s: Floats
    unplaced_s: Floats
    restart_s: Floats
    current_variant: Ints
    current_ps: Ints
    current_workers: Ints
    first_variant: Ints
    variant_names: Sequence[str]
    worker_demand: Floats
    ps_demand: Floats
    min_workers: Ints
    max_workers: Ints
    min_ps: Ints
    max_ps: Ints
    model: Ints
    theta: Floats
    batch: Floats
    first_row: Ints
    row_ps: Ints
    row_workers: Ints
    row_steps_per_s: Floats

    def __post_init__(self) -> None:
        for field in fields(self):
            column = getattr(self, field.name)
            if isinstance(column, np.ndarray):
                column.setflags(write=False)
            else:
                object.__setattr__(self, field.name, tuple(column))

    @classmethod
    def of(cls, jobs: Sequence[Job], resources: tuple[str, ...]) -> JobTable:
        """Return a column-oriented table of the jobs, with demands in the order of `resources`."""
        if isinstance(jobs, JobTable):
            return jobs._with_resources(resources)
        variants = [variant for job in jobs for variant in job.variants]
        first = offsets(_ints(len(job.variants) for job in jobs))
        tables = [v.speed.sorted_rows() if isinstance(v.speed, SpeedTable) else () for v in variants]
        rows = [row for table in tables for row in table]
        return cls(
            resources=resources,
            names=[job.name for job in jobs],
            remaining_steps=np.array([job.remaining_steps for job in jobs]),
            weight=np.array([job.weight for job in jobs]),
            beginning=np.array([job.stage == "beginning" for job in jobs]),
            deadline_s=np.array([np.inf if job.deadline_s is None else job.deadline_s for job in jobs]),
            unplaced_s=np.array([np.nan if job.unplaced_s is None else job.unplaced_s for job in jobs]),
            restart_s=np.array([job.restart_s for job in jobs]),
            **_current(jobs, first),
            first_variant=first,
            variant_names=[variant.name for variant in variants],
            worker_demand=_amounts([v.worker_demand for v in variants], resources),
            ps_demand=_amounts([v.ps_demand for v in variants], resources),
            **_ranges(variants),
            model=_ints(TABLE if v.speed.model == "table" else MODELS.index(v.speed.model) for v in variants),
            theta=np.array([_theta(variant) for variant in variants]),
            batch=np.array([getattr(variant.speed, "batch", 0.0) for variant in variants]),
            first_row=offsets(_ints(len(table) for table in tables)),
            row_ps=_ints(row.ps for row in rows),
            row_workers=_ints(row.workers for row in rows),
            row_steps_per_s=np.array([row.steps_per_s for row in rows], dtype=float),
        )

    def _with_resources(self, resources: tuple[str, ...]) -> JobTable:
        if resources == self.resources:
            return self
        column = {name: r for r, name in enumerate(self.resources)}
        pair = []
        for old in (self.worker_demand, self.ps_demand):
            none = np.zeros(len(old))
            new = [old[:, column[name]] if name in column else none for name in resources]
            pair.append(np.column_stack(new))
        return replace(self, resources=resources, worker_demand=pair[0], ps_demand=pair[1])

    def __len__(self) -> int:
        return len(self.names)

    @overload
    def __getitem__(self, index: int) -> Job: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Job, ...]: ...
    def __getitem__(self, index: int | slice) -> Job | tuple[Job, ...]:
        if isinstance(index, slice):
            return tuple(self._job(j) for j in range(*index.indices(len(self))))
        if not -len(self) <= index < len(self):
            raise IndexError(f"job {index} of {len(self)}")
        return self._job(index % len(self))

    @property
    def optional(self) -> Flags:
        """Which jobs may stay unplaced, shape (J,)."""
        return ~np.isnan(self.unplaced_s)

    @cached_property
    def owner(self) -> Ints:
        """Index of the job of each variant, shape (V,)."""
        return np.repeat(np.arange(len(self)), np.diff(self.first_variant))

    def sha256(self) -> str:
        """Return the hash of all columns of the table."""
        digest = hashlib.sha256()
        for field in fields(self):
            column = getattr(self, field.name)
            if isinstance(column, np.ndarray):
                digest.update(np.ascontiguousarray(column + 0.0, dtype="<f8").tobytes())  # -0.0 is 0.0
            else:
                digest.update(json.dumps(list(column)).encode())
        return digest.hexdigest()

    def to_frame(self) -> pd.DataFrame:
        """Return a table of pandas with one row for each variant of each job."""
        import pandas as pd

        owner = self.owner
        columns: dict[str, Any] = {
            "job": np.asarray(self.names, dtype=object)[owner],
            "remaining_steps": self.remaining_steps[owner],
            "weight": self.weight[owner],
            "optional": self.optional[owner],
            "variant": list(self.variant_names),
            "speed_model": np.array([*MODELS, "table"], dtype=object)[self.model],
        }
        for prefix, demand in (("worker", self.worker_demand), ("ps", self.ps_demand)):
            columns |= {f"{prefix}_{name}": demand[:, r] for r, name in enumerate(self.resources)}
        return pd.DataFrame(columns)

    def _job(self, j: int) -> Job:
        first, last = self.first_variant[j], self.first_variant[j + 1]
        now = int(self.current_variant[j])
        deadline, unplaced = float(self.deadline_s[j]), float(self.unplaced_s[j])
        optional = not np.isnan(unplaced)
        return Job(
            name=self.names[j],
            remaining_steps=float(self.remaining_steps[j]),
            weight=float(self.weight[j]),
            stage="beginning" if self.beginning[j] else "running",
            deadline_s=deadline if np.isfinite(deadline) else None,
            optional=optional,
            unplaced_s=unplaced if optional else None,
            current=None
            if now < 0
            else Configuration(
                variant=self.variant_names[now],
                ps=int(self.current_ps[j]),
                workers=int(self.current_workers[j]),
            ),
            restart_s=float(self.restart_s[j]),
            variants=tuple(self._variant(v) for v in range(first, last)),
        )

    def _variant(self, v: int) -> Variant:
        measured = self.model[v] == TABLE
        has_ps = not measured and self.max_ps[v] > 0
        return Variant(
            name=self.variant_names[v],
            worker_demand=self._named(self.worker_demand[v]),
            ps_demand=self._named(self.ps_demand[v]),
            workers=None if measured else Range(min=self.min_workers[v], max=self.max_workers[v]),
            ps=Range(min=self.min_ps[v], max=self.max_ps[v]) if has_ps else None,
            speed=self._speed(v),
        )

    def _named(self, demand: Floats) -> dict[str, float]:
        return {name: amount for name, amount in zip(self.resources, demand.tolist(), strict=True) if amount}

    def _speed(self, v: int) -> FormulaModel | SpeedTable:
        if self.model[v] == TABLE:
            rows = slice(self.first_row[v], self.first_row[v + 1])
            columns = (self.row_ps[rows], self.row_workers[rows], self.row_steps_per_s[rows])
            cells = zip(*(column.tolist() for column in columns), strict=True)
            listed = tuple(SpeedRow(ps=p, workers=w, steps_per_s=speed) for p, w, speed in cells)
            return SpeedTable(model="table", rows=listed)
        name = MODELS[int(self.model[v])]
        batch = {} if name == "ps_async" else {"batch": float(self.batch[v])}
        theta = self.theta[v, : FORMULAS[name][0]].tolist()
        return FORMULA_MODELS[name].model_validate({"model": name, "theta": theta, **batch})


def _ints(values: Iterable[int]) -> Ints:
    return np.array(list(values), dtype=np.int64)


def offsets(counts: Ints) -> Ints:
    """Return the start offsets of the runs of a ragged column, from their lengths; one more at the end."""
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


def _amounts(demands: Sequence[dict[str, float]], resources: tuple[str, ...]) -> Floats:
    rows = [[demand.get(name, 0.0) for name in resources] for demand in demands]
    return np.array(rows, dtype=float).reshape(len(demands), len(resources))


def _current(jobs: Sequence[Job], first: Ints) -> dict[str, Ints]:
    rows = []
    for job, start in zip(jobs, first.tolist(), strict=False):
        now = job.current
        if now is None:
            rows.append((-1, 0, 0))
        else:
            # The validation has made sure that the name is among them.
            names = [variant.name for variant in job.variants]
            rows.append((start + names.index(now.variant), now.ps, now.workers))
    variant, ps, workers = np.array(rows, dtype=np.int64).T
    return {"current_variant": variant, "current_ps": ps, "current_workers": workers}


def _ranges(variants: Sequence[Variant]) -> dict[str, Ints]:
    return {
        f"{end}_{key}": _ints(getattr(getattr(variant, key), end, 0) for variant in variants)
        for key in ("workers", "ps")
        for end in ("min", "max")
    }


def _theta(variant: Variant) -> list[float]:
    theta = getattr(variant.speed, "theta", ())
    return [*theta, *[0.0] * (MAX_THETA - len(theta))]


def write_jobs(table: JobTable, path: Path) -> None:
    """Write jobs to a Parquet or CSV file, as the ending of the path says.

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
    """Yield name and cells of each column; columns that hold only defaults are left out."""
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
    """Yield name and cells of each column of the variant with number v of the jobs that have it."""
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
        has_range = present & (high[at] > 0)
        if has_range.any():
            yield f"{key}.min", _cells(low[at], has_range)
            yield f"{key}.max", _cells(high[at], has_range)
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
    """Yield name and cells of each column of measured speeds; `at` has each job's variant, or −1."""
    counts = np.where(at < 0, 0, np.diff(table.first_row)[at])
    for k in range(int(counts.max())):
        given = counts > k
        row = np.where(given, table.first_row[at] + k, 0)
        yield f"speed.rows.{k}.workers", _cells(table.row_workers[row], given)
        yield f"speed.rows.{k}.ps", _cells(table.row_ps[row], given)
        yield f"speed.rows.{k}.steps_per_s", _cells(table.row_steps_per_s[row], given)


def _cells(values: Any, given: Flags) -> pa.Array:
    """Return numbers as an Arrow array, null where `given` is false."""
    import pyarrow as pa

    return pa.array(values, mask=~given)


def _words(words: tuple[str, ...], codes: Ints) -> pa.Array:
    """Return the words that codes index, as an Arrow array; null where the code is −1."""
    import pyarrow as pa

    return pa.array(words, type=pa.string()).take(pa.array(codes, mask=codes < 0))
