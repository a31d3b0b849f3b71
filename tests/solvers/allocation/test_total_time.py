"""Least total completion time against brute force."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from random_instances import random_allocation

import clusterplan
from clusterplan.formulations.allocation.formulation import AllocationFormulation
from clusterplan.instances.allocation.instance import AllocationInstance
from clusterplan.solvers.allocation.brute_force import AllocationBruteForce
from clusterplan.solvers.allocation.total_time import SETTINGS, TotalTimeSearch
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


@pytest.mark.parametrize(("limit_s", "wanted"), [(60.0, True), (None, True), (1.0, False)])
def test_pairs_are_searched_once_and_in_time(limit_s: float | None, wanted: bool) -> None:
    """They improve the rounded plan; with little time they are left alone."""
    search = TotalTimeSearch(knapsack(40, 6), SolveOptions(threads=1), Clock(limit_s))
    reduced = search.problem.reduced_costs(search.prices)
    assert not search.wants_pairs
    search.first_plan(reduced)
    before = search.value
    assert search.incumbent is not None
    assert search.wants_pairs is wanted
    if wanted:
        search.search_pairs(search.incumbent, reduced)
        assert not search.wants_pairs
        assert search.value < before
        assert search.bound <= search.value
        assert search.problem.fits(search.incumbent)


@pytest.mark.parametrize("resources", [3, 5])
def test_an_open_core_leads_to_pairs(resources: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The optimum is proven, whether the first cores are left after no node or solved."""
    formulation, options = knapsack(10, resources), SolveOptions(threads=1, gap=0)
    expected = TotalTimeSearch(formulation, options, Clock()).run()
    settings = replace(SETTINGS, first_core=6, nodes_of_partial_core=0, nodes_before_pairs=0)
    monkeypatch.setattr("clusterplan.solvers.allocation.total_time.SETTINGS", settings)
    search = TotalTimeSearch(formulation, options, Clock())
    outcome = search.run()
    assert search.searched_pairs
    assert outcome.bounds[0] == pytest.approx(expected.bounds[0])
    assert outcome.plan is not None
    assert expected.plan is not None
    assert formulation.evaluate(outcome.plan) == pytest.approx(formulation.evaluate(expected.plan))
    assert outcome.bounds[0] == pytest.approx(formulation.evaluate(outcome.plan)[0])
