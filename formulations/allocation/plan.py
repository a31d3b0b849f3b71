"""Plans of allocation: the configuration of each job, its conversion to arrays, and constraint violations."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from ...instances.allocation.instance import AllocationInstance
from ...instances.allocation.job import Placement
from ...instances.allocation.job_table import TABLE, JobTable
from ...instances.common.arrays import Flags, Floats, Ints
from ...instances.common.fields import Count, Flag, Name
from ..common.formulation import PlanEntry
from ..common.objective import Violation, within
from .configurations import (
    BUDGET,
    completion_time_s,
    formula_step_s,
    measured_step_s,
    resource_limits,
    task_demands,
)
from .splits import Servers, sending_workers

STATED_TOLERANCE = 1e-9
"""Relative tolerance of the completion time that an entry states."""
MAX_SHOWN = 20
"""Maximum number of violations of one constraint that are listed."""


class JobAllocation(PlanEntry):
    """What one job gets; a job that is not placed has no variant and no tasks.

    Attributes
    ----------
    completion_s
        t, what the entry contributes to the objective; a plan that is given may leave it out.
    placement
        Server → the tasks there, where the instance has servers.
    """

    omitted = "placement"

    job: Name
    placed: Flag = True
    variant: Name | None = None
    ps: Count = 0
    workers: Count = 0
    completion_s: Annotated[float, Field(ge=0)] | None = None
    placement: Placement | None = None


Plan = Sequence[JobAllocation]
"""The entries of a plan, or some of them."""


@dataclass(frozen=True)
class Entries:
    """A plan as arrays with one element for each entry that names a job and variant of the instance.

    Attributes
    ----------
    job, variant, ps, workers
        Shape (entries,); `variant` is an index of the job table's variants, -1 for a job that is not placed.
    stated_s
        Shape (entries,): the completion time that the entry states, NaN if none.
    remote, stays
        Shape (entries,): T of its placement, and whether that is the one of now; w and false where the
        instance has no servers.
    pieces
        Shape (pieces, 4): entry, server (−1: unknown), parameter servers and workers.
    faults
        Violations of the entries that are left out.
    """

    job: Ints
    variant: Ints
    ps: Ints
    workers: Ints
    stated_s: Floats
    remote: Ints
    stays: Flags
    pieces: Ints
    faults: tuple[Violation, ...]

    @property
    def servers(self) -> Ints:
        """Number of servers of each entry's placement, shape (entries,)."""
        return np.bincount(self.pieces[:, 0], minlength=len(self.job))


def read_entries(
    table: JobTable,
    index: Mapping[str, int],
    plan: Plan,
    servers: Servers | None = None,
) -> Entries:
    """Convert a plan to arrays of jobs, variants and task counts, with the faults of invalid entries.

    Parameters
    ----------
    index
        Index of each job by name.
    servers
        Where the placements matter.
    """
    rows: list[tuple[int, ...]] = []
    stated, faults, placed = [], [], list[list[int]]()
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
        stays = False
        if servers is not None:
            pieces = servers.pieces(entry.placement)
            stays = j in servers.current and pieces == servers.current[j].tolist()
            placed += [[len(rows), *piece] for piece in pieces]
            if pieces and pieces[0][0] < 0:
                name = next(name for name in entry.placement or () if name not in servers.index)
                where = f"job {entry.job!r} is on {name!r}, which is not in the instance"
                faults.append(Violation("server", where))
        rows.append((j, variant, entry.ps, entry.workers, stays))
        stated.append(np.nan if entry.completion_s is None else entry.completion_s)
    if len(seen) < len(table):
        missing = [name for j, name in enumerate(table.names) if j not in seen]
        faults += [Violation("one configuration", f"job {name!r} is missing") for name in missing]
    job, variants, ps, workers, stays_now = np.array(rows, dtype=np.int64).reshape(len(rows), 5).T
    pieces_now = np.array(placed, dtype=np.int64).reshape(len(placed), 4)
    remote = workers.copy() if servers is None else np.zeros(len(rows), dtype=np.int64)
    row, _, x, y = pieces_now.T
    np.maximum.at(remote, row, np.maximum((x > 0) * (workers[row] - y), (y > 0) * (ps[row] - x)))
    spreads = remote, stays_now.astype(bool), pieces_now
    return Entries(job, variants, ps, workers, np.array(stated), *spreads, tuple(faults))


def completion_times_s(table: JobTable, entries: Entries, servers: Servers | None) -> Floats:
    """Return the completion time [s] of each entry of a plan; NaN for an unmeasured configuration."""
    time = table.unplaced_s[entries.job]
    placed = np.flatnonzero(entries.variant >= 0)
    variant, ps, workers = (c[placed] for c in (entries.variant, entries.ps, entries.workers))
    # An entry outside its range is a violation; it must not divide by zero on the way to being found.
    sending: Floats = np.maximum(workers, 1).astype(float)
    moved = np.zeros(len(placed), dtype=bool)
    if servers is not None:
        sending = sending_workers(workers, entries.remote[placed], servers.share)
        moved = np.isin(entries.job[placed], list(servers.current)) & ~entries.stays[placed]
    step = formula_step_s(table, variant, np.maximum(ps, 1), np.maximum(workers, 1), sending)
    measured = np.flatnonzero(table.model[variant] == TABLE)
    if len(measured):
        columns = (c[measured] for c in (variant, ps, workers, entries.servers[placed]))
        step[measured] = measured_step_s(table, *columns)
    time[placed] = completion_time_s(table, variant, ps, workers, step, moved)
    return time


