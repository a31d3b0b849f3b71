"""Fast reading of large tables of jobs: columns are checked as a whole, without an object for each row.

The types of cells are those of the fields of `Job`; the rules between fields are those of one job. Suspect
rows are validated one by one as in small tables, which gives the error messages; if one of them turns out to
be valid, the whole table is read row by row.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from ..common.arrays import Flags, Ints
from ..common.errors import MAX_FAULTS, Fault, InstanceError
from ..common.faults import validated
from ..common.fields import unknown_names
from ..common.speed import broken, range_rules, theta_rules, variant_rules
from ..files.columnar import ColumnarRows, TooManyCells, repeated
from ..files.columns import Columns
from .instance import AllocationInstance
from .job import Job, job_rules
from .job_table import MAX_THETA, MODELS, JobTable, current_variants

HEAD = 1_000
"""Rows at the start of a table that are checked before the others."""
CHUNK = 256
MAX_SUSPECTS = 20_000
"""Suspect rows that are validated one by one before the whole table is read row by row."""
_MEASUREMENTS = re.compile(r"loss(\..*)?|variants\.[0-9]+\.speed\.measurements")


def jobs_in(columns: Columns) -> ColumnarRows:
    """Return the columns of a table of jobs, and which rows may break a rule.

    Raises
    ------
    TooManyCells
        If the columns would take too much memory.
    """
    jobs = ColumnarRows(columns, Job)
    jobs.wrong |= jobs.given(jobs.unread)
    for path, suspects in _broken(jobs):
        jobs.suspect(path, suspects)
    return jobs


def _broken(jobs: ColumnarRows) -> Iterator[tuple[str, Flags]]:
    """Yield path of a list, or nothing for the jobs, and which entries break a rule between fields."""
    known = np.zeros(len(jobs.wrong), dtype=bool)
    known[current_variants(jobs)[0]] = True
    yield "", broken(job_rules(jobs["optional"] == 1, ~np.isnan(jobs["unplaced_s"]), jobs["current"], known))
    variants, model = "variants", jobs["variants.speed.model"].codes
    yield variants, repeated(jobs[variants], jobs["variants.name"].codes)
    ring, measured = model == MODELS.index("ring_allreduce"), model == len(MODELS)
    formula = (model >= 0) & ~measured
    given = [(jobs[f"variants.{key}"], jobs[f"variants.{key}.min"]) for key in ("workers", "ps")]
    yield variants, broken(variant_rules((measured, ring, formula & ~ring), *given[0], *given[1]))
    yield (
        variants,
        formula & broken(theta_rules([jobs[f"variants.speed.theta.{k}"] for k in range(MAX_THETA)])),
    )
    for key in ("workers", "ps"):
        there, *ends = (jobs[f"variants.{key}{end}"] for end in ("", ".min", ".max"))
        yield variants, there & broken(range_rules(*ends))
    rows = "variants.speed.rows"
    yield rows, repeated(jobs[rows], jobs[f"{rows}.ps"], jobs[f"{rows}.workers"])


def read_allocation(columns: Columns, data: Mapping[str, Any], source: str) -> AllocationInstance | None:
    """Return the instance whose jobs are a table in columns, or None if it has to be read row by row.

    Parameters
    ----------
    columns
        The table of jobs.
    data
        The rest of the document.
    source
        The name of the document in error messages.

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
    for part, others in ((head, len(head) == HEAD), (columns, False)):
        try:
            jobs = jobs_in(part)
        except TooManyCells:
            return None
        suspects = np.flatnonzero(jobs.wrong)
        if len(suspects):
            _refuse_faulty(part, suspects, data, source, others)
            if part is columns:
                # All suspects are fine, so a check was too strict: all rows are read as objects.
                return None
    faults = _unknown_resources(jobs, known, source) if isinstance(resources, Mapping) else []
    try:
        table = JobTable.of_columns(jobs.values, known)
        instance = validated(AllocationInstance, {**data, "jobs": table}, source)
    except InstanceError as error:
        raise InstanceError([*error.faults, *faults], error.more, error.stopped) from None
    if faults:
        raise InstanceError(faults)
    return instance


def _refuse_faulty(
    columns: Columns, suspects: Ints, data: Mapping[str, Any], source: str, others: bool = False
) -> None:
    """Raise the faults of the first invalid rows among the suspects, if there are any.

    Parameters
    ----------
    others
        Whether there are more rows, which have not been checked.
    """
    faulty: dict[int, dict[str, Any]] = {}
    for start in range(0, min(len(suspects), MAX_SUSPECTS), CHUNK):
        chunk = suspects[start : start + CHUNK]
        for index, row in zip(chunk.tolist(), columns.rows(chunk), strict=True):
            if len(faulty) < MAX_FAULTS and not _accepted(row, source):
                faulty[index] = row
        if len(faulty) == MAX_FAULTS:
            break
    if not faulty:
        return
    indices = list(faulty)
    try:
        validated(AllocationInstance, {**data, "jobs": list(faulty.values())}, source)
    except InstanceError as error:
        faults = [Fault(source, _renumbered(fault.path, indices), fault.what) for fault in error.faults]
        left = int((suspects > indices[-1]).sum()) if len(faulty) == MAX_FAULTS else 0
        raise InstanceError(faults, error.more + left, others or error.stopped) from None


def _accepted(row: dict[str, Any], source: str) -> bool:
    try:
        validated(Job, row, source)
    except InstanceError:
        return False
    return True


def _renumbered(path: str, indices: list[int]) -> str:
    """Return the path of a fault with the index of its job in the whole table."""
    return re.sub(r"^jobs\[([0-9]+)\]", lambda match: f"jobs[{indices[int(match[1])]}]", path)


def _unknown_resources(jobs: ColumnarRows, known: tuple[str, ...], source: str) -> list[Fault]:
    """Return the faults of demands for unknown resources, of the first hundred jobs that have one."""
    owner, first = jobs.rows_of("variants"), jobs["variants"]
    found = [
        (key, resource, np.flatnonzero(~np.isnan(amounts)))
        for key in ("worker_demand", "ps_demand")
        for resource, amounts in jobs[f"variants.{key}"].items()
        if resource not in known
    ]
    faulty = np.unique(np.concatenate([owner[:0], *(owner[entries] for *_, entries in found)]))[:MAX_FAULTS]
    listed = sorted(
        (entry, place)
        for place, (*_, entries) in enumerate(found)
        for entry in entries[np.isin(owner[entries], faulty)].tolist()
    )
    return [
        Fault(source, *complaint)
        for entry, place in listed
        for complaint in unknown_names(
            [found[place][1]],
            known,
            f"jobs[{owner[entry]}].variants[{entry - first[owner[entry]]}].{found[place][0]}",
            "resource",
            "resources",
        )
    ]
