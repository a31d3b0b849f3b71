"""Plans of allocation: the configuration of each job, its conversion to arrays, and constraint violations."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Annotated, Any

import numpy as np
from pydantic import Field, TypeAdapter, ValidationError

from ...instances.allocation.instance import AllocationInstance
from ...instances.allocation.job import Placement
from ...instances.allocation.job_table import TABLE, JobTable
from ...instances.common.arrays import Flags, Floats, Ints
from ...instances.common.fields import Count, Fields, Flag, Name
from ..common.column_plan import ColumnPlan
from ..common.formulation import PlanEntry
from ..common.objective import Violation, all_loosened, within
from .configurations import (
    BUDGET,
    completion_time_s,
    demand_of,
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
MANY_ENTRIES = 10_000
"""Number of entries from which on a plan on pooled resources is kept in columns."""


@dataclass(frozen=True, eq=False)
class PlanTable(ColumnPlan[JobAllocation]):
    """A plan on pooled resources in columns.

    Attributes
    ----------
    names
        The job of each entry.
    placed, ps, workers
        Shape (entries,).
    variants
        Name of the variant, None for a job that is not placed.
    completion_s
        Shape (entries,); NaN where the entry states none.
    """

    entry = JobAllocation

    names: Sequence[str]
    placed: Flags
    variants: Sequence[str | None]
    ps: Ints
    workers: Ints
    completion_s: Floats

    @classmethod
    def of(cls, plan: Plan) -> PlanTable:
        """Return any plan in columns, without its placements on servers."""
        if isinstance(plan, PlanTable):
            return plan
        return cls._of_lists(*([getattr(entry, key) for entry in plan] for key in TYPES))

    @classmethod
    def _of_lists(
        cls,
        names: list[str],
        placed: list[bool],
        variants: list[str | None],
        ps: list[int],
        workers: list[int],
        times: list[float | None],
    ) -> PlanTable:
        """Return a plan whose columns are lists, in the order of `TYPES`; a time may be None."""
        # NumPy makes NaN of None.
        flags, completion_s = np.array(placed, dtype=bool), np.array(times, dtype=float)
        return cls(names, flags, variants, np.array(ps, np.int64), np.array(workers, np.int64), completion_s)

    @classmethod
    def read(cls, rows: Any) -> PlanTable | None:
        """Return a plan that was written from columns and read as plain data; None if it may be none.

        Only what has exactly the types of a written plan is read; anything else needs the validation of
        single entries, which says what is wrong.
        """
        if not (isinstance(rows, list) and len(rows) >= MANY_ENTRIES):
            return None
        if any(type(row) is not dict or row.keys() != KEYS for row in rows):
            return None
        columns = [[row[key] for row in rows] for key in TYPES]
        if any(not TYPES[key].issuperset(map(type, c)) for key, c in zip(TYPES, columns, strict=True)):
            return None
        names, _, variants, ps, workers, times = columns
        try:
            _NAMES.validate_python([*names, *(set(variants) - {None})])
            _COUNTS.validate_python([min(ps), max(ps), min(workers), max(workers)])
        except ValidationError:
            return None
        stated = [time for time in times if time is not None]
        if stated and not 0 <= min(stated) <= sum(stated) < math.inf:
            return None
        return cls._of_lists(*columns)

    def __len__(self) -> int:
        return len(self.names)

    def plain(self, rows: slice = slice(None)) -> list[Fields]:
        """Return entries as plain data, with their fields in order."""
        times = self.completion_s[rows]
        stated: Any = np.where(np.isnan(times), None, times)  # type: ignore[call-overload]  # None: objects
        arrays = self.placed[rows], self.ps[rows], self.workers[rows], stated
        texts = self.names[rows], self.variants[rows]
        return [
            {"job": job, "placed": flag, "variant": variant, "ps": p, "workers": w, "completion_s": time}
            for job, variant, flag, p, w, time in zip(*texts, *(a.tolist() for a in arrays), strict=True)
        ]


TYPES: dict[str, set[type]] = {
    "job": {str},
    "placed": {bool},
    "variant": {str, type(None)},
    "ps": {int},
    "workers": {int},
    "completion_s": {float, type(None)},
}
"""Types of the fields of an entry in a document that was written."""
KEYS = TYPES.keys()
_NAMES, _COUNTS = TypeAdapter(list[Name]), TypeAdapter(list[Count])


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
    columns, rows = PlanTable.of(plan), list[tuple[int, int, int, bool]]()
    faults, pieces_of = [], list[list[int]]()
    first, names, seen = table.first_variant.tolist(), table.variant_names, set()
    has_tasks = ((columns.ps != 0) | (columns.workers != 0)).tolist()
    for row, (name, placed, own) in enumerate(
        zip(columns.names, columns.placed.tolist(), columns.variants, strict=True)
    ):
        j = index.get(name)
        if j is None:
            faults.append(Violation("job", f"{name!r} is not in the instance"))
            continue
        if j in seen:
            faults.append(Violation("one configuration", f"job {name!r} is listed twice"))
            continue
        seen.add(j)
        variant = -1
        if placed:
            variant = first[j]
            if names[variant] != own:
                variant = next((v for v in range(first[j] + 1, first[j + 1]) if names[v] == own), -1)
            if variant < 0:
                faults.append(Violation("variant", f"job {name!r} has no variant {own!r}"))
                continue
        elif own is not None or has_tasks[row]:
            faults.append(Violation("placement", f"job {name!r} is not placed, but has tasks"))
        stays = False
        if servers is not None:
            placement = plan[row].placement
            pieces = servers.pieces(placement)
            stays = j in servers.current and pieces == servers.current[j].tolist()
            pieces_of += [[len(rows), *piece] for piece in pieces]
            if pieces and pieces[0][0] < 0:
                unknown = next(server for server in placement or () if server not in servers.index)
                where = f"job {name!r} is on {unknown!r}, which is not in the instance"
                faults.append(Violation("server", where))
        rows.append((row, j, variant, stays))
    if len(seen) < len(table):
        faults += [
            Violation("one configuration", f"job {name!r} is missing")
            for j, name in enumerate(table.names)
            if j not in seen
        ]
    kept, job, variants, stays_now = np.fromiter(chain.from_iterable(rows), np.int64).reshape(-1, 4).T
    ps, workers, stated = columns.ps[kept], columns.workers[kept], columns.completion_s[kept]
    pieces_now = np.array(pieces_of, dtype=np.int64).reshape(-1, 4)
    remote = workers.copy() if servers is None else np.zeros(len(rows), dtype=np.int64)
    at, _, x, y = pieces_now.T
    np.maximum.at(remote, at, np.maximum((x > 0) * (workers[at] - y), (y > 0) * (ps[at] - x)))
    spread = remote, stays_now.astype(bool), pieces_now
    return Entries(job, variants, ps, workers, stated, *spread, tuple(faults))


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
    listed = measured_step_s(table, variant, ps, workers, entries.servers[placed])
    step = np.where(table.model[variant] == TABLE, listed, step)
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
    elif not isinstance(plan, PlanTable) and any(entry.placement for entry in plan):
        violations.append(Violation("placement", "the plan names servers, but the instance has none"))
    names, limits = resource_limits(instance)
    used = usage_of(instance, table, entries)
    return violations + [
        Violation("budget" if name == BUDGET else f"capacity of {name}", _excess_text(used[name], limit))
        for name, limit in zip(names, limits.tolist(), strict=True)
        if not within(used[name], limit)
    ]


def _excess_text(amount: float, limit: float) -> str:
    return f"the plan takes {amount:g}, {amount - limit:g} more than the {limit:g} there are"


def usage_of(instance: AllocationInstance, table: JobTable, entries: Entries) -> dict[str, float]:
    """Return how much of each resource a plan takes, and of the hourly budget if there is one."""
    placed = entries.variant >= 0
    columns = (column[placed] for column in (entries.variant, entries.ps, entries.workers))
    usage = demand_of(task_demands(instance, table), *columns).sum(axis=0)
    return dict(zip(resource_limits(instance)[0], usage.tolist(), strict=True))


def server_use(table: JobTable, entries: Entries, servers: Servers) -> Floats:
    """Return what the entries take of each server, shape (S, R)."""
    entry, server, x, y = entries.pieces[entries.pieces[:, 1] >= 0].T
    variant, used = entries.variant[entry], np.zeros_like(servers.free)
    # An entry that is not placed and yet has tasks is a violation; it has no demand.
    demand = demand_of((table.ps_demand, table.worker_demand), variant, x, y)
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
    for s, r in np.argwhere(used > all_loosened(servers.free)).tolist():
        over = _excess_text(used[s, r], servers.free[s, r])
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
    late = placed & ~wrong & (time > all_loosened(deadline))
    yield from each(
        late, "deadline", lambda row: f"takes {time[row]:g} s; its deadline is {deadline[row]:g} s"
    )


def _count_text(key: str, wanted: Ints, there: Any, row: int) -> str:
    return f"has {wanted[row]} {key}, but {there[row]:.0f} on servers"


def _range_text(key: str, count: Ints, low: Ints, high: Ints, row: int) -> str:
    return f"has {count[row]} {key}; allowed: {low[row]} to {high[row]}"
