"""Jobs in columns: the table that all allocation solvers use, and its Parquet and CSV files.

A table holds a million jobs. It is a sequence of `Job` objects, each made when it is
accessed. Ragged parts are cut by offsets: the variants of job j are `first_variant[j]` to
`first_variant[j + 1]`, the measured rows of variant v `first_row[v]` to `first_row[v + 1]`. Files are
written column by column.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from ..common.arrays import Flags, Floats, Ints, run_of_each
from ..common.column_table import ColumnTable
from ..common.speed import FORMULA_MODELS, FORMULAS, FormulaModel, Range
from ..files.columnar import Listed, Unless, columns_of, matrix, written
from .job import Configuration, Job, SpeedRow, SpeedTable, Variant

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


TABLE = -1
"""Model code of measured speeds; the other codes count through `FORMULAS`."""
MODELS = tuple(FORMULAS)
MAX_THETA = 5
ROW = ("ps", "workers", "steps_per_s")


@dataclass(frozen=True, eq=False)
class JobTable(ColumnTable[Job]):
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
    row_servers
        Number of servers of each measurement, 0 where any will do; None if no measurement names it.
    """

    AMOUNTS = ("worker_demand", "ps_demand")

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
    row_servers: Ints | None = None

    def __post_init__(self) -> None:
        for field in fields(self):
            column = getattr(self, field.name)
            if isinstance(column, np.ndarray):
                column.setflags(write=False)
            elif column is not None:
                object.__setattr__(self, field.name, tuple(column))

    @classmethod
    def of(cls, jobs: Sequence[Job], resources: tuple[str, ...]) -> JobTable:
        """Return a column-oriented table of the jobs, with demands in the order of `resources`."""
        if isinstance(jobs, JobTable):
            return jobs.with_resources(resources)
        return cls.of_columns(columns_of(jobs, (Job,)), resources)

    @classmethod
    def of_columns(cls, columns: Mapping[str, Any], resources: tuple[str, ...]) -> JobTable:
        """Return the table of jobs in columns as `columnar` has them, read from a table or from objects."""
        first, jobs = columns["variants"], len(columns["weight"])
        variants = columns["variants.name"]
        running, now = current_variants(columns)
        current = np.full(jobs, -1)
        current[running] = now
        model = columns["variants.speed.model"].codes
        row_ps, row_workers, row_speed = (columns[f"variants.speed.rows.{key}"] for key in ROW)
        first_row = columns["variants.speed.rows"]
        row_servers = _whole(np.nan_to_num(columns["variants.speed.rows.servers"]))
        # The last key counts first.
        order = np.lexsort((row_servers, row_ps, row_workers, run_of_each(first_row)))
        deadline = columns["deadline_s"]
        given: dict[str, Any] = {
            **{key: columns[key] for key in ("remaining_steps", "weight", "unplaced_s", "restart_s")},
            **{f"current_{key}": _whole(columns[f"current.{key}"]) for key in ("ps", "workers")},
            **{
                key: matrix(columns[f"variants.{key}"], resources, len(model))
                for key in ("worker_demand", "ps_demand")
            },
            **{
                f"{end}_{key}": _whole(columns[f"variants.{key}"] * columns[f"variants.{key}.{end}"])
                for key in ("workers", "ps")
                for end in ("min", "max")
            },
        }
        return cls(
            resources=resources,
            names=columns["name"].texts(),
            beginning=columns["stage"].codes == 0,
            deadline_s=np.where(np.isnan(deadline), np.inf, deadline),
            current_variant=current,
            first_variant=first,
            variant_names=variants.texts(),
            model=np.where(model == len(MODELS), TABLE, model),
            theta=np.column_stack([columns[f"variants.speed.theta.{k}"] for k in range(MAX_THETA)]),
            batch=columns["variants.speed.batch"],
            first_row=first_row,
            row_ps=_whole(row_ps[order]),
            row_workers=_whole(row_workers[order]),
            row_steps_per_s=row_speed[order],
            row_servers=row_servers[order] if row_servers.any() else None,
            **given,
        )

    def hashed(self) -> Iterator[Any]:
        """Yield the columns; one that is missing counts for nothing."""
        return (column for column in super().hashed() if column is not None)

    @property
    def optional(self) -> Flags:
        """Which jobs may stay unplaced, shape (J,)."""
        return ~np.isnan(self.unplaced_s)

    @cached_property
    def owner(self) -> Ints:
        """Index of the job of each variant, shape (V,)."""
        return run_of_each(self.first_variant)

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

    def _speed(self, v: int) -> FormulaModel | SpeedTable:
        if self.model[v] == TABLE:
            rows = slice(self.first_row[v], self.first_row[v + 1])
            servers = np.zeros_like(self.row_ps) if self.row_servers is None else self.row_servers
            columns = (self.row_ps[rows], self.row_workers[rows], self.row_steps_per_s[rows], servers[rows])
            cells = zip(*(column.tolist() for column in columns), strict=True)
            listed = tuple(
                SpeedRow(ps=p, workers=w, steps_per_s=speed, servers=k or None) for p, w, speed, k in cells
            )
            return SpeedTable(model="table", rows=listed)
        name = MODELS[int(self.model[v])]
        batch = {} if name == "ps_async" else {"batch": float(self.batch[v])}
        theta = self.theta[v, : FORMULAS[name][0]].tolist()
        return FORMULA_MODELS[name].model_validate({"model": name, "theta": theta, **batch})


