"""Large tables of jobs: reading into a `JobTable` without an object for each row, and writing.

The rules of `SchedulingJob` are checked on whole columns, to find the rows that may be invalid. These are
validated like the rows of small tables, which gives the error messages.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..common.arrays import Flags, Floats, Ints
from ..common.errors import Faults, InstanceError, OptionError
from ..common.faults import validated
from ..common.fields import LARGEST
from ..files.columns import Columns
from ..files.tables import MANY_ROWS, NO_COLUMN, can_be_columns, write_table
from ..references import Folder
from .instance import SchedulingInstance
from .jobs import LONGEST_S, JobTable, SchedulingJob, in_first_order

DEMAND, SPEEDS = "demand.", "speeds."
NUMBERS = {
    "arrival_s": (0.0, LONGEST_S),
    "weight": (0.0, LARGEST),
    "duration_s": (5e-324, LONGEST_S),
    "estimate_s": (5e-324, LONGEST_S),
    "deadline_s": (0.0, LONGEST_S),
    "restart_s": (0.0, LONGEST_S),
    "step_s": (5e-324, LONGEST_S),
}
"""Columns of numbers, with the least and the largest allowed value."""
MAX_TASKS = 100_000
DEFAULTS = {"arrival_s": 0.0, "weight": 1.0, "tasks": 1.0}
TEXTS = ("name", "tenant", "model")
LONGEST_NAME = 200
_DEMAND = re.compile(r"demand\..+")
MAX_SUSPECTS = 20_000


def resolved(data: dict[str, Any], source: str, _: Folder) -> SchedulingInstance | dict[str, Any]:
    """Return the instance if the document's jobs are a large table; else the document unchanged."""
    columns = data.get("jobs")
    if not isinstance(columns, Columns):
        return data
    return validated(SchedulingInstance, {**data, "jobs": read_jobs(columns, source)}, source)


def read_jobs(columns: Columns, source: str) -> JobTable | list[dict[str, Any]]:
    """Return the jobs of a table as a `JobTable`, or its rows if it has to be read row by row.

    Raises
    ------
    InstanceError
        If rows are invalid; the first hundred are named.
    """
    known = {*NUMBERS, *TEXTS, "tasks"}
    if not all(name in known or _DEMAND.fullmatch(name) for name in columns.names):
        return columns.rows()  # which says what is unknown
    wrong = np.zeros(len(columns), dtype=bool)
    numbers: dict[str, Any] = {
        name: _numbers(columns, name, limits, wrong) for name, limits in NUMBERS.items()
    }
    tasks = _whole(columns, wrong)
    resources = tuple(name.removeprefix(DEMAND) for name in columns.names if name.startswith(DEMAND))
    demand = np.zeros((len(columns), len(resources)))
    for r, name in enumerate(resources):
        demand[:, r] = np.nan_to_num(_numbers(columns, DEMAND + name, (0.0, LARGEST), wrong))
    if not resources:
        wrong[:] = True
    codes = {name: _texts(columns, name, wrong) for name in TEXTS}
    wrong |= (codes["name"][0] < 0) | np.isnan(numbers["duration_s"])
    if wrong.any():
        _refuse(columns, np.flatnonzero(wrong)[:MAX_SUSPECTS], source)
        return columns.rows()
    for name, default in DEFAULTS.items():
        column = numbers.get(name)
        if column is not None:
            column[np.isnan(column)] = default
    words = codes["name"][1]
    return JobTable(
        resources=resources,
        names=[words[code] for code in codes["name"][0].tolist()],
        tasks=tasks,
        demand=demand,
        tenant=codes["tenant"][0],
        tenants=codes["tenant"][1],
        model=codes["model"][0],
        models=codes["model"][1],
        **numbers,
        malleable={},
    )


def _numbers(columns: Columns, name: str, limits: tuple[float, float], wrong: Flags) -> Floats:
    """Return a column of numbers, NaN for empty cells; mark in `wrong` the rows outside the bounds."""
    if name not in columns.names:
        return np.full(len(columns), np.nan)
    values = np.array(columns.numbers(name))
    least, most = limits
    wrong |= columns.given(name) & ~((values >= least) & (values <= most))
    return values


def _whole(columns: Columns, wrong: Flags) -> Ints:
    if "tasks" not in columns.names:
        return np.ones(len(columns), dtype=np.int64)
    values = columns.whole_numbers("tasks")
    given = columns.given("tasks")
    wrong |= given & ~((values >= 1) & (values <= MAX_TASKS))
    return np.where(given, np.nan_to_num(values), 1).astype(np.int64)


