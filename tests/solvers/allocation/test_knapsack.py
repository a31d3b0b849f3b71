"""The multiple-choice knapsack in columns, against loops over its items."""

from __future__ import annotations

import numpy as np
import pytest
from small_knapsacks import random_knapsack

from clusterplan.solvers.allocation import knapsack


@pytest.mark.parametrize("jobs_at_once", [1, 2, 4096])
def test_choices_and_reduced_costs_are_those_of_loops(
    jobs_at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many jobs are evaluated at once."""
    monkeypatch.setattr(knapsack, "JOBS_AT_ONCE", jobs_at_once)
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
    exact = knapsack.MultipleChoice(problem.start, problem.cost, problem.demand, taken, problem.configuration)
    assert exact.fits(items)
