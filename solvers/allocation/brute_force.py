"""Implicit enumeration of all combinations of configurations: ground truth for tiny instances."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...formulations.allocation.formulation import AllocationFormulation
from ..common.base import Clock, Outcome, Solver
from ..common.brute_force import refuse_many
from ..common.options import SolveOptions


class AllocationBruteForce(Solver[AllocationFormulation]):
    """Depth-first enumeration; a branch ends where a capacity is exceeded or the value is no better."""

    name = "brute-force"
    kinds = ("allocation",)
    proves = True
    what = "every combination of configurations; tiny instances only"

    def solve(self, formulation: AllocationFormulation, options: SolveOptions, clock: Clock) -> Outcome:
        """Enumerate all plans, or as many as the time allows."""
        del options
        refuse_many(len(formulation.instance.jobs), "jobs")
        configs = formulation.configurations
        jobs = len(configs.start) - 1
        makespan = formulation.instance.objective == "makespan"
        limit = configs.limit
        best_value, best, chosen, out_of_time = np.inf, None, [0] * jobs, False

        def extend(job: int, used: Any, value: float) -> None:
            nonlocal best_value, best, out_of_time
            # Costs only add up, so that no completion of this branch is better.
            if value >= best_value:
                return
            if job == jobs:
                best_value, best = value, list(chosen)
                return
            for k in configs.of(job):
                out_of_time = out_of_time or clock.expired
                if out_of_time:
                    return
                after = used + configs.demand[k]
                if (after <= limit).all():
                    chosen[job] = k
                    extend(
                        job + 1, after, max(value, configs.time_s[k]) if makespan else value + configs.cost[k]
                    )

        extend(0, np.zeros(len(configs.resources)), 0.0)
        if best is None:
            return Outcome(limit="time") if out_of_time else Outcome(infeasible=True)
        plan = formulation.plan_of(best)
        bound = None if out_of_time else formulation.evaluate(plan)[0]
        return Outcome(plan, (bound,), limit="time" if out_of_time else "none")
