"""A plan of allocation as a table and as plain data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ...formulations.allocation.plan import JobAllocation
from ...instances.allocation.instance import AllocationInstance
from ..output.text import TextColumn

LONG_S = 1000.0
"""From so many seconds on, completion times have one decimal."""


def columns(entries: Sequence[JobAllocation]) -> list[TextColumn[JobAllocation]]:
    """Return the columns of the table."""
    digits = 1 if max(entry.completion_s or 0.0 for entry in entries) >= LONG_S else 3
    return [
        ("job", False, lambda e: e.job),
        ("placed", False, lambda e: "yes" if e.placed else "no"),
        ("variant", False, lambda e: e.variant or "–"),
        ("ps", True, lambda e: str(e.ps)),
        ("workers", True, lambda e: str(e.workers)),
        ("seconds", True, lambda e: f"{e.completion_s or 0.0:,.{digits}f}"),
    ]


def as_data(instance: AllocationInstance, plan: Sequence[JobAllocation]) -> dict[str, Any]:
    """Return the jobs that are placed, and why the others are not."""
    del instance
    jobs = {entry.job: entry.model_dump(exclude={"job", "placed"}) for entry in plan if entry.placed}
    return {"jobs": jobs, "unplaced": dict(left_out(plan))}


def left_out(plan: Sequence[JobAllocation]) -> Iterator[tuple[str, str]]:
    """Yield the jobs that are not placed; a plan does not say why."""
    return ((entry.job, "no reason is given") for entry in plan if not entry.placed)
