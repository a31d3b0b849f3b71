"""Certificates for allocation methods that write none: our dual prices, and the method's bound as cutoff.

Whether they prove the bound is for the check to find out; a wrong bound only leaves it uncertified.
"""

from __future__ import annotations

import numpy as np

from ...formulations.allocation.certificate import certificate
from ...formulations.allocation.formulation import AllocationFormulation
from ..common.base import Clock, Outcome
from .knapsack import MultipleChoice
from .lagrangian import best_prices
from .makespan import even_share, least_share, per_unit


def certify(formulation: AllocationFormulation, outcome: Outcome, clock: Clock) -> None:
    """Add a certificate of the outcome's bound, or of infeasibility."""
    configs, claim = formulation.configurations, None if outcome.infeasible else outcome.bounds[0]
    if formulation.instance.objective == "total_completion_time":
        prices = best_prices(MultipleChoice.of(configs, configs.cost), clock).prices
        if claim is not None:
            outcome.prices = dict(zip(configs.resources, prices.tolist(), strict=True))
    else:
        # A bound T on the makespan is proven by prices of the configurations that end before T.
        early = configs.time_s < (np.inf if claim is None else claim)
        if not np.logical_or.reduceat(early, configs.start[:-1]).all():
            return  # a job that is later alone is proof enough
        problem = MultipleChoice.of(configs, np.zeros(len(early))).only(early)
        share, _, _ = least_share(problem, even_share(configs.limit), clock)
        prices = per_unit(share, configs.limit)
    outcome.certificate = certificate(configs.resources, prices, claim)
