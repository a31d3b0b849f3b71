"""Presolve of placements with running jobs: jobs that stay are fixed, and the others are planned around them.

Where a plan keeps some jobs in place, best fit places the others. Methods on the reduced instance plan the
jobs that are not fixed, and their bounds are lifted to the whole. Methods that do not weigh moves get a
second plan to choose from, in which all running jobs stay. `exact` first tries the plan in which none
migrates, which is quick.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ...formulations.common.objective import Diagnosis
from ...formulations.consolidation.formulation import ConsolidationFormulation
from ...formulations.consolidation.plan import JobPlacement, Placement, entry_of
from ...formulations.consolidation.presolve import LEADING, STAYING, WithFixedJobs, WithRunningJobs
from ...instances.consolidation.instance import Server
from ...instances.consolidation.job import PlacementJob
from ..common.base import Clock, Delegating, Outcome
from ..common.result import SolveOptions
from ..common.search_control import keep, stoppable
from .devices.exact import Certify, Diagnose, SearchMethod, search_with
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


_STAYING = search_with(stay_put)
"""Finds a plan in which all jobs that run stay, with or without single devices."""


class AroundFixedJobs(Delegating[ConsolidationFormulation]):
    """A method that plans the jobs that need not stay, around those that do."""

    def solve(self, formulation: ConsolidationFormulation, options: SolveOptions, clock: Clock) -> Outcome:
        """Solve with or without jobs that stay."""
        if not isinstance(formulation, WithFixedJobs):
            return self._with_few_moves(formulation, options, clock)
        if not formulation.rest.instance.jobs:
            plan = formulation.whole(())
            return Outcome(plan, formulation.evaluate(plan))
        if options.warm_start is not None:
            start = formulation.others(formulation.parse_plan(options.warm_start))
            given = tuple(entry.model_dump() for entry in start)
            options = options.model_copy(update={"warm_start": given})
        rest = formulation.rest
        outcome = stoppable(rest, lambda: self._with_few_moves(rest, options, clock))
        outcome.bounds = formulation.lifted(outcome.bounds)
        if outcome.plan is not None:
            outcome.plan = formulation.whole(outcome.plan)
        return outcome

    def _with_few_moves(
        self, formulation: ConsolidationFormulation, options: SolveOptions, clock: Clock
    ) -> Outcome:
        """Solve; where the plan moves too much, or that is better, take one in which running jobs stay."""
        outcome = self.method.solve(formulation, options, clock)
        instance = formulation.instance
        if outcome.plan is None or (instance.max_moves is None and not formulation.restarts):
            return outcome
        wrong = bool(formulation.violations(outcome.plan))
        if not wrong and self.proves:
            return outcome
        other = _STAYING(formulation, clock)
        if other is None or formulation.violations(other):
            if wrong:
                outcome.plan = None
                outcome.message = f"{self.name}: its plan moves more than {instance.max_moves} running jobs"
        elif wrong or formulation.precedes(formulation.evaluate(other), formulation.evaluate(outcome.plan)):
            outcome.plan = other
        return outcome


def certify_around(certify: Certify) -> Certify:
    """Return what adds certificates to plans, with or without jobs that stay."""

    def around(formulation: ConsolidationFormulation, outcome: Outcome, clock: Clock) -> None:
        if not isinstance(formulation, WithFixedJobs):
            certify(formulation, outcome, clock)
        elif formulation.rest.instance.jobs:
            plan = None if outcome.plan is None else formulation.others(outcome.plan)
            left = replace(outcome, plan=plan)
            certify(formulation.rest, left, clock)
            outcome.certificate, outcome.prices = left.certificate, left.prices

    return around


def diagnose_around(diagnose: Diagnose) -> Diagnose:
    """Return what explains infeasibility, with or without jobs that stay."""

    def around(
        formulation: ConsolidationFormulation, known: Diagnosis | None, clock: Clock
    ) -> Diagnosis | None:
        return diagnose(
            formulation.rest if isinstance(formulation, WithFixedJobs) else formulation, known, clock
        )

    return around


def search_around(search: SearchMethod) -> SearchMethod:
    """Return a quick search for instances with or without jobs that stay."""

    def around(formulation: ConsolidationFormulation, clock: Clock) -> Sequence[JobPlacement] | None:
        if not isinstance(formulation, WithFixedJobs):
            return search(formulation, clock)
        plan = search(formulation.rest, clock)
        return None if plan is None else formulation.whole(plan)

    return around


SHARE = 0.3
"""Of the time that is left, for each of the two smaller problems."""


class WhereNothingMoves(Delegating[ConsolidationFormulation]):
    """A method that tries whether running jobs can stay before it weighs which of them move."""

    def solve(self, formulation: ConsolidationFormulation, options: SolveOptions, clock: Clock) -> Outcome:
        """Solve with or without running jobs."""
        if not isinstance(formulation, WithRunningJobs):
            return self.method.solve(formulation, options, clock)
        given, options = options, options.model_copy(update={"warm_start": None})
        around = AroundFixedJobs(self.method)
        staying = around.solve(formulation.staying, options, clock.share(SHARE))
        if staying.plan is None or formulation.violations(staying.plan):
            return self.method.solve(formulation, given, clock)
        plan = staying.plan
        if staying.limit == "interrupt":
            return Outcome(plan, limit=staying.limit)
        keep(formulation, lambda: Outcome(plan))
        values = formulation.evaluate(staying.plan)
        bounds = tuple(formulation.elementary_bounds()[: formulation.before])
        leading = Outcome(bounds=bounds)
        if not formulation.nothing_moves(values, bounds) and values[formulation.before] == 0:
            leading = self.method.solve(formulation.leading, options, clock.share(SHARE))
        if formulation.nothing_moves(values, leading.bounds):
            return Outcome(
                staying.plan,
                (*leading.bounds, 0.0, *staying.bounds[formulation.before + 1 :]),
                limit=staying.limit,
                build_s=staying.build_s,
                message=staying.message,
                certificate={LEADING: leading.certificate, STAYING: staying.certificate},
                prices=leading.prices,
            )
        if given.warm_start is None:
            start = tuple(entry.model_dump() for entry in staying.plan)
            given = given.model_copy(update={"warm_start": start})
        return self.method.solve(formulation, given, clock)
