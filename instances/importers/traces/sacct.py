"""Importer of Slurm's accounting as a trace: submission, resources and duration of each job.

Jobs are read from the output of ``sacct --json`` or ``sacct --parsable2``.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, model_validator

from ...common.errors import some
from ...common.faults import validated
from ...common.fields import Fields, Many, Name, Part, PositiveCount
from ...files.reading import MAX_SMALL_ROWS, fail, parse_document, read_text
from ...scheduling.instance import SchedulingInstance
from ..clusters.slurm_jobs import Number, States, Tres, typed
from ..importer import Entry, Importer, ImportOptions, Option, RejectedEntries, at, valid_entries
from ..node_restrictions import counted, numbered
from .trace import CHOSEN_POOL, FREE, ClusterGpus, TraceSource, scheduling

TRACE = TraceSource(
    name="slurm-{list}",
    files="{jobs.name}, as sacct prints it",
    sentences=(
        CHOSEN_POOL,
        "{ran:,} of {listed:,} jobs; time 0 is the first arrival. A job runs as long as it did, "
        "whatever it shared and however it ended, and all its tasks run at the same time.",
        "The tenant of a job is its {tenant}; its time limit is what its user estimated.",
        "Times are as sacct printed them; without a time zone they may be an hour off when clocks change.",
        (
            "parts",
            "Parts of a heterogeneous job run at the same time, as one job; there are {parts:,} of these.",
        ),
        ("again", "{again} of jobs that ran before; each run counts as a job."),
        ("types", "GPUs of all types count alike: {types}."),
        ("gpus_alone", "CPU and memory are not asked for."),
    ),
)
REASONS = ("listed twice", "not run, or not ended", "no GPUs asked for", "more asked for than there is")
"""Why valid jobs are left out, in the order in which it is said."""
_, IDLE, NO_GPUS, TOO_LARGE = REASONS
MINUTE_S = 60.0
NEEDED = ("JobID", "Submit", "State")
FREE_TEXT = (
    "JobName",
    "Comment",
    "AdminComment",
    "SystemComment",
    "SubmitLine",
    "WorkDir",
    "Reason",
    "Extra",
)
"""Columns with free text, which may contain the separator of columns."""
NO_VALUE = 4_294_967_294
"""Numbers from this one on mean no value, or no limit, in Slurm."""
_PART = re.compile(r"([0-9]+)\+[0-9]+")
_WHOLE = re.compile(r"[0-9]{1,18}")


def entries_of_table(text: str, source: str) -> Iterator[Entry]:
    """Yield the jobs in the output of ``sacct --parsable2``; steps of jobs are left out.

    Raises
    ------
    InstanceError
        If it has no header with the required columns, or too many lines.
    """
    if text.count("\n") > MAX_SMALL_ROWS:
        raise fail(
            source,
            f"has more than {MAX_SMALL_ROWS:,} lines; split it, or leave steps out with sacct --allocations",
        )
    # Names may contain characters that splitlines() takes for the end of a line.
    lines = ((number, line.rstrip("\r")) for number, line in enumerate(text.split("\n"), 1) if line.strip())
    number, first = next(lines)
    header = [name.strip() for name in first.split("|")]
    _check_header(header, f"line {number}", source)
    free = [name for name in FREE_TEXT if name in header]
    at = header.index(free[0]) if len(free) == 1 else None
    for number, line in lines:
        cells = line.split("|")
        surplus = len(cells) - len(header)
        if surplus > 0 and at is not None:
            cells[at : at + surplus + 1] = ["|".join(cells[at : at + surplus + 1])]
        row = dict(zip(header, cells, strict=False))
        job, place = row.get("JobID", ""), f"line {number}"
        if "." in job or line == first:  # a step of a job, or the header again, of another file
            continue
        if len(cells) == len(header):
            yield _entry(place, _of_cells(row))
        else:
            what = f"has {len(cells)} cells; the header has {len(header)}"
            yield place, place, what + (f"; leave {', '.join(free)} out" if surplus > 0 and free else "")


def _entry(place: str, fields: Fields) -> Entry:
    name = f"{place}, job {fields['id']}" if fields["id"] else place
    return place, name, {"place": place, **fields}


def _check_header(header: list[str], place: str, source: str) -> None:
    """Check that the required columns exist.

    Raises
    ------
    InstanceError
        If one is missing.
    """
    missing = [name for name in NEEDED if name not in header]
    missing += [] if {"AllocTRES", "ReqTRES"} & set(header) else ["AllocTRES or ReqTRES"]
    missing += [] if {"Elapsed", "ElapsedRaw"} & set(header) else ["Elapsed"]
    if missing:
        what = f"has no column {', '.join(missing)}; print it with sacct --parsable2 --format="
        columns = "JobID,User,Account,Partition,Submit,Elapsed,Timelimit,AllocTRES,State"
        raise fail(source, what + columns, place)


def _of_cells(cells: Mapping[str, str]) -> Fields:
    """Return the fields of a job from the cells of its line."""
    raw = cells.get("TimelimitRaw", "")
    elapsed = cells.get("ElapsedRaw", "")
    part = _PART.fullmatch(cells["JobID"])
    return {
        "id": cells["JobID"],
        "submit_s": cells["Submit"],
        "eligible_s": cells.get("Eligible", ""),
        "elapsed_s": float(elapsed) if _WHOLE.fullmatch(elapsed) else cells.get("Elapsed", elapsed),
        "limit_s": MINUTE_S * float(raw) if _WHOLE.fullmatch(raw) else cells.get("Timelimit", ""),
        "state": cells["State"].split(" ")[0],
        **{name.lower(): cells.get(name) or None for name in ("Account", "User", "Partition")},
        "tres": cells.get("AllocTRES") or cells.get("ReqTRES", ""),
        "heterogeneous": part and part[1],
    }


class _Jobs(Part):
    jobs: Many[Any]


def entries_of_document(data: Fields, source: str) -> Iterator[Entry]:
    """Yield the jobs in the output of ``sacct --json``.

    Raises
    ------
    InstanceError
        If it has no list of jobs.
    """
    if "jobs" not in data:
        raise fail(source, "has no 'jobs'; give what sacct --json or sacct --parsable2 prints")
    for index, item in enumerate(validated(_Jobs, {"jobs": data["jobs"]}, source).jobs):
        yield _entry(f"jobs[{index}]", _of_item(item))


def _of_item(item: Any) -> Fields:
    """Return the fields of a job from an entry of the document."""
    array, task = _number(item, "array", "job_id"), _number(item, "array", "task_id")
    number, whole = _number(item, "job_id"), _number(item, "het", "job_id")
    limit = _number(item, "time", "limit")
    if array and task is not None:
        name = f"{array:.0f}_{task:.0f}"
    else:
        name = "" if number is None else f"{number:.0f}"
    return {
        "id": name,
        # 0 is an unknown time.
        "submit_s": _number(item, "time", "submission") or None,
        "eligible_s": _number(item, "time", "eligible") or None,
        "elapsed_s": _number(item, "time", "elapsed"),
        "limit_s": None if limit is None else MINUTE_S * limit,
        "state": at(item, "state", "current"),
        **{
            name: at(item, name) or at(item, "association", name) or None
            for name in ("account", "user", "partition")
        },
        "tres": _tres(at(item, "tres", "allocated")) or _tres(at(item, "tres", "requested")),
        "heterogeneous": f"{whole:.0f}" if whole else None,
    }


def _number(item: Any, *path: str) -> float | None:
    """Return a number, plain or as ``{"set": …, "infinite": …, "number": …}``; None for other values."""
    value = at(item, *path)
    if isinstance(value, Mapping):
        value = value.get("number") if value.get("set") is True and not value.get("infinite") else None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < NO_VALUE:
        return None
    return float(value)


def _tres(listed: Any) -> dict[str, float]:
    """Return name of a resource, as in ``--parsable2`` → amount, from a list of TRES."""
    amounts: dict[str, float] = {}
    for entry in listed if isinstance(listed, list) else ():
        kind, name, amount = at(entry, "type"), at(entry, "name"), _number(entry, "count")
        if isinstance(kind, str) and amount:
            amounts[f"{kind}/{name}" if kind == "gres" else kind] = amount
    return amounts


UNIX = datetime(1970, 1, 1)
LONGEST_S = 1e9
"""Limit of a valid duration, about thirty years."""
_DURATION = re.compile(r"(?:([0-9]{1,7})-)?(?:([0-9]{1,4}):)?([0-9]{1,4}):([0-9]{2})(?:\.[0-9]+)?")
_GOING_ON = {"PENDING", "RUNNING", "SUSPENDED", "RESIZING", "COMPLETING", "CONFIGURING"}
_NONE = ("", "Unknown", "None", "N/A", "INVALID", "UNLIMITED", "Partition_Limit", "Partition Limit")
_EPOCH = re.compile(r"[0-9]{1,11}")


def seconds_of(text: str) -> float | None:
    """Return the seconds of a duration such as ``1-02:03:04`` or ``03:04``; None for words like Unknown.

    Raises
    ------
    ValueError
        If it is no duration.
    """
    if text in _NONE:
        return None
    match = _DURATION.fullmatch(text)
    if match is None:
        raise ValueError(f"{text[:30]!r} is no duration; sacct writes [days-][hours:]minutes:seconds")
    days, hours, minutes, seconds = (float(part or 0) for part in match.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


def moment_of(text: str) -> float | None:
    """Return a time, as sacct prints it or by ``SLURM_TIME_FORMAT=%s``, in seconds since 1970.

    Raises
    ------
    ValueError
        If it is no time.
    """
    if text in _NONE:
        return None
    if _EPOCH.fullmatch(text):
        return float(text)
    try:
        at = datetime.fromisoformat(text)
        return (at - UNIX).total_seconds() if at.tzinfo is None else at.timestamp()
    except ValueError:
        raise ValueError(
            f"{text[:30]!r} is no time; sacct writes 2024-05-01T12:00:00 unless SLURM_TIME_FORMAT is set"
        ) from None


def _read(reader: Any) -> BeforeValidator:
    return BeforeValidator(lambda value: reader(value) if isinstance(value, str) else value)


def _not_beyond(seconds: float | None) -> float | None:
    if seconds is not None and seconds > LONGEST_S:
        raise ValueError(f"is {seconds:g} s, but must be at most {LONGEST_S:g}")
    return seconds


Moment = Annotated[float | None, _read(moment_of)]
Length = Annotated[Number, _read(seconds_of), AfterValidator(_not_beyond)]


class JobOfAccounting(Part):
    """A job that Slurm has accounted for.

    Attributes
    ----------
    place
        Where it stands in the file.
    submit_s, eligible_s
        When it was submitted, and when nothing but resources kept it from running; seconds since 1970.
    elapsed_s, limit_s
        How long it ran, and how long it was allowed to.
    tres
        What it was given, or asked for; GPUs of all types count as `gpu`.
    heterogeneous
        The number of the heterogeneous job of which it is a part.
    """

    place: str = ""
    id: Name
    submit_s: Moment = None
    eligible_s: Moment = None
    elapsed_s: Length = None
    limit_s: Length = None
    state: States = ()
    account: Name | None = None
    user: Name | None = None
    partition: Name | None = None
    tres: Tres = {}
    heterogeneous: Name | None = None

    @model_validator(mode="before")
    @classmethod
    def _fits(cls, data: Any) -> Any:
        """Refuse an entry that is text; it is the complaint about a malformed line."""
        if isinstance(data, str):
            raise ValueError(data)
        return data

    @property
    def is_over(self) -> bool:
        """Whether the run has ended; a requeued job may have another run."""
        return _GOING_ON.isdisjoint(self.state)

    @property
    def gpus(self) -> float:
        """The number of GPUs of the job; if both the sum and types are listed, the sum counts."""
        return self.tres.get("gres/gpu", sum(typed(self.tres).values()))

    @property
    def types(self) -> set[str]:
        """The GPU types of the job, as far as they are listed."""
        return set(typed(self.tres))

    @property
    def cpus(self) -> float:
        """The number of CPUs of the job."""
        return self.tres.get("cpu", 0.0)


def whole_jobs(listed: Iterable[JobOfAccounting]) -> list[JobOfAccounting]:
    """Return the jobs, with the components of each heterogeneous job merged into one job."""
    merged: dict[object, JobOfAccounting] = {}
    for number, job in enumerate(listed):
        key = number if job.heterogeneous is None else (job.heterogeneous, job.submit_s)
        merged[key] = _joined(merged[key], job) if key in merged else job
    return list(merged.values())


def _joined(job: JobOfAccounting, part: JobOfAccounting) -> JobOfAccounting:
    """Return a heterogeneous job with another component merged into it; it ends with the last one."""
    return job.model_copy(
        update={
            "id": job.heterogeneous,
            "elapsed_s": max(job.elapsed_s or 0.0, part.elapsed_s or 0.0),
            "limit_s": max(job.limit_s or 0.0, part.limit_s or 0.0),
            "state": (*job.state, *part.state),
            # One sum for all types; a sum of one part and types of another would be counted twice.
            "tres": {"gres/gpu": job.gpus + part.gpus, "cpu": job.cpus + part.cpus}
            | dict.fromkeys((f"gres/gpu:{kind}" for kind in job.types | part.types), 0.0),
        }
    )


class SacctOptions(ImportOptions):
    """Jobs of Slurm's accounting (sacct --json or --parsable2): a scheduling instance."""

    jobs: Annotated[Path, Option("What sacct --json or sacct --parsable2 prints.", argument="jobs")]
    gpus: ClusterGpus
    cpus: Annotated[
        PositiveCount | None, Option("CPUs of the cluster; without, jobs that ask for no GPU are left out.")
    ] = None
    arrival: Annotated[
        Literal["submit", "eligible"],
        Option("A job arrives when it was submitted, or when nothing but resources kept it from running."),
    ] = "submit"
    tenant: Annotated[
        Literal["account", "user", "partition"], Option("Whose a job is: of what the tenants are.")
    ] = "account"
    first: Annotated[PositiveCount | None, Option("Only so many jobs, by arrival.")] = None


