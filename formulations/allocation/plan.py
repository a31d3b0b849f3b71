"""Plans of allocation: the configuration of each job, its conversion to arrays, and constraint violations."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, SerializerFunctionWrapHandler, model_serializer

from ...instances.allocation.instance import AllocationInstance
from ...instances.allocation.job import Placement
from ...instances.allocation.job_table import TABLE, JobTable
from ...instances.common.arrays import Flags, Floats, Ints
from ...instances.common.fields import Count, Flag, Model, Name
from ..common.objective import Violation, within
from .configurations import (
    BUDGET,
    completion_time_s,
    formula_step_s,
    measured_step_s,
    resource_limits,
    task_demands,
)
from .placed_configurations import current_pieces, network_share
from .splits import remote_tasks, sending_workers

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
    placement
        Server → the tasks there, where the instance has servers.
    """

    job: Name
    placed: Flag = True
    variant: Name | None = None
    ps: Count = 0
    workers: Count = 0
    completion_s: Annotated[float, Field(ge=0)] | None = None
    placement: Placement | None = None

    @model_serializer(mode="wrap")
    def _without_none(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Serialise without `placement` where there are no servers, so that such plans keep their hash."""
        data: dict[str, Any] = handler(self)
        if self.placement is None:
            data.pop("placement", None)
        return data

    @property
    def pieces(self) -> list[tuple[int, int]]:
        """Parameter servers and workers on each server."""
        return [(tasks.ps, tasks.workers) for tasks in (self.placement or {}).values()]


@dataclass(frozen=True)
class Entries:
    """A plan as arrays with one element for each entry that names a job and variant of the instance.

    Attributes
    ----------
    job, variant, ps, workers
        Shape (entries,); `variant` is an index of the job table's variants, -1 for a job that is not placed.
    stated_s
        Shape (entries,): the completion time that the entry states, NaN if none.
    remote, servers, moved
        Shape (entries,): T and the number of servers of its placement, and whether that is another than now;
        w, 0 and false where the instance has no servers.
    faults
        Violations of the entries that are left out.
    """

    job: Ints
    variant: Ints
    ps: Ints
    workers: Ints
    stated_s: Floats
    remote: Ints
    servers: Ints
    moved: Flags
    faults: tuple[Violation, ...]


def read_entries(
    table: JobTable,
    index: Mapping[str, int],
    plan: Sequence[JobAllocation],
    instance: AllocationInstance | None = None,
) -> Entries:
    """Convert a plan to arrays of jobs, variants and task counts, with the faults of invalid entries.

    Parameters
    ----------
    index
        Index of each job by name.
    instance
        Where the placements matter.
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
        spread: tuple[int, int, bool] = (entry.workers, 0, False)
        if instance is not None and instance.servers is not None:
            spread = _spread(instance, j, entry)
        rows.append((j, variant, entry.ps, entry.workers, *spread))
        stated.append(np.nan if entry.completion_s is None else entry.completion_s)
    if len(seen) < len(table):
        missing = [name for j, name in enumerate(table.names) if j not in seen]
        faults += [Violation("one configuration", f"job {name!r} is missing") for name in missing]
    *columns, moved = np.array(rows, dtype=np.int64).reshape(len(rows), 7).T
    job, variants, ps, workers, remote, servers = columns
    spreads = (remote, servers, moved.astype(bool))
    return Entries(job, variants, ps, workers, np.array(stated), *spreads, tuple(faults))


def _spread(instance: AllocationInstance, job: int, entry: JobAllocation) -> tuple[int, int, bool]:
    """Return T and the number of servers of an entry's placement, and whether that is another than now."""
    now = current_pieces(instance, job)
    pieces = dict(zip(entry.placement or {}, entry.pieces, strict=True))
    return remote_tasks(entry.pieces, entry.ps, entry.workers), len(pieces), now is not None and now != pieces


def completion_times_s(table: JobTable, entries: Entries, share: float = 0.0) -> Floats:
    """Return the completion time [s] of each entry of a plan; NaN for an unmeasured configuration.

    Parameters
    ----------
    share
        σ, in an instance with servers.
    """
    time = table.unplaced_s[entries.job]
    placed = np.flatnonzero(entries.variant >= 0)
    variant, ps, workers = (c[placed] for c in (entries.variant, entries.ps, entries.workers))
    # An entry outside its range is a violation; it must not divide by zero on the way to being found.
    remote, servers = entries.remote[placed], entries.servers[placed]
    sending = sending_workers(np.maximum(workers, 1), remote, share)
    step = formula_step_s(table, variant, np.maximum(ps, 1), np.maximum(workers, 1), sending)
    measured = np.flatnonzero(table.model[variant] == TABLE)
    if len(measured):
        columns = (c[measured] for c in (variant, ps, workers, servers))
        step[measured] = measured_step_s(table, *columns)
    time[placed] = completion_time_s(table, variant, ps, workers, step, entries.moved[placed])
    return time


def plan_violations(
    instance: AllocationInstance, table: JobTable, entries: Entries, plan: Sequence[JobAllocation]
) -> list[Violation]:
    """Return all constraint violations of a plan."""
    share = network_share(instance) if instance.servers is not None else 0.0
    violations = [*entries.faults, *_job_violations(table, entries, share)]
    if instance.servers is not None:
        violations += _server_violations(instance, table, plan)
    elif any(entry.placement for entry in plan):
        violations.append(Violation("placement", "the plan names servers, but the instance has none"))
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


def _server_violations(
    instance: AllocationInstance, table: JobTable, plan: Sequence[JobAllocation]
) -> Iterator[Violation]:
    """Yield violations of the placement: unknown servers, other numbers of tasks, and full servers."""
    known = instance.expanded_servers
    index = {name: j for j, name in enumerate(table.names)}
    used: dict[str, Floats] = {}
    for entry in plan:
        j = index.get(entry.job)
        if j is None:
            continue
        unknown = [name for name in entry.placement or {} if name not in known]
        if unknown:
            yield Violation("server", f"job {entry.job!r} is on {unknown[0]!r}, which is not in the instance")
        if any(not x + y for x, y in entry.pieces):
            yield Violation("placement", f"job {entry.job!r} names a server on which it has no task")
        for key, listed in (("ps", 0), ("workers", 1)):
            there, wanted = sum(piece[listed] for piece in entry.pieces), getattr(entry, key)
            if there != wanted:
                yield Violation("placement", f"job {entry.job!r} has {wanted} {key}, but {there} on servers")
        variants = range(int(table.first_variant[j]), int(table.first_variant[j + 1]))
        v = next((v for v in variants if table.variant_names[v] == entry.variant), None)
        for name, (x, y) in zip(entry.placement or {}, entry.pieces, strict=True):
            if name in known and v is not None:
                piece = x * table.ps_demand[v] + y * table.worker_demand[v]
                used[name] = used.get(name, 0.0) + piece
    for name, amounts in used.items():
        for resource, amount in zip(table.resources, amounts.tolist(), strict=True):
            limit = known[name].available.get(resource, 0.0)
            if not within(amount, limit):
                over = f"the plan takes {amount:g}, {amount - limit:g} more than the {limit:g} there are"
                yield Violation(f"{resource} of server {name}", over)


def _job_violations(table: JobTable, entries: Entries, share: float) -> Iterator[Violation]:
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
    time = completion_times_s(table, entries, share)
    unlisted = np.isnan(time) & placed
    yield from each(
        unlisted,
        "configuration",
        lambda row: (
            f"has ps={entries.ps[row]}, workers={entries.workers[row]}"
            f"{f' on {entries.servers[row]} servers' if entries.servers[row] else ''}, "
            "which is not in the table"
        ),
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
