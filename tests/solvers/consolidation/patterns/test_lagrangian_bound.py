"""The methods' Lagrangian bound and the check's, which share no code, on random prices."""

from __future__ import annotations

import random
from fractions import Fraction

import pytest
from random_instances import random_consolidation

from clusterplan.formulations.consolidation.certificate import MUST_PLACE, PRICED, CertifiedGoal
from clusterplan.formulations.consolidation.check.bounds import goal_bound, quantum
from clusterplan.formulations.consolidation.check.classes import CheckedCluster
from clusterplan.instances.consolidation.instance import ConsolidationInstance
from clusterplan.solvers.consolidation.patterns.column_generation import lagrangian_bound
from clusterplan.solvers.consolidation.patterns.pricing import ServerPricing


@pytest.mark.parametrize("block", range(5))
def test_both_bounds_agree(block: int) -> None:
    """For any prices, any goal, and any earlier objectives, up to rounding."""
    finite = 0
    for seed in range(20 * block, 20 * block + 20):
        rng = random.Random(seed)
        instance = random_consolidation(seed)
        assert isinstance(instance, ConsolidationInstance)
        checked = CheckedCluster.of(instance)
        table = checked.cluster.classes
        pricing = [ServerPricing(table, pool) for pool in table.usages]
        names = [name for name in instance.objectives if name in PRICED]
        for place, name in enumerate([*names, MUST_PLACE]):
            earlier = names[:place] if name != MUST_PLACE else []
            goal = CertifiedGoal.model_validate(
                {
                    "objective": name,
                    "prices": [
                        [rng.choice([0, rng.random() * 3]) for _ in rows] for rows in checked.classes.pieces
                    ],
                    "multipliers": {other: rng.random() for other in earlier},
                }
            )
            levels = {other: Fraction(rng.randint(-3, 3)) for other in earlier}
            ours = lagrangian_bound(table, pricing, goal, levels)
            theirs = goal_bound(checked.classes, goal, levels)
            if theirs is None:
                assert ours == float("-inf"), (seed, name)
                continue
            step = quantum(checked.classes, name) or Fraction(1, 10**9)
            assert float(theirs - step) - 1e-9 <= ours <= float(theirs) + 1e-9, (seed, name)
            finite += 1
    assert finite > 20
