"""The what-if: one sentence about each type that is used up."""

from __future__ import annotations

from staging_instances import half_serial, two_layers

from clusterplan.formulations.staging.formulation import StagingFormulation
from clusterplan.formulations.staging.plan import Stage
from clusterplan.solvers.staging.what_if import what_if


def units(count: int) -> tuple[Stage, ...]:
    return (Stage(first_layer=0, last_layer=0, type="t", units=count),)


def test_the_saving_is_that_of_the_plan_without_the_limit() -> None:
    """3600 probe batches take 0.75 s each on two units, 0.6 s on five."""
    formulation = StagingFormulation(half_serial(2, objective="time"))
    asked: list[int | None] = []

    def solve(other: StagingFormulation) -> tuple[Stage, ...]:
        asked.append(other.instance.types[0].limit)
        return units(5)

    assert "t: 3 more units, 540 s less" in what_if(formulation, units(2), solve)
    assert asked == [None]


def test_no_gain_and_no_time_are_said() -> None:
    """The same plan gains nothing; a search without time says so."""
    formulation = StagingFormulation(half_serial(2, objective="time"))
    assert what_if(formulation, units(2), lambda _: units(2)).endswith("t: nothing")
    assert what_if(formulation, units(2), lambda _: None).endswith("t: no time to tell")


def test_types_that_are_left_over_are_not_asked_about() -> None:
    """Then nothing is solved at all."""
    plan = (Stage(first_layer=0, last_layer=1, type="slow", units=1),)

    def solve(other: StagingFormulation) -> None:
        raise AssertionError(other)

    assert "no type is used up" in what_if(StagingFormulation(two_layers()), plan, solve)
