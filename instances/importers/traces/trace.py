"""A plain CSV of jobs, whose columns are named by options."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

from ...common.errors import Fault, Faults, InstanceError
from ...common.faults import validated_rows
from ...common.fields import Cell, Model, Name, PositiveCount, PositiveTaskCount
from ...common.printable import shown, some
from ...files.csv_tables import check_separated, numbered_rows
from ...files.reading import fail, read_text
from ...scheduling.instance import SchedulingInstance
from ...scheduling.job import Duration, Time
from ..importer import Importer, ImportOptions, Option
from ..node_restrictions import counted
from .gpu_trace import Origin, gpu_row, gpu_trace

DATE = " of seconds, or a date and time such as 2017-11-01 12:00:00"
UNIX_SINCE_S = 1e8
"""Arrivals that all come later are seconds since 1970, not since the start of a trace."""


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
    duration_s: Time
    name: Name | None = None
    tenant: Name | None = None
    estimate_s: Duration | None = None


class _Seconds(Model):
    arrival: Time


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
    jobs = dict(_jobs(_valid(renamed, columns, source), arrivals, options, source))
    if not jobs:
        raise fail(source, "has no job that runs at all; all durations are 0")
    assumptions = [f"The cluster is chosen, not the source's: {options.gpus:,} GPUs in one pool."]
    if dated:
        assumptions.append(f"Time 0 is the first arrival, {dated}.")
    if len(jobs) < len(rows):
        out = counted(len(rows) - len(jobs), "job", "jobs")
        assumptions.append(f"Left out: {out} with a duration of 0.")
    return gpu_trace(
        options.jobs.name.split(".")[0],
        options.jobs.name,
        {"resources": {"gpu": options.gpus}},
        list(jobs.values()),
        assumptions,
        Origin(source, list(jobs), {**columns, "arrival_s": options.arrival, "tasks": options.gpus_column}),
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
            check_separated(header, source)
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
        return _seconds(rows, column, source)
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


def _seconds(
    rows: list[tuple[int, dict[str, Cell]]], column: str, source: str
) -> tuple[dict[int, float], datetime | None]:
    """Return arrivals that are seconds; those of a clock count from the first."""
    cells = ((line, {"arrival": found[column]} if column in found else {}) for line, found in rows)
    try:
        found = {line: row.arrival for line, row in validated_rows(_Seconds, cells, source)}
    except InstanceError as error:
        raise _with_columns(error, {"arrival": column}, DATE) from None
    begin = min(found.values(), default=0.0)
    if begin < UNIX_SINCE_S:
        return found, None
    return {line: at - begin for line, at in found.items()}, datetime.fromtimestamp(begin, UTC)


def _with_columns(error: InstanceError, columns: Mapping[str, str], more: str = "") -> InstanceError:
    """Return an error whose faults name the columns of the file."""
    return InstanceError(
        [
            Fault(fault.source, columns.get(fault.path, fault.path), _longer(fault.what, more))
            for fault in error.faults
        ],
        error.more,
        error.stopped,
    )


def _longer(what: str, more: str) -> str:
    return f"{what}{more}" if "not a number" in what else what


def _moment(cell: str | None) -> datetime | None:
    """Return the date and time that a cell holds; None if it holds none."""
    try:
        # A number alone, such as 20171101, is seconds.
        return None if cell is None or "-" not in cell[1:] else datetime.fromisoformat(cell)
    except ValueError:
        return None


def _valid(
    rows: Iterable[tuple[int, dict[str, Cell]]], columns: Mapping[str, str], source: str
) -> list[tuple[int, _Row]]:
    """Return the rows as jobs; faults name the columns of the file.

    Raises
    ------
    InstanceError
        If a row is wrong; one fault each.
    """
    try:
        return list(validated_rows(_Row, rows, source))
    except InstanceError as error:
        raise _with_columns(error, columns) from None


def _jobs(
    rows: list[tuple[int, _Row]], arrivals: dict[int, float], options: TraceOptions, source: str
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the place of each job and the job, but those without a duration if they are to be left out.

    Raises
    ------
    InstanceError
        If a job runs for no time, asks for more than there is, or has the name of another.
    """
    faults, lines = Faults(), dict[str, int]()
    for number, (line, row) in enumerate(rows, 1):
        if row.duration_s == 0 and options.drop_zero:
            continue
        name = row.name or f"job-{number}"
        for column, what in _wrong(name, row, lines, options):
            faults.add(Fault(f"{source}: line {line}", column, what))
        if faults.stop():
            break
        lines[name] = line
        others = {"tenant": row.tenant, "estimate_s": row.estimate_s}
        given = {key: value for key, value in others.items() if value is not None}
        yield f"line {line}", gpu_row(name, arrivals[line], row.gpus, row.duration_s, **given)
    faults.refuse()


def _wrong(
    name: str, row: _Row, lines: Mapping[str, int], options: TraceOptions
) -> Iterator[tuple[str, str]]:
    """Yield column and fault of what is wrong with a row beside its cells."""
    if row.duration_s == 0:
        yield options.duration, "is 0, and a job runs for some time; --drop-zero leaves such jobs out"
    if row.gpus > options.gpus:
        what = f"is {row.gpus:,}, and the cluster has {options.gpus:,} GPUs; raise --gpus, or leave it out"
        yield options.gpus_column, what
    if name in lines:
        what = f"is {shown(name)}, as in line {lines[name]}; names are different, or leave --name out"
        yield options.name or "name", what
