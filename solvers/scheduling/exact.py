"""The best schedule that is known, with the bound that prices of time prove."""

from __future__ import annotations

from ...formulations.scheduling.formulation import SchedulingFormulation
from ..common.base import Clock, Outcome, Solver
from ..common.options import SolveOptions
from .brute_force import MOST_JOBS, MOST_SCHEDULES, SchedulingBruteForce, schedules_of
from .certify import certify
from .methods import POLICIES

CLAIRVOYANT = ("srsf", "srtf", "sjf", "fifo-backfill")
"""The policies that it tries, the best first; they may know everything here."""
TINY = MOST_JOBS - 2
"""Of so many jobs all orders are tried too."""


class SchedulingExact(Solver[SchedulingFormulation]):
    """Takes the best of the policies that know most, tries all orders of a tiny trace, and proves a bound.

    The bound is that of the best prices of time that are found in the time that is left.
    """

    name, kinds = "exact", ("scheduling",)
    proves = True
    what = "the best of several policies, and of all orders of tiny traces; a bound by prices of time"

    def solve(self, formulation: SchedulingFormulation, options: SolveOptions, clock: Clock) -> Outcome:
        """Return the best plan, with the bound that is proven."""
        found = Outcome()
        best: tuple[float, ...] | None = None
        by_name = {policy.name: policy for policy in POLICIES}
        methods: list[Solver[SchedulingFormulation]] = [by_name[name] for name in CLAIRVOYANT]
        tiny = len(formulation.instance.table()) <= TINY
        if tiny and schedules_of(formulation.instance) <= MOST_SCHEDULES:
            methods.append(SchedulingBruteForce())
        for method in methods:
            if best is not None and clock.expired:
                found.limit = "time"
                break
            outcome = method.solve(formulation, SolveOptions(seed=options.seed), clock)
            if outcome.plan is None:
                continue
            values = formulation.evaluate(outcome.plan)
            if best is None or formulation.precedes(values, best) or outcome.bounds:
                found, best = outcome, values
                found.message = f"found by {method.name}"
        found.bounds = found.bounds or formulation.elementary_bounds()
        certify(formulation, found, clock, options.threads)
        return found
