"""Pairs of partial choices against enumeration."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from small_knapsacks import best_choice, random_knapsack

from clusterplan.instances.common.arrays import Floats, Ints
from clusterplan.solvers.allocation import two_lists
from clusterplan.solvers.allocation.knapsack import MultipleChoice
from clusterplan.solvers.allocation.lagrangian import best_prices
from clusterplan.solvers.allocation.two_lists import PartialChoices, better_choices
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
        found, everywhere = two_lists.best_of_pairs(problem, prices, items, free, 4096, rng, Clock())
        assert everywhere == free.all()
        kept = np.repeat(free, np.diff(problem.start))
        kept[items] = True
        value = problem.value(items if found is None else found)
        assert value == pytest.approx(best_choice(problem.only(kept))[0])
        assert found is None or (found[~free] == items[~free]).all()
        compared += found is not None
    assert compared > 10


def partial_choices(reduced: Floats, owner: Ints, most: float) -> set[tuple[int, ...]]:
    """Return the sets of items of different jobs whose reduced costs add up to at most this."""
    items = range(len(reduced))
    sets = itertools.chain.from_iterable(itertools.combinations(items, n) for n in range(len(reduced) + 1))
    return {s for s in sets if len(set(owner[list(s)])) == len(s) and math.fsum(reduced[list(s)]) <= most}


@pytest.mark.parametrize("seed", range(5))
def test_every_partial_choice_within_a_reduced_cost_is_listed_once(seed: int) -> None:
    """The list holds what enumeration finds, with sums and uses; a list that is too short holds the best."""
    rng = np.random.default_rng(seed)
    reduced = np.sort(rng.integers(0, 8, 9)).astype(float)
    owner, items = rng.integers(0, 5, 9), np.arange(100, 109)
    beyond = rng.normal(size=(9, 3))
    listed = two_lists._partial_choices(items, owner, reduced, beyond, 10.0, 1000)
    found = [tuple(sorted(item - 100 for item in listed.items(row))) for row in range(len(listed.last))]
    assert len(found) == len(set(found))
    assert set(found) == partial_choices(reduced, owner, 10.0)
    for row, chosen in enumerate(found):
        assert listed.reduced[row] == pytest.approx(reduced[list(chosen)].sum())
        assert listed.use[row] == pytest.approx(beyond[list(chosen)].sum(axis=0))
    assert listed.complete
    short = two_lists._partial_choices(items, owner, reduced, beyond, 10.0, len(found) // 2)
    assert not short.complete
    assert len(short.last) <= len(found) // 2
    left_out = np.sort(listed.reduced)[len(short.last) :]
    assert short.reduced.max() <= left_out.min()


@pytest.mark.parametrize("limits", [1, 2, 3, 6])
def test_the_best_pair_is_that_of_all_pairs(limits: int) -> None:
    """The grid leaves out no pair that counts; the gap is the least that is asked for."""
    rng = np.random.default_rng(limits)
    none = np.full(60, -1)
    for _ in range(30):
        one, other = (
            PartialChoices(none, none, rng.random(60), rng.integers(-3, 4, (60, limits)).astype(float))
            for _ in range(2)
        )
        slack, prices = rng.integers(-2, 3, limits).astype(float), rng.random(limits)
        prices[rng.random(limits) < 0.2] = 0.0
        left = slack - one.use[:, None, :] - other.use[None, :, :]
        worth = one.reduced[:, None] + other.reduced[None, :] + left @ prices
        worth[(left < 0).any(axis=2)] = math.inf
        pair = two_lists._best_pair(one, other, slack, prices, 50.0, Clock())
        if pair is None:
            assert worth.min() >= 50
            continue
        assert worth[pair] == pytest.approx(worth.min())
        assert two_lists._best_pair(one, other, slack, prices, worth.min() - 1e-9, Clock()) is None


def test_an_expired_clock_ends_the_search() -> None:
    """Without time nothing is looked at."""
    problem = random_knapsack(3)
    items = np.asarray(problem.start[:-1])
    assert list(better_choices(problem, np.ones(len(problem.limit)), items, Clock(0.0), None)) == []
