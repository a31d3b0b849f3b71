"""Enumeration and diagnosis of staging, and the registration of its solvers."""

from __future__ import annotations

from typing import Any

import pytest
from staging_instances import alone, half_serial, two_layers

import clusterplan
from clusterplan.formulations.common.objective import Diagnosis
from clusterplan.formulations.staging.formulation import StagingFormulation
from clusterplan.solvers.common.base import Clock
from clusterplan.solvers.common.result import SolveOptions
from clusterplan.solvers.staging.brute_force import StagingBruteForce
from clusterplan.solvers.staging.diagnose import diagnose, slow_layer_notes
from clusterplan.solvers.staging.exact import StagingExact
from clusterplan.solvers.staging.kind import STAGING


def test_the_diagnosis_names_what_is_out_of_reach() -> None:
    """Four units reach 1.6 samples/s; the cheapest plan costs one dollar."""
    floor = diagnose(StagingFormulation(half_serial(4, throughput_floor_samples_per_s=1.7)), None, Clock())
    assert "highest throughput within the limits is 1.6 samples/s" in floor.reasons[0]
    assert "lower the floor to 1.59998" in floor.remedies[0]
    money = diagnose(StagingFormulation(half_serial(4, cost_limit_usd=0.9)), None, Clock())
    assert "without the cost limit of 0.9 USD the cheapest plan takes 1 USD" in money.reasons[0]
    assert diagnose(StagingFormulation(half_serial(4)), None, Clock()) is None


def test_layers_that_are_too_slow_alone_are_listed_by_type() -> None:
    """At 0.7 samples/s a stage has 2.86 s: too short for `a` on `slow` only if one unit were all."""
    one = two_layers(
        throughput_floor_samples_per_s=0.7,
        types=[
            {"name": "slow", "price_usd_per_hour": 1, "limit": 1},
            {"name": "fast", "price_usd_per_hour": 5},
        ],
    )
    assert slow_layer_notes(StagingFormulation(one)) == [
        "on all 1 slow, too slow for the floor even alone: 'a', 'b'"
    ]


def chain(
    *held: float, limit: int | None = 9, room: float | None = 3.0, types: int = 1, **fields: Any
) -> StagingFormulation:
    """Return layers of a second that hold so many GiB, on units of 3 GiB."""
    kinds = [f"t{index}" for index in range(types)]
    layers = [
        {"name": f"l{k}", "memory_gib": gib, "compute_s": dict.fromkeys(kinds, 1.0), "compute_parallel": 0}
        for k, gib in enumerate(held)
    ]
    hardware = [
        {"name": name, "price_usd_per_hour": 1.0, "limit": limit, "memory_gib": room} for name in kinds
    ]
    return StagingFormulation(half_serial(layers=layers, types=hardware, **fields))


def found(formulation: StagingFormulation) -> Diagnosis:
    """Return the diagnosis, after counting as before a solve."""
    diagnosis = diagnose(formulation, formulation.elementary_infeasibility(), Clock())
    assert diagnosis is not None
    return diagnosis


def test_the_stage_rule_and_memory_are_named() -> None:
    """Three layers of 2 GiB need three stages of one type, or a unit of 6 GiB."""
    diagnosis = found(chain(2, 2, 2))
    rule, memory = diagnosis.reasons
    assert (
        "maximal_runs allows no two neighbouring stages of one type; with free_cuts there is a plan" in rule
    )
    assert "3 stages on t0" in rule
    assert memory.startswith(
        "memory is too small: for layers 'l0' to 'l2' a unit of t0 needs 6 GiB and has 3"
    )
    assert diagnosis.remedies[0] == "set stage_rule to free_cuts (at import: --stage-rule free_cuts)"
    assert diagnosis.remedies[1].startswith("raise the memory of t0 to 6.0000")


