"""Combinatorial bounds: what counting alone proves about a placement.

The fewest servers that hold a volume: what jobs that have to be placed ask for of each resource.

The largest servers are counted until together they have as much free, resource by resource. Jobs that need a
GPU model ask it of the servers of that model. Where a value is to be kept, jobs may stay out as long as they
are worth no more than what is left: at most the volume of a fractional knapsack (Dantzig 1957).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction

from ....instances.consolidation.job import PlacementJob
from ...common.objective import Diagnosis
from ...common.tolerance import TIE, loosened, within
from ..classes import exact, worth_of
from ..cluster_data import ClusterData
from ..explain import tasks_held, why_never
from .classes import CheckedCluster

Jobs = Sequence[tuple[PlacementJob, int]]
"""Jobs, and how many are alike."""


def fewest_by_volume(data: ClusterData, jobs: Jobs, value: float | None) -> int:
    """Return the fewest servers on which plans place what they have to.

    Parameters
    ----------
    jobs
        Those that can be placed at all.
    value
        What the jobs that are placed are worth at least; None if only those count that must be placed.
    """
    spare: Fraction | None = None
    if value is not None:
        worth = sum((worth_of(job) * count for job, count in jobs), Fraction(0))
        # Values are sums of floats: what rounding may have cost may stay out as well.
        spare = max(Fraction(0), worth - exact(value)) + worth * exact(TIE)
    fewest = 0
    # Jobs that accept several models share servers with those that accept one of these.
    models = {job.gpu_model for job, _ in jobs if isinstance(job.gpu_model, str)}
    for resource in data.instance.resource_names:
        free = {model: _free(data, model, resource) for model in (None, *sorted(models))}
        # Servers of several models are disjoint; what else is asked for may be on any.
        needed = Counter[Fraction]()
        for model in free.keys() - {None}:
            asked = _least_volume([(job, n) for job, n in jobs if job.gpu_model == model], resource, spare)
            needed += _largest(free[model], asked)
        more = _least_volume(jobs, resource, spare) - _sum(needed)
        fewest = max(fewest, needed.total() + _largest(free[None] - needed, more).total())
    placed = any(job.must_place for job, _ in jobs) or (value is not None and value > 0)
    return max(fewest, int(placed))


def _least_volume(jobs: Jobs, resource: str, spare: Fraction | None) -> Fraction:
    """Return what the jobs that are placed ask for of a resource at least.

    Parameters
    ----------
    spare
        What jobs that stay out may be worth together; None if all may that need not be placed.
    """
    volume, optional = Fraction(0), list[tuple[Fraction, Fraction]]()
    for job, count in jobs:
        demands = ((group.tasks, group.demand.get(resource, 0.0)) for group in job.task_groups)
        each = sum((tasks * exact(demand) for tasks, demand in demands), Fraction(0))
        if job.must_place:
            volume += each * count
        elif spare is not None and each:
            volume += each * count
            optional.append((worth_of(job) / each, each * count))
    # Those that are worth least for what they ask for stay out first.
    left = spare or Fraction(0)
    for price, asked in sorted(optional):
        out = min(asked, left / price) if price else asked
        volume, left = volume - out, left - out * price
    return volume


def _free(data: ClusterData, gpu_model: str | None, resource: str) -> Counter[Fraction]:
    """Return how many servers of a GPU model have how much of a resource free."""
    found = Counter[Fraction]()
    for shape, count in data.shapes(gpu_model, free=True).items():
        found[exact(loosened(dict(shape).get(resource, 0.0)))] += count
    return found


def _largest(free: Counter[Fraction], volume: Fraction) -> Counter[Fraction]:
    """Return the largest servers that have a volume free together; all of them if that is too little."""
    taken = Counter[Fraction]()
    for amount in sorted((amount for amount in free if amount), reverse=True):
        if volume <= 0:
            break
        taken[amount] = min(free[amount], -(-volume // amount))
        volume -= taken[amount] * amount
    return taken


def _sum(servers: Counter[Fraction]) -> Fraction:
    return sum((amount * count for amount, count in servers.items()), Fraction(0))


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
