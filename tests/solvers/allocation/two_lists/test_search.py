"""The search of two lists against enumeration."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from small_knapsacks import best_choice, random_knapsack

from clusterplan.instances.common.arrays import Ints
from clusterplan.solvers.allocation.knapsack import MultipleChoice
from clusterplan.solvers.allocation.lagrangian import best_prices
from clusterplan.solvers.allocation.two_lists.search import best_of_pairs, better_choices
from clusterplan.solvers.common.base import Clock


def worst_choice(problem: MultipleChoice) -> Ints | None:
    """Return the dearest choice that keeps the limits; None without one."""
    jobs = (range(a, b) for a, b in itertools.pairwise(problem.start.tolist()))
    choices = [np.array(items) for items in itertools.product(*jobs)]
    return max((items for items in choices if problem.fits(items)), key=problem.value, default=None)


def test_the_best_choice_is_found_from_the_worst() -> None:
    """Every choice that is yielded keeps the limits and is better; the last is the best there is."""
    improved = 0
    for seed in range(60):
        problem = random_knapsack(seed)
        items = worst_choice(problem)
        if items is None:
            continue
        prices = best_prices(problem, Clock()).prices
        for better in better_choices(problem, prices, items, Clock(), seed):
            assert problem.fits(better)
            assert problem.value(better) < problem.value(items)
            assert (np.searchsorted(problem.start, better, side="right") - 1).tolist() == [
                *range(problem.jobs)
            ]
            items, improved = better, improved + 1
        assert problem.value(items) == pytest.approx(best_choice(problem)[0])
    assert improved > 20


def test_jobs_that_are_not_free_keep_their_items() -> None:
    """The best choice is the best of those that share these items with the incumbent."""
    compared = 0
    for seed in range(40):
        problem, rng = random_knapsack(seed), np.random.default_rng(seed)
        items = worst_choice(problem)
        if items is None:
            continue
        free = rng.random(problem.jobs) < 0.6
        prices = best_prices(problem, Clock()).prices
        found, everywhere = best_of_pairs(problem, prices, items, free, 4096, rng, Clock())
        assert everywhere == free.all()
        kept = np.repeat(free, np.diff(problem.start))
        kept[items] = True
        value = problem.value(items if found is None else found)
        assert value == pytest.approx(best_choice(problem.only(kept))[0])
        assert found is None or (found[~free] == items[~free]).all()
        compared += found is not None
    assert compared > 10


def test_an_expired_clock_ends_the_search() -> None:
    """Without time nothing is looked at."""
    problem = random_knapsack(3)
    items = np.asarray(problem.start[:-1])
    assert list(better_choices(problem, np.ones(len(problem.limit)), items, Clock(0.0), None)) == []
