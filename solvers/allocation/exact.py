"""`exact`: allocation to proven optimality, with a certificate that the check verifies by itself.

Certificates for allocation methods that write none: our dual prices, and the method's bound as cutoff.

Whether they prove the bound is for the check to find out; a wrong bound only leaves it uncertified.
"""

from __future__ import annotations

import numpy as np

from ...formulations.allocation.certificate import certificate
from ...formulations.allocation.formulation import AllocationFormulation
from ..common.base import Clock, Outcome, Solver
from ..common.options import SolveOptions
from .lagrangian import MultipleChoice, best_prices
from .makespan import MakespanSearch, even_share, least_share, per_unit
from .total_time import TotalTimeSearch


class AllocationExact(Solver[AllocationFormulation]):
    """Lagrangian bound, reduced-cost fixing and core problem; what it proves, `verify` certifies.

    Parameters
    ----------
    cores
        Without cores it is `lagrangian`: the Lagrangian bound, and a plan that is rounded from the dual
        prices, repaired and improved, without any integer program.
    """

    kinds = ("allocation",)
    features = frozenset({"warm_start"})

    def __init__(self, cores: bool = True) -> None:
        self.cores = self.proves = cores
        self.name = "exact" if cores else "lagrangian"
        self.what = (
            "prices, fixing and a small core on HiGHS; proves up to a million jobs, with a certificate"
            if cores
            else "Lagrangian prices, rounding and local search; a certified bound, no integer program"
        )

    def solve(self, formulation: AllocationFormulation, options: SolveOptions, clock: Clock) -> Outcome:
        """Return a plan, its bound, prices and a certificate."""
        build_s = clock.elapsed_s
        makespan = formulation.instance.objective == "makespan"
        search = MakespanSearch if makespan else TotalTimeSearch
        outcome = search(formulation, options, clock, self.cores).run()
        outcome.build_s = build_s
        return outcome


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