def test_the_least_memory_is_looked_for() -> None:
    """Two units of 4 GiB would do, where without any limit one would take all 8."""
    diagnosis = found(chain(2, 2, 2, 2, limit=2, stage_rule="free_cuts"))
    (memory,) = diagnosis.reasons
    assert "for layers 'l0' to 'l1' a unit of t0 needs 4 GiB and has 3" in memory
    assert diagnosis.remedies[0].startswith("raise the memory of t0 to 4.0000")


def test_layers_that_fit_nowhere_need_memory() -> None:
    """Counting says which; the search says how much is enough."""
    diagnosis = found(chain(5, 1, 5, stage_rule="free_cuts"))
    assert diagnosis.reasons[0] == (
        "2 layers fit no device: 'l0', 'l2'; 'l0' needs 5 GiB, and a unit of t0 has 3"
    )
    assert diagnosis.remedies[0].startswith("raise the memory of t0 to 5.0000")


def test_units_are_named_where_nothing_else_explains() -> None:
    """Each layer runs on a type of its own, and the first is needed twice."""
    layers = [
        {"name": name, "compute_s": {kind: 1.0}, "compute_parallel": 0}
        for name, kind in zip("abc", "sts", strict=True)
    ]
    types = [{"name": name, "price_usd_per_hour": 1.0, "limit": 1} for name in "st"]
    diagnosis = found(StagingFormulation(half_serial(layers=layers, types=types)))
    assert diagnosis.reasons == ("with any number of units there is a plan, and it takes 2 s of 1",)
    assert diagnosis.remedies == ("raise the limit of s to 2",)


def test_what_stands_in_the_way_beside_the_floor() -> None:
    """Two units hold no three layers apart, and a larger one is too slow for the floor."""
    diagnosis = found(chain(2, 2, 2, limit=2, throughput_floor_samples_per_s=0.9))
    (memory,) = diagnosis.reasons
    assert memory.startswith(
        "even without the floor, memory is too small: for layers 'l0' to 'l2' a unit of t0"
    )


def test_types_alike_are_one_line() -> None:
    """Two types on which the same layers are too slow."""
    formulation = chain(0, 0, types=2, throughput_floor_samples_per_s=1.5)
    assert slow_layer_notes(formulation) == [
        "on all 9 t0 or all 9 t1, too slow for the floor even alone: 'l0', 'l1'"
    ]


@pytest.mark.parametrize("solver", [StagingBruteForce(), StagingExact()], ids=lambda one: one.name)
@pytest.mark.parametrize(
    ("fields", "best"),
    [({}, 1), ({"throughput_floor_samples_per_s": 1.2}, 2), ({"objective": "time"}, 4)],
)
def test_the_best_number_of_units(solver: Any, fields: dict[str, Any], best: int) -> None:
    """One is the cheapest, two keep a floor of 1.2 samples/s, all four are the fastest."""
    outcome = solver.solve(StagingFormulation(half_serial(4, **fields)), SolveOptions(), Clock())
    assert tuple(outcome.plan) == (alone(best),)
    assert not outcome.infeasible


@pytest.mark.parametrize("solver", [StagingBruteForce(), StagingExact()], ids=lambda one: one.name)
def test_no_plan_is_faster_than_the_serial_part(solver: Any) -> None:
    """Two samples a second would take infinitely many units."""
    formulation = StagingFormulation(half_serial(4, throughput_floor_samples_per_s=1.9))
    assert solver.solve(formulation, SolveOptions(), Clock()).infeasible


def test_quick_methods_find_a_plan_with_the_options_that_are_registered() -> None:
    """In both ways of provisioning."""
    instance = half_serial(4)
    for name, options in STAGING.quick:
        result = clusterplan.solve(instance, name, SolveOptions(method_options=dict(options)))
        assert result.objective == pytest.approx(1.0), (name, options)
    assert STAGING.exact.proves
    assert {"greedy", "genetic", "cp-sat", "brute-force"} <= {solver.name for solver in STAGING.solvers}
