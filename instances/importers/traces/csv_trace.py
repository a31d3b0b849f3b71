"""Importer of traces from a plain CSV, the user's own: options name the columns and the units of their times.

Without an option, the unit of a column is the one at the end of its name, else seconds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal, NamedTuple, TypeVar

from ...common.errors import Fault, Faults, InstanceError, OptionError, shown, some
from ...common.faults import validated_rows
from ...common.fields import Cell, Model, Name, NonNegative, Positive, PositiveTaskCount
from ...files.csv_tables import check_separated, numbered_rows
from ...files.reading import fail, read_text
from ...scheduling.instance import SchedulingInstance
from ..importer import Importer, ImportOptions, Option
from ..node_restrictions import counted
from .trace import CHOSEN_POOL, GANG, ClusterGpus, Fields, TraceSource, gpu_row, scheduling

TRACE = TraceSource(
    name="{list}",
    files="{jobs.name}",
    sentences=(
        ("arrival_in", "{arrival_in}"),
        "{duration_in}",
        ("estimate_in", "{estimate_in}"),
        CHOSEN_POOL,
        ("begin", "Time 0 is the first arrival, {begin}."),
        ("out", "Left out: {out} with a duration of 0."),
        *GANG,
    ),
)

TimeUnit = Literal["us", "ms", "s", "min", "h", "d"]


class _Unit(NamedTuple):
    """A unit of time: its word, the seconds that it has as a fraction, and the names of it in columns.

    Division by 1,000 rounds once, multiplication by 0.001 twice.
    """

    word: str
    many: int
    parts: int
    names: str


UNITS: dict[TimeUnit, _Unit] = {
    "us": _Unit("microseconds", 1, 10**6, "us µs usec usecs micros microsecond microseconds"),
    "ms": _Unit("milliseconds", 1, 1000, "ms msec msecs millis millisecond milliseconds"),
    "s": _Unit("seconds", 1, 1, "s sec secs second seconds"),
    "min": _Unit("minutes", 60, 1, "min mins minute minutes"),
    "h": _Unit("hours", 3600, 1, "h hr hrs hour hours"),
    "d": _Unit("days", 86400, 1, "d day days"),
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
        return value * UNITS[self.unit].many / UNITS[self.unit].parts

    def sentence(self, column: str) -> str:
        """Return the assumption about the unit of the column."""
        return f"Column {column!r} is in {UNITS[self.unit].word}{self.why}."


def unit_of_name(column: str) -> TimeUnit | None:
    """Return the unit at the end of a column's name, such as ``runtime_min``, ``waitMs`` or ``time [h]``.

    None if there is none; a single ``m`` is ambiguous and counts as none.
    """
    *_, last = ["", *_WORD.findall(column)]
    return next((unit for unit, known in UNITS.items() if last.lower() in known.names.split()), None)


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
    gpus: ClusterGpus
    name: Annotated[Name | None, Option("Column of the names. [default: jobs are numbered]")] = None
    tenant: Annotated[Name | None, Option("Column of the tenants.")] = None
    estimate: Annotated[Name | None, Option("Column of how long users said that a job runs.")] = None
    arrival_unit: Annotated[TimeUnit | None, Option(f"Unit of numbers of --arrival. {BY_NAME}")] = None
    duration_unit: Annotated[TimeUnit | None, Option(f"Unit of --duration. {BY_NAME}")] = None
    estimate_unit: Annotated[TimeUnit | None, Option(f"Unit of --estimate. {BY_NAME}")] = None
    drop_zero: Annotated[bool, Option("Leave out jobs with a duration of 0.")] = False


class _Row(Model):
    tasks: PositiveTaskCount
    duration_s: NonNegative
    name: Name | None = None
    tenant: Name | None = None
    estimate_s: Positive | None = None


class _Arrival(Model):
    arrival_s: NonNegative


Rows = Sequence[tuple[int, dict[str, Cell]]]
RowT = TypeVar("RowT", bound=Model)


@Importer
def import_trace(options: TraceOptions) -> SchedulingInstance:
    """Return the scheduling instance of a CSV file."""
    source = str(options.jobs)
    header, rows = numbered_rows(read_text(options.jobs), source)
    columns = _columns(options, header, source)
    arrivals, facts = _arrivals(rows, columns, options)
    units = {"duration_s": ColumnUnit.of(options.duration, options.duration_unit, "--duration-unit")}
    if options.estimate is not None:
        units["estimate_s"] = ColumnUnit.of(options.estimate, options.estimate_unit, "--estimate-unit")
    elif options.estimate_unit is not None:
        raise OptionError("--estimate-unit is the unit of a column; name the column with --estimate")
    jobs = _jobs(_valid(_Row, rows, columns, source), arrivals, units, options)
    if not jobs:
        raise fail(source, "has no job that runs at all; all durations are 0")
    facts |= {
        "duration_in": units["duration_s"].sentence(options.duration),
        "estimate_in": options.estimate and units["estimate_s"].sentence(options.estimate),
        "out": len(jobs) < len(rows) and counted(len(rows) - len(jobs), "job"),
    }
    return scheduling(replace(TRACE, columns=columns), options, facts, jobs, resources={"gpu": options.gpus})


def _columns(options: TraceOptions, header: list[str], source: str) -> dict[str, str]:
    """Return field of a job → the column of the file that holds it.

    Raises
    ------
    InstanceError
        If a named column does not exist.
    """
    named = {
        "arrival_s": options.arrival,
        "tasks": options.gpus_column,
        "duration_s": options.duration,
        "name": options.name,
        "tenant": options.tenant,
        "estimate_s": options.estimate,
    }
    columns = {field: column for field, column in named.items() if column is not None}
    for column in columns.values():
        if column not in header:
            check_separated(header, source)
            raise fail(source, f"has no column {column!r}; there are: {some(header, 20)}", "line 1")
    return columns


def _valid(
    model: type[RowT], rows: Rows, columns: Mapping[str, str], source: str, hint: str = ""
) -> list[tuple[int, RowT]]:
    """Return the (line, row) pairs of the fields of a model; faults name the columns of the file.

    Parameters
    ----------
    hint
        What else is allowed where a number is expected.

    Raises
    ------
    InstanceError
        If a row is wrong; one fault each.
    """
    renamed = (
        (line, {field: cells[column] for field, column in columns.items() if column in cells})
        for line, cells in rows
    )
    try:
        return list(validated_rows(model, renamed, source))
    except InstanceError as error:
        faults = [
            Fault(
                fault.source,
                columns.get(fault.path, fault.path),
                fault.what + hint * ("not a number" in fault.what),
            )
            for fault in error.faults
        ]
        raise InstanceError(faults, error.more, error.stopped) from None


def _arrivals(
    rows: Rows, columns: Mapping[str, str], options: TraceOptions
) -> tuple[dict[int, float], Fields]:
    """Return line → arrival in seconds, and facts: the unit of numbers, and the date of time 0 if known.

    Raises
    ------
    InstanceError
        If an arrival is neither a number nor a date, or only some have a time zone.
    OptionError
        If dates are given a unit.
    """
    column, source = options.arrival, str(options.jobs)
    first = next((cells[column] for _, cells in rows if column in cells), None)
    moment = _moment(first)
    if moment is not None:
        if options.arrival_unit is not None:
            raise OptionError(
                f"--arrival-unit is the unit of numbers, and column {column!r} holds dates; leave it out"
            )
        dates = _dates(rows, column, moment, source)
        start = min(dates.values())
        seconds = {line: (at - start).total_seconds() for line, at in dates.items()}
        return seconds, {"arrival_in": None, "begin": start}
    unit = ColumnUnit.of(column, options.arrival_unit, "--arrival-unit")
    date = ", or a date and time such as 2017-11-01 12:00:00"
    given = _valid(_Arrival, rows, columns, source, date)
    found = {line: unit.in_seconds(row.arrival_s) for line, row in given}
    begin = min(found.values())
    facts: Fields = {"arrival_in": unit.sentence(column), "begin": None}
    if UNIX_SINCE_S <= begin <= LAST_S:
        found = {line: at - begin for line, at in found.items()}
        facts["begin"] = datetime.fromtimestamp(begin, UTC)
    return found, facts


def _dates(rows: Rows, column: str, first: datetime, source: str) -> dict[int, datetime]:
    """Return line → date and time of the arrival.

    Raises
    ------
    InstanceError
        If a row has none, or only some have a time zone.
    """
    dates: dict[int, datetime] = {}
    faults = Faults()
    for line, cells in rows:
        at, what = _moment(cells.get(column)), ""
        if at is None:
            what = "is no date and time, as in the rows before; write 2017-11-01 12:00:00"
        elif (at.tzinfo is None) != (first.tzinfo is None):
            what = "has a time zone and the first row has none, or the reverse; give all or none of them one"
        else:
            dates[line] = at
        if what:
            faults.add(Fault(f"{source}: line {line}", column, what))
        if faults.stop():
            break
    faults.refuse()
    return dates


def _moment(cell: str | None) -> datetime | None:
    """Return the date and time in a cell; None if it holds none."""
    try:
        # A number alone, such as 20171101, is seconds.
        return None if cell is None or "-" not in cell[1:] else datetime.fromisoformat(cell)
    except ValueError:
        return None


def _jobs(
    rows: Sequence[tuple[int, _Row]],
    arrivals: Mapping[int, float],
    units: Mapping[str, ColumnUnit],
    options: TraceOptions,
) -> dict[str, Fields]:
    """Return place in the file → job of each row; with `drop_zero`, jobs of duration 0 are left out.

    Raises
    ------
    InstanceError
        If a job has duration 0, demands more than the cluster has, or has the name of another.
    """
    faults, lines, jobs = Faults(), dict[str, int](), dict[str, Fields]()
    for number, (line, row) in enumerate(rows, 1):
        duration_s = units["duration_s"].in_seconds(row.duration_s)
        if duration_s == 0 and options.drop_zero:
            continue
        name = row.name or f"job-{number}"
        for column, what in _wrong(name, row.tasks, duration_s, lines, options):
            faults.add(Fault(f"{options.jobs}: line {line}", column, what))
        if faults.stop():
            break
        lines[name] = line
        estimate_s = row.estimate_s and units["estimate_s"].in_seconds(row.estimate_s)
        others = {"tenant": row.tenant, "estimate_s": estimate_s}
        jobs[f"line {line}"] = gpu_row(name, arrivals[line], row.tasks, duration_s, **others)
    faults.refuse()
    return jobs


def _wrong(
    name: str, gpus: int, duration_s: float, lines: Mapping[str, int], options: TraceOptions
) -> Iterator[tuple[str, str]]:
    """Yield (column, message) for each rule between fields that a row breaks."""
    if duration_s == 0:
        yield options.duration, "is 0, and a job runs for some time; --drop-zero leaves such jobs out"
    if gpus > options.gpus:
        what = f"is {gpus:,}, and the cluster has {options.gpus:,} GPUs; raise --gpus, or leave it out"
        yield options.gpus_column, what
    if name in lines:
        what = f"is {shown(name)}, as in line {lines[name]}; names are different, or leave --name out"
        yield options.name or "name", what
