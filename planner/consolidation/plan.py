"""A plan of consolidation as a table, as plain data, and in numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from ...formulations.consolidation.plan import Action, JobPlacement
from ...instances.consolidation.instance import ConsolidationInstance
from ...solvers.common.result import Result
from ..output.text import TextColumn
from .actions import runs_now, total
from .devices import beside

ACTIONS: tuple[Action, ...] = ("start", "keep", "move", "stop", "wait")
MOST_REASONS = 5


def columns(entries: Sequence[JobPlacement]) -> list[TextColumn[JobPlacement]]:
    """Return the columns of the table."""
    acts = any(entry.action for entry in entries)
    return [
        ("job", False, lambda e: e.job),
        ("action" if acts else "placed", False, lambda e: e.action or ("yes" if e.placed else "no")),
        ("where, or why not", False, _where),
    ]


def _where(entry: JobPlacement) -> str:
    if not entry.placed:
        return entry.reason or ""
    parts = [
        f"{group + ': ' if entry.groups else ''}"
        + ", ".join(f"{n}×{server}{beside(entry.devices, group, server)}" for server, n in placed.items())
        for group, placed in entry.tasks.items()
    ]
    return "; ".join(parts)


def notes(result: Result, shown: int) -> Iterator[str]:
    """Yield how many jobs do what on a running cluster; and who waits, if the table shows not all."""
    entries = [entry for entry in result.plan or () if isinstance(entry, JobPlacement)]
    counts = Counter(entry.action for entry in entries)
    parts = [f"{counts[action]:,} to {action}" for action in ACTIONS if counts[action]]
    if parts:
        yield f"jobs: {', '.join(parts)}"
    if len(entries) > shown:
        yield from _who_waits(entries)


def _who_waits(entries: Sequence[JobPlacement]) -> list[str]:
    """Return how many jobs a plan leaves out, and the commonest reasons."""
    reasons = Counter(entry.reason or "no reason given" for entry in entries if not entry.placed)
    if not reasons:
        return [f"all {len(entries):,} jobs are placed"]
    shown = [f"  {count:,} × {reason}" for reason, count in reasons.most_common(MOST_REASONS)]
    more = sum(reasons.values()) - sum(count for _, count in reasons.most_common(MOST_REASONS))
    rest = [f"  {more:,} × other reasons; see --format json"] if more else []
    return [f"{sum(reasons.values()):,} of {len(entries):,} jobs are not placed", *shown, *rest]


def as_data(instance: ConsolidationInstance, plan: Sequence[JobPlacement]) -> dict[str, Any]:
    """Return where the jobs that are placed run, what becomes of those that run now, and who waits."""
    placed = [entry for entry in plan if entry.placed]
    groups = {entry.job: entry.groups for entry in placed if entry.groups is not None}
    acts = {entry.job: entry.action for entry in plan if entry.action is not None}
    devices = {entry.job: entry.model_dump()["devices"] for entry in placed if entry.devices is not None}
    now = runs_now(instance) if acts else {}
    runs = {job: dict(total(now[job])) for job, action in acts.items() if action in ("move", "stop")}
    return {
        "jobs": {entry.job: _tasks(entry) for entry in placed},
        **({"groups": groups} if groups else {}),
        **({"devices": devices} if devices else {}),
        **({"actions": acts, "runs_now_on": runs} if acts else {}),
        "unplaced": dict(left_out(plan)),
    }


def left_out(plan: Sequence[JobPlacement]) -> Iterator[tuple[str, str]]:
    """Yield the jobs that are not placed, with the reason."""
    return ((entry.job, entry.reason or "no reason is given") for entry in plan if not entry.placed)


def _tasks(entry: JobPlacement) -> dict[str, int]:
    """Return server → tasks of all groups."""
    total = Counter[str]()
    for placed in entry.tasks.values():
        total.update(placed)
    return dict(total)
