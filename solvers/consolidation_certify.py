"""Certificates for placements of methods that make none: prices of the class model."""

from __future__ import annotations

from ..formulations.consolidation import ConsolidationFormulation
from ..instances.errors import TooLargeError
from .base import Clock, Outcome
from .consolidation_exact import certified_goals, infeasibility
from .consolidation_master import Master
from .consolidation_read_in import read_in
from .options import SolveOptions

PATIENCE_S = 10.0
"""Seconds that the search for prices may take."""


def certify(formulation: ConsolidationFormulation, outcome: Outcome, clock: Clock) -> None:
    """Add prices for each objective of the outcome's plan, or such as prove that there is none."""
    left = PATIENCE_S if clock.remaining_s is None else min(PATIENCE_S, clock.remaining_s)
    options, patience = SolveOptions(), Clock(left)
    try:
        master = Master(formulation.classes)
    except TooLargeError:
        return  # nothing is certified beyond what counting gives, and the result says so
    if outcome.infeasible:
        goals = infeasibility(master, options, patience)
    elif outcome.plan is not None and not formulation.violations(outcome.plan):
        values = formulation.evaluate(outcome.plan)
        read_in(formulation, master, outcome.plan)
        goals = certified_goals(formulation, master, values, options, patience)
    else:
        return
    if goals:
        outcome.certificate = {"goals": goals}
        if outcome.plan is not None and outcome.prices is None:
            outcome.prices = formulation.prices(outcome.certificate, outcome.plan)
