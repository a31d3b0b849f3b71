"""Jobs of Slurm's accounting, as ``sacct --json`` and ``sacct --parsable2`` print them, in one form."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from ...common.faults import validated
from ...common.fields import Many, Part
from ...files.limits import MOST_SMALL_ROWS
from ...files.reading import fail
from ..left_out import Entry
from ..slurm.objects import Number, States, parse_tres

UNIX = datetime(1970, 1, 1)
MINUTE_S = 60.0
NEEDED = ("JobID", "Submit", "State")
_DURATION = re.compile(r"(?:([0-9]{1,7})-)?(?:([0-9]{1,4}):)?([0-9]{1,4}):([0-9]{2})(?:\.[0-9]+)?")
_NONE = ("", "Unknown", "None", "N/A", "INVALID", "UNLIMITED", "Partition_Limit", "Partition Limit")
_EPOCH = re.compile(r"[0-9]{1,11}")


def seconds_of(text: str) -> float | None:
    """Return the seconds of a duration such as ``1-02:03:04`` or ``03:04``; None where it says none.

    Raises
    ------
    ValueError
        If it is no duration.
    """
    if text in _NONE:
        return None
    found = _DURATION.fullmatch(text)
    if found is None:
        raise ValueError(f"{text[:30]!r} is no duration; sacct writes [days-][hours:]minutes:seconds")
    days, hours, minutes, seconds = (float(part or 0) for part in found.groups())
    return ((days * 24 + hours) * 60 + minutes) * MINUTE_S + seconds


def moment_of(text: str) -> float | None:
    """Return the seconds since 1970 of a time as sacct prints it, or as ``SLURM_TIME_FORMAT=%s`` makes it.

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
        raise ValueError(f"{text[:30]!r} is no time; sacct writes 2024-05-01T12:00:00") from None


def _read(reader: Any) -> BeforeValidator:
    return BeforeValidator(lambda value: reader(value) if isinstance(value, str) else value)


class JobOfAccounting(Part):
    """A job that Slurm has accounted for.

    Attributes
    ----------
    submit_s, eligible_s
        When it was submitted, and when nothing but resources kept it from running; seconds since 1970.
    elapsed_s, limit_s
        How long it ran, and how long it was allowed to.
    tres
        What it was given, or asked for; GPUs of all types count as `gpu`.
    place
        Where it stands in the file.
    """

    place: str = ""
    id: Annotated[str, Field(min_length=1, max_length=100)]
    submit_s: Annotated[float | None, _read(moment_of)] = None
    eligible_s: Annotated[float | None, _read(moment_of)] = None
    elapsed_s: Annotated[Number, _read(seconds_of)] = None
    limit_s: Annotated[Number, _read(seconds_of)] = None
    state: States = ()
    account: str | None = None
    user: str | None = None
    partition: str | None = None
    tres: dict[str, float] = {}

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return not {"PENDING", "RUNNING", "SUSPENDED", "REQUEUED", "RESIZING"} & set(self.state)

    @property
    def gpus(self) -> float:
        """How many GPUs it had; where types are listed beside the sum, the sum counts."""
        typed = sum(amount for name, amount in self.tres.items() if name.startswith("gres/gpu:"))
        return self.tres.get("gres/gpu", typed)

    @property
    def cpus(self) -> float:
        """How many CPUs it had."""
        return self.tres.get("cpu", 0.0)


