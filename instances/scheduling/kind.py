"""Registration of scheduling instances: data model, builder, large tables in files, and a tiny example.

Large tables of jobs become a `JobTable` without an object for each row: the rules of `SchedulingJob` are
checked on whole columns, to find the rows that may be invalid. These are validated like the rows of small
tables, which gives the error messages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np

from ..common.arrays import Floats
from ..common.faults import validated, validated_rows
from ..common.fields import Fields
from ..common.kind import InstanceKind, ServerBuilder, Tables
from ..files.columnar import ColumnarRows, TooManyCells, Unless, Words, written
from ..files.columns import Columns
from ..files.tables import NO_COLUMN, can_be_columns
from ..references import Folder
from .generate import generate_scheduling
from .instance import SchedulingInstance
from .jobs import NO_COLUMNS, NUMBERS, JobTable, SchedulingJob

MAX_SUSPECTS = 20_000


def resolved(data: Fields, source: str, _: Folder) -> SchedulingInstance | Fields:
    """Return the instance if the document's jobs are a large table; else the document unchanged."""
    columns = data.get("jobs")
    if not isinstance(columns, Columns):
        return data
    return validated(SchedulingInstance, {**data, "jobs": read_jobs(columns, source)}, source)


def read_jobs(columns: Columns, source: str) -> JobTable | list[Fields]:
    """Return the jobs of a table as a `JobTable`, or its rows if it has to be read row by row.

    Raises
    ------
    InstanceError
        If rows are invalid; the first hundred are named.
    """
    try:
        jobs = ColumnarRows(columns, SchedulingJob, NO_COLUMNS)
    except TooManyCells:
        return columns.rows()
    if jobs.given(jobs.unread).any():
        return columns.rows()  # which says what is unknown
    demand = {name: amounts for name, amounts in jobs["demand"].items() if not np.isnan(amounts).all()}
    empty = [np.isnan(amounts) for amounts in demand.values()]
    jobs.wrong |= np.isnan(jobs["duration_s"]) | np.logical_and.reduce(empty)
    if jobs.wrong.any():
        suspects = np.flatnonzero(jobs.wrong)[:MAX_SUSPECTS]
        rows = zip(suspects.tolist(), columns.rows(suspects), strict=True)
        for _ in validated_rows(SchedulingJob, rows, source, "jobs[{}]"):
            pass  # the first invalid rows are refused
        return columns.rows()
    return JobTable.of_columns(jobs.values, tuple(demand))


def _why_no_table(instance: SchedulingInstance) -> str | None:
    """Return why jobs cannot be saved in a table; None if they can."""
    if not can_be_columns(instance.pool):
        return NO_COLUMN
    varied = any(job.variants is not None for job in instance.table().malleable.values())
    return "a table cannot hold the variants of malleable jobs; write a document" if varied else None


def _written_jobs(instance: SchedulingInstance) -> dict[str, Any]:
    """Return the jobs as the table of a file."""
    table = instance.table()
    return {"jobs": written(_columns(table), len(table))}


def _columns(table: JobTable) -> dict[str, Any]:
    """Return the columns of a file."""
    chosen = list(table.malleable)
    duration, tasks = table.duration_s.copy(), table.tasks.copy()
    duration[chosen], tasks[chosen] = np.nan, 1
    columns: dict[str, Any] = {
        "name": table.names,
        "arrival_s": table.arrival_s,
        "duration_s": duration,
        "weight": Unless(table.weight, 1.0),
        **{name: Unless(getattr(table, name)) for name in NUMBERS[3:]},
        "tasks": Unless(tasks, 1),
        **{
            f"demand.{name}": np.ma.masked_equal(table.demand[:, r], 0)
            for r, name in enumerate(table.resources)
        },
    }
    if chosen:
        own = [table.malleable.get(j) for j in range(len(table))]
        columns["work"] = np.array([job and job.work for job in own], dtype=float)
        columns |= _by_count("speeds", [(job and job.speeds) or {} for job in own])
        columns["requested"] = [job and job.requested for job in own]
    columns["tenant"] = Unless(Words(table.tenant, table.tenants).texts())
    columns["model"] = Unless(Words(table.model, table.models).texts())
    if table.spreading is not None:
        columns["skew"] = table.spreading.skew
        listed = [table.spreading.listed[p] for p in table.spreading.profile.tolist()]
        columns |= _by_count("speed_by_servers", listed)
    return columns


def _by_count(name: str, listed: Sequence[Mapping[int, float]]) -> dict[str, Floats]:
    """Return the columns of what each job lists by a number, one for each number."""
    counts = sorted({count for given in listed for count in given})
    return {
        f"{name}.{count}": np.array([given.get(count) for given in listed], dtype=float) for count in counts
    }


SCHEDULING = InstanceKind(
    model=SchedulingInstance,
    lists=("jobs",),
    # Without preemption brute force proves the optimum.
    tiny=lambda: generate_scheduling(4, 2, load=2.0, seed=1).replace(preemption="none"),
    resolved=resolved,
    tables=Tables(("jobs",), _why_no_table, _written_jobs),
)


class Scheduling(ServerBuilder[SchedulingInstance]):
    """Builds a scheduling instance: ``Scheduling(gpu=8).add_job("bert", {"gpu": 4}, 7200, arrival_s=60)``.

    Parameters
    ----------
    name, objective, preemption, restart_s, lease_s, evict, checkpoint_s, skew_threshold, tenant_shares
        Fields of `SchedulingInstance`.
    resources
        Amount of each resource of the cluster as one pool; none if servers are added.
    """

    KIND = SCHEDULING

    def __init__(
        self,
        name: str = "scheduling",
        *,
        objective: str | None = None,
        preemption: str | None = None,
        restart_s: float | None = None,
        lease_s: float | None = None,
        evict: str | None = None,
        checkpoint_s: float | None = None,
        skew_threshold: float | None = None,
        tenant_shares: Mapping[str, float] | None = None,
        **resources: float,
    ) -> None:
        super().__init__(
            name,
            objective=objective,
            preemption=preemption,
            restart_s=restart_s,
            lease_s=lease_s,
            evict=evict,
            checkpoint_s=checkpoint_s,
            skew_threshold=skew_threshold,
            tenant_shares=tenant_shares,
            resources=resources,
        )
        self._lists |= {"servers": [], "events": []}

    def add_event(self, at_s: float, **fields: Any) -> Self:
        """Add an event of the cluster, with fields of `ClusterEvent`: `change`, `fails`, …."""
        return self._add("events", {"at_s": at_s, **fields})

    def add_job(
        self,
        name: str,
        demand: Mapping[str, float] | None = None,
        duration_s: float | None = None,
        *,
        arrival_s: float | None = None,
        **fields: Any,
    ) -> Self:
        """Add a job: rigid with a duration, malleable with `work` and `speeds` or `variants`.

        Parameters
        ----------
        demand
            Demand of one task for each resource.
        fields
            Other fields of `SchedulingJob`, such as `tasks`, `weight` or `tenant`.
        """
        given = {"name": name, "demand": demand, "duration_s": duration_s, "arrival_s": arrival_s}
        return self._add("jobs", {**given, **fields})
