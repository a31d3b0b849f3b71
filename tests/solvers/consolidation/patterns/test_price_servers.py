"""The pricing problem of servers, against trying every pattern."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

from clusterplan.formulations.consolidation.formulation import ConsolidationFormulation
from clusterplan.instances.consolidation.generate import generate_consolidation
from clusterplan.solvers.consolidation.patterns.pricing import ServerPricing

CLASSES = ConsolidationFormulation(
    generate_consolidation(8, 6, gpus_per_server=4, load=1.2, preferred_share=0.6, seed=2)
).classes


@pytest.mark.parametrize("seed", range(10))
def test_the_best_pattern_of_each_class(seed: int) -> None:
    """Its value is the most that any selection of slots within what is free is paid."""
    rng = random.Random(seed)
    paid = [np.array([rng.choice([0.0, rng.random()]) for _ in slots]) for slots in CLASSES.slots]
    for pool in CLASSES.usages:
        for number, most, pattern in ServerPricing(CLASSES, pool).best(paid):
            server = CLASSES.servers[number]
            shapes = CLASSES.shapes_of(pool)
            options = [[None, *range(len(CLASSES.slots[k]))] for k in shapes]
            best = 0.0
            for chosen in itertools.product(*options):
                pairs = [(k, i) for k, i in zip(shapes, chosen, strict=True) if i is not None]
                taken = sum((CLASSES.weights(k, CLASSES.slots[k][[i]])[0] for k, i in pairs), np.zeros(1))
                if (taken <= np.array(server.free)).all():
                    best = max(best, sum(paid[k][i] for k, i in pairs))
            assert most == pytest.approx(best)
            assert sum(paid[k][i] for k, i in pattern) == pytest.approx(best)


def test_patterns_within_reach_are_all_listed() -> None:
    """Each of them is paid enough, is full, and is listed once."""
    paid = [np.ones(len(slots)) for slots in CLASSES.slots]
    for pool in CLASSES.usages:
        listed = ServerPricing(CLASSES, pool).within(paid, np.ones(len(CLASSES.servers)), 10_000)
        assert listed
        assert len(set(listed)) == len(listed)
        assert all(sum(paid[k][i] for k, i in pattern) >= 1 for _, pattern in listed)
        assert ServerPricing(CLASSES, pool).within(paid, np.zeros(len(CLASSES.servers)), 1) is None
