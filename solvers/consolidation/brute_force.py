"""Complete enumeration of every way to put every job on servers; the ground truth for tiny instances."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from ...formulations.common.objective import TOLERANCE
from ...formulations.consolidation.formulation import ConsolidationFormulation
from ...formulations.consolidation.plan import JobPlacement, Placement, entry_of
from ...instances.consolidation.job import Group, PlacementJob
from ..common.brute_force import BruteForce, Enumeration, refuse_many


class ConsolidationBruteForce(BruteForce[ConsolidationFormulation]):
    """Depth-first enumeration over the jobs; plans are compared objective after objective."""

    kinds = ("consolidation",)
    what = "every way to spread every job; tiny instances only"

    def enumerate(self, formulation: ConsolidationFormulation, search: Enumeration) -> None:
        """Place one job after the other in every way."""
        refuse_many(len(formulation.instance.jobs), "jobs")
        refuse_many(len(formulation.servers), "servers")
        _Placing(formulation, search).extend(0)


def few_placements(formulation: ConsolidationFormulation, most: int) -> bool:
    """Return whether there are at most so many ways to place all jobs, feasible or not."""
    ways = 1
    for job in formulation.instance.jobs:
        servers = len(formulation.eligible(job))
        cuts = (
            math.comb(group.tasks + servers - 1, group.tasks) if servers else 0 for group in job.task_groups
        )
        ways *= math.prod(cuts) + (not job.must_place)
        if ways > most:
            return False
    return True


class _Placing:
    """What is free while one job after the other is placed."""

    def __init__(self, formulation: ConsolidationFormulation, search: Enumeration) -> None:
        self.formulation, self.search = formulation, search
        self.free = {name: dict(server.available) for name, server in formulation.servers.items()}
        self.least = {
            (server, resource): -TOLERANCE * max(limit, TOLERANCE)
            for server, amounts in self.free.items()
            for resource, limit in amounts.items()
        }
        self.entries: list[JobPlacement] = []

    def extend(self, index: int) -> None:
        """Place the jobs from one on; each complete plan is judged by `evaluate` itself."""
        jobs = self.formulation.instance.jobs
        if index == len(jobs):
            self.search.judge(self.entries)
            return
        for tasks in _ways(self.formulation, jobs[index]):
            if self.search.over():
                return
            # What is taken is not given back by adding: of 6e-9 − 1e12 + 1e12 nothing would be left.
            before = {server: dict(self.free[server]) for placed in tasks.values() for server in placed}
            if self._take(jobs[index], tasks):
                self.entries.append(entry_of(jobs[index], tasks))
                self.extend(index + 1)
                self.entries.pop()
            self.free.update(before)

    def _take(self, job: PlacementJob, tasks: Placement) -> bool:
        """Take what the tasks need; return whether it was there."""
        fits = True
        for group in job.task_groups:
            for server, count in tasks.get(group.name, {}).items():
                for resource, amount in group.demand.items():
                    after = self.free[server].get(resource, 0.0) - count * amount
                    self.free[server][resource] = after
                    fits = fits and after >= self.least.get((server, resource), 0.0)
        return fits


def _cuts(tasks: int, servers: int) -> Iterator[tuple[int, ...]]:
    """Yield every way to write `tasks` as a sum of `servers` ordered counts."""
    if servers == 1:
        yield (tasks,)
        return
    for first in range(tasks + 1):
        for rest in _cuts(tasks - first, servers - 1):
            yield (first, *rest)


def _ways(formulation: ConsolidationFormulation, job: PlacementJob) -> Iterator[Placement]:
    """Yield every placement of one job, not placing it first."""
    if not job.must_place:
        yield {}
    names = [server.name for server in formulation.eligible(job)]
    if not names:
        return
    yield from _combined(job.task_groups, names)


def _combined(groups: Sequence[Group], names: Sequence[str]) -> Iterator[Placement]:
    """Yield every way to put all groups on these servers, one after the other without storing them."""
    if not groups:
        yield {}
        return
    for cut in _cuts(groups[0].tasks, len(names)):
        placed = {name: count for name, count in zip(names, cut, strict=True) if count}
        for rest in _combined(groups[1:], names):
            yield {groups[0].name: placed, **rest}
