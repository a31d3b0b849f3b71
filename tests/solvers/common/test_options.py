"""Options of a solve."""

from __future__ import annotations

import pytest

import clusterplan
from clusterplan.solvers.common.result import SolveOptions


@pytest.mark.parametrize("example", ["heterps-ctr", "optimus-testbed", "tiresias-testbed"])
def test_the_plan_of_a_result_is_a_warm_start(example: str) -> None:
    """As it is, and as plain data."""
    instance = clusterplan.load(f"example:{example}")
    plan = clusterplan.solve(instance).plan
    assert plan is not None
    options = SolveOptions(warm_start=plan)
    assert options == SolveOptions(warm_start=[entry.model_dump(mode="json") for entry in plan])
    assert clusterplan.solve(instance, "exact", options).status == "optimal"
