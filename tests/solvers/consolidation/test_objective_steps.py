"""Steps and levels of objectives; the check has its own."""

from __future__ import annotations

from fractions import Fraction

import pytest
from placements import job, placement, server
from random_instances import random_consolidation

from clusterplan.formulations.consolidation.certificate import PRICED
from clusterplan.formulations.consolidation.check.certificate import level, quantum
from clusterplan.formulations.consolidation.check.classes import CheckedCluster
from clusterplan.instances.consolidation.instance import ConsolidationInstance
from clusterplan.solvers.consolidation.objective_steps import (
    figure_step,
    kept_level,
    objective_step,
    reached_level,
)


def test_steps_by_hand() -> None:
    """Values 0.3 and 0.2 have the step 0.1; thirds of a million have none that helps."""
    instance = placement(["value"], [server(gpu=2)], [job("a", value=0.3), job("b", value=0.2)])
    classes = CheckedCluster.of(instance).classes
    assert objective_step(classes, "value") == Fraction(1, 10)
    assert objective_step(classes, "servers") == 1
    assert kept_level(classes, "value", Fraction(-51, 100)) == Fraction(-1, 2)
    instance = placement(["value"], [server(gpu=2)], [job("a", value=1e10), job("b", value=1 / 3)])
    classes = CheckedCluster.of(instance).classes
    assert objective_step(classes, "value") is None
    assert figure_step(classes, "value") == 10**4


@pytest.mark.parametrize("seed", range(40))
def test_both_sides_agree(seed: int) -> None:
    """Steps and levels of the methods are those of the check."""
    instance = random_consolidation(seed)
    assert isinstance(instance, ConsolidationInstance)
    classes = CheckedCluster.of(instance).classes
    for objective in PRICED:
        assert objective_step(classes, objective) == quantum(classes, objective)
        for value in (0.0, 1.7, 3.0):
            assert reached_level(classes, objective, value) == level(classes, objective, value)
