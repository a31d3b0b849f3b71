"""The knapsack of one server, against trying every pattern."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

from clusterplan.solvers.consolidation.patterns.knapsack import (
    Item,
    multiplier_bound,
    relaxed_knapsack,
    solved_knapsack,
)

FREE = np.array([10, 7])


def random_items(seed: int, count: int = 3) -> list[Item]:
    """Return items of up to three equal tasks, and such with slots of their own."""
    rng = random.Random(seed)
    items = []
    for k in range(count):
        need = np.array([rng.randint(0, 4), rng.randint(1, 4)])
        if rng.random() < 0.5:
            tasks = np.arange(1, rng.randint(1, 3) + 1)
            gain = rng.random()
            items.append(Item(k, tasks - 1, tasks[:, None] * need, tasks * gain, single=True))
        else:
            weights = np.array([need, need + np.array([rng.randint(0, 3), 1])])
            items.append(
                Item(k, np.array([3, 8]), weights, np.array([rng.random(), rng.random()]), single=False)
            )
    return items


def brute(items: list[Item], free: np.ndarray) -> float:
    """Return the best value of all patterns."""
    best = 0.0
    for chosen in itertools.product(*([None, *range(len(item.gains))] for item in items)):
        pairs = [(item, i) for item, i in zip(items, chosen, strict=True) if i is not None]
        taken = sum((item.weights[i] for item, i in pairs), np.zeros(2))
        if (taken <= free).all():
            best = max(best, sum(float(item.gains[i]) for item, i in pairs))
    return best


@pytest.mark.parametrize("seed", range(15))
def test_branch_and_bound_finds_the_best_pattern(seed: int) -> None:
    """Its slots are paid what it says, and fit."""
    items = random_items(seed)
    found = solved_knapsack(items, FREE)
    assert found is not None
    assert found.value == pytest.approx(brute(items, FREE))
    assert found.bound == pytest.approx(found.value)
    pairs = [(items[k], list(items[k].rows).index(row)) for k, row in found.slots]
    assert sum(float(item.gains[i]) for item, i in pairs) == pytest.approx(found.value)
    assert (sum((item.weights[i] for item, i in pairs), np.zeros(2)) <= FREE).all()


@pytest.mark.parametrize("seed", range(15))
def test_multipliers_bound_every_pattern(seed: int) -> None:
    """Those of the relaxation bound best; any others bound as well."""
    items, rng = random_items(seed), np.random.default_rng(seed)
    best, relaxed = brute(items, FREE), relaxed_knapsack(items, FREE.astype(float))
    assert relaxed.bound >= best - 1e-9
    for _ in range(5):
        assert multiplier_bound(items, FREE, rng.random(2)) >= relaxed.bound - 1e-9


@pytest.mark.parametrize("seed", range(15))
def test_what_is_not_promising_is_in_no_better_pattern(seed: int) -> None:
    """With the slack between relaxation and optimum, what is left has the optimum."""
    items = random_items(seed, 4)
    best, relaxed = brute(items, FREE), relaxed_knapsack(items, FREE.astype(float))
    left = [item.promising(relaxed.multipliers, relaxed.bound - best + 1e-9) for item in items]
    assert brute(left, FREE) == pytest.approx(best)


def test_reduced_costs_leave_out_what_is_paid_too_little() -> None:
    """Of two shapes that take the same, the one that is paid less goes."""
    one = np.array([[1, 1]])
    items = [Item(k, np.array([0]), one, np.array([gain]), single=True) for k, gain in ((0, 1.0), (1, 0.1))]
    multipliers = np.array([0.0, 1.0])
    assert [len(item.promising(multipliers, 0.5).gains) for item in items] == [1, 0]


def test_without_items_nothing_is_paid() -> None:
    """The bound of an empty knapsack is zero."""
    assert relaxed_knapsack([], FREE.astype(float)).bound == 0
