"""Why a job is not placed, in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..instances.consolidation import PlacementJob
from .fewest_servers import fewest_servers, shapes_of, tasks_that_fit

if TYPE_CHECKING:
    from .consolidation import ConsolidationFormulation, JobPlacement


def why_never(formulation: ConsolidationFormulation, job: PlacementJob) -> str:
    """Say why a job cannot run even if no other job did, or cannot start in what is free now."""
    eligible = formulation.eligible(job)
    if not eligible:
        return f"never fits: no server has the GPU model {job.gpu_model!r}"
    for group in job.task_groups:
        for resource, need in group.demand.items():
            largest = max(server.capacity.get(resource, 0.0) for server in eligible)
            if need > largest:
                what = f"never fits: a task of {group.name!r} needs {need:g} {resource}"
                return f"{what}; the largest eligible server has {largest:g}"
    for group in job.task_groups:
        capacity = sum(tasks_that_fit(server.capacity, group.demand, group.tasks) for server in eligible)
        if capacity < group.tasks:
            what = f"never fits: all eligible servers together hold {capacity}"
            return f"{what} of its {group.tasks} {group.name}"
    if formulation.fewest(job) is None:
        return "never fits: its groups of tasks do not fit beside each other on all eligible servers"
    for group, room in zip(job.task_groups, formulation.room_for(job), strict=True):
        if room < group.tasks:
            return f"waits: only {room} of its {group.tasks} {group.name} fit in what is free now"
    return "waits: what is free now is too scattered for it"


def why_unplaced(
    formulation: ConsolidationFormulation, plan: Sequence[JobPlacement], job: PlacementJob
) -> str:
    """Say why the plan leaves a job out."""
    alone = why_never(formulation, job)
    fits_alone = all(r >= g.tasks for r, g in zip(formulation.room_for(job), job.task_groups, strict=True))
    if formulation.fewest(job) is None or not fits_alone:
        return alone
    left = {name: dict(server.available) for name, server in formulation.servers.items()}
    for entry in plan:
        for group in formulation.jobs[entry.job].task_groups:
            for server, count in entry.tasks.get(group.name, {}).items():
                for resource, amount in group.demand.items():
                    left[server][resource] = left[server].get(resource, 0.0) - count * amount
    eligible = formulation.eligible(job)
    after = [server.model_copy(update={"capacity": left[server.name]}) for server in eligible]
    for group in job.task_groups:
        room = sum(max(0, tasks_that_fit(server.capacity, group.demand, group.tasks)) for server in after)
        if room < group.tasks:
            return f"waits: beside the placed jobs only {room} of its {group.tasks} {group.name} fit"
    needed = fewest_servers(job.task_groups, shapes_of(after))
    fewest = formulation.fewest(job)
    if formulation.instance.spread_of(job) == "required" and (needed is None or needed > (fewest or 0)):
        few = "a single server" if fewest == 1 else f"at most {fewest} servers"
        return f"waits: must run on {few}; what is left is more scattered"
    return "left out: placing it would make an earlier objective worse, or the method did not find a place"
