"""Plans in which some jobs have a place, such as where they run now, and best fit places the others."""

from __future__ import annotations

from collections.abc import Mapping

from ...formulations.consolidation.formulation import ConsolidationFormulation
from ...formulations.consolidation.plan import JobPlacement, Placement, entry_of
from ...instances.consolidation.instance import Server
from ...instances.consolidation.job import PlacementJob
from ..common.base import Clock
from ..common.options import SolveOptions
from .heuristics.list_heuristics import BestFit


def stay_put(formulation: ConsolidationFormulation, patience: Clock) -> list[JobPlacement] | None:
    """Return the plan; None if best fit has none for the other jobs."""
    jobs = formulation.instance.jobs
    return completed(
        formulation, {job.name: _now(job) for job in jobs if _may_stay(formulation, job)}, patience
    )


def completed(
    formulation: ConsolidationFormulation, kept: Mapping[str, Placement], patience: Clock
) -> list[JobPlacement] | None:
    """Return a plan in which some jobs have a place, and best fit places the others in what these leave.

    Returns
    -------
    plan
        None if not all jobs that must be placed fit.
    """
    instance = formulation.instance
    known = [
        entry_of(job, kept[job.name]) if job.name in kept else entry_of(job, {}) for job in instance.jobs
    ]
    taken: dict[str, dict[str, float]] = {}
    for job in instance.jobs:
        for group in job.task_groups if job.name in kept else ():
            for server, count in kept[job.name].get(group.name, {}).items():
                used = taken.setdefault(server, {})
                for resource, amount in group.demand.items():
                    used[resource] = used.get(resource, 0.0) + count * amount
    others = tuple(job for job in instance.jobs if job.name not in kept)
    if not others:
        return known
    servers = tuple(_less(server, taken.get(server.name)) for server in instance.expanded_servers)
    left = ConsolidationFormulation(instance.model_copy(update={"servers": servers, "jobs": others}))
    placed = BestFit().solve(left, SolveOptions(), patience).plan
    if placed is None:
        return None
    entries = {entry.job: entry for entry in placed}
    return [entries.get(entry.job, entry) for entry in known]


def _now(job: PlacementJob) -> Placement:
    return {group.name: dict(group.current) for group in job.task_groups}


def _may_stay(formulation: ConsolidationFormulation, job: PlacementJob) -> bool:
    """Return whether all tasks of a job are somewhere that it may be."""
    if any(sum(group.current.values()) < group.tasks for group in job.task_groups):
        return False
    now = formulation.now(job)
    if sum(map(sum, now.values())) < sum(group.tasks for group in job.task_groups):
        return False  # some are on servers without its GPU model
    fewest = formulation.fewest(job)
    required = formulation.instance.spread_of(job) == "required"
    return fewest is not None and not (required and len(now) > fewest)


def _less(server: Server, taken: dict[str, float] | None) -> Server:
    if taken is None:
        return server
    free = {name: max(0.0, amount - taken.get(name, 0.0)) for name, amount in server.available.items()}
    return server.model_copy(update={"free": free})
