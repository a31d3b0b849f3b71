"""Combinatorial bounds: what counting alone proves about a placement."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ....instances.consolidation.job import PlacementJob
from ...common.objective import Diagnosis
from ...common.tolerance import within
from ..cluster_data import ClusterData
from ..explain import tasks_held, why_never
from .classes import CheckedCluster
from .volume import fewest_by_volume


def elementary_bounds(
    checked: CheckedCluster, values: Sequence[float] | None = None
) -> tuple[float | None, ...]:
    """Bound the objectives by counting: by what always holds, and by the first one's value.

    Parameters
    ----------
    values
        Of a plan: the best plan is worth no less.
    """
    data = checked.cluster
    valued = values is not None and data.objectives[0].name == "value"
    fewest = fewest_by_volume(data, _runnable(checked), values[0] if values and valued else None)
    always: dict[str, float | None] = {
        "spread": 0.0,
        "servers": float(max(fewest, len(data.in_use))),
        "racks": 0.0,
        "migrations": 0.0,
        "slowdown": _least_slowdown(data),
        "traffic": max(server.traffic_gbit_per_s for server in data.servers.values()),
        "value": _most_value(checked),
    }
    return tuple(always[objective.name] for objective in data.objectives)


def _least_slowdown(data: ClusterData) -> float:
    return math.fsum(
        min(0.0, *(job.worth * (1 - speed) for speed in job.speed_by_servers.values()))
        for job in data.instance.jobs
        if job.speed_by_servers
    )


def _most_value(checked: CheckedCluster) -> float:
    """Return the least over resources of the fractional knapsack of all jobs that can run now."""
    data = checked.cluster
    alike = _runnable(checked)
    best = math.fsum(job.worth * count for job, count in alike)
    for resource in data.instance.resource_names:
        free = math.fsum(s.available.get(resource, 0.0) for s in data.servers.values())
        worth_and_need = [
            (job.worth * count, count * sum(g.tasks * g.demand.get(resource, 0.0) for g in job.task_groups))
            for job, count in alike
        ]
        terms = [worth for worth, need in worth_and_need if need == 0]
        dense = sorted((p for p in worth_and_need if p[1] > 0), key=lambda p: p[0] / p[1], reverse=True)
        for worth, need in dense:
            taken = min(need, free)
            terms.append(worth if taken == need else worth * taken / need)
            free -= taken
            if free <= 0:
                break
        best = min(best, math.fsum(terms))
    return best


def _runnable(checked: CheckedCluster) -> list[tuple[PlacementJob, int]]:
    """Return the jobs of which what is free now holds each group, were they alone, and how many are alike."""
    found = []
    for job, members in checked.jobs:
        shapes = checked.cluster.shapes(job.gpu_model, free=True)
        if all(tasks_held(shapes, group) >= group.tasks for group in job.task_groups):
            found.append((job, len(members)))
    return found


def elementary_infeasibility(data: ClusterData) -> Diagnosis | None:
    """Find jobs that must be placed but never fit, or a resource that they overfill together."""
    never = []
    for job, positions in data.distinct_jobs:
        reason = why_never(data, job) if job.must_place else None
        if reason is not None:
            more = f" and {len(positions) - 1} jobs like it" if len(positions) > 1 else ""
            never.append(f"job {job.name!r}{more} must be placed, but {reason}")
    if never:
        return Diagnosis(reasons=tuple(never), remedies=("set must_place: false, or change what is short",))
    must = [job for job in data.instance.jobs if job.must_place]
    reasons, remedies = [], []
    for resource in data.instance.resource_names if must else ():
        need = math.fsum(g.tasks * g.demand.get(resource, 0.0) for job in must for g in job.task_groups)
        free = math.fsum(s.available.get(resource, 0.0) for s in data.servers.values())
        if not within(need, free):
            reasons.append(f"{resource}: jobs that must be placed need {need:g}; {free:g} are free")
            remedies.append(f"free {need - free:g} {resource}, or set must_place: false on some jobs")
    return Diagnosis(reasons=tuple(reasons), remedies=tuple(remedies)) if reasons else None
