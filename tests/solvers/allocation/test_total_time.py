"""Least total completion time against brute force."""

from __future__ import annotations

import numpy as np
import pytest
from random_instances import random_allocation

import clusterplan
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


def knapsack(groups: int, resources: int) -> AllocationFormulation:
    """Return groups of four items that take integers of each resource, of which half is there."""
    rng = np.random.default_rng(1)
    names = [f"r{index}" for index in range(resources)]
    jobs = []
    for group in range(groups):
        taken = rng.integers(0, 10, (4, resources))
        times = 10 * resources + 10 - taken.sum(axis=1) + rng.random(4)
        variants = [
            {
                "name": str(item),
                "worker_demand": dict(zip(names, taken[item].tolist(), strict=True)),
                "workers": {"min": 1, "max": 1},
                "speed": {"model": "ring_allreduce", "theta": [0, times[item], 0, 0], "batch": 1},
            }
            for item in range(4)
        ]
        jobs.append({"name": str(group), "remaining_steps": 1, "variants": variants})
    resource = dict.fromkeys(names, 5 * groups)
    data = {
        "schema_version": 1,
        "kind": "allocation",
        "name": "knapsack",
        "resources": resource,
        "jobs": jobs,
    }
    instance = clusterplan.parse_instance(data)
    assert isinstance(instance, AllocationInstance)
    return AllocationFormulation(instance)


@pytest.mark.parametrize(
    ("resources", "limit_s", "better"), [(6, 60.0, True), (6, None, True), (6, 1.0, False), (3, 60.0, False)]
)
def test_pairs_are_searched_where_many_limits_have_prices(
    resources: int, limit_s: float | None, better: bool
) -> None:
    """They improve the rounded plan; with few prices or little time they are left alone."""
    search = TotalTimeSearch(knapsack(40, resources), SolveOptions(threads=1), Clock(limit_s))
    reduced = search.problem.reduced_costs(search.prices)
    search.first_plan(reduced)
    before = search.value
    assert search.wants_pairs is better
    if better:
        assert search.incumbent is not None
        search.search_pairs(search.incumbent, reduced)
        assert not search.wants_pairs
        assert search.value < before
        assert search.bound <= search.value
        assert search.problem.fits(search.incumbent)
