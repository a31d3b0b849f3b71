"""Reading what ``sacct --json`` and ``sacct --parsable2`` print: the fields of each job, from either."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from ...common.faults import validated
from ...common.fields import Many, Part
from ...files.limits import MOST_SMALL_ROWS
from ...files.reading import fail
from ..left_out import Entry

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
"""Columns in which users may have written the sign that stands between columns."""
NO_VALUE = 4_294_967_294
"""From this number on Slurm means none, or no limit."""
_PART = re.compile(r"([0-9]+)\+[0-9]+")
_WHOLE = re.compile(r"[0-9]{1,18}")


def entries_of_table(text: str, source: str) -> Iterator[Entry]:
    """Yield the jobs of what ``sacct --parsable2`` prints; steps of jobs are left out.

    Raises
    ------
    InstanceError
        If it has no header with the columns that are needed, or too many lines.
    """
    if text.count("\n") > MOST_SMALL_ROWS:
        raise fail(
            source,
            f"has more than {MOST_SMALL_ROWS:,} lines; split it, or leave steps out with sacct --allocations",
        )
    # Names may hold what splitlines() takes for the end of a line.
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
            yield place, f"{place}, job {job}" if job else place, {"place": place, **_of_cells(row)}
        else:
            what = f"has {len(cells)} cells; the header has {len(header)}"
            yield place, place, what + (f"; leave {', '.join(free)} out" if surplus > 0 and free else "")


def _check_header(header: list[str], place: str, source: str) -> None:
    """Make sure that the columns are there that are needed.

    Raises
    ------
    InstanceError
        If one is not.
    """
    missing = [name for name in NEEDED if name not in header]
    missing += [] if {"AllocTRES", "ReqTRES"} & set(header) else ["AllocTRES or ReqTRES"]
    missing += [] if {"Elapsed", "ElapsedRaw"} & set(header) else ["Elapsed"]
    if missing:
        what = f"has no column {', '.join(missing)}; print it with sacct --parsable2 --format="
        columns = "JobID,User,Account,Partition,Submit,Elapsed,Timelimit,AllocTRES,State"
        raise fail(source, what + columns, place)


def _of_cells(cells: Mapping[str, str]) -> dict[str, Any]:
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
        fields = _of_item(item)
        place = f"jobs[{index}]"
        name = f"{place}, job {fields['id']}" if fields["id"] else place
        yield place, name, {"place": place, **fields}


def _of_item(item: Any) -> dict[str, Any]:
    """Return the fields of a job from an entry of the document."""
    array, task = _plain(_at(item, "array", "job_id")), _plain(_at(item, "array", "task_id"))
    number, whole = _plain(_at(item, "job_id")), _plain(_at(item, "het", "job_id"))
    if array and task is not None:
        name = f"{array:.0f}_{task:.0f}"
    else:
        name = "" if number is None else f"{number:.0f}"
    limit = _plain(_at(item, "time", "limit"))
    return {
        "id": name,
        # 0 is a moment that is not known.
        "submit_s": _plain(_at(item, "time", "submission")) or None,
        "eligible_s": _plain(_at(item, "time", "eligible")) or None,
        "elapsed_s": _plain(_at(item, "time", "elapsed")),
        "limit_s": None if limit is None else MINUTE_S * limit,
        "state": _at(item, "state", "current"),
        **{
            name: _at(item, name) or _at(item, "association", name) or None
            for name in ("account", "user", "partition")
        },
        "tres": _tres(_at(item, "tres", "allocated")) or _tres(_at(item, "tres", "requested")),
        "heterogeneous": f"{whole:.0f}" if whole else None,
    }


def _at(item: Any, *path: str) -> Any:
    for step in path:
        item = item.get(step) if isinstance(item, Mapping) else None
    return item


def _plain(value: Any) -> float | None:
    """Return a number that may be plain or ``{"set": …, "infinite": …, "number": …}``; None if it is none."""
    if isinstance(value, Mapping):
        value = value.get("number") if value.get("set") is True and not value.get("infinite") else None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < NO_VALUE:
        return None
    return float(value)


def _tres(listed: Any) -> dict[str, float]:
    """Return amounts by name, as ``--parsable2`` names them."""
    found: dict[str, float] = {}
    for entry in listed if isinstance(listed, list) else ():
        kind, name, count = (_at(entry, key) for key in ("type", "name", "count"))
        amount = _plain(count)
        if isinstance(kind, str) and amount:
            found[f"{kind}/{name}" if kind == "gres" else kind] = amount
    return found
