"""Complete enumeration of all placements, the ground truth for tiny instances."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from ...formulations.common.objective import TOLERANCE
from ...formulations.consolidation.formulation import ConsolidationFormulation
from ...formulations.consolidation.plan import JobPlacement, Placement, entry_of
from ...instances.consolidation.job import Group, PlacementJob
from ..common.base import BruteForce, Enumeration, refuse_many


class ConsolidationBruteForce(BruteForce[ConsolidationFormulation]):
    """Depth-first enumeration of the placements of all jobs; plans are compared lexicographically."""

    kinds = ("consolidation",)
    what = "every way to spread every job; tiny instances only"

    def enumerate(self, formulation: ConsolidationFormulation, search: Enumeration) -> None:
        """Enumerate all placements of all jobs on servers, one job after the other."""
        refuse_many(len(formulation.instance.jobs), "jobs")
        refuse_many(len(formulation.servers), "servers")
        _PlacementEnumeration(formulation, search).extend(0)


def has_few_placements(formulation: ConsolidationFormulation, most: int) -> bool:
    """Return whether the number of placements of all jobs, feasible or not, is at most `most`."""
    ways = 1
    for job in formulation.instance.jobs:
        servers = len(formulation.eligible(job))
        cuts = (math.comb(group.tasks + servers - 1, group.tasks) for group in job.task_groups)
        ways *= math.prod(cuts) + (not job.must_place)
        if ways > most:
            return False
    return True


class _PlacementEnumeration:
    """State of the enumeration of placements: residual capacities and the placements so far."""

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
        """Enumerate the placements of the jobs from an index on; complete plans go to `judge`."""
        jobs = self.formulation.instance.jobs
        if index == len(jobs):
            self.search.judge(self.entries)
            return
        for tasks in _job_placements(self.formulation, jobs[index]):
            if self.search.over():
                return
            # Capacities are restored, not added up again: of 6e-9 − 1e12 + 1e12 nothing would be left.
            before = {server: dict(self.free[server]) for placed in tasks.values() for server in placed}
            if self._take(jobs[index], tasks):
                self.entries.append(entry_of(jobs[index], tasks))
                self.extend(index + 1)
                self.entries.pop()
            self.free.update(before)

    def _take(self, job: PlacementJob, tasks: Placement) -> bool:
        """Subtract the demand of a job's tasks from the residual capacities; return whether they fit."""
        fits = True
        for group in job.task_groups:
            for server, count in tasks.get(group.name, {}).items():
                for resource, amount in group.demand.items():
                    after = self.free[server].get(resource, 0.0) - count * amount
                    self.free[server][resource] = after
                    fits = fits and after >= self.least.get((server, resource), 0.0)
        return fits


def _compositions(tasks: int, servers: int) -> Iterator[tuple[int, ...]]:
    """Yield every way to write `tasks` as a sum of `servers` ordered non-negative counts."""
    if servers == 1:
        yield (tasks,)
        return
    for first in range(tasks + 1):
        for rest in _compositions(tasks - first, servers - 1):
            yield (first, *rest)


def _job_placements(formulation: ConsolidationFormulation, job: PlacementJob) -> Iterator[Placement]:
    """Yield every placement of one job on eligible servers, feasible or not; first that of leaving it out."""
    if not job.must_place:
        yield {}
    names = [server.name for server in formulation.eligible(job)]
    if not names:
        return
    yield from _group_placements(job.task_groups, names)


def _group_placements(groups: Sequence[Group], names: Sequence[str]) -> Iterator[Placement]:
    """Yield every combination of placements of the task groups on these servers."""
    if not groups:
        yield {}
        return
    for cut in _compositions(groups[0].tasks, len(names)):
        placed = {name: count for name, count in zip(names, cut, strict=True) if count}
        for rest in _group_placements(groups[1:], names):
            yield {groups[0].name: placed, **rest}
