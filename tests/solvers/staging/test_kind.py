"""What staging registers among the solvers."""

from __future__ import annotations

import pytest
from staging_instances import half_serial

import clusterplan
from clusterplan.instances.staging.instance import StagingInstance
from clusterplan.solvers.common.result import SolveOptions
from clusterplan.solvers.staging.kind import STAGING


def test_quick_methods_find_a_plan_with_the_options_that_are_registered() -> None:
    """In both ways of provisioning."""
    instance = half_serial(4)
    assert isinstance(instance, StagingInstance)
    for name, options in STAGING.quick:
        result = clusterplan.solve(instance, name, SolveOptions(method_options=dict(options)))
        assert result.objective == pytest.approx(1.0), (name, options)
    assert STAGING.exact.proves
    assert {"greedy", "genetic", "cp-sat", "brute-force"} <= {solver.name for solver in STAGING.solvers}
