"""A plain CSV of jobs, whose columns are named by options."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

from ..common.errors import Fault, Faults
from ..common.faults import validated_rows
from ..common.fields import Cell, Model, Name, NonNegative, Number, PositiveCount, PositiveTaskCount
from ..common.printable import some
from ..files.csv_tables import numbered_rows
from ..files.reading import fail, read_text
from ..scheduling.instance import SchedulingInstance
from .gpu_trace import gpu_row, gpu_trace
from .importer import Importer, ImportOptions, Option


class TraceOptions(ImportOptions):
    """A plain CSV with arrival, GPUs and duration of each job: a scheduling instance."""

    jobs: Annotated[Path, Option("CSV or CSV.gz, one row for each job.", argument="jobs")]
    arrival: Annotated[Name, Option("Column of the arrival: seconds, or dates and times.")]
    gpus_column: Annotated[Name, Option("Column of the GPUs that a job asks for.")]
    duration: Annotated[Name, Option("Column of the seconds that a job runs.")]
    gpus: Annotated[PositiveCount, Option("GPUs of the cluster.")]
    name: Annotated[Name | None, Option("Column of the names. [default: jobs are numbered]")] = None
    tenant: Annotated[Name | None, Option("Column of the tenants.")] = None
    estimate: Annotated[Name | None, Option("Column of the seconds that users said.")] = None
    drop_zero: Annotated[bool, Option("Leave out jobs with a duration of 0.")] = False


class _Row(Model):
    gpus: PositiveTaskCount
    duration_s: NonNegative
    name: Name | None = None
    tenant: Name | None = None
    estimate_s: Number | None = None


class _Seconds(Model):
    arrival: NonNegative


@Importer
def import_trace(options: TraceOptions) -> SchedulingInstance:
    """Return the scheduling instance of a CSV file."""
    source = str(options.jobs)
    header, rows = numbered_rows(read_text(options.jobs), source)
    columns = _columns(options, header, source)
    arrivals, dated = _arrivals(rows, options.arrival, source)
    renamed = (
        (line, {field: cells[column] for field, column in columns.items() if column in cells})
        for line, cells in rows
    )
    jobs = list(_jobs(validated_rows(_Row, renamed, source), arrivals, options))
    if not jobs:
        raise fail(source, "has a header but no jobs")
    assumptions = [f"The cluster is chosen, not the source's: {options.gpus:,} GPUs in one pool."]
    if dated:
        assumptions.append(f"Time 0 is the first arrival, {dated}.")
    if len(jobs) < len(rows):
        assumptions.append(f"{len(rows) - len(jobs):,} jobs with a duration of 0 are left out.")
    return gpu_trace(
        options.jobs.name.split(".")[0],
        options.jobs.name,
        {"resources": {"gpu": options.gpus}},
        jobs,
        assumptions,
        source,
    )


def _columns(options: TraceOptions, header: list[str], source: str) -> dict[str, str]:
    """Return the column of each field that has one.

    Raises
    ------
    InstanceError
        If a column that is named is not there.
    """
    named = {
        "gpus": options.gpus_column,
        "duration_s": options.duration,
        "name": options.name,
        "tenant": options.tenant,
        "estimate_s": options.estimate,
    }
    columns = {field: column for field, column in named.items() if column is not None}
    for column in (options.arrival, *columns.values()):
        if column not in header:
            raise fail(source, f"has no column {column!r}; there are: {some(header, 20)}", "line 1")
    return columns


def _arrivals(
    rows: list[tuple[int, dict[str, Cell]]], column: str, source: str
) -> tuple[dict[int, float], datetime | None]:
    """Return the seconds of each arrival by line, and the date of time 0 where arrivals are dates.

    Raises
    ------
    InstanceError
        If one is neither seconds nor a date, or only some have a time zone.
    """
    first = next((cells[column] for _, cells in rows if column in cells), None)
    moment = _moment(first)
    if moment is None:
        cells = ((line, {"arrival": c[column]} if column in c else {}) for line, c in rows)
        return {line: row.arrival for line, row in validated_rows(_Seconds, cells, source)}, None
    found: dict[int, datetime] = {}
    faults = Faults()
    for line, row_cells in rows:
        at = _moment(row_cells.get(column))
        if at is None:
            what = "is no date and time, as in the rows before; write 2017-11-01 12:00:00"
            faults.add(Fault(f"{source}: line {line}", column, what))
        elif (at.tzinfo is None) != (moment.tzinfo is None):
            what = "has a time zone and the first row has none, or the reverse; give all or none of them one"
            faults.add(Fault(f"{source}: line {line}", column, what))
        else:
            found[line] = at
        if faults.stop():
            break
    faults.refuse()
    begin = min(found.values())
    return {line: (at - begin).total_seconds() for line, at in found.items()}, begin


def _moment(cell: str | None) -> datetime | None:
    """Return the date and time that a cell holds; None if it holds none."""
    try:
        # A number alone, such as 20171101, is seconds.
        return None if cell is None or "-" not in cell[1:] else datetime.fromisoformat(cell)
    except ValueError:
        return None


def _jobs(
    rows: Iterator[tuple[int, _Row]], arrivals: dict[int, float], options: TraceOptions
) -> Iterator[dict[str, Any]]:
    for number, (line, row) in enumerate(rows, 1):
        if row.duration_s == 0 and options.drop_zero:
            continue
        others = {"tenant": row.tenant, "estimate_s": row.estimate_s}
        given = {key: value for key, value in others.items() if value is not None}
        yield gpu_row(row.name or f"job-{number}", arrivals[line], row.gpus, row.duration_s, **given)
