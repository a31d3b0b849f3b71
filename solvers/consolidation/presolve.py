"""Presolve of placements with running jobs: jobs that stay are fixed, and plans in which none migrates.

Methods where running jobs stay: they plan the other jobs, and their bounds are lifted to the whole. Methods
that do not weigh moves get a second plan to choose from, in which all jobs that run stay.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...formulations.common.objective import Diagnosis
from ...formulations.consolidation.formulation import ConsolidationFormulation
from ...formulations.consolidation.plan import JobPlacement
from ...formulations.consolidation.presolve import LEADING, STAYING, WithFixedJobs, WithRunningJobs
from ..common.base import Clock, Delegating, Outcome
from ..common.options import SolveOptions
from ..common.search_control import keep, stoppable
from .devices.exact import Certify, Diagnose, SearchMethod, search_with
from .keep_in_place import stay_put

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
