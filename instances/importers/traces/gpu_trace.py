"""Importer of traces from a plain CSV with named columns, and rows that all importers of traces share.

The columns of a plain CSV are given by options. The time unit of a column is given by an option, or by the
column's name. Jobs become those of a scheduling instance, or of a consolidation document.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from ...common.errors import Fault, Faults, InstanceError, OptionError, shown, some
from ...common.faults import validated, validated_rows
from ...common.fields import Cell, Model, Name, NonNegative, Positive, PositiveCount, PositiveTaskCount
from ...files.csv_tables import check_separated, model_rows, numbered_rows
from ...files.reading import fail, read_text
from ...scheduling.instance import SchedulingInstance
from ..importer import Importer, ImportOptions, Option
from ..node_restrictions import counted

TimeUnit = Literal["us", "ms", "s", "min", "h", "d"]

WORDS: dict[TimeUnit, str] = {
    "us": "microseconds",
    "ms": "milliseconds",
    "s": "seconds",
    "min": "minutes",
    "h": "hours",
    "d": "days",
}
_SECONDS: dict[TimeUnit, tuple[int, int]] = {
    "us": (1, 10**6),
    "ms": (1, 1000),
    "s": (1, 1),
    "min": (60, 1),
    "h": (3600, 1),
    "d": (86400, 1),
}
"""Seconds of a unit as a fraction: division by 1,000 rounds once, multiplication by 0.001 twice."""
_NAMES: dict[str, TimeUnit] = {
    **dict.fromkeys(("us", "µs", "usec", "usecs", "micros", "microsecond", "microseconds"), "us"),
    **dict.fromkeys(("ms", "msec", "msecs", "millis", "millisecond", "milliseconds"), "ms"),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), "s"),
    **dict.fromkeys(("min", "mins", "minute", "minutes"), "min"),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), "h"),
    **dict.fromkeys(("d", "day", "days"), "d"),
}
_WORD = re.compile(r"[A-Zµ]?[a-zµ]+|[A-Zµ]+")


@dataclass(frozen=True)
class ColumnUnit:
    """The time unit of a column, and how it was determined.

    Attributes
    ----------
    unit
        The unit of its numbers.
    why
        The end of the sentence about it: how it was determined.
    """

    unit: TimeUnit
    why: str

    @classmethod
    def of(cls, column: str, given: TimeUnit | None, option: str) -> ColumnUnit:
        """Return the unit of a column: that of the option, else that in its name, else seconds."""
        if given is not None:
            return cls(given, f", by {option}")
        named = unit_of_name(column)
        if named is None:
            return cls("s", f"; its name has no unit, and {option} takes another")
        return cls(named, f", as its name says; {option} takes another")

    def in_seconds(self, value: float) -> float:
        """Return a number of the column converted to seconds."""
        many, parts = _SECONDS[self.unit]
        return value * many / parts

    def sentence(self, column: str) -> str:
        """Return the assumption about the unit of the column."""
        return f"Column {column!r} is in {WORDS[self.unit]}{self.why}."


def unit_of_name(column: str) -> TimeUnit | None:
    """Return the unit at the end of a column's name, such as ``runtime_min``, ``waitMs`` or ``time [h]``.

    None if there is none; a single ``m`` is ambiguous and counts as none.
    """
    words = _WORD.findall(column)
    return _NAMES.get(words[-1].lower()) if words else None


def gpu_job(name: str, gpus: int, spread: str, **others: Any) -> dict[str, Any]:
    """Return a consolidation job with one task per GPU, as a document has it."""
    return {"name": name, "tasks": gpus, "task_demand": {"gpu": 1}, "spread": spread, **others}


def gpu_servers(count: int, gpus: int, gpu_model: str | None = None) -> list[dict[str, Any]]:
    """Return `count` identical GPU servers as one entry of a document."""
    return [{"name": "server", "count": count, "capacity": {"gpu": gpus}, "gpu_model": gpu_model}]


FREE = "A job may be stopped and goes on later without loss: preemption is free."
ASSUMED = (
    "A job is one task for each GPU that it asks for; all of them run at the same time.",
    "CPU and memory of a task are not in the source and not asked for.",
    FREE,
)

RowT = TypeVar("RowT", bound=Model)
_JOB = re.compile(r"jobs\[(\d+)\]\.?")


@dataclass(frozen=True)
class Origin:
    """The source of a trace, with which errors name the file and the place in it.

    Parameters
    ----------
    file
        The file of the jobs.
    places
        The place of each job in it, such as ``line 3``, in the order of the jobs.
    columns
        Field of a job → its column in the file, if the names differ.
    cluster
        The file of the cluster, if there is one.
    """

    file: str
    places: Sequence[str] = ()
    columns: Mapping[str, str] = field(default_factory=dict)
    cluster: str = ""

    def renamed(self, error: InstanceError) -> InstanceError:
        """Return an error about the instance as an error about the files of its data."""
        return InstanceError([self._renamed(fault) for fault in error.faults], error.more, error.stopped)

    def _renamed(self, fault: Fault) -> Fault:
        what = _JOB.sub(lambda match: self._place(match) or match[0], fault.what)
        if self.cluster and fault.path.startswith("servers"):
            return Fault(self.cluster, fault.path, what)
        job = _JOB.match(fault.path)
        place = job and self._place(job)
        if job is None or not place:
            return Fault(self.file, fault.path, what)
        name, dot, rest = fault.path[job.end() :].partition(".")
        return Fault(f"{self.file}: {place}", f"{self.columns.get(name, name)}{dot}{rest}", what)

    def _place(self, job: re.Match[str]) -> str:
        index = int(job[1])
        return self.places[index] if index < len(self.places) else ""


def rows_of(path: Path, model: type[RowT]) -> list[RowT]:
    """Return the rows of a CSV file as validated objects of `model`."""
    return list(numbered_rows_of(path, model).values())


def numbered_rows_of(path: Path, model: type[RowT]) -> dict[str, RowT]:
    """Return the validated rows of a CSV file by their place in it, such as ``line 3``.

    Raises
    ------
    InstanceError
        If it is no such table, a row is invalid, or there is none.
    """
    numbered = validated_rows(model, model_rows(path, model), str(path))
    rows = {f"line {number}": row for number, row in numbered}
    if not rows:
        raise fail(str(path), "has a header but no rows")
    return rows


def row_of(path: Path, model: type[RowT]) -> RowT:
    """Return the only row of a CSV file, which describes a cluster.

    Raises
    ------
    InstanceError
        If it is no such table, or has another number of rows.
    """
    rows = rows_of(path, model)
    if len(rows) > 1:
        raise fail(str(path), f"has {len(rows)} rows; a cluster is one row")
    return rows[0]


def gpu_row(name: str, arrival_s: float, gpus: int, duration_s: float, **others: Any) -> dict[str, Any]:
    """Return a scheduling job with one task per GPU, as a document has it."""
    row = {
        "name": name,
        "arrival_s": arrival_s,
        "tasks": gpus,
        "demand": {"gpu": 1},
        "duration_s": duration_s,
    }
    return {**row, **others}


def gpu_trace(
    name: str,
    source: str,
    cluster: Mapping[str, Any],
    jobs: Sequence[dict[str, Any]],
    assumptions: Iterable[str],
    origin: Origin,
    assumed: Sequence[str] = ASSUMED,
) -> SchedulingInstance:
    """Return the scheduling instance of jobs on a cluster, which is given by resources or servers.

    Parameters
    ----------
    origin
        The places of the jobs for error messages.
    assumed
        Further assumptions; by default those on jobs that demand whole GPUs.

    Raises
    ------
    InstanceError
        If anything is wrong with them.
    """
    document = {
        "name": name,
        "source": source,
        "assumptions": [*assumptions, *assumed],
        **cluster,
        "jobs": jobs,
    }
    try:
        return validated(SchedulingInstance, document, origin.file)
    except InstanceError as error:
        raise origin.renamed(error) from None


DATE = ", or a date and time such as 2017-11-01 12:00:00"
BY_NAME = "[default: what its name ends with, such as _min; else s]"
UNIX_SINCE_S = 1e8
"""If all arrivals are later than this, they are seconds since 1970, not since the start of a trace."""


LAST_S = 1e11
"""Later arrivals are no dates; the validation of the jobs refuses them."""


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
    """Return field of a job → the column of the file that holds it.

    Raises
    ------
    InstanceError
        If a named column does not exist.
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
    """Return field of a job that is a time → the unit of its column."""
    units = {"duration_s": ColumnUnit.of(options.duration, options.duration_unit, "--duration-unit")}
    if options.estimate is not None:
        units["estimate_s"] = ColumnUnit.of(options.estimate, options.estimate_unit, "--estimate-unit")
    elif options.estimate_unit is not None:
        raise OptionError("--estimate-unit is the unit of a column; name the column with --estimate")
    return units


