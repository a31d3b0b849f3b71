"""Small multiple-choice knapsacks, and their optima by enumeration."""

from __future__ import annotations

import itertools
import math

import numpy as np

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
