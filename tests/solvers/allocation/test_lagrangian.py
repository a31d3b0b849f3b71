"""Best dual prices against the linear relaxation, whose value they reach.

The multiple-choice knapsack in columns, against loops over its items.

Lagrangian bounds of the methods: never above the optimum, and close to plain arithmetic.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linprog
from small_models import best_choice, random_knapsack

from clusterplan.formulations.allocation.formulation import AllocationFormulation
from clusterplan.instances.allocation.generate import generate_allocation
from clusterplan.solvers.allocation import lagrangian
from clusterplan.solvers.allocation.lagrangian import (
    MultipleChoice,
    best_prices,
    knapsack_bound,
    makespan_bound,
)
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
        monkeypatch.setattr(lagrangian, "JOBS_PER_SAMPLED_JOB", 2)
        monkeypatch.setattr(lagrangian, "FEWEST_JOBS_SAMPLED", 4)
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


@pytest.mark.parametrize("jobs_at_once", [1, 2, 4096])
def test_choices_and_reduced_costs_are_those_of_loops(
    jobs_at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many jobs are evaluated at once."""
    monkeypatch.setattr(lagrangian, "JOBS_AT_ONCE", jobs_at_once)
    for seed in range(50):
        problem = random_knapsack(seed)
        prices = np.random.default_rng(seed).uniform(0, 5, len(problem.limit))
        value = [float(c + prices @ a) for c, a in zip(problem.cost, problem.demand, strict=True)]
        least, chosen = problem.choose(prices)
        reduced = problem.reduced_costs(prices)
        assert problem.least_costs(prices).tolist() == least.tolist()
        for j in range(problem.jobs):
            own = range(int(problem.start[j]), int(problem.start[j + 1]))
            assert least[j] == pytest.approx(min(value[k] for k in own))
            assert chosen[j] in own
            assert value[chosen[j]] == pytest.approx(least[j])
            assert [reduced[k] for k in own] == pytest.approx([value[k] - least[j] for k in own], abs=1e-9)


def test_items_that_are_kept_remember_their_configuration() -> None:
    """Dropping every second item keeps jobs, costs and indices together."""
    problem = random_knapsack(7)
    keep = np.arange(len(problem.cost)) % 2 == 0
    keep[problem.start[:-1]] = True
    left = problem.only(keep)
    assert left.jobs == problem.jobs
    assert left.configuration.tolist() == problem.configuration[keep].tolist()
    assert left.cost.tolist() == problem.cost[left.configuration - 100].tolist()
    assert np.diff(left.start).min() >= 1


def test_a_sample_has_its_share_of_the_limits() -> None:
    """Two of four jobs share half of each limit."""
    problem = next(p for p in map(random_knapsack, range(100)) if p.jobs == 4)
    half = problem.sample(np.array([1, 3]))
    assert half.limit.tolist() == (problem.limit / 2).tolist()
    assert half.jobs == 2
    first = slice(int(problem.start[1]), int(problem.start[2]))
    assert half.cost[: half.start[1]].tolist() == problem.cost[first].tolist()


def test_fits_and_value() -> None:
    """Sums are those of the items; a limit that is met exactly is kept."""
    problem = random_knapsack(3)
    items = problem.start[:-1]
    taken = problem.demand[items].sum(axis=0)
    assert problem.take(items).tolist() == taken.tolist()
    assert problem.value(items) == pytest.approx(problem.cost[items].sum())
    exact = lagrangian.MultipleChoice(
        problem.start, problem.cost, problem.demand, taken, problem.configuration
    )
    assert exact.fits(items)


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
