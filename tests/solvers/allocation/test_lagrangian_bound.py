"""Lagrangian bounds of the methods: never above the optimum, and close to plain arithmetic."""

from __future__ import annotations

import numpy as np
import pytest
from small_knapsacks import best_choice, random_knapsack

from clusterplan.formulations.allocation.formulation import AllocationFormulation
from clusterplan.instances.allocation.generate import generate_allocation
from clusterplan.solvers.allocation.lagrangian_bound import knapsack_bound, makespan_bound


def test_a_bound_is_plain_arithmetic_and_below_the_optimum() -> None:
    """For any prices; negative ones count as 0."""
    for seed in range(100):
        problem = random_knapsack(seed)
        prices = np.random.default_rng(seed).uniform(-1, 10, len(problem.limit))
        positive = np.maximum(prices, 0)
        plain = problem.choose(positive)[0].sum() - positive @ problem.limit
        bound = knapsack_bound(problem, prices)
        assert bound == pytest.approx(plain, rel=1e-9, abs=1e-6)
        assert bound <= best_choice(problem)[0]


def test_a_makespan_bound_without_prices_is_the_slowest_job_alone() -> None:
    """And with prices at least as much."""
    configs = AllocationFormulation(generate_allocation(6, 2, 0.9, seed=2)).configurations
    alone = max(configs.time_s[configs.of(j)].min() for j in range(configs.jobs))
    assert makespan_bound(configs, np.zeros(2)) == alone
    assert makespan_bound(configs, 1 / configs.limit) >= alone
