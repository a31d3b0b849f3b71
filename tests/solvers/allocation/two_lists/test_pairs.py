"""The best pair of two lists against all pairs."""

from __future__ import annotations

import math

import numpy as np
import pytest

from clusterplan.solvers.allocation.two_lists.pairs import best_pair
from clusterplan.solvers.allocation.two_lists.partial_choices import PartialChoices
from clusterplan.solvers.common.base import Clock


@pytest.mark.parametrize("limits", [1, 2, 3, 6])
def test_the_best_pair_is_that_of_all_pairs(limits: int) -> None:
    """The grid leaves out no pair that counts; nothing is found that is no better than asked for."""
    rng = np.random.default_rng(limits)
    found = 0
    for _ in range(30):
        one, other = (
            PartialChoices(
                np.full((60, 1), -1, dtype=np.int32),
                rng.random(60),
                rng.integers(-3, 4, (60, limits)).astype(float),
                True,
            )
            for _ in range(2)
        )
        slack, prices = rng.integers(-2, 3, limits).astype(float), rng.random(limits)
        prices[rng.random(limits) < 0.2] = 0.0
        left = slack - one.use[:, None, :] - other.use[None, :, :]
        worth = one.reduced[:, None] + other.reduced[None, :] + left @ prices
        worth[(left < 0).any(axis=2)] = math.inf
        gap = float(rng.choice([1.0, 50.0]))
        pair = best_pair(one, other, slack, prices, gap, Clock())
        if pair is None:
            assert worth.min() >= gap - 1e-9
            continue
        found += 1
        assert worth[pair] == pytest.approx(worth.min())
        assert best_pair(one, other, slack, prices, worth.min() - 1e-9, Clock()) is None
    assert found > 10