def _texts(columns: Columns, name: str, wrong: Flags) -> tuple[Ints, tuple[str, ...]]:
    """Return a column as (indices, texts), with the texts in the order of their first rows."""
    if name not in columns.names:
        return np.full(len(columns), -1), ()
    codes, words = columns.texts(name)
    wrong |= columns.given(name) & (codes < 0)
    odd = [not (w.isprintable() and w.strip() and len(w) <= LONGEST_NAME) for w in words]
    wrong |= np.array([*odd, False])[codes]
    return in_first_order(codes, words)


def _refuse(columns: Columns, suspects: Ints, source: str) -> None:
    """Raise the faults of the first invalid rows."""
    faults = Faults()
    for index, row in zip(suspects.tolist(), columns.rows(suspects), strict=True):
        try:
            validated(SchedulingJob, row, source)
        except InstanceError as error:
            faults.add_all(error, f"jobs[{index}]")
            if faults.stop():
                break
    faults.refuse()


def wants_table(instance: SchedulingInstance) -> bool:
    """Return whether the jobs are many, and can be saved in a table beside the document."""
    table = instance.table()
    return len(table) >= MANY_ROWS and can_be_columns(instance.pool) and _in_columns(table)


def write_jobs(instance: SchedulingInstance, path: Path, ending: str) -> dict[str, str]:
    """Write the jobs to NAME-jobs beside a document; return the name of the file by its key.

    Raises
    ------
    InstanceError
        If the file cannot be written.
    OptionError
        If a table cannot hold them.
    """
    import pyarrow as pa

    if not can_be_columns(instance.pool):
        raise OptionError(f"{path}: {NO_COLUMN}")
    if not _in_columns(instance.table()):
        raise OptionError(f"{path}: a table cannot hold the variants of malleable jobs; write a document")
    reference = f"{path.stem}-jobs.{ending}"
    write_table(pa.table(dict(_columns(instance.table()))), path.with_name(reference))
    return {"jobs": reference}


def _in_columns(table: JobTable) -> bool:
    """Return whether a table can hold all jobs: none has variants."""
    return all(job.variants is None for job in table.malleable.values())


def _columns(table: JobTable) -> Mapping[str, Any]:
    """Return the columns of a table that hold not only defaults; NaN becomes an empty cell."""
    import pyarrow as pa

    columns: dict[str, Any] = {"name": pa.array(table.names, pa.string())}
    for name in ("arrival_s", "duration_s", "weight", "estimate_s", "deadline_s", "restart_s", "step_s"):
        values = getattr(table, name)
        empty = np.isnan(values)
        if name == "duration_s":
            empty[list(table.malleable)] = True
        if name in ("arrival_s", "duration_s") or not (empty | (values == DEFAULTS.get(name))).all():
            columns[name] = pa.array(values, mask=empty)
    tasks = table.tasks.copy()
    tasks[list(table.malleable)] = 1
    if (tasks != 1).any():
        columns["tasks"] = pa.array(tasks)
    for r, name in enumerate(table.resources):
        columns[DEMAND + name] = pa.array(table.demand[:, r], mask=table.demand[:, r] == 0)
    if table.malleable:
        columns |= _malleable_columns(table)
    for name, codes, words in (
        ("tenant", table.tenant, table.tenants),
        ("model", table.model, table.models),
    ):
        if (codes >= 0).any():
            columns[name] = pa.array([words[code] if code >= 0 else None for code in codes.tolist()])
    spreading = table.spreading
    if spreading is not None:
        columns["skew"] = pa.array(spreading.skew, mask=np.isnan(spreading.skew))
        for k in sorted({k for listed in spreading.listed for k in listed}):
            speeds = [spreading.listed[p].get(k) if p >= 0 else None for p in spreading.profile.tolist()]
            columns[f"speed_by_servers.{k}"] = pa.array(speeds, pa.float64())
    return columns


def _malleable_columns(table: JobTable) -> dict[str, Any]:
    """Return the columns of work, speed by number of tasks, and requested configuration."""
    import pyarrow as pa

    own = [table.malleable.get(j) for j in range(len(table))]
    speeds = [{} if job is None else dict(job.speeds or {}) for job in own]
    return {
        "work": pa.array([None if job is None else job.work for job in own], pa.float64()),
        **{
            f"{SPEEDS}{count}": pa.array([given.get(count) for given in speeds], pa.float64())
            for count in sorted({count for given in speeds for count in given})
        },
        "requested": pa.array([None if job is None else job.requested for job in own], pa.string()),
    }
