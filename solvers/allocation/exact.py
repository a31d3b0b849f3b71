"""Exact solution of allocations: `exact`, enumeration; certificates, and diagnosis of infeasibility.

`exact` proves optimality with a certificate that the check verifies without trust in any solver. For
methods that write no certificate, dual prices are computed here, and the bound that the method claims is
the cutoff. The check decides whether they prove the bound; a wrong bound is left uncertified.

Implicit enumeration of all combinations of configurations is the ground truth for tiny instances. Where an
allocation has no plan, the least capacity that is missing is found by an elastic model (Chinneck 2008).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...formulations.allocation.certificate import certificate_of
from ...formulations.allocation.formulation import AllocationFormulation, choice_variables
from ...formulations.common.clock import check_model_size, check_time
from ...formulations.common.formulation import new_problem
from ...formulations.common.objective import Diagnosis
from ..backends import BACKENDS
from ..common.base import Clock, Outcome, Solver
from ..common.brute_force import BruteForce, Enumeration, refuse_many
from ..common.result import SolveOptions
from .lagrangian import MultipleChoice, best_prices
from .makespan import MakespanSearch, even_share, least_share, per_unit
from .total_time import TotalTimeSearch


class AllocationExact(Solver[AllocationFormulation]):
    """Lagrangian bound, reduced-cost fixing and core problem, with a certificate that `verify` checks.

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
        """Return the best plan found, a lower bound on its objective, dual prices and a certificate."""
        build_s = clock.elapsed_s
        search = MakespanSearch if formulation.is_makespan else TotalTimeSearch
        outcome = search(formulation, options, clock, self.cores).run()
        outcome.build_s = build_s
        return outcome


def certify(formulation: AllocationFormulation, outcome: Outcome, clock: Clock) -> None:
    """Add a certificate (dual prices and cutoff) of an outcome's bound, or of its infeasibility."""
    configs, claim = formulation.configurations, None if outcome.infeasible else outcome.bounds[0]
    if formulation.instance.objective == "total_completion_time":
        prices = best_prices(MultipleChoice.of(configs, configs.cost), clock).prices
    else:
        # A bound T on the makespan is proven by prices of the configurations that end before T.
        early = configs.time_s < (np.inf if claim is None else claim)
        if not configs.every_job_has(early):
            return  # a job that is later alone is proof enough
        problem = MultipleChoice.of(configs, np.zeros(len(early))).only(early)
        share, _, _ = least_share(problem, even_share(configs.limit), clock)
        prices = per_unit(share, configs.limit)
    outcome.certificate = certificate_of(configs.resources, prices, claim)


class AllocationBruteForce(BruteForce[AllocationFormulation]):
    """Complete enumeration of configurations, depth first; prunes by capacity and objective value."""

    kinds = ("allocation",)
    what = "every combination of configurations; tiny instances only"

    def enumerate(self, formulation: AllocationFormulation, search: Enumeration) -> None:
        """Enumerate all combinations of the jobs' configurations depth first, and keep the best."""
        refuse_many(len(formulation.instance.jobs), "jobs")
        configs = formulation.configurations
        jobs = len(configs.start) - 1
        makespan = formulation.is_makespan
        limit = configs.limit
        best_value, chosen = np.inf, [0] * jobs

        def extend(job: int, used: Any, value: float) -> None:
            nonlocal best_value
            # Costs only add up, so that no completion of this branch is better.
            if value >= best_value:
                return
            if job == jobs:
                plan = formulation.plan_of(chosen)
                best_value, search.best = value, (formulation.evaluate(plan), plan)
                return
            for k in configs.of(job):
                if search.over():
                    return
                after = used + configs.demand[k]
                if (after <= limit).all():
                    chosen[job] = k
                    extend(
                        job + 1, after, max(value, configs.time_s[k]) if makespan else value + configs.cost[k]
                    )

        extend(0, np.zeros(len(configs.resources)), 0.0)


def diagnose(formulation: AllocationFormulation, known: Diagnosis | None, clock: Clock) -> Diagnosis | None:
    """Return the known diagnosis, or the minimum extra capacity per resource that makes a plan feasible."""
    backend = BACKENDS["highs"]
    if known is not None or backend.unavailable():
        return known
    import pulp

    configs, problem = formulation.configurations, new_problem("elastic")
    check_model_size(formulation.model_terms, "the relaxed model")
    x = choice_variables(problem, configs)
    limits = configs.capacity.tolist()
    extra = [problem.add_variable(f"extra_{r}", lowBound=0) for r in range(len(limits))]
    for r, limit in enumerate(limits):
        check_time()
        terms = list(zip(x, configs.demand[:, r].tolist(), strict=True))
        problem += pulp.LpAffineExpression([*terms, (extra[r], -1.0)]) <= limit
    problem.objective = pulp.LpAffineExpression(
        [(more, 1 / max(limit, 1.0)) for more, limit in zip(extra, limits, strict=True)]
    )
    # Any solution that is found in time will do.
    values = backend.minimise(problem, SolveOptions(gap=1e-4), clock).values
    if values is None:
        return None
    missing = [
        (name, limit, values(more))
        for name, limit, more in zip(configs.resources, limits, extra, strict=True)
        if values(more) > 1e-6
    ]
    reasons = [
        f"{name}: {more:g} more than the {limit:g} there are would be needed" for name, limit, more in missing
    ]
    together = " and ".join(f"{name} to {limit + more:g}" for name, limit, more in missing)
    return Diagnosis(reasons=tuple(reasons), remedies=(f"raise {together}",)) if missing else None
