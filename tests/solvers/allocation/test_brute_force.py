"""Implicit enumeration against plain enumeration."""

from __future__ import annotations

import math

import pytest
from random_instances import random_allocation
from small_knapsacks import best_choice

from clusterplan.formulations.allocation.formulation import AllocationFormulation
from clusterplan.instances.allocation.generate import generate_allocation
from clusterplan.instances.allocation.instance import AllocationInstance
from clusterplan.instances.common.errors import ClusterplanError
from clusterplan.solvers.allocation.exact import AllocationBruteForce
from clusterplan.solvers.allocation.lagrangian import MultipleChoice
from clusterplan.solvers.common.base import Clock
from clusterplan.solvers.common.result import SolveOptions


def test_the_optimum_is_that_of_plain_enumeration() -> None:
    """Of the total completion time."""
    compared = 0
    for seed in range(40):
        instance = random_allocation(seed)
        assert isinstance(instance, AllocationInstance)
        formulation = AllocationFormulation(
            instance.model_copy(update={"objective": "total_completion_time"})
        )
        configs = formulation.configurations
        if formulation.elementary_infeasibility() is not None or len(configs.time_s) > 30:
            continue
        value, _ = best_choice(MultipleChoice.of(configs, configs.cost))
        found = AllocationBruteForce().solve(formulation, SolveOptions(), Clock(None))
        compared += 1
        assert found.infeasible == math.isinf(value)
        if found.plan is not None:
            assert formulation.evaluate(found.plan)[0] == pytest.approx(value)
            assert found.bounds[0] == pytest.approx(value)
    assert compared > 10


def test_many_jobs_are_refused() -> None:
    """There is a limit."""
    formulation = AllocationFormulation(generate_allocation(2000, 1, seed=1))
    with pytest.raises(ClusterplanError, match="jobs"):
        AllocationBruteForce().solve(formulation, SolveOptions(), Clock(None))
