"""Least total completion time against brute force."""

from __future__ import annotations

import pytest
from random_instances import random_allocation

from clusterplan.formulations.allocation.formulation import AllocationFormulation
from clusterplan.instances.allocation.instance import AllocationInstance
from clusterplan.solvers.allocation.brute_force import AllocationBruteForce
from clusterplan.solvers.allocation.total_time import TotalTimeSearch
from clusterplan.solvers.common.base import Clock
from clusterplan.solvers.common.options import SolveOptions


@pytest.mark.parametrize("cores", [True, False])
def test_plans_and_bounds_enclose_the_optimum(cores: bool) -> None:
    """With cores both reach it; without, the bound is below and the plan above."""
    compared = 0
    for seed in range(60):
        instance = random_allocation(seed)
        assert isinstance(instance, AllocationInstance)
        formulation = AllocationFormulation(
            instance.model_copy(update={"objective": "total_completion_time"})
        )
        if formulation.elementary_infeasibility() is not None:
            continue
        options = SolveOptions(threads=1)
        best = AllocationBruteForce().solve(formulation, options, Clock(None))
        found = TotalTimeSearch(formulation, options, Clock(None), cores).run()
        if best.plan is None:
            assert found.plan is None
            assert found.infeasible or not cores
            continue
        compared += 1
        optimum = formulation.evaluate(best.plan)[0]
        assert found.bounds[0] is not None
        assert found.bounds[0] <= optimum * (1 + 1e-9)
        if found.plan is not None:
            assert not formulation.violations(found.plan)
            assert formulation.evaluate(found.plan)[0] >= optimum * (1 - 1e-9)
        if cores:
            assert found.plan is not None
            assert formulation.evaluate(found.plan)[0] == pytest.approx(optimum, rel=1e-6)
            assert found.bounds[0] == pytest.approx(optimum, rel=1e-5)
    assert compared > 20
