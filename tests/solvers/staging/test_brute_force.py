"""Best numbers of units of one layer, by enumeration and by the exact search: k units take (1 + 1/k)/2 s."""

from __future__ import annotations

from typing import Any

import pytest
from staging_instances import half_serial

from clusterplan.formulations.staging.formulation import StagingFormulation
from clusterplan.formulations.staging.stages import Stage
from clusterplan.solvers.common.base import Clock
from clusterplan.solvers.common.result import SolveOptions
from clusterplan.solvers.staging.brute_force import StagingBruteForce
from clusterplan.solvers.staging.exact import StagingExact


def units(count: int) -> Stage:
    return Stage(first_layer=0, last_layer=0, type="t", units=count)


@pytest.mark.parametrize("solver", [StagingBruteForce(), StagingExact()], ids=lambda one: one.name)
@pytest.mark.parametrize(
    ("fields", "best"),
    [({}, 1), ({"throughput_floor_samples_per_s": 1.2}, 2), ({"objective": "time"}, 4)],
)
def test_the_best_number_of_units(solver: Any, fields: dict[str, Any], best: int) -> None:
    """One is the cheapest, two keep a floor of 1.2 samples/s, all four are the fastest."""
    outcome = solver.solve(StagingFormulation(half_serial(4, **fields)), SolveOptions(), Clock())
    assert tuple(outcome.plan) == (units(best),)
    assert not outcome.infeasible


@pytest.mark.parametrize("solver", [StagingBruteForce(), StagingExact()], ids=lambda one: one.name)
def test_no_plan_is_faster_than_the_serial_part(solver: Any) -> None:
    """Two samples a second would take infinitely many units."""
    formulation = StagingFormulation(half_serial(4, throughput_floor_samples_per_s=1.9))
    assert solver.solve(formulation, SolveOptions(), Clock()).infeasible
