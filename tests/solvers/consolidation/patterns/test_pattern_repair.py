"""Patterns that a server holds."""

from __future__ import annotations

import numpy as np
import pytest

from clusterplan.solvers.consolidation.patterns.knapsack import Item
from clusterplan.solvers.consolidation.patterns.pattern_repair import PatternRepair


def tasks(k: int, need: list[int], gain: float, most: int) -> Item:
    """Return up to so many equal tasks."""
    count = np.arange(1, most + 1)
    return Item(k, count - 1, count[:, None] * np.array(need), count * gain, single=True)


ITEMS = [tasks(0, [4, 1], 1.0, 5), tasks(1, [1, 4], 3.0, 5), tasks(2, [1, 1], 0.5, 2)]


def test_the_least_dense_is_left_out() -> None:
    """Three of the first shape take too much of the first resource; the second shape takes little of it."""
    assert PatternRepair(ITEMS).repaired({0: 2, 1: 0}, np.array([9, 8])) == {0: 1, 1: 0}


def test_what_is_left_is_filled() -> None:
    """The densest first, as many as fit; then the next."""
    assert PatternRepair(ITEMS).repaired({}, np.array([4, 10])) == {1: 1, 2: 1}


@pytest.mark.parametrize("seed", range(10))
def test_every_pattern_fits_and_is_full(seed: int) -> None:
    """Whatever it was, and whatever the order in which it is filled."""
    rng = np.random.default_rng(seed)
    slots = {0: int(rng.integers(5)), 1: int(rng.integers(5)), 2: int(rng.integers(2))}
    free = rng.integers(0, 12, 2)
    found = PatternRepair(ITEMS).repaired(slots, free, rng)
    taken = sum((ITEMS[i].weights[slot] for i, slot in found.items()), np.zeros(2))
    assert (taken <= free).all()
    for i, item in enumerate(ITEMS):
        more = found.get(i, -1) + 1
        assert more == len(item.gains) or (taken + item.weights[0] > free).any()


def test_one_slot_of_a_shape_is_chosen() -> None:
    """The best that fits, and none beside one that is there."""
    item = Item(0, np.arange(2), np.array([[2, 2], [3, 3]]), np.array([1.0, 5.0]), single=False)
    repair = PatternRepair([item])
    assert repair.repaired({}, np.array([9, 9])) == {0: 1}
    assert repair.repaired({}, np.array([2, 2])) == {0: 0}
    assert repair.repaired({0: 0}, np.array([9, 9])) == {0: 0}
    assert repair.repaired({0: 1}, np.array([2, 9])) == {0: 0}


def test_without_items_there_is_no_pattern() -> None:
    """Nothing is paid, so nothing is held."""
    assert PatternRepair([]).repaired({}, np.array([1])) == {}
