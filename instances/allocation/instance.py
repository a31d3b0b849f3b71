"""Allocation instances: jobs that train at a speed that depends on their parameter servers and workers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from ..common.base import Instance
from ..common.fields import (
    NONE_NAMED,
    Amounts,
    Complaint,
    NonNegative,
    repeated,
    rows_or,
    unknown_names,
)
from ..common.speed import variant_demands
from .job import UNCERTAIN_ASSUMPTIONS, Job
from .job_table import JobTable

if TYPE_CHECKING:
    import pandas as pd


if TYPE_CHECKING:
    Rows = Sequence[Job]
else:
    Rows = tuple[Job, ...]  # the type in documents; a job table is not validated again

Jobs = Annotated[Rows, *rows_or(JobTable)]
"""A tuple of jobs; at scale a `JobTable`, which holds them in columns."""


class AllocationInstance(Instance):
    """How many parameter servers and workers does each job get? (Optimus, EuroSys'18)

    Attributes
    ----------
    objective
        `total_completion_time`, Σ ω_j t_j, or `makespan`, max_j t_j; both in seconds.
    resources
        C_r, how much of each resource the cluster has.
    prices_usd_per_hour, budget_usd_per_hour
        Price of one unit of a resource, and what all allocated units together may cost per hour.
    """

    kind: Literal["allocation"] = "allocation"
    objective: Literal["total_completion_time", "makespan"] = "total_completion_time"
    resources: Annotated[Amounts, Field(min_length=1)]
    prices_usd_per_hour: Amounts = NONE_NAMED
    budget_usd_per_hour: NonNegative | None = None
    jobs: Jobs

    def _complaints(self) -> Iterator[Complaint]:
        table = self.jobs if isinstance(self.jobs, JobTable) else None
        yield from repeated(table.names if table else (job.name for job in self.jobs), "jobs")
        known = self.resources
        yield from unknown_names(self.prices_usd_per_hour, known, "prices_usd_per_hour", "resource")
        if self.budget_usd_per_hour is not None and not any(self.prices_usd_per_hour.values()):
            yield "budget_usd_per_hour", "is set, but no resource has a price; give prices_usd_per_hour"
        if table:
            yield from unknown_names(table.resources, known, "jobs", "resource")
            return
        for j, job in enumerate(self.jobs):
            for path, demand in variant_demands(job.variants):
                yield from unknown_names(demand, known, f"jobs[{j}].{path}", "resource")

    def table(self) -> JobTable:
        """Return the jobs as a column-oriented table, with demands in the order of `resources`."""
        return JobTable.of(self.jobs, tuple(self.resources))

    def figure_notes(self) -> list[str]:
        """Return the assumptions about measured throughput that may be far from the truth."""
        return [note for note in self.assumptions if note.startswith(UNCERTAIN_ASSUMPTIONS)]

    def sha256(self) -> str:
        """Return the hash of the canonical document, the same for jobs in columns and as objects."""
        digest = JobTable.of(self.jobs, tuple(sorted(self.resources))).sha256()
        document = self.model_dump(mode="json", exclude_none=True, exclude={"jobs"}) | {"jobs": digest}
        priced = {name: price for name, price in self.prices_usd_per_hour.items() if price}
        return self._digest(document | {"prices_usd_per_hour": priced})

    def to_frame(self) -> pd.DataFrame:
        """Return a table with one row for each variant of each job."""
        return self.table().to_frame()