@Importer
def import_sacct(options: SacctOptions) -> SchedulingInstance:
    """Return the scheduling instance of the jobs of Slurm's accounting."""
    source, invalid = str(options.jobs), RejectedEntries("job")
    valid = list(valid_entries(JobOfAccounting, _entries(options.jobs, source), source, invalid))
    runs = {(job.id, job.submit_s, job.elapsed_s, job.state): job for job in valid}
    listed = whole_jobs(runs.values())
    why = {job.place: _why_left_out(job, options) for job in listed}
    reasons = Counter(why.values())
    reasons["listed twice"] = len(valid) - len(runs)
    out = [
        *(
            f"{counted(reasons[why], 'job is', 'jobs are')} left out: {why}."
            for why in REASONS
            if reasons[why]
        ),
        *invalid.sentences(),
    ]
    ran = [job for job in listed if not why[job.place]]
    if not ran:
        hint = ["Slurm lists GPUs where AccountingStorageTRES names gres/gpu."] if reasons[NO_GPUS] else []
        raise fail(source, " ".join([f"has no job that ran on GPUs{':' if out else ''}", *out, *hint]))
    ran = sorted(ran, key=lambda job: _arrival_s(job, options))[: options.first]
    begin = _arrival_s(ran[0], options)
    names = numbered((f"job-{job.id}" for job in ran), "{} ({})")
    jobs = {
        job.place: _row(name, job, _arrival_s(job, options) - begin, options)
        for name, job in zip(names, ran, strict=True)
    }
    again = len(ran) - len({job.id for job in ran})
    types = set().union(*(job.types for job in ran))
    facts = {
        "ran": len(ran),
        "listed": len(listed),
        "parts": sum(job.heterogeneous is not None for job in ran),
        "again": again and counted(again, "run is", "runs are"),
        "types": len(types) > 1 and some(sorted(types)),
        "gpus_alone": options.cpus is None,
    }
    cluster = {"gpu": options.gpus} | ({} if options.cpus is None else {"cpu": options.cpus})
    return scheduling(TRACE, options, facts, jobs, also=[*out, FREE], resources=cluster)


