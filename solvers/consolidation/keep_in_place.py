"""A migration-free first plan: what runs stays where it is, and best fit places the other jobs."""

from __future__ import annotations

from ...formulations.consolidation.formulation import ConsolidationFormulation
from ...formulations.consolidation.plan import JobPlacement, Placement, entry_of
from ...instances.consolidation.instance import PlacementJob, Server
from ..common.base import Clock
from ..common.options import SolveOptions
from .heuristics.best_fit import BestFit


def stay_put(formulation: ConsolidationFormulation, patience: Clock) -> list[JobPlacement] | None:
    """Return the plan; None if best fit has none for the other jobs."""
    instance = formulation.instance
    stays = {job.name: _now(job) for job in instance.jobs if _may_stay(formulation, job)}
    kept = [
        entry_of(job, stays[job.name]) if job.name in stays else JobPlacement(job=job.name, placed=False)
        for job in instance.jobs
    ]
    # The other jobs are placed in what those that stay leave.
    taken: dict[str, dict[str, float]] = {}
    for job in instance.jobs:
        for group in job.task_groups if job.name in stays else ():
            for server, count in group.current.items():
                used = taken.setdefault(server, {})
                for resource, amount in group.demand.items():
                    used[resource] = used.get(resource, 0.0) + count * amount
    others = tuple(job for job in instance.jobs if job.name not in stays)
    if not others:
        return kept
    servers = tuple(_less(server, taken.get(server.name)) for server in instance.expanded_servers)
    left = ConsolidationFormulation(instance.model_copy(update={"servers": servers, "jobs": others}))
    placed = BestFit().solve(left, SolveOptions(), patience).plan
    if placed is None:
        return None
    entries = {entry.job: entry for entry in placed}
    return [entries.get(entry.job, entry) for entry in kept]


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
