"""A schedule as a table, as plain data, and in numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from ...formulations.scheduling.formulation import SchedulingFormulation
from ...formulations.scheduling.metrics import Metrics
from ...formulations.scheduling.plan import Segment
from ...instances.scheduling.instance import SchedulingInstance
from ..output.text import TextColumn, figure
from ..reports.text import duration


def columns(entries: Sequence[Segment]) -> list[TextColumn[Segment]]:
    """Return the columns of the table."""
    found: list[TextColumn[Segment]] = [
        ("job", False, lambda e: e.job),
        ("starts at s", True, lambda e: figure(e.start_s)),
        ("ends at s", True, lambda e: figure(e.end_s)),
    ]
    if any(entry.configuration for entry in entries):
        found.append(("configuration", False, lambda e: e.configuration))
    if any(entry.servers for entry in entries):
        found.append(("servers", False, lambda e: ", ".join(f"{n}×{s}" for s, n in e.servers.items())))
    return found


def as_data(instance: SchedulingInstance, plan: Sequence[Segment]) -> dict[str, Any]:
    """Return the segments, and the figures of the schedule."""
    metrics = SchedulingFormulation(instance).metrics(plan)
    return {"metrics": asdict(metrics), "segments": [entry.model_dump() for entry in plan]}


def facts(metrics: Metrics) -> Iterator[tuple[str, str]]:
    """Yield the figures of a schedule with their names."""
    yield "mean completion time", duration(metrics.mean_s)
    yield "median", duration(metrics.median_s)
    yield "95th percentile", duration(metrics.p95_s)
    yield "99th percentile", duration(metrics.p99_s)
    yield "makespan", duration(metrics.makespan_s)
    yield "mean queueing delay", duration(metrics.mean_queueing_s)
    yield "mean slowdown", f"{metrics.mean_slowdown:.4g}"
    for name, share in metrics.utilisation.items():
        yield f"{name} in use", f"{100 * share:.1f} %"
        yield f"{name} idle while jobs wait", f"{100 * metrics.fragmentation[name]:.1f} %"
    yield "preemptions", f"{metrics.preemptions:,}"
    if metrics.tenant_fairness is not None:
        yield "Jain's index of the tenants' slowdowns", f"{metrics.tenant_fairness:.3f}"
