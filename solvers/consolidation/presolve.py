"""Presolve for running jobs: jobs that stay are fixed, and the others are planned around them.

Methods solve the reduced instance of the jobs that are not fixed, and their bounds are lifted to the whole
instance. For methods that ignore the cost of moves, a second plan is compared, in which all running jobs stay
and best fit places the others. `exact` first solves the instance in which no job moves, and starts from
that plan.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...formulations.consolidation.formulation import ConsolidationFormulation, formulation_of
from ...formulations.consolidation.plan import JobPlacement, Plan
from ...formulations.consolidation.presolve import (
    LEADING_KEY,
    STAYING_KEY,
    WithFixedJobs,
    WithRunningJobs,
    without_moves,
)
from ...instances.consolidation.job import PlacementJob
from ..common.base import Clock, Outcome, PresolvingSolver
from ..common.result import SolveOptions
from ..common.search_control import set_checkpoint, solve_interruptibly
from .devices.exact import BestFitOnDevices
from .list_heuristics import BEST_FIT
from .progress import SETTINGS


def plan_without_moves(formulation: ConsolidationFormulation, clock: Clock) -> Plan | None:
    """Return a plan in which running jobs stay where their rules allow it, and best fit places the others.

    None if not all required jobs fit.
    """
    instance = formulation.instance
    jobs = tuple(
        job.model_copy(update={"movable": False}) if _may_stay(formulation, job) else job
        for job in instance.jobs
    )
    fixed = WithFixedJobs(instance.model_copy(update={"jobs": jobs}))
    if not fixed.rest.instance.jobs:
        return fixed.whole(())
    placed = BestFitOnDevices(BEST_FIT).solve(fixed.rest, SolveOptions(), clock).plan
    return None if placed is None else fixed.whole(placed)


def earlier_plan(formulation: ConsolidationFormulation, plan: Plan) -> Plan | None:
    """Return a plan of an earlier instance, with the jobs that cannot be as it says placed by best fit.

    These jobs are new, ask for something else, or had servers that are gone or have less room. None if one of
    them must be placed and has no room.
    """
    instance, fitting = formulation.instance, formulation.fitting(plan)
    jobs = tuple(_running_as(job, fitting[job.name]) if job.name in fitting else job for job in instance.jobs)
    running = formulation_of(instance.model_copy(update={"jobs": jobs, "max_moves": None}))
    return plan_without_moves(running, Clock(SETTINGS.best_fit_patience_s))


def _running_as(job: PlacementJob, entry: JobPlacement) -> PlacementJob:
    """Return a job that runs as a plan says."""
    devices = entry.devices or {}
    now = [
        {"current": entry.tasks[group.name], "current_devices": devices.get(group.name)}
        for group in job.task_groups
    ]
    if job.groups is None:
        return job.model_copy(update=now[0])
    pairs = zip(job.groups, now, strict=True)
    return job.model_copy(
        update={"groups": tuple(group.model_copy(update=update) for group, update in pairs)}
    )


def _may_stay(formulation: ConsolidationFormulation, job: PlacementJob) -> bool:
    """Return whether all tasks of a job run now, on eligible servers, and as its spread rule allows."""
    instance = formulation.instance
    drained = any(server in instance.drained for group in job.task_groups for server in group.current)
    if drained or not (instance.runs(job) and formulation.can_stay(job)):
        return False
    fewest = formulation.fewest(job)
    required = formulation.instance.spread_of(job) == "required"
    return fewest is not None and not (required and len(formulation.now(job)) > fewest)


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
        """Solve; a plan that moves too many jobs, or is worse, or none, is replaced by one without moves."""
        outcome = self.method.solve(formulation, options, clock)
        instance = formulation.instance
        limited = instance.max_moves is not None or instance.has_aim
        if outcome.infeasible or not (limited or formulation.restarts):
            return outcome
        plan = outcome.plan
        violated = plan is not None and bool(formulation.violations(plan))
        if plan is not None and not violated and self.proves:
            return outcome
        unmoved = plan_without_moves(formulation, clock)
        if unmoved is None or formulation.violations(unmoved):
            if violated:
                outcome.plan = None
                outcome.message = f"{self.name}: its plan moves running jobs that may not move"
        elif plan is None or violated or formulation.precedes(*map(formulation.evaluate, (unmoved, plan))):
            outcome.plan, outcome.message = unmoved, None
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
        if not formulation.nothing_moves(values, bounds) and values[formulation.after - 1] == 0:
            leading = self.method.solve(formulation.leading, options, clock.share(SUBPROBLEM_SHARE))
        if not formulation.nothing_moves(values, leading.bounds):
            return None
        return Outcome(
            staying.plan,
            formulation.if_nothing_moves(leading.bounds, staying.bounds),
            limit=staying.limit,
            build_s=staying.build_s,
            message=staying.message,
            certificate={LEADING_KEY: leading.certificate, STAYING_KEY: staying.certificate},
        )
