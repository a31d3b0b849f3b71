"""Plans of allocation: the configuration of each job, its conversion to arrays, and constraint violations."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from ...instances.allocation.instance import AllocationInstance
from ...instances.allocation.job_table import TABLE, JobTable
from ...instances.common.arrays import Floats, Ints
from ...instances.common.fields import Count, Flag, Model, Name
from ..common.objective import Violation, within
from .configurations import (
    BUDGET,
    completion_time_s,
    formula_step_s,
    measured_row,
    resource_limits,
    task_demands,
)

STATED_TOLERANCE = 1e-9
"""Relative tolerance of the completion time that an entry states."""
MAX_SHOWN = 20
"""Maximum number of violations of one constraint that are listed."""


class JobAllocation(Model):
    """What one job gets; a job that is not placed has no variant and no tasks.

    Attributes
    ----------
    completion_s
        t, what the entry contributes to the objective; a plan that is given may leave it out.
    """

    job: Name
    placed: Flag = True
    variant: Name | None = None
    ps: Count = 0
    workers: Count = 0
    completion_s: Annotated[float, Field(ge=0)] | None = None


@dataclass(frozen=True)
class Entries:
    """A plan as arrays with one element for each entry that names a job and variant of the instance.

    Attributes
    ----------
    job, variant, ps, workers
        Shape (entries,); `variant` is an index of the job table's variants, -1 for a job that is not placed.
    stated_s
        Shape (entries,): the completion time that the entry states, NaN if none.
    faults
        Violations of the entries that are left out.
    """

    job: Ints
    variant: Ints
    ps: Ints
    workers: Ints
    stated_s: Floats
    faults: tuple[Violation, ...]


def read_entries(table: JobTable, index: Mapping[str, int], plan: Sequence[JobAllocation]) -> Entries:
    """Convert a plan to arrays of jobs, variants and task counts, with the faults of invalid entries.

    Parameters
    ----------
    index
        Index of each job by name.
    """
    rows, stated, faults = [], [], []
    first, names, seen = table.first_variant.tolist(), table.variant_names, set()
    for entry in plan:
        j = index.get(entry.job)
        if j is None:
            faults.append(Violation("job", f"{entry.job!r} is not in the instance"))
            continue
        if j in seen:
            faults.append(Violation("one configuration", f"job {entry.job!r} is listed twice"))
            continue
        seen.add(j)
        variant = -1
        if entry.placed:
            variant = next((v for v in range(first[j], first[j + 1]) if names[v] == entry.variant), -1)
            if variant < 0:
                faults.append(Violation("variant", f"job {entry.job!r} has no variant {entry.variant!r}"))
                continue
        elif entry.variant is not None or entry.ps or entry.workers:
            faults.append(Violation("placement", f"job {entry.job!r} is not placed, but has tasks"))
        rows.append((j, variant, entry.ps, entry.workers))
        stated.append(np.nan if entry.completion_s is None else entry.completion_s)
    if len(seen) < len(table):
        missing = [name for j, name in enumerate(table.names) if j not in seen]
        faults += [Violation("one configuration", f"job {name!r} is missing") for name in missing]
    columns = np.array(rows, dtype=np.int64).reshape(len(rows), 4).T
    return Entries(columns[0], columns[1], columns[2], columns[3], np.array(stated), tuple(faults))


def completion_times_s(table: JobTable, entries: Entries) -> Floats:
    """Return the completion time [s] of each entry of a plan; NaN for an unmeasured configuration."""
    time = table.unplaced_s[entries.job]
    placed = np.flatnonzero(entries.variant >= 0)
    variant, ps, workers = (c[placed] for c in (entries.variant, entries.ps, entries.workers))
    # An entry outside its range is a violation; it must not divide by zero on the way to being found.
    step = formula_step_s(table, variant, np.maximum(ps, 1), np.maximum(workers, 1))
    measured = np.flatnonzero(table.model[variant] == TABLE)
    if len(measured):
        row = measured_row(table, variant[measured], ps[measured], workers[measured])
        step[measured] = np.where(row < 0, np.nan, 1.0 / table.row_steps_per_s[row])
    time[placed] = completion_time_s(table, variant, ps, workers, step)
    return time


def plan_violations(instance: AllocationInstance, table: JobTable, entries: Entries) -> list[Violation]:
    """Return all constraint violations of a plan."""
    violations = [*entries.faults, *_job_violations(table, entries)]
    ps_demand, worker_demand = task_demands(instance, table)
    placed = entries.variant >= 0
    variant, ps, workers = (c[placed] for c in (entries.variant, entries.ps, entries.workers))
    usage = (ps[:, None] * ps_demand[variant] + workers[:, None] * worker_demand[variant]).sum(axis=0)
    names, limits = resource_limits(instance)
    return violations + [
        Violation(
            "budget" if name == BUDGET else f"capacity of {name}",
            f"the plan takes {used:g}, {used - limit:g} more than the {limit:g} there are",
        )
        for name, used, limit in zip(names, usage.tolist(), limits.tolist(), strict=True)
        if not within(used, limit)
    ]


def _job_violations(table: JobTable, entries: Entries) -> Iterator[Violation]:
    """Yield violations of the constraints on single jobs: placement, ranges, measured rows and deadlines."""
    job, variant = entries.job, entries.variant
    placed = variant >= 0

    def each(where: NDArray[np.bool_], constraint: str, what: Callable[[int], str]) -> Iterator[Violation]:
        rows = np.flatnonzero(where).tolist()
        for row in rows[:MAX_SHOWN]:
            yield Violation(constraint, f"job {table.names[job[row]]!r} {what(row)}")
        if len(rows) > MAX_SHOWN:
            yield Violation(constraint, f"{len(rows) - MAX_SHOWN} more jobs break it")

    yield from each(~placed & ~table.optional[job], "placement", lambda _: "is not optional")
    formula = placed & (table.model[variant] != TABLE)
    wrong = np.zeros(len(job), dtype=bool)
    for key, count in (("ps", entries.ps), ("workers", entries.workers)):
        low, high = getattr(table, f"min_{key}")[variant], getattr(table, f"max_{key}")[variant]
        outside = formula & ((count < low) | (count > high))
        wrong |= outside
        yield from each(outside, f"range of {key}", partial(_range_text, key, count, low, high))
    time = completion_times_s(table, entries)
    unlisted = np.isnan(time) & placed
    yield from each(
        unlisted,
        "configuration",
        lambda row: f"has ps={entries.ps[row]}, workers={entries.workers[row]}, which is not in the table",
    )
    yield from each(
        np.abs(entries.stated_s - time) > STATED_TOLERANCE * time,
        "completion time",
        lambda row: f"takes {time[row]:.10g} s; its entry says {entries.stated_s[row]:.10g} s",
    )
    deadline = table.deadline_s[job]
    late = placed & ~wrong & ~unlisted
    late[late] = [not within(t, d) for t, d in zip(time[late].tolist(), deadline[late].tolist(), strict=True)]
    yield from each(
        late, "deadline", lambda row: f"takes {time[row]:g} s; its deadline is {deadline[row]:g} s"
    )


def _range_text(key: str, count: Ints, low: Ints, high: Ints, row: int) -> str:
    return f"has {count[row]} {key}; allowed: {low[row]} to {high[row]}"
