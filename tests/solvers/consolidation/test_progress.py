"""The incumbent of `exact`, and which bounds it may keep.

Steps and levels of objectives; the check has its own.

The settings of `exact`.
"""

from __future__ import annotations

import dataclasses
from fractions import Fraction

import pytest
from device_instances import job, placement, server, three_jobs
from random_instances import random_consolidation

from clusterplan.formulations.consolidation.certificate import PRICED
from clusterplan.formulations.consolidation.check.bounds import objective_level, value_step
from clusterplan.formulations.consolidation.check.classes import CheckedCluster
from clusterplan.formulations.consolidation.plan import JobPlacement
from clusterplan.solvers.consolidation.progress import (
    SETTINGS,
    ExactSettings,
    Progress,
    attains_bound,
    kept_level,
    objective_step,
    reached_level,
    scaling_step,
)

OUT = [JobPlacement(job=name, placed=False) for name in "abc"]
ONE = [JobPlacement(job="a", servers={"n": 3}), *OUT[1:]]


def test_only_better_plans_are_kept() -> None:
    """A plan that breaks a constraint has no values; a worse one does not replace the incumbent."""
    progress = Progress(three_jobs())
    assert progress.update_incumbent(OUT) == (0.0, 0.0)
    assert progress.update_incumbent(ONE) == (3.0, 1.0)
    assert progress.update_incumbent(OUT) == (0.0, 0.0)
    assert progress.plan is ONE
    assert progress.update_incumbent([JobPlacement(job="a", servers={"n": 2}), *OUT[1:]]) is None


def test_what_is_proven_ends_at_the_first_gap() -> None:
    """Bounds behind it do not count; the tighter of two bounds does."""
    progress = Progress(three_jobs("value", "servers"))
    progress.update_incumbent(ONE)
    progress.bounds = [4.0, 1.0]
    assert progress.proven(0.0) == []
    progress.tighten([3.0])
    assert progress.bounds == [3.0, 1.0]
    assert progress.proven(0.0) == [3.0, 1.0]


def test_bounds_beyond_an_unproven_objective_are_forgotten() -> None:
    """The objective after it keeps its bound, the next one does not."""
    progress = Progress(three_jobs("value", "servers", "spread"))
    classes = progress.formulation.classes
    progress.bounds = [6.0, 1.0, 0.0]
    progress.drop_dependent_bounds(classes, {}, (3.0, 1.0, 0.0))
    assert progress.bounds == [6.0, 1.0]
    progress.bounds = [3.0, 1.0, 0.0]
    progress.drop_dependent_bounds(classes, {"value": Fraction(-4)}, (3.0, 1.0, 0.0))  # believed to be better
    assert progress.bounds == [3.0]
    progress.drop_dependent_bounds(classes, {}, None)
    assert progress.bounds == [3.0]


def test_counting_adds_bounds_that_are_reached() -> None:
    """Nothing placed has no servers, but not the best value."""
    progress = Progress(three_jobs("servers", "value"))
    progress.update_incumbent(OUT)
    progress.add_combinatorial_bounds()
    assert progress.bounds == [0.0]
    assert progress.certificate() is None
    assert attains_bound(1.0, 1.0 - 1e-12)
    assert not attains_bound(1.0, 0.999)


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
    assert scaling_step(classes, "value") == 10**4


@pytest.mark.parametrize("seed", range(40))
def test_both_sides_agree(seed: int) -> None:
    """Steps and levels of the methods are those of the check."""
    instance = random_consolidation(seed)
    classes = CheckedCluster.of(instance).classes
    for objective in PRICED:
        assert objective_step(classes, objective) == value_step(classes, objective)
        for value in (0.0, 1.7, 3.0):
            assert reached_level(classes, objective, value) == objective_level(classes, objective, value)


def test_nobody_changes_them_on_the_way() -> None:
    """They are frozen, and each is told about."""
    with pytest.raises(dataclasses.FrozenInstanceError):
        SETTINGS.share_of_time_left = 1.0  # type: ignore[misc]
    for field in dataclasses.fields(ExactSettings):
        assert f"    {field.name}\n" in (ExactSettings.__doc__ or "")
    assert 0 < SETTINGS.share_of_time_left < 1
