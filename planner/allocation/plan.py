"""A plan of allocation as a table and as plain data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ...formulations.allocation.plan import JobAllocation
from ...instances.allocation.instance import AllocationInstance
from ..kind import Columns

LONG_S = 1000.0
"""From so many seconds on, completion times have one decimal."""


def columns(entries: Sequence[JobAllocation]) -> Columns:
    """Return the columns of the table."""
    del entries
    titles = [("job", False), ("placed", False), ("variant", False), ("ps", True), ("workers", True)]
    return [*titles, ("seconds", True)]


def rows(entries: Sequence[JobAllocation]) -> list[list[str]]:
    """Return the cells of the table."""
    seconds = [entry.completion_s or 0.0 for entry in entries]
    digits = 1 if max(seconds) >= LONG_S else 3
    return [
        [
            entry.job,
            "yes" if entry.placed else "no",
            entry.variant or "–",
            str(entry.ps),
            str(entry.workers),
            f"{time:,.{digits}f}",
        ]
        for entry, time in zip(entries, seconds, strict=True)
    ]


def as_data(instance: AllocationInstance, plan: Sequence[JobAllocation]) -> dict[str, Any]:
    """Return the jobs that are placed, and why the others are not."""
    del instance
    jobs = {entry.job: entry.model_dump(exclude={"job", "placed"}) for entry in plan if entry.placed}
    return {"jobs": jobs, "unplaced": dict(left_out(plan))}


def left_out(plan: Sequence[JobAllocation]) -> Iterator[tuple[str, str]]:
    """Yield the jobs that are not placed; a plan does not say why."""
    return ((entry.job, "no reason is given") for entry in plan if not entry.placed)
