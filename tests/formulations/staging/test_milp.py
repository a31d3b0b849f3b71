"""The compact MILP models of staging, for chains and for graphs."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from staging_instances import diamond, diamond_rows, half_serial, two_layers

from clusterplan.formulations.staging.formulation import GraphFormulation, StagingFormulation, formulation_of
from clusterplan.formulations.staging.milp import (
    Columns,
    Option,
    milp_of,
    options_of,
)
from clusterplan.formulations.staging.stages import Stage, stage_of
from clusterplan.instances.common.errors import TooLargeError


def broken(formulation: StagingFormulation, plan: list[Stage]) -> tuple[set[str], Any]:
    """Return the constraints that the plan's values break, and the model."""
    model = milp_of(formulation)
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


def of_letters(*stages: str) -> list[Stage]:
    """Return the plan of the diamond with these stages, each on one unit."""
    return [stage_of(sorted(map("abcd".index, letters)), "gpu", 1) for letters in stages]


@pytest.mark.parametrize("objective", ["time", "throughput", "cost"])
@pytest.mark.parametrize("stages", [("abcd",), ("ab", "cd"), ("ac", "bd"), ("a", "bcd")])
@pytest.mark.parametrize("rule", ["sum", "relay"])
def test_a_feasible_plan_keeps_every_row_and_has_its_value(
    objective: str, stages: tuple[str, ...], rule: str
) -> None:
    """Read back it is the same plan."""
    formulation = GraphFormulation(diamond(objective=objective, stage_cost=rule))
    plan = of_letters(*stages)
    faults, model = broken(formulation, plan)
    assert faults == set()
    target = model.objectives[0]
    assert target.to_plan(target.expression.value()) == pytest.approx(formulation.evaluate(plan)[0])
    assert model.decode(lambda variable: variable.varValue) == tuple(plan)


@pytest.mark.parametrize(
    ("changes", "plan", "row"),
    [
        ({}, of_letters("cd", "ab"), "order"),
        ({}, of_letters("ab", "c"), "placed"),
        ({"hourly_budget_usd": 1}, of_letters("ab", "cd"), "hourly"),
        ({"cost_limit_usd": 9 / 3600, "objective": "time"}, of_letters("ab", "cd"), "cost"),
        ({"throughput_floor_samples_per_s": 0.25}, of_letters("ab", "cd"), "adds"),
    ],
)
def test_other_plans_break_a_row(changes: dict[str, Any], plan: list[Stage], row: str) -> None:
    """Order, layers left out, budget, cost limit, and the floor, at which τ is 1."""
    faults, _ = broken(GraphFormulation(diamond(**changes)), plan)
    assert row in faults


def test_memory_and_layers_that_cannot_run() -> None:
    """Two units of 2 GiB hold two layers of 1 GiB each; a layer for the CPU alone is not run by a GPU."""
    layers = [
        {"name": name, "compute_s": {"gpu": 1.0}, "compute_parallel": 0, "memory_gib": 1.0} for name in "abcd"
    ]
    layers[3]["compute_s"] = {"cpu": 1.0}
    types = [
        {"name": "gpu", "price_usd_per_hour": 1, "limit": 2, "memory_gib": 2},
        {"name": "cpu", "price_usd_per_hour": 1, "limit": 1},
    ]
    formulation = GraphFormulation(diamond(layers=layers, types=types))
    assert options_of(formulation) == [Option(0, 1), Option(1, 1)]
    good = [*of_letters("ab", "c"), stage_of([3], "cpu", 1)]
    assert broken(formulation, good)[0] == set()
    assert "memory" in broken(formulation, [*of_letters("abc"), stage_of([3], "cpu", 1)])[0]
    assert "unable" in broken(formulation, of_letters("ab", "cd"))[0]


def test_a_cut_tensor_is_paid() -> None:
    """A slot with b alone cuts the tensor of a and its own."""
    _, model = broken(GraphFormulation(diamond(3)), of_letters("a", "b", "cd"))
    cut = {v.name for v in model.problem.variables() if v.name.startswith("h_") and v.varValue}
    tensors = {int(name.split("_")[1]) for name in cut if name.endswith("_1")}
    assert len(tensors) == 2


def test_what_crosses_a_stage_that_relays_is_paid() -> None:
    """The slots cut the tensor of a; of a and b; of b and c; none. The floor allows 5 s, and b takes 6."""
    rows = diamond_rows(5.0, 1.0, 2.0, 9.0)
    plan = of_letters("a", "b", "c", "d")
    given = {"layers": rows, "stage_cost": "relay"}
    faults, model = broken(GraphFormulation(diamond(4, **given)), plan)
    assert faults == set()
    cut = {v.name for v in model.problem.variables() if v.name.startswith("h_") and v.varValue}
    assert {d: sum(name.endswith(f"_{d}") for name in cut) for d in range(4)} == {0: 1, 1: 2, 2: 2, 3: 0}
    slow, _ = broken(GraphFormulation(diamond(4, throughput_floor_samples_per_s=0.2, **given)), plan)
    assert slow == {"communicating", "receiving"}


def test_units_without_any_limit_are_refused() -> None:
    """With a line that names the type; chains keep their own model."""
    endless = diamond(types=[{"name": "gpu", "price_usd_per_hour": 1}], most_units_per_stage=None)
    with pytest.raises(TooLargeError, match="'gpu' has no limit"):
        milp_of(GraphFormulation(endless))
    few = diamond(types=[{"name": "gpu", "price_usd_per_hour": 1}])
    assert options_of(GraphFormulation(few)) == [Option(0, 1)]
    chain = milp_of(formulation_of(two_layers()))
    names = itertools.chain.from_iterable(v.name.split("_") for v in chain.problem.variables())
    assert "h" not in names
