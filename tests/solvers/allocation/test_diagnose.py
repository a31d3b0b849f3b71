"""Enumeration and diagnosis of allocations, and the registration of their solvers."""

from __future__ import annotations

import math

import pytest
from allocation_instances import allocation, measured
from random_instances import random_allocation
from small_models import best_choice

from clusterplan.formulations.allocation.formulation import AllocationFormulation
from clusterplan.instances.allocation.generate import generate_allocation
from clusterplan.instances.common.errors import ClusterplanError
from clusterplan.solvers.allocation.exact import AllocationBruteForce, AllocationExact, diagnose
from clusterplan.solvers.allocation.kind import ALLOCATION
from clusterplan.solvers.allocation.lagrangian import MultipleChoice
from clusterplan.solvers.common.base import Clock
from clusterplan.solvers.common.result import SolveOptions


def either(gpu: float, cpu: float) -> AllocationFormulation:
    """Return four jobs that need two GPUs, or two CPUs, each."""
    jobs = [measured(name, (1, {"gpu": 2}), (1, {"cpu": 2})) for name in "abcd"]
    return AllocationFormulation(allocation({"gpu": gpu, "cpu": cpu}, jobs))


def test_the_least_missing_capacity_is_named() -> None:
    """Two units are missing; relative to what there is, two CPUs are fewer than two GPUs."""
    formulation = either(2, 4)
    assert formulation.elementary_infeasibility() is None
    found = diagnose(formulation, None, Clock(None))
    assert found.reasons == ("cpu: 2 more than the 4 there are would be needed",)
    assert found.remedies == ("raise cpu to 6",)


def test_what_is_known_is_kept_and_a_feasible_instance_misses_nothing() -> None:
    """The elastic model is only solved where nothing is known."""
    known = either(1, 1).elementary_infeasibility()
    assert known is not None
    assert diagnose(either(1, 1), known, Clock(None)) is known
    assert diagnose(either(4, 4), None, Clock(None)) is None


def test_the_optimum_is_that_of_plain_enumeration() -> None:
    """Of the total completion time."""
    compared = 0
    for seed in range(40):
        instance = random_allocation(seed)
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


def test_every_method_is_listed_once() -> None:
    """Names are those of the documentation."""
    names = [ALLOCATION.exact.name, *(solver.name for solver in ALLOCATION.solvers)]
    assert sorted(names) == [
        "brute-force",
        "cp-sat",
        "exact",
        "geometric",
        "lagrangian",
        "marginal-gain",
        "marginal-gain-joint",
        "minlp",
    ]
    assert isinstance(ALLOCATION.exact, AllocationExact)
    assert ALLOCATION.exact.proves
    assert all(solver.kinds == ("allocation",) for solver in ALLOCATION.solvers)
