"""Certificates for staging methods that make none: intervals and prices of a search of our own."""

from __future__ import annotations

import math

from ..formulations.staging import StagingFormulation
from .base import Clock, Outcome
from .options import SolveOptions
from .staging_exact import certificate, goal_of
from .staging_search import Search, candidate_of

PATIENCE_S = 5.0
"""Seconds that the search for a certificate may take."""


def certify(formulation: StagingFormulation, outcome: Outcome, clock: Clock) -> None:
    """Add a certificate of the outcome's bound, or of infeasibility."""
    left = PATIENCE_S if clock.remaining_s is None else min(PATIENCE_S, clock.remaining_s)
    options = SolveOptions()
    goal = goal_of(formulation, options)
    if outcome.plan is not None and not formulation.violations(outcome.plan):
        goal.offer(candidate_of(formulation, outcome.plan))
    search = Search(formulation, goal, options, Clock(left))
    found = search.run()
    bound = None if outcome.infeasible else outcome.bounds[0]
    if bound is None or math.isfinite(bound):
        outcome.certificate = certificate(formulation, found.cells, bound, search.slowest_s)
        if outcome.plan is not None and outcome.prices is None:
            outcome.prices = formulation.prices(outcome.certificate, outcome.plan)
