"""Traces of jobs: the record of a source, the reader of its files, the instances made of them; any CSV table.

A source says in one `TraceSource` what its instances are called, what is assumed of them, and which columns
its jobs have. Its module beside this one has the columns with their types as a model of the rows, and makes
jobs of the rows. A trace becomes a scheduling instance, and the jobs of one moment a consolidation instance.

Of a plain CSV, the user's own, options name the columns and the units of their times. Without an option, the
unit of a column is the one at the end of its name, else seconds.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

from ...common.base import Instance
from ...common.errors import Fault, Faults, InstanceError, OptionError, shown, some
from ...common.faults import validated, validated_rows
from ...common.fields import (
    NONE_NAMED,
    Cell,
    Fields,
    Model,
    Name,
    NonNegative,
    Positive,
    PositiveCount,
    PositiveTaskCount,
)
from ...files.csv_tables import check_separated, model_rows, numbered_rows
from ...files.reading import fail, read_text
from ...scheduling.instance import SchedulingInstance
from ..importer import Importer, ImportOptions, Option
from ..node_restrictions import counted

ClusterGpus = Annotated[PositiveCount, Option("GPUs of the cluster.")]

AT_ONCE = "A job is one task for each GPU that it asks for, is worth that many, and may be left out."
NO_CPU = "CPU and memory of a task are not in the source and not asked for."
FREE = "A job may be stopped and goes on later without loss: preemption is free."
GANG = (
    "A job is one task for each GPU that it asks for; all of them run at the same time.",
    NO_CPU,
    FREE,
)
"""Assumptions about jobs over time that ask for whole GPUs."""
CHOSEN_POOL = "The cluster is chosen, not the source's: {gpus:,} GPUs in one pool."
SHORTEST_S = 1.0
SHORT = ("short", "{short:,} durations under 1 s count as 1 s.")

InstanceT = TypeVar("InstanceT", bound=Instance)
RowT = TypeVar("RowT", bound=Model)
Sentences = Sequence[str | tuple[str, str]]
"""Sentences with facts in braces; a pair names the fact on which its second part depends."""

_JOB = re.compile(r"jobs\[(\d+)\]\.?")


@dataclass(frozen=True)
class TraceSource:
    """What the instances of one source are called, what is assumed of them, and where their jobs come from.

    Parameters
    ----------
    name, files
        The name of an instance, and what its files are, with facts in braces: the options, `list`, the name
        of the file of the jobs without endings, and those that are given with an instance.
    sentences
        The assumptions.
    jobs, cluster
        The options with the file of the jobs, or what faults call it, and the file of the cluster if any.
    columns
        Field of a scheduling job → its column in the file, where their names differ.
    """

    name: str
    files: str
    sentences: Sentences
    jobs: str = "jobs"
    cluster: str = ""
    columns: Mapping[str, str] = NONE_NAMED

    def instance(
        self,
        kind: type[InstanceT],
        options: ImportOptions,
        facts: Fields,
        also: Iterable[str] = (),
        **fields: Any,
    ) -> InstanceT:
        """Return the instance of a kind with these fields, and with the sentences `also` after the source's.

        Raises
        ------
        InstanceError
            If anything is wrong with them.
        """
        file = getattr(options, self.jobs, self.jobs)
        facts = {**dict(options), "list": Path(file).name.split(".")[0], **facts}
        document = {
            "name": self.name.format_map(facts),
            "source": self.files.format_map(facts),
            "assumptions": [*filled(self.sentences, facts), *also],
            **fields,
        }
        return validated(kind, document, str(file))

    def renamed(self, fault: Fault, options: ImportOptions, places: Mapping[str, str]) -> Fault:
        """Return a fault of a scheduling instance as one of the files, with places and columns of jobs."""
        what = _JOB.sub(lambda match: places.get(match[1], match[0]), fault.what)
        source, path = fault.source, fault.path
        if self.cluster and path.startswith("servers"):
            source = str(getattr(options, self.cluster))
        elif job := _JOB.match(path):
            name, dot, rest = path[job.end() :].partition(".")
            source, path = f"{source}: {places[job[1]]}", f"{self.columns.get(name, name)}{dot}{rest}"
        return Fault(source, path, what)


def filled(sentences: Sentences, facts: Fields) -> list[str]:
    """Return sentences with their facts; one that depends on a fact that is 0, empty or None is left out."""
    pairs = [("", each) if isinstance(each, str) else each for each in sentences]
    return [text.format_map(facts) for fact, text in pairs if not fact or facts[fact]]


def scheduling(
    source: TraceSource,
    options: ImportOptions,
    facts: Fields,
    jobs: Mapping[str, Fields],
    **fields: Any,
) -> SchedulingInstance:
    """Return the scheduling instance of a trace.

    Parameters
    ----------
    jobs
        Place in the file, such as ``line 3`` → job.
    fields
        The resources or servers of the cluster, and what else `TraceSource.instance` takes.

    Raises
    ------
    InstanceError
        If anything is wrong with them; faults name the place and the columns.
    """
    try:
        return source.instance(SchedulingInstance, options, facts, jobs=list(jobs.values()), **fields)
    except InstanceError as error:
        places = {str(number): place for number, place in enumerate(jobs)}
        faults = [source.renamed(fault, options, places) for fault in error.faults]
        raise InstanceError(faults, error.more, error.stopped) from None


def rows_of(path: Path, model: type[RowT]) -> dict[str, RowT]:
    """Return the rows of a CSV file by their place in it, such as ``line 3``.

    Raises
    ------
    InstanceError
        If it is no such table, a row is invalid, or there is none.
    """
    rows = validated_rows(model, model_rows(path, model), str(path))
    return {f"line {number}": row for number, row in rows}


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
    return next(iter(rows.values()))


def gpu_row(name: str, arrival_s: float, gpus: int, duration_s: float, **others: Any) -> Fields:
    """Return a scheduling job with one task per GPU, as a document has it."""
    fields = {"name": name, "arrival_s": arrival_s, "tasks": gpus, "duration_s": duration_s}
    return {**fields, "demand": {"gpu": 1}, **others}


def gpu_job(name: str, gpus: int, spread: str, **others: Any) -> Fields:
    """Return a consolidation job with one task per GPU, as a document has it."""
    return {"name": name, "tasks": gpus, "task_demand": {"gpu": 1}, "spread": spread, **others}


def gpu_servers(count: int, gpus: int, gpu_model: str | None = None) -> list[Fields]:
    """Return `count` identical GPU servers as one entry of a document."""
    return [{"name": "server", "count": count, "capacity": {"gpu": gpus}, "gpu_model": gpu_model}]


def named(names: Iterable[str]) -> str:
    """Return the first few distinct names as text, escaped because they come from a file."""
    return some(name[:60] if name.isprintable() else repr(name)[:60] for name in dict.fromkeys(names))


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
    moment = _moment(next((cells[column] for _, cells in rows if column in cells), None))
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
    given = _valid(_Arrival, rows, columns, source, ", or a date and time such as 2017-11-01 12:00:00")
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
