"""Cores on HiGHS against enumeration."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from small_knapsacks import best_choice, random_knapsack

from clusterplan.solvers.allocation.core import solve_core
from clusterplan.solvers.common.base import Clock
from clusterplan.solvers.common.options import SolveOptions

OPTIONS = SolveOptions(threads=1)


def test_a_core_is_solved_to_its_optimum() -> None:
    """Value and bound agree with enumeration; without a choice the bound is infinite."""
    for seed in range(60):
        problem = random_knapsack(seed)
        best, _ = best_choice(problem)
        answer = solve_core(problem, Clock(None), OPTIONS)
        if math.isinf(best):
            assert answer.chosen is None
            assert answer.bound == math.inf
            continue
        assert answer.chosen is not None
        assert problem.fits(answer.chosen)
        assert problem.value(answer.chosen) == pytest.approx(best)
        assert answer.bound <= best + 1e-9
        assert answer.bound == pytest.approx(best, rel=1e-5, abs=1e-4)


def test_jobs_without_a_choice_are_constants() -> None:
    """A core of single items needs no solver."""
    problem = random_knapsack(1)
    single = problem.only(np.isin(np.arange(len(problem.cost)), problem.start[:-1]))
    roomy = replace(single, limit=single.demand.sum(axis=0))
    answer = solve_core(roomy, Clock(None), OPTIONS)
    assert answer.chosen is not None
    assert answer.chosen.tolist() == list(range(problem.jobs))
    assert answer.bound == pytest.approx(roomy.value(answer.chosen))
    assert solve_core(replace(roomy, limit=roomy.limit - 1), Clock(None), OPTIONS).bound == math.inf
