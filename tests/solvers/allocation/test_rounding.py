"""Rounding of dual prices, and local search."""

from __future__ import annotations

import math

import numpy as np
from small_knapsacks import best_choice, random_knapsack

from clusterplan.solvers.allocation.knapsack import MultipleChoice
from clusterplan.solvers.allocation.lagrangian import best_prices
from clusterplan.solvers.allocation.rounding import improve, round_prices
from clusterplan.solvers.common.base import Clock


def test_a_rounded_choice_is_feasible_and_often_optimal() -> None:
    """One item of each job, within the limits, no better than the optimum."""
    found = optimal = 0
    for seed in range(100):
        problem = random_knapsack(seed)
        best, _ = best_choice(problem)
        items = round_prices(problem, best_prices(problem, Clock(None)).prices, Clock(None))
        if items is None:
            continue
        assert np.searchsorted(problem.start, items, side="right").tolist() == list(
            range(1, problem.jobs + 1)
        )
        assert problem.fits(items)
        assert problem.value(items) >= best - 1e-9
        found += 1
        optimal += math.isclose(problem.value(items), best)
    assert found >= 40
    assert optimal >= 0.8 * found


def test_pairs_of_jobs_exchange_what_no_single_job_can_take() -> None:
    """The second job saves 10 with three units; the first must give back two of its own, which costs 4."""
    problem = MultipleChoice(
        np.array([0, 2, 4]),
        np.array([1.0, 5.0, 2.0, 12.0]),
        np.array([[3.0], [1.0], [3.0], [1.0]]),
        np.array([4.0]),
        np.arange(4),
    )
    items = improve(problem, np.array([0, 3]), np.zeros(1), Clock(None))
    assert items.tolist() == [1, 2]
