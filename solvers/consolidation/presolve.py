"""Presolve for running jobs: jobs that stay are fixed, and the others are planned around them.

Methods solve the reduced instance of the jobs that are not fixed, and their bounds are lifted to the whole
instance. For methods that ignore the cost of moves, a second plan is compared, in which all running jobs stay
and best fit places the others. `exact` first solves the instance in which no job moves, and starts from
that plan.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...formulations.consolidation.formulation import ConsolidationFormulation, DeviceFormulation
from ...formulations.consolidation.plan import JobPlacement, Placement, entry_of
from ...formulations.consolidation.presolve import (
    LEADING_KEY,
    STAYING_KEY,
    WithFixedJobs,
    WithRunningJobs,
    without_moves,
)
from ...instances.consolidation.instance import Server
from ...instances.consolidation.job import PlacementJob
from ..common.base import Clock, Outcome, PresolvingSolver
from ..common.result import SolveOptions
from ..common.search_control import set_checkpoint, solve_interruptibly
from .devices.ruin_and_recreate import repaired_plan
from .heuristics.list_heuristics import BestFit


def plan_without_moves(formulation: ConsolidationFormulation, patience: Clock) -> list[JobPlacement] | None:
    """Return a plan in which all running jobs stay and best fit places the others; None if none is found."""
    jobs = formulation.instance.jobs
    return completed_plan(
        formulation,
        {job.name: _current_placement(job) for job in jobs if _may_stay(formulation, job)},
        patience,
    )


def completed_plan(
    formulation: ConsolidationFormulation, kept: Mapping[str, Placement], patience: Clock
) -> list[JobPlacement] | None:
    """Return a plan that keeps the given placements and places all other jobs by best fit.

    Returns
    -------
    plan
        None if not all required jobs fit.
    """
    instance = formulation.instance
    entries_kept = [
        entry_of(job, kept[job.name]) if job.name in kept else entry_of(job, {}) for job in instance.jobs
    ]
    used_by_server: dict[str, dict[str, float]] = {}
    for job in instance.jobs:
        for group in job.task_groups if job.name in kept else ():
            for server, count in kept[job.name].get(group.name, {}).items():
                used = used_by_server.setdefault(server, {})
                for resource, amount in group.demand.items():
                    used[resource] = used.get(resource, 0.0) + count * amount
    others = tuple(job for job in instance.jobs if job.name not in kept)
    if not others:
        return entries_kept
    servers = tuple(
        _reduced_server(server, used_by_server.get(server.name)) for server in instance.expanded_servers
    )
    reduced = ConsolidationFormulation(instance.model_copy(update={"servers": servers, "jobs": others}))
    placed = BestFit().solve(reduced, SolveOptions(), patience).plan
    if placed is None:
        return None
    entries = {entry.job: entry for entry in placed}
    return [entries.get(entry.job, entry) for entry in entries_kept]


def _current_placement(job: PlacementJob) -> Placement:
    return {group.name: dict(group.current) for group in job.task_groups}


def _may_stay(formulation: ConsolidationFormulation, job: PlacementJob) -> bool:
    """Return whether all tasks of a job run now, on eligible servers, and as its spread rule allows."""
    if any(sum(group.current.values()) < group.tasks for group in job.task_groups):
        return False
    now = formulation.now(job)
    if sum(map(sum, now.values())) < sum(group.tasks for group in job.task_groups):
        return False  # some are on servers without its GPU model
    fewest = formulation.fewest(job)
    required = formulation.instance.spread_of(job) == "required"
    return fewest is not None and not (required and len(now) > fewest)


def _reduced_server(server: Server, taken: dict[str, float] | None) -> Server:
    if taken is None:
        return server
    free = {name: max(0.0, amount - taken.get(name, 0.0)) for name, amount in server.available.items()}
    return server.model_copy(update={"free": free})


def unmoved_plan(formulation: ConsolidationFormulation, clock: Clock) -> Sequence[JobPlacement] | None:
    """Return the plan of `plan_without_moves`, also of instances with fixed jobs or single devices."""
    if isinstance(formulation, WithFixedJobs):
        plan = unmoved_plan(formulation.rest, clock)
        return None if plan is None else formulation.whole(plan)
    if isinstance(formulation, DeviceFormulation):
        pooled = plan_without_moves(formulation.pooled, clock)
        return None if pooled is None else repaired_plan(formulation, pooled)
    return plan_without_moves(formulation, clock)


class AroundFixedJobs(PresolvingSolver[ConsolidationFormulation]):
    """Presolve wrapper: the wrapped method plans only the jobs that are not fixed."""

    def solve(self, formulation: ConsolidationFormulation, options: SolveOptions, clock: Clock) -> Outcome:
        """Solve the instance without fixed jobs and lift plan and bounds to the whole instance."""
        if not isinstance(formulation, WithFixedJobs):
            return self._with_few_moves(formulation, options, clock)
        if not formulation.rest.instance.jobs:
            plan = formulation.whole(())
            return Outcome(plan, formulation.evaluate(plan))
        if options.warm_start is not None:
            given = formulation.parse_plan(options.warm_start)
            options = options.starting_from(formulation.others(given))
        rest = formulation.rest
        outcome = solve_interruptibly(rest, lambda: self._with_few_moves(rest, options, clock))
        outcome.bounds = formulation.lifted(outcome.bounds)
        if outcome.plan is not None:
            outcome.plan = formulation.whole(outcome.plan)
        return outcome

    def _with_few_moves(
        self, formulation: ConsolidationFormulation, options: SolveOptions, clock: Clock
    ) -> Outcome:
        """Solve; a plan that moves too many jobs, or is worse, is replaced by one without moves."""
        outcome = self.method.solve(formulation, options, clock)
        instance = formulation.instance
        limited = instance.max_moves is not None or instance.keeps_running
        if outcome.plan is None or not (limited or formulation.restarts):
            return outcome
        violated = bool(formulation.violations(outcome.plan))
        if not violated and self.proves:
            return outcome
        unmoved = unmoved_plan(formulation, clock)
        if unmoved is None or formulation.violations(unmoved):
            if violated:
                outcome.plan = None
                outcome.message = f"{self.name}: its plan moves running jobs that may not move"
        elif violated or formulation.precedes(
            formulation.evaluate(unmoved), formulation.evaluate(outcome.plan)
        ):
            outcome.plan = unmoved
        return outcome


SUBPROBLEM_SHARE = 0.3
"""Share of the remaining time for each of the two smaller problems."""


class WithoutMovesFirst(PresolvingSolver[ConsolidationFormulation]):
    """Presolve wrapper: solve with all running jobs fixed first, and start from that plan.

    So leave to move is no reason for a worse plan. Where migrations are an objective, the plan is accepted if
    it attains the bounds of the objectives before.
    """

    def solve(self, formulation: ConsolidationFormulation, options: SolveOptions, clock: Clock) -> Outcome:
        """Return the plan without moves if it attains the bounds; else solve the whole instance from it."""
        instance = without_moves(formulation)
        if instance is None:
            return self.method.solve(formulation, options, clock)
        plain = options.starting_from(None)
        fixed = formulation.staying if isinstance(formulation, WithRunningJobs) else WithFixedJobs(instance)
        staying = AroundFixedJobs(self.method).solve(fixed, plain, clock.share(SUBPROBLEM_SHARE))
        if staying.plan is None or formulation.violations(staying.plan):
            return self.method.solve(formulation, options, clock)
        plan = staying.plan
        if staying.limit == "interrupt":
            return Outcome(plan, limit=staying.limit)
        set_checkpoint(formulation, lambda: Outcome(plan))
        values = formulation.evaluate(plan)
        if isinstance(formulation, WithRunningJobs):
            known = self._if_nothing_moves(formulation, staying, values, plain, clock)
            if known is not None:
                return known
        given = options.warm_start
        if given is None or formulation.precedes(values, formulation.evaluate(formulation.parse_plan(given))):
            options = options.starting_from(plan)
        return self.method.solve(formulation, options, clock)

    def _if_nothing_moves(
        self,
        formulation: WithRunningJobs,
        staying: Outcome,
        values: Sequence[float],
        options: SolveOptions,
        clock: Clock,
    ) -> Outcome | None:
        """Return the outcome without moves if it is proven that no plan as good moves a job; else None."""
        bounds = tuple(formulation.elementary_bounds()[: formulation.before])
        leading = Outcome(bounds=bounds)
        if not formulation.nothing_moves(values, bounds) and values[formulation.before] == 0:
            leading = self.method.solve(formulation.leading, options, clock.share(SUBPROBLEM_SHARE))
        if not formulation.nothing_moves(values, leading.bounds):
            return None
        return Outcome(
            staying.plan,
            (*leading.bounds, 0.0, *staying.bounds[formulation.before + 1 :]),
            limit=staying.limit,
            build_s=staying.build_s,
            message=staying.message,
            certificate={LEADING_KEY: leading.certificate, STAYING_KEY: staying.certificate},
        )
