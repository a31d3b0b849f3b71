"""The coarse table: a bound on every pattern, and exact where its units are."""

from __future__ import annotations

import numpy as np
import pytest

from clusterplan.solvers.consolidation.patterns.coarse_table import CoarseTable
from clusterplan.solvers.consolidation.patterns.knapsack import Item, solved_knapsack
from clusterplan.solvers.consolidation.settings import SETTINGS

FREE = np.array([[10, 7, 9], [4, 7, 3], [0, 0, 0]])


def random_items(seed: int, largest: int = 4) -> list[Item]:
    """Return items of up to four equal tasks, and one with slots of its own."""
    rng = np.random.default_rng(seed)
    items = []
    for k in range(4):
        tasks = np.arange(1, rng.integers(1, 5) + 1)
        need = rng.integers(1, largest + 1, 3) * [1, 1, k % 2]
        items.append(Item(k, tasks - 1, tasks[:, None] * need, tasks * rng.random(), single=True))
    weights = rng.integers(1, largest + 1, (3, 3))
    return [*items, Item(4, np.arange(3), weights, rng.random(3), single=False)]


def best(items: list[Item], free: np.ndarray) -> float:
    """Return the best value of a server by branch and bound, which has a test of its own."""
    there = [item for item in (item.within(free) for item in items) if len(item.gains)]
    found = solved_knapsack(there, free) if there else None
    return 0.0 if found is None else found.value


@pytest.mark.parametrize("seed", range(12))
def test_no_pattern_is_paid_more_than_the_bound(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """However coarse the units are, and whatever the multipliers of the third resource."""
    rng = np.random.default_rng(seed)
    items = random_items(seed)
    for steps in (2, 5, 100):
        monkeypatch.setattr(
            "clusterplan.solvers.consolidation.patterns.coarse_table.SETTINGS",
            SETTINGS.__class__(most_coarse_steps=steps, most_coarse_cells=steps * steps),
        )
        bounds = CoarseTable(items, FREE, rng.random(3)).bounds(FREE)
        assert all(bound >= best(items, free) - 1e-9 for bound, free in zip(bounds, FREE, strict=True))


@pytest.mark.parametrize("seed", range(12))
def test_two_resources_in_their_own_units_are_exact(seed: int) -> None:
    """Bound and pattern are the optimum, up to the rounding of values to integers."""
    items, free = random_items(seed), FREE.copy()
    free[:2, 2] = 1000
    table = CoarseTable(items, free, np.array([1.0, 1.0, 0.0]))
    for bound, row in zip(table.bounds(free), free, strict=True):
        assert bound == pytest.approx(best(items, row), abs=1e-6)
        chosen = [(items[i], slot) for i, slot in table.slots(row).items()]
        assert sum(float(item.gains[slot]) for item, slot in chosen) == pytest.approx(bound, abs=1e-6)
        assert (sum((item.weights[slot] for item, slot in chosen), np.zeros(3)) <= row).all()


def test_one_resource_has_one_axis() -> None:
    """Three tasks of three units fit in ten."""
    tasks = np.arange(1, 6)
    item = Item(0, tasks - 1, 3 * tasks[:, None], tasks * 1.0, single=True)
    table = CoarseTable([item], np.array([[10]]), np.array([1.0]))
    assert table.bounds(np.array([[10], [5]])) == pytest.approx([3, 1], abs=1e-6)
    assert table.slots(np.array([10])) == {0: 2}


def test_without_items_the_bound_is_zero() -> None:
    """A pool of which nothing is paid."""
    assert CoarseTable([], FREE, np.zeros(3)).bounds(FREE).tolist() == [0, 0, 0]
