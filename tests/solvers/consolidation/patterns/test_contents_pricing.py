"""The contents of servers that are worth most, beside enumeration."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from clusterplan.instances.common.arrays import Ints
from clusterplan.solvers.consolidation.patterns.contents_pricing import best_contents


def best_by_enumeration(gains: Ints, demands: Ints, most: Ints, limit: Ints) -> int:
    """Return what the contents of a server are worth at most."""
    ranges = [range(number + 1) for number in most.tolist()]
    counts = np.array(list(itertools.product(*ranges)))
    return int((counts @ gains)[(counts @ demands <= limit).all(axis=1)].max())


@pytest.mark.parametrize("seed", range(40))
def test_contents_are_worth_what_enumeration_finds(seed: int) -> None:
    """A bound if the search has few steps; the contents that are found fit, and are worth no more."""
    rng = np.random.default_rng(seed)
    gains, demands = rng.integers(0, 9, 5), rng.integers(0, 5, (5, 2))
    most, limits = rng.integers(0, 4, (3, 5)), rng.integers(-1, 12, (3, 2))
    exact, contents = best_contents(gains, demands, most, limits, 10**6)
    bound, _ = best_contents(gains, demands, most, limits, 0)
    for m in range(3):
        fits = (limits[m] >= 0).all()
        expected = best_by_enumeration(gains, demands, most[m], limits[m]) if fits else 0
        assert exact[m] == contents[m] @ gains == expected
        assert (contents[m] <= most[m]).all()
        assert not fits or (contents[m] @ demands <= limits[m]).all()
        assert bound[m] >= exact[m]
