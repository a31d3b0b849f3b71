"""Implicit enumeration of all combinations of configurations: ground truth for tiny instances."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...formulations.allocation.formulation import AllocationFormulation
from ..common.brute_force import BruteForce, Enumeration, refuse_many


class AllocationBruteForce(BruteForce[AllocationFormulation]):
    """Depth-first enumeration; a branch ends where a capacity is exceeded or the value is no better."""

    kinds = ("allocation",)
    what = "every combination of configurations; tiny instances only"

    def enumerate(self, formulation: AllocationFormulation, search: Enumeration) -> None:
        """Try the configurations of one job after the other."""
        refuse_many(len(formulation.instance.jobs), "jobs")
        configs = formulation.configurations
        jobs = len(configs.start) - 1
        makespan = formulation.instance.objective == "makespan"
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
