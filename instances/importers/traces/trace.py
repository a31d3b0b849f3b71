"""A plain CSV of jobs, whose columns are named by options."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

from ...common.errors import Fault, Faults, InstanceError, OptionError
from ...common.faults import validated_rows
from ...common.fields import Cell, Model, Name, NonNegative, Positive, PositiveCount, PositiveTaskCount
from ...common.printable import shown, some
from ...files.csv_tables import check_separated, numbered_rows
from ...files.reading import fail, read_text
from ...scheduling.instance import SchedulingInstance
from ..importer import Importer, ImportOptions, Option
from ..node_restrictions import counted
from .gpu_trace import Origin, gpu_row, gpu_trace
from .units import ColumnUnit, TimeUnit

DATE = ", or a date and time such as 2017-11-01 12:00:00"
BY_NAME = "[default: what its name ends with, such as _min; else s]"
UNIX_SINCE_S = 1e8
"""Arrivals that all come later are seconds since 1970, not since the start of a trace."""


LAST_S = 1e11
"""What comes later is refused with the jobs, and is no date."""


class TraceOptions(ImportOptions):
    """A plain CSV with arrival, GPUs and duration of each job: a scheduling instance."""

    jobs: Annotated[Path, Option("CSV or CSV.gz, one row for each job.", argument="jobs")]
    arrival: Annotated[Name, Option("Column of the arrival: a number, or dates and times.")]
    gpus_column: Annotated[Name, Option("Column of the GPUs that a job asks for.")]
    duration: Annotated[Name, Option("Column of how long a job runs.")]
    gpus: Annotated[PositiveCount, Option("GPUs of the cluster.")]
    name: Annotated[Name | None, Option("Column of the names. [default: jobs are numbered]")] = None
    tenant: Annotated[Name | None, Option("Column of the tenants.")] = None
    estimate: Annotated[Name | None, Option("Column of how long users said that a job runs.")] = None
    arrival_unit: Annotated[TimeUnit | None, Option(f"Unit of numbers of --arrival. {BY_NAME}")] = None
    duration_unit: Annotated[TimeUnit | None, Option(f"Unit of --duration. {BY_NAME}")] = None
    estimate_unit: Annotated[TimeUnit | None, Option(f"Unit of --estimate. {BY_NAME}")] = None
    drop_zero: Annotated[bool, Option("Leave out jobs with a duration of 0.")] = False


class _Row(Model):
    gpus: PositiveTaskCount
    duration_s: NonNegative
    name: Name | None = None
    tenant: Name | None = None
    estimate_s: Positive | None = None


class _Arrival(Model):
    arrival: NonNegative


@Importer
def import_trace(options: TraceOptions) -> SchedulingInstance:
    """Return the scheduling instance of a CSV file."""
    source = str(options.jobs)
    header, rows = numbered_rows(read_text(options.jobs), source)
    columns = _columns(options, header, source)
    arrivals, dated, assumptions = _arrivals(rows, options, source)
    units = _units(options)
    renamed = (
        (line, {field: cells[column] for field, column in columns.items() if column in cells})
        for line, cells in rows
    )
    valid = _in_seconds(_valid(renamed, columns, source), units)
    jobs = dict(_jobs(valid, arrivals, options, source))
    if not jobs:
        raise fail(source, "has no job that runs at all; all durations are 0")
    assumptions += [unit.sentence(columns[field]) for field, unit in units.items()]
    assumptions.append(f"The cluster is chosen, not the source's: {options.gpus:,} GPUs in one pool.")
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


def _units(options: TraceOptions) -> dict[str, ColumnUnit]:
    """Return the unit of each field of a row that is a time."""
    units = {"duration_s": ColumnUnit.of(options.duration, options.duration_unit, "--duration-unit")}
    if options.estimate is not None:
        units["estimate_s"] = ColumnUnit.of(options.estimate, options.estimate_unit, "--estimate-unit")
    elif options.estimate_unit is not None:
        raise OptionError("--estimate-unit is the unit of a column; name the column with --estimate")
    return units


def _in_seconds(rows: Iterable[tuple[int, _Row]], units: Mapping[str, ColumnUnit]) -> list[tuple[int, _Row]]:
    """Return the rows with their times in seconds."""
    return [
        (
            line,
            row.model_copy(
                update={
                    field: unit.in_seconds(value)
                    for field, unit in units.items()
                    if (value := getattr(row, field)) is not None
                }
            ),
        )
        for line, row in rows
    ]


def _arrivals(
    rows: list[tuple[int, dict[str, Cell]]], options: TraceOptions, source: str
) -> tuple[dict[int, float], datetime | None, list[str]]:
    """Return the seconds of each arrival by line, the date of time 0 if known, and the unit in words.

    Raises
    ------
    InstanceError
        If one is neither a number nor a date, or only some have a time zone.
    OptionError
        If dates are given a unit.
    """
    column = options.arrival
    first = next((cells[column] for _, cells in rows if column in cells), None)
    moment = _moment(first)
    if moment is None:
        unit = ColumnUnit.of(column, options.arrival_unit, "--arrival-unit")
        return *_counted(rows, column, unit, source), [unit.sentence(column)]
    if options.arrival_unit is not None:
        raise OptionError(
            f"--arrival-unit is the unit of numbers, and column {column!r} holds dates; leave it out"
        )
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
    return {line: (at - begin).total_seconds() for line, at in found.items()}, begin, []


def _counted(
    rows: list[tuple[int, dict[str, Cell]]], column: str, unit: ColumnUnit, source: str
) -> tuple[dict[int, float], datetime | None]:
    """Return arrivals that are numbers, in seconds; those of a clock count from the first."""
    cells = ((line, {"arrival": found[column]} if column in found else {}) for line, found in rows)
    try:
        given = {line: row.arrival for line, row in validated_rows(_Arrival, cells, source)}
    except InstanceError as error:
        raise _with_columns(error, {"arrival": column}, DATE) from None
    found = {line: unit.in_seconds(at) for line, at in given.items()}
    begin = min(found.values(), default=0.0)
    if not UNIX_SINCE_S <= begin <= LAST_S:
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
