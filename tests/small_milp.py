"""A mixed-integer program whose optimum is known, for every backend."""

from __future__ import annotations

from typing import Any

import pulp

from clusterplan.formulations.common.formulation import new_problem

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