def current_variants(columns: Any) -> tuple[Ints, Ints]:
    """Return the jobs in columns that run now with one of their variants, and its row among all variants."""
    first, names = columns["variants"], columns["variants.name"]
    owner = run_of_each(first)
    now = columns["current.variant"].codes_in(names.words)[owner]
    rows = np.flatnonzero((now == names.codes) & (now >= 0))
    return owner[rows], rows


def _whole(values: Floats) -> Ints:
    return values.astype(np.int64)


def written_jobs(table: JobTable) -> pa.Table:
    """Return jobs as the table of a file."""
    return written(_columns(table), len(table))


def _columns(table: JobTable) -> dict[str, Any]:
    """Return the columns of a file, those of variants and of measured speeds in lists."""
    still = table.current_variant < 0
    names: Any = np.asarray(table.variant_names, dtype=object)
    now = names[table.current_variant]
    now[still] = None
    return {
        "name": table.names,
        "remaining_steps": table.remaining_steps,
        "weight": Unless(table.weight, 1.0),
        "stage": Unless(np.where(table.beginning, "beginning", "running").astype(object), "running"),
        "deadline_s": Unless(np.where(np.isfinite(table.deadline_s), table.deadline_s, np.nan)),
        "optional": Unless(table.optional, False),
        "unplaced_s": Unless(table.unplaced_s),
        "restart_s": Unless(table.restart_s, 0.0),
        "current.variant": Unless(now),
        "current.ps": Unless(np.ma.masked_array(table.current_ps, still)),
        "current.workers": Unless(np.ma.masked_array(table.current_workers, still)),
        "variants": Listed(table.first_variant, _variant_columns(table, names)),
    }


def _variant_columns(table: JobTable, names: Any) -> dict[str, Any]:
    columns: dict[str, Any] = {"name": names}
    for r, resource in enumerate(table.resources):
        columns[f"worker_demand.{resource}"] = table.worker_demand[:, r]
        columns[f"ps_demand.{resource}"] = Unless(table.ps_demand[:, r], 0.0)
    for key in ("workers", "ps"):
        ends = getattr(table, f"min_{key}"), getattr(table, f"max_{key}")
        low, high = (np.ma.masked_array(end, ends[1] == 0) for end in ends)
        columns |= {f"{key}.min": low, f"{key}.max": high}
    columns["speed.model"] = np.array([*MODELS, "table"], dtype=object)[table.model]
    counts = np.array([*(FORMULAS[name][0] for name in MODELS), 0])[table.model]
    for k in range(MAX_THETA):
        columns[f"speed.theta.{k}"] = np.where(k < counts, table.theta[:, k], np.nan)
    # Every formula but one counts the batch, which is above 0.
    columns["speed.batch"] = np.where(table.batch > 0, table.batch, np.nan)
    rows = {"workers": table.row_workers, "ps": table.row_ps, "steps_per_s": table.row_steps_per_s}
    if table.row_servers is not None:
        rows["servers"] = np.ma.masked_equal(table.row_servers, 0)
    columns["speed.rows"] = Listed(table.first_row, rows)
    return columns