def plan_violations(
    instance: AllocationInstance,
    table: JobTable,
    entries: Entries,
    plan: Plan,
    servers: Servers | None,
) -> list[Violation]:
    """Return all constraint violations of a plan."""
    violations = [*entries.faults, *_job_violations(table, entries, servers)]
    if servers is not None:
        violations += _server_violations(table, entries, servers)
    elif any(entry.placement for entry in plan):
        violations.append(Violation("placement", "the plan names servers, but the instance has none"))
    names, limits = resource_limits(instance)
    used = usage_of(instance, table, entries)
    return violations + [
        Violation(
            "budget" if name == BUDGET else f"capacity of {name}",
            f"the plan takes {used[name]:g}, {used[name] - limit:g} more than the {limit:g} there are",
        )
        for name, limit in zip(names, limits.tolist(), strict=True)
        if not within(used[name], limit)
    ]


def usage_of(instance: AllocationInstance, table: JobTable, entries: Entries) -> dict[str, float]:
    """Return how much of each resource a plan takes, and of the hourly budget if there is one."""
    ps_demand, worker_demand = task_demands(instance, table)
    placed = entries.variant >= 0
    variant, ps, workers = (c[placed] for c in (entries.variant, entries.ps, entries.workers))
    usage = (ps[:, None] * ps_demand[variant] + workers[:, None] * worker_demand[variant]).sum(axis=0)
    return dict(zip(resource_limits(instance)[0], usage.tolist(), strict=True))


def server_use(table: JobTable, entries: Entries, servers: Servers) -> Floats:
    """Return what the entries take of each server, shape (S, R)."""
    entry, server, x, y = entries.pieces[entries.pieces[:, 1] >= 0].T
    variant, used = entries.variant[entry], np.zeros_like(servers.free)
    # An entry that is not placed and yet has tasks is a violation; it has no demand.
    demand = x[:, None] * table.ps_demand[variant] + y[:, None] * table.worker_demand[variant]
    np.add.at(used, server, np.where(variant[:, None] >= 0, demand, 0.0))
    return used


def _server_violations(table: JobTable, entries: Entries, servers: Servers) -> Iterator[Violation]:
    """Yield violations of the placement: servers without tasks, other numbers of tasks, and full servers."""
    entry, _, x, y = entries.pieces.T
    each, entries_of = partial(_each, table, entries), partial(np.bincount, entry, minlength=len(entries.job))
    idle = entries_of(weights=x + y == 0) > 0
    yield from each(idle, "placement", lambda _: "names a server on which it has no task")
    for key, wanted, tasks in (("ps", entries.ps, x), ("workers", entries.workers, y)):
        there = entries_of(weights=tasks)
        yield from each(there != wanted, "placement", partial(_count_text, key, wanted, there))
    used = server_use(table, entries, servers)
    for s, r in np.argwhere(used > servers.free).tolist():
        amount, limit = used[s, r].item(), servers.free[s, r].item()
        if not within(amount, limit):
            over = f"the plan takes {amount:g}, {amount - limit:g} more than the {limit:g} there are"
            yield Violation(f"{servers.resources[r]} of server {servers.names[s]}", over)


def _each(
    table: JobTable, entries: Entries, where: Flags, constraint: str, what: Callable[[int], str]
) -> Iterator[Violation]:
    """Yield a violation for each entry that is flagged, up to a number of them."""
    rows = np.flatnonzero(where).tolist()
    for row in rows[:MAX_SHOWN]:
        yield Violation(constraint, f"job {table.names[entries.job[row]]!r} {what(row)}")
    if len(rows) > MAX_SHOWN:
        yield Violation(constraint, f"{len(rows) - MAX_SHOWN} more jobs break it")


def _job_violations(table: JobTable, entries: Entries, servers: Servers | None) -> Iterator[Violation]:
    """Yield violations of the constraints on single jobs: placement, ranges, measured rows and deadlines."""
    job, variant = entries.job, entries.variant
    placed, each = variant >= 0, partial(_each, table, entries)
    yield from each(~placed & ~table.optional[job], "placement", lambda _: "is not optional")
    formula = placed & (table.model[variant] != TABLE)
    wrong = np.zeros(len(job), dtype=bool)
    for key, count in (("ps", entries.ps), ("workers", entries.workers)):
        low, high = getattr(table, f"min_{key}")[variant], getattr(table, f"max_{key}")[variant]
        outside = formula & ((count < low) | (count > high))
        wrong |= outside
        yield from each(outside, f"range of {key}", partial(_range_text, key, count, low, high))
    time = completion_times_s(table, entries, servers)
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


def _count_text(key: str, wanted: Ints, there: Any, row: int) -> str:
    return f"has {wanted[row]} {key}, but {there[row]:.0f} on servers"


def _range_text(key: str, count: Ints, low: Ints, high: Ints, row: int) -> str:
    return f"has {count[row]} {key}; allowed: {low[row]} to {high[row]}"
