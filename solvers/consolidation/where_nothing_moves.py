"""`exact` where nothing has to move: first the plan in which all running jobs stay, which is quick."""

from __future__ import annotations

from ...formulations.consolidation.formulation import ConsolidationFormulation
from ...formulations.consolidation.presolve import LEADING, STAYING, WithRunningJobs
from ..common.base import Clock, Outcome
from ..common.delegating import Delegating
from ..common.options import SolveOptions
from ..common.stopping import keep
from .around_fixed_jobs import AroundFixedJobs

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