def entries_of_table(text: str, source: str) -> Iterator[Entry]:
    """Yield the jobs of what ``sacct --parsable2`` prints; steps of jobs are left out.

    Raises
    ------
    InstanceError
        If it has no header with the columns that are needed, or too many lines.
    """
    if text.count("\n") > MOST_SMALL_ROWS:
        raise fail(source, f"has more than {MOST_SMALL_ROWS:,} lines; split it")
    lines = text.splitlines()
    header = [name.strip() for name in lines[0].split("|")]
    missing = [name for name in NEEDED if name not in header]
    tres = next((name for name in ("AllocTRES", "ReqTRES") if name in header), None)
    elapsed = next((name for name in ("ElapsedRaw", "Elapsed") if name in header), None)
    if missing or tres is None or elapsed is None:
        missing += [] if tres else ["AllocTRES or ReqTRES"]
        missing += [] if elapsed else ["Elapsed"]
        what = f"has no column {', '.join(missing)}; print it with sacct --parsable2 --format="
        raise fail(source, f"{what}JobID,User,Account,Partition,Submit,Elapsed,Timelimit,AllocTRES,State")
    for number, line in enumerate(lines[1:], 2):
        cells = dict(zip(header, line.split("|"), strict=False))
        job = cells.get("JobID", "")
        if not line.strip() or "." in job:  # a step of a job
            continue
        if line.count("|") != len(header) - 1:
            cells = {}
        place = f"line {number}"
        yield place, job or place, {"place": place, **_of_cells(cells)}


def _of_cells(cells: Mapping[str, str]) -> dict[str, Any]:
    """Return the fields of a job from the cells of its line; of one that has too many or few of them none."""
    if not cells:
        return {}
    raw = cells.get("TimelimitRaw", "")
    elapsed = cells.get("ElapsedRaw", "")
    return {
        "id": cells["JobID"],
        "submit_s": cells["Submit"],
        "eligible_s": cells.get("Eligible", ""),
        "elapsed_s": float(elapsed) if elapsed.isdigit() else cells.get("Elapsed", elapsed),
        "limit_s": MINUTE_S * float(raw) if raw.isdigit() else cells.get("Timelimit", ""),
        "state": cells["State"].split(" ")[0],
        "account": cells.get("Account") or None,
        "user": cells.get("User") or None,
        "partition": cells.get("Partition") or None,
        "tres": parse_tres(cells.get("AllocTRES") or cells.get("ReqTRES", "")),
    }


class _Jobs(Part):
    jobs: Many[Any]


def entries_of_document(data: Mapping[str, Any], source: str) -> Iterator[Entry]:
    """Yield the jobs of what ``sacct --json`` prints.

    Raises
    ------
    InstanceError
        If it has no list of jobs.
    """
    if "jobs" not in data:
        raise fail(source, "has no 'jobs'; give what sacct --json or sacct --parsable2 prints")
    for index, item in enumerate(validated(_Jobs, {"jobs": data["jobs"]}, source).jobs):
        place = f"jobs[{index}]"
        yield place, str(_at(item, "job_id") or place), {"place": place, **_of_item(item)}


def _of_item(item: Any) -> dict[str, Any]:
    """Return the fields of a job from an entry of the document."""
    array, task = _at(item, "array", "job_id"), _plain(_at(item, "array", "task_id"))
    number = f"{array}_{task:g}" if array and task is not None else _at(item, "job_id")
    limit = _plain(_at(item, "time", "limit"))
    return {
        "id": "" if number is None else str(number),
        "submit_s": _plain(_at(item, "time", "submission")),
        "eligible_s": _plain(_at(item, "time", "eligible")),
        "elapsed_s": _plain(_at(item, "time", "elapsed")),
        "limit_s": None if limit is None else MINUTE_S * limit,
        "state": _at(item, "state", "current"),
        **{name: _at(item, name) for name in ("account", "user", "partition")},
        "tres": _tres(_at(item, "tres", "allocated")) or _tres(_at(item, "tres", "requested")),
    }


def _at(item: Any, *path: str) -> Any:
    for step in path:
        item = item.get(step) if isinstance(item, Mapping) else None
    return item


def _plain(value: Any) -> float | None:
    """Return a number that may be plain or ``{"set": …, "infinite": …, "number": …}``; None if it is none."""
    if isinstance(value, Mapping):
        value = value.get("number") if value.get("set") is True and not value.get("infinite") else None
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _tres(listed: Any) -> dict[str, float]:
    """Return amounts by name, as ``--parsable2`` names them."""
    found: dict[str, float] = {}
    for entry in listed if isinstance(listed, list) else ():
        kind, name, count = (_at(entry, key) for key in ("type", "name", "count"))
        amount = _plain(count)
        if isinstance(kind, str) and amount is not None and amount > 0:
            found[f"{kind}/{name}" if kind == "gres" else kind] = amount
    return found
