"""Best fit: jobs by size, each where it leaves the least room behind (Tiresias's placement)."""

from __future__ import annotations

from typing import Any

from ..formulations.base import TOLERANCE, Formulation
from ..formulations.consolidation import ConsolidationFormulation, JobPlacement, Placement
from ..formulations.fewest_servers import tasks_that_fit
from ..instances.consolidation import Group, PlacementJob
from .base import Clock, Outcome, Solver
from .options import SolveOptions


class BestFit(Solver):
    """Place jobs that must be placed first, then by value and size.

    A job goes on the single server that it fills best; if no server holds it whole, it fills the servers
    with most room for it, and the rest goes where it fits best. A job that would spread too far waits.
    """

    name = "best-fit"
    kinds = ("consolidation",)
    what = "jobs by size, each on the servers that it fills best (Tiresias)"

    def solve(self, formulation: Formulation[Any, Any], options: SolveOptions, clock: Clock) -> Outcome:
        """Place one job after the other; nothing is moved again."""
        del options
        assert isinstance(formulation, ConsolidationFormulation)
        left = {name: dict(server.available) for name, server in formulation.servers.items()}
        order = sorted(
            formulation.instance.jobs, key=lambda job: (not job.must_place, -job.worth, -_size(job))
        )
        placed: dict[str, JobPlacement] = {}
        for job in order:
            if clock.expired:
                break
            tasks = _place(formulation, job, left)
            if tasks is not None:
                placed[job.name] = formulation.placement(job, tasks)
                _take(job, tasks, left)
            elif job.must_place:
                return Outcome(
                    message=f"best fit: no room is left for job {job.name!r}, which must be placed"
                )
        plan = [placed.get(j.name, JobPlacement(job=j.name, placed=False)) for j in formulation.instance.jobs]
        if any(job.must_place and job.name not in placed for job in order):
            return Outcome(limit="time")
        return Outcome(plan, limit="time" if clock.expired else "none")


def _size(job: PlacementJob) -> int:
    return sum(group.tasks for group in job.task_groups)


def _take(job: PlacementJob, tasks: Placement, left: dict[str, dict[str, float]]) -> None:
    for group in job.task_groups:
        for server, count in tasks.get(group.name, {}).items():
            for resource, amount in group.demand.items():
                left[server][resource] = left[server].get(resource, 0.0) - count * amount


def _place(
    formulation: ConsolidationFormulation, job: PlacementJob, left: dict[str, dict[str, float]]
) -> Placement | None:
    """Return where the job goes, None if it has to wait."""
    fewest = formulation.fewest(job)
    if fewest is None:
        return None
    servers = formulation.eligible(job)
    capacity = {server.name: server.capacity for server in servers}
    room = {server.name: dict(left[server.name]) for server in servers}
    tasks: Placement = {group.name: {} for group in job.task_groups}
    waiting = {group.name: group.tasks for group in job.task_groups}
    while any(waiting.values()):
        loads = {
            name: _load(job.task_groups, waiting, amounts, capacity[name]) for name, amounts in room.items()
        }
        most = max((sum(load.values()) for load in loads.values()), default=0)
        if most == 0:
            return None
        best = min(
            (name for name in loads if sum(loads[name].values()) == most),
            key=lambda name: (_room_after(job.task_groups, loads[name], room[name], capacity[name]), name),
        )
        for group, count in loads[best].items():
            if count:
                tasks[group][best] = tasks[group].get(best, 0) + count
                waiting[group] -= count
        del room[best]
    used = {server for placed in tasks.values() for server in placed}
    too_many = formulation.instance.spread_of(job) == "required" and len(used) > fewest
    return None if too_many else tasks


def _load(
    groups: tuple[Group, ...], waiting: dict[str, int], free: dict[str, float], capacity: dict[str, float]
) -> dict[str, int]:
    """Return how many waiting tasks of each group go on a server, group after group."""
    slack = {name: amount + TOLERANCE * capacity.get(name, 0.0) / 4 for name, amount in free.items()}
    load = {}
    for group in groups:
        load[group.name] = max(0, tasks_that_fit(slack, group.demand, waiting[group.name]))
        for resource, amount in group.demand.items():
            slack[resource] = slack.get(resource, 0.0) - load[group.name] * amount
    return load


def _room_after(
    groups: tuple[Group, ...], load: dict[str, int], free: dict[str, float], capacity: dict[str, float]
) -> float:
    """Return the share of its capacity that the server would have left, summed over its resources."""
    after = dict(free)
    for group in groups:
        for resource, amount in group.demand.items():
            after[resource] = after.get(resource, 0.0) - load[group.name] * amount
    return sum(amount / capacity[name] for name, amount in after.items() if capacity.get(name))