def _entries(path: Path, source: str) -> Iterator[Entry]:
    text = read_text(path, errors="replace")  # names of jobs may be in any encoding
    if not text.lstrip().startswith(("{", "[")):
        return entries_of_table(text, source)
    data = parse_document(text, source, ".json")
    if not isinstance(data, dict):
        raise fail(source, "is not a mapping; give what sacct --json or sacct --parsable2 prints")
    return entries_of_document(data, source)


def _arrival_s(job: JobOfAccounting, options: SacctOptions) -> float:
    eligible_s = job.eligible_s if options.arrival == "eligible" else None
    return max(job.submit_s or 0.0, eligible_s or 0.0)


def _why_left_out(job: JobOfAccounting, options: SacctOptions) -> str:
    """Return why a job is left out; empty text for one that ran and fits on the cluster."""
    if not job.is_over or not job.elapsed_s or job.submit_s is None:
        return IDLE
    if not job.gpus and (options.cpus is None or not job.cpus):
        return NO_GPUS
    if job.gpus > options.gpus or (options.cpus is not None and job.cpus > options.cpus):
        return TOO_LARGE
    return ""


def _row(name: str, job: JobOfAccounting, arrival_s: float, options: SacctOptions) -> Fields:
    demand = {"gpu": job.gpus} | ({} if options.cpus is None else {"cpu": job.cpus})
    return {
        "name": name,
        "arrival_s": arrival_s,
        "demand": {resource: amount for resource, amount in demand.items() if amount},
        "duration_s": job.elapsed_s,
        "estimate_s": job.limit_s or None,
        "tenant": getattr(job, options.tenant) or None,
    }
