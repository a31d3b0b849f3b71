"""Best dual prices against the linear relaxation, whose value they reach."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linprog
from small_knapsacks import random_knapsack

from clusterplan.solvers.allocation import lagrangian
from clusterplan.solvers.allocation.knapsack import MultipleChoice
from clusterplan.solvers.allocation.lagrangian import KelleySettings, best_prices
from clusterplan.solvers.common.base import Clock


def relaxation(problem: MultipleChoice) -> float | None:
    """Return the value of the linear relaxation; None where it has no solution."""
    one = np.zeros((problem.jobs, len(problem.cost)))
    one[np.repeat(np.arange(problem.jobs), np.diff(problem.start)), np.arange(len(problem.cost))] = 1
    found = linprog(problem.cost, problem.demand.T, problem.limit, one, np.ones(problem.jobs))
    return float(found.fun) if found.status == 0 else None


@pytest.mark.parametrize("sampled", [False, True])
def test_best_prices_reach_the_linear_relaxation(sampled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Strong duality, with and without a first box from a sample; no solution means an unbounded dual."""
    if sampled:
        settings = KelleySettings(jobs_per_sampled_job=2, fewest_jobs_sampled=4)
        monkeypatch.setattr(lagrangian, "SETTINGS", settings)
    bounded = 0
    for seed in range(80):
        problem = random_knapsack(seed)
        dual, value = best_prices(problem, Clock(None)), relaxation(problem)
        assert (dual.prices >= 0).all()
        if value is None:
            assert dual.unbounded
        else:
            bounded += 1
            assert dual.bound == pytest.approx(value, rel=1e-6, abs=1e-6)
    assert bounded > 20


def test_without_time_there_are_prices_all_the_same() -> None:
    """They are a valid, if weak, bound."""
    problem = next(p for p in map(random_knapsack, range(100)) if relaxation(p) is not None)
    dual = best_prices(problem, Clock(0.0))
    assert dual.bound <= float(relaxation(problem) or 0.0) + 1e-9
