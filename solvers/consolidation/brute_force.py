"""Complete enumeration of every way to put every job on servers; the ground truth for tiny instances."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ...formulations.consolidation.formulation import ConsolidationFormulation
from ...formulations.consolidation.plan import Placement, entry_of
from ...instances.consolidation.instance import Group, PlacementJob
from ..common.base import Clock, Outcome, Solver
from ..common.brute_force import refuse_many
from ..common.options import SolveOptions


class ConsolidationBruteForce(Solver[ConsolidationFormulation]):
    """Depth-first enumeration over the jobs; plans are compared objective after objective."""

    name = "brute-force"
    kinds = ("consolidation",)
    proves = True
    what = "every way to spread every job; tiny instances only"

    def solve(self, formulation: ConsolidationFormulation, options: SolveOptions, clock: Clock) -> Outcome:
        """Enumerate all plans, or as many as the time allows; each is judged by `evaluate` itself."""
        del options
        jobs = formulation.instance.jobs
        refuse_many(len(jobs), "jobs")
        refuse_many(len(formulation.servers), "servers")
        left = {name: dict(server.available) for name, server in formulation.servers.items()}
        slack = {(n, r): 1e-9 * max(a, 1e-9) for n, amounts in left.items() for r, a in amounts.items()}
        entries: list[Any] = []
        best: tuple[tuple[float, ...], tuple[Any, ...]] | None = None
        out_of_time = False

        def take(job: PlacementJob, tasks: Placement) -> bool:
            fits = True
            for group in job.task_groups:
                for server, count in tasks.get(group.name, {}).items():
                    for resource, amount in group.demand.items():
                        after = left[server].get(resource, 0.0) - count * amount
                        left[server][resource] = after
                        fits = fits and after >= -slack.get((server, resource), 0.0)
            return fits

        def extend(index: int) -> None:
            nonlocal best, out_of_time
            if index == len(jobs):
                if not formulation.violations(entries):
                    values = formulation.evaluate(entries)
                    if best is None or formulation.precedes(values, best[0]):
                        best = values, tuple(entries)
                return
            job = jobs[index]
            for tasks in _ways(formulation, job):
                out_of_time = out_of_time or clock.expired
                if out_of_time:
                    return
                # What is taken is not given back by adding: of 6e-9 − 1e12 + 1e12 nothing would be left.
                before = {server: dict(left[server]) for placed in tasks.values() for server in placed}
                if take(job, tasks):
                    entries.append(entry_of(job, tasks))
                    extend(index + 1)
                    entries.pop()
                left.update(before)

        extend(0)
        if best is None:
            return Outcome(limit="time") if out_of_time else Outcome(infeasible=True)
        bounds = () if out_of_time else best[0]
        return Outcome(best[1], bounds, limit="time" if out_of_time else "none")


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
