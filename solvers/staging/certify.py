"""Certificates for staging methods that make none: intervals and dual prices of a search of our own."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...formulations.staging.formulation import StagingFormulation
from ...formulations.staging.plan import Stage
from ..common.base import Clock, Outcome
from ..common.options import SolveOptions
from .exact import certificate, incumbent_of
from .incumbents import candidate_of, plan_of
from .search import Search

CONTRADICTION = 1e-6
"""By how much a bound may be beyond a plan's value, relatively: a solver's tolerance."""
PATIENCE_S = 5.0
"""Seconds that the search for a certificate may take."""


def _refuted(formulation: StagingFormulation, plan: Sequence[Stage], bound: float | None) -> bool:
    """Return whether a plan is better than a bound, or there where none is said to be."""
    if formulation.violations(plan):
        return False
    value = formulation.evaluate(plan)[0]
    return bound is None or (
        formulation.objectives[0].better(value, bound) and abs(value - bound) > CONTRADICTION * abs(value)
    )


def certify(formulation: StagingFormulation, outcome: Outcome, clock: Clock) -> None:
    """Add a certificate of the outcome's bound, or of infeasibility.

    Raises
    ------
    TooLargeError
        If there are too many possible stages, or there is no time for a search.
    """
    bound = None if outcome.infeasible else outcome.bounds[0]
    if outcome.plan is not None and _refuted(formulation, outcome.plan, bound):
        return  # the answer contradicts itself, and the conclusion says so
    options = SolveOptions()
    incumbent = incumbent_of(formulation, options)
    if outcome.plan is not None and not formulation.violations(outcome.plan):
        known = candidate_of(formulation, outcome.plan)
        if known is not None:
            incumbent.update(known)
    # The search has a clock of its own: what it does not settle in time keeps a weaker bound.
    patience = clock.at_most(PATIENCE_S)
    search = Search(formulation, incumbent, options, patience)
    with patience.enforced():
        found = search.run()
    if incumbent.best is not None and _refuted(formulation, plan_of(formulation, incumbent.best), bound):
        outcome.infeasible, outcome.bounds = False, ()
        outcome.message = "its bound, which a better plan refutes, is left out"
        return
    if bound is None or math.isfinite(bound):
        outcome.certificate = certificate(formulation, found.intervals, bound, search.slowest_s)
        if outcome.plan is not None and outcome.prices is None:
            outcome.prices = formulation.prices(outcome.certificate, outcome.plan)
