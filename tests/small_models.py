"""Tiny models for tests of backends and pricing: a knapsack and a MILP model."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pulp

from clusterplan.formulations.common.formulation import new_problem
from clusterplan.solvers.allocation.lagrangian import MultipleChoice


def random_knapsack(seed: int, most_jobs: int = 5) -> MultipleChoice:
    """Return up to five jobs of one to four items under one to three limits, which may leave no choice."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(1, 5, rng.integers(1, most_jobs + 1))
    start = np.concatenate([[0], np.cumsum(counts)])
    limits = int(rng.integers(1, 4))
    demand = rng.integers(0, 8, (start[-1], limits)).astype(float)
    limit = np.floor(demand.mean(axis=0) * len(counts) * rng.uniform(0.6, 1.6, limits))
    cost = rng.integers(0, 50, start[-1]) * float(rng.choice([0.1, 1.0, 1e3]))
    return MultipleChoice(start, cost, demand, limit, 100 + np.arange(start[-1]))


def best_choice(problem: MultipleChoice) -> tuple[float, list[int] | None]:
    """Return the least cost of a choice within the limits, and its items; infinite and None without one."""
    value, found = math.inf, None
    for items in itertools.product(*(range(a, b) for a, b in itertools.pairwise(problem.start.tolist()))):
        taken = sum(problem.demand[k] for k in items)
        cost = math.fsum(problem.cost[list(items)])
        if (taken <= problem.limit).all() and cost < value:
            value, found = cost, list(items)
    return value, found


OPTIMUM = -19.0
"""Of `knapsack`, attained by taking the first and the last item alone."""


def knapsack(fewest: int = 0) -> Any:
    """Return −(8a + 7b + 6c + 11d) to be minimised, where 5a + 6b + 4c + 7d ≤ 12, binary, and Σ ≥ fewest."""
    problem = new_problem("knapsack")
    x = [problem.add_variable(name, 0, 1, pulp.LpInteger) for name in "abcd"]
    problem.sense = pulp.LpMinimize
    problem.objective = -(8 * x[0] + 7 * x[1] + 6 * x[2] + 11 * x[3])
    problem += 5 * x[0] + 6 * x[1] + 4 * x[2] + 7 * x[3] <= 12
    problem += pulp.lpSum(x) >= fewest
    return problem


def worth(values: dict[str, float]) -> float:
    """Return the objective of values of the variables, which have to be whole."""
    rounded = {name: round(value) for name, value in values.items()}
    assert all(abs(values[name] - rounded[name]) < 1e-6 for name in values)
    return -(8 * rounded["a"] + 7 * rounded["b"] + 6 * rounded["c"] + 11 * rounded["d"])
