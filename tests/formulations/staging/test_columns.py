"""Columns: the stages that could be part of an optimal plan."""

from __future__ import annotations

import pytest
from staging_instances import half_serial, two_layers

from clusterplan.formulations.staging.columns import Columns
from clusterplan.formulations.staging.formulation import StagingFormulation
from clusterplan.formulations.staging.plan import Stage
from clusterplan.instances.common.errors import TooLargeError


def test_columns_are_all_useful_stages() -> None:
    """Three units at most, and the stage time of each."""
    columns = Columns(StagingFormulation(half_serial(3, objective="time"))).all
    assert [(c.units, c.time_s) for c in columns] == [(1, 1.0), (2, 0.75), (3, pytest.approx(2 / 3))]


def test_the_floor_and_the_cost_limit_leave_columns_out() -> None:
    """Of 1 s, 0.75 s and 2/3 s; of 1, 1.5 and 2 USD."""
    fast = half_serial(3, objective="time", throughput_floor_samples_per_s=1.2)
    assert [c.units for c in Columns(StagingFormulation(fast)).all] == [2, 3]
    cheap = half_serial(3, objective="time", cost_limit_usd=1.6)
    assert [c.units for c in Columns(StagingFormulation(cheap)).all] == [1, 2]


def test_a_budget_bounds_units_without_a_limit() -> None:
    """Else the model would have no end."""
    budget = half_serial(None, hourly_budget_usd=4, objective="time")
    assert [c.units for c in Columns(StagingFormulation(budget)).all] == [1, 2, 3, 4]
    with pytest.raises(TooLargeError, match="'t' has no limit"):
        Columns(StagingFormulation(half_serial(None, objective="time")))


def test_plans_become_columns_and_back() -> None:
    """`uses` marks the stages of a plan, and `stages` puts them in order."""
    columns = Columns(StagingFormulation(two_layers()))
    plan = (
        Stage(first_layer=0, last_layer=0, type="slow", units=2),
        Stage(first_layer=1, last_layer=1, type="fast", units=1),
    )
    used = [c for c, flag in zip(columns.all, columns.uses(plan), strict=True) if flag]
    assert columns.stages(used[::-1]) == plan