def _in_seconds(rows: Iterable[tuple[int, _Row]], units: Mapping[str, ColumnUnit]) -> list[tuple[int, _Row]]:
    """Return the (line, job) pairs with their times converted to seconds."""
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
    """Return line → arrival in seconds, the date of time 0 if known, and a note on the unit.

    Raises
    ------
    InstanceError
        If an arrival is neither a number nor a date, or only some have a time zone.
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
    dates: dict[int, datetime] = {}
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
            dates[line] = at
        if faults.stop():
            break
    faults.refuse()
    begin = min(dates.values())
    return {line: (at - begin).total_seconds() for line, at in dates.items()}, begin, []


def _counted(
    rows: list[tuple[int, dict[str, Cell]]], column: str, unit: ColumnUnit, source: str
) -> tuple[dict[int, float], datetime | None]:
    """Return line → numeric arrival in seconds, and the date of time 0 if they count from 1970."""
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
    """Return the date and time in a cell; None if it holds none."""
    try:
        # A number alone, such as 20171101, is seconds.
        return None if cell is None or "-" not in cell[1:] else datetime.fromisoformat(cell)
    except ValueError:
        return None


def _valid(
    rows: Iterable[tuple[int, dict[str, Cell]]], columns: Mapping[str, str], source: str
) -> list[tuple[int, _Row]]:
    """Return the (line, job) pairs of the rows; faults name the columns of the file.

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
    """Yield (place in the file, job) of each row; with `drop_zero`, jobs of duration 0 are left out.

    Raises
    ------
    InstanceError
        If a job has duration 0, demands more than the cluster has, or has the name of another.
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
    """Yield (column, message) for each rule between fields that a row breaks."""
    if row.duration_s == 0:
        yield options.duration, "is 0, and a job runs for some time; --drop-zero leaves such jobs out"
    if row.gpus > options.gpus:
        what = f"is {row.gpus:,}, and the cluster has {options.gpus:,} GPUs; raise --gpus, or leave it out"
        yield options.gpus_column, what
    if name in lines:
        what = f"is {shown(name)}, as in line {lines[name]}; names are different, or leave --name out"
        yield options.name or "name", what
