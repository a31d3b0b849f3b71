"""The compact model: its constraints hold for feasible plans alone, and its objective is theirs.

Columns: the stages that could be part of an optimal plan.
"""

from __future__ import annotations

from typing import Any

import pytest
from staging_instances import half_serial, two_layers

from clusterplan.formulations.staging.formulation import StagingFormulation
from clusterplan.formulations.staging.milp import Columns, milp_model
from clusterplan.formulations.staging.stages import Stage
from clusterplan.instances.common.errors import TooLargeError


def broken(formulation: StagingFormulation, plan: list[Stage]) -> tuple[set[str], Any]:
    """Return the constraints that the plan's values break, and the model."""
    model = milp_model(formulation)
    for variable, value in model.encode(plan).items():
        variable.varValue = value
    rows = model.problem.constraints()
    return {row.name.split("_")[0] for row in rows if not row.valid(1e-9)}, model


def stage(first: int, last: int, name: str, units: int) -> Stage:
    return Stage(first_layer=first, last_layer=last, type=name, units=units)


@pytest.mark.parametrize(
    "plan",
    [[stage(0, 1, "slow", 4)], [stage(0, 0, "slow", 2), stage(1, 1, "fast", 1)], [stage(0, 1, "fast", 1)]],
)
def test_a_feasible_plan_keeps_every_row_and_has_its_cost(plan: list[Stage]) -> None:
    """Read back it is the same plan."""
    formulation = StagingFormulation(two_layers())
    faults, model = broken(formulation, plan)
    assert faults == set()
    assert model.objectives[0].expression.value() == pytest.approx(formulation.evaluate(plan)[0])
    assert model.decode(lambda variable: variable.varValue) == tuple(plan)


def test_neighbours_of_one_type_break_the_rows_that_keep_them_apart() -> None:
    """For the path and for its product with the stage time."""
    plan = [stage(0, 0, "slow", 2), stage(1, 1, "slow", 2)]
    assert broken(StagingFormulation(two_layers()), plan)[0] == {"apart"}
    assert broken(StagingFormulation(two_layers(stage_rule="free_cuts")), plan)[0] == set()


def test_a_gap_in_the_layers_breaks_the_flow() -> None:
    """A plan has to enter at the first layer and to leave after the last."""
    assert broken(StagingFormulation(two_layers()), [stage(0, 0, "slow", 2)])[0] == {"flow", "leave"}


def test_more_units_than_the_limit_break_its_row() -> None:
    """Two stages of one type share its limit."""
    formulation = StagingFormulation(two_layers(stage_rule="free_cuts"))
    assert broken(formulation, [stage(0, 0, "slow", 6), stage(1, 1, "slow", 6)])[0] == {"limit"}


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
