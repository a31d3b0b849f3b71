"""Large tables of jobs: columns become a `JobTable` without one object for each row.

The rules of `Job` and of what it is made of are checked on whole columns (`job_columns`), only to find the
rows that may be wrong. Those go the way of all small tables, which says what is wrong with them; should it
accept one, the whole table goes that way.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..common.arrays import Ints
from ..common.errors import MOST_FAULTS, Fault, InstanceError
from ..common.faults import validated
from ..common.fields import unknown_names
from ..files.columns import Columns
from .instance import AllocationInstance
from .job import Job
from .job_columns import JobColumns

HEAD = 1_000
"""Rows that are checked before the others are looked at."""
CHUNK = 256
MOST_DOUBTS = 20_000
"""Rows that a rule may suspect in vain, until the whole table is read row by row."""
_MEASUREMENTS = re.compile(r"loss(\..*)?|variants\.[0-9]+\.speed\.measurements")


def read_allocation(columns: Columns, data: Mapping[str, Any], source: str) -> AllocationInstance | None:
    """Return the instance whose jobs are a table in columns.

    Parameters
    ----------
    columns
        The table of jobs.
    data
        The rest of the document.
    source
        What faults call the document.

    Returns
    -------
    instance
        None if the table has to be read row by row, for instance because measurements are to be fitted.

    Raises
    ------
    InstanceError
        If anything is wrong; of faulty jobs, only the first hundred are named.
    """
    measured = [name for name in columns.names if _MEASUREMENTS.fullmatch(name)]
    if measured and any(columns.given(name).any() for name in measured):
        return None
    resources = data.get("resources")
    known = tuple(map(str, resources)) if isinstance(resources, Mapping) else ()
    # A large table that starts wrong is refused before the rest of it is read.
    head = columns.head(HEAD)
    if not JobColumns.too_wide(head, len(known)):
        suspects = np.flatnonzero(JobColumns(head, known).wrong)
        _refuse_faulty(head, suspects, data, source, others=len(head) == HEAD)
    if JobColumns.too_wide(columns, len(known)):
        return None
    jobs = JobColumns(columns, known)
    suspects = np.flatnonzero(jobs.wrong)
    if len(suspects):
        # If all suspects turn out to be fine, a check was too strict: all rows are read as objects.
        _refuse_faulty(columns, suspects, data, source)
        return None
    faults = _unknown_resources(jobs, source) if isinstance(resources, Mapping) else []
    try:
        instance = validated(AllocationInstance, {**data, "jobs": jobs.table()}, source)
    except InstanceError as error:
        raise InstanceError([*error.faults, *faults], error.more, error.stopped) from None
    if faults:
        raise InstanceError(faults)
    return instance


def _refuse_faulty(
    columns: Columns, suspects: Ints, data: Mapping[str, Any], source: str, others: bool = False
) -> None:
    """Raise the faults of the first faulty rows among the suspects, if there are any.

    Parameters
    ----------
    others
        Whether there are more rows, which nobody has looked at.
    """
    faulty: dict[int, dict[str, Any]] = {}
    for start in range(0, min(len(suspects), MOST_DOUBTS), CHUNK):
        chunk = suspects[start : start + CHUNK]
        for index, row in zip(chunk.tolist(), columns.rows(chunk), strict=True):
            if len(faulty) < MOST_FAULTS and not _accepted(row, source):
                faulty[index] = row
        if len(faulty) == MOST_FAULTS:
            break
    if not faulty:
        return
    indices = list(faulty)
    try:
        validated(AllocationInstance, {**data, "jobs": list(faulty.values())}, source)
    except InstanceError as error:
        faults = [Fault(source, _renumbered(fault.path, indices), fault.what) for fault in error.faults]
        left = int((suspects > indices[-1]).sum()) if len(faulty) == MOST_FAULTS else 0
        raise InstanceError(faults, error.more + left, others or error.stopped) from None


def _accepted(row: dict[str, Any], source: str) -> bool:
    try:
        validated(Job, row, source)
    except InstanceError:
        return False
    return True


def _renumbered(path: str, indices: list[int]) -> str:
    """Return a path with the index that its job has in the whole table."""
    return re.sub(r"^jobs\[([0-9]+)\]", lambda match: f"jobs[{indices[int(match[1])]}]", path)


def _unknown_resources(jobs: JobColumns, source: str) -> list[Fault]:
    """Return the faults of demands for what the document does not have, of the first hundred such jobs."""
    first = sorted({j for _, _, _, rows in jobs.unknown for j in rows[:MOST_FAULTS].tolist()})[:MOST_FAULTS]
    return [
        Fault(source, *complaint)
        for j in first
        for v, key, resource, rows in jobs.unknown
        if j in rows[:MOST_FAULTS]
        for complaint in unknown_names(
            [resource], jobs.resources, f"jobs[{j}].variants[{v}].{key}", "resource", "resources"
        )
    ]
