"""The compact model: its constraints hold for feasible plans alone, and its objective is theirs."""

from __future__ import annotations

from typing import Any

import pytest
from staging_instances import two_layers

from clusterplan.formulations.staging.formulation import StagingFormulation
from clusterplan.formulations.staging.milp import milp_model
from clusterplan.formulations.staging.plan import Stage


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
