"""Bounds of dual prices by hand, and against the implementation that the methods have."""

from __future__ import annotations

import math

import numpy as np
import pytest
from random_instances import random_allocation

from clusterplan.formulations.allocation.check.configurations import CheckedConfigurations
from clusterplan.formulations.allocation.check.dual_bound import (
    makespan_price_bound,
    price_bound,
    proves_none_before,
)
from clusterplan.formulations.allocation.formulation import AllocationFormulation
from clusterplan.instances.allocation.generate import generate_allocation
from clusterplan.instances.allocation.instance import AllocationInstance
from clusterplan.solvers.allocation.lagrangian import MultipleChoice, knapsack_bound, makespan_bound


def two_jobs() -> CheckedConfigurations:
    """Return two jobs that take 10 s with one GPU and 4 s with two, in a cluster of three GPUs."""
    return CheckedConfigurations(
        np.array([0, 2, 4]),
        np.array([10.0, 4.0, 10.0, 4.0]),
        np.array([[1.0], [2.0], [1.0], [2.0]]),
        np.array([1.0, 1.0]),
        ("gpu",),
        np.array([3.0]),
    )


@pytest.mark.parametrize(("price", "bound"), [(0, 8), (4, 12), (6, 14), (10, 10), (-5, 8)])
def test_the_lagrangian_bound_by_hand(price: float, bound: float) -> None:
    """L(λ) = 2·min(10 + λ, 4 + 2λ) − 3λ; the optimum is 14."""
    found = price_bound(two_jobs(), np.array([float(price)]))
    assert bound * (1 - 1e-8) <= found <= bound


def test_the_elementary_bounds_by_hand() -> None:
    """Alone in the cluster each job takes 4 s."""
    assert two_jobs().elementary_bound(makespan=False) == 8
    assert two_jobs().elementary_bound(makespan=True) == 4


@pytest.mark.parametrize("at_once", [1, 2, 3, 7])
def test_jobs_are_bounded_some_at_a_time(monkeypatch: pytest.MonkeyPatch, at_once: int) -> None:
    """Each is counted once, wherever the parts begin."""
    configs = AllocationFormulation(generate_allocation(7, 2, seed=1)).checked
    prices = np.full(len(configs.resources), 0.1)
    whole = price_bound(configs, prices)
    monkeypatch.setattr("clusterplan.formulations.allocation.check.dual_bound.JOBS_AT_ONCE", at_once)
    assert price_bound(configs, prices) == pytest.approx(whole, rel=1e-12)


def test_the_makespan_bound_by_hand() -> None:
    """Two jobs with two GPUs each take four of three, so that nothing ends before 10 s."""
    assert makespan_price_bound(two_jobs(), np.array([1.0])) == 10
    assert proves_none_before(two_jobs(), np.array([1.0]), 10)
    assert not proves_none_before(two_jobs(), np.array([1.0]), 10.1)
    assert makespan_price_bound(two_jobs(), np.array([0.0])) == 4


def test_a_job_without_a_configuration_has_no_plan() -> None:
    """Its bound is infinite."""
    empty = CheckedConfigurations(
        np.array([0, 0]), np.zeros(0), np.zeros((0, 1)), np.ones(1), ("gpu",), np.array([3.0])
    )
    assert makespan_price_bound(empty, np.zeros(1)) == math.inf
    assert empty.elementary_bound(makespan=True) is None


def test_the_methods_bounds_are_the_same() -> None:
    """Two implementations, hundreds of random prices, one figure."""
    compared = 0
    for seed in range(300):
        instance = random_allocation(seed)
        assert isinstance(instance, AllocationInstance)
        formulation = AllocationFormulation(instance)
        configs, derived = formulation.configurations, formulation.checked
        if derived.some_job_has_none:
            continue
        scale = 10.0 ** (seed % 7 - 3)
        prices = scale * np.random.default_rng(seed).random(len(configs.resources))
        problem = MultipleChoice.of(configs, configs.cost)
        assert knapsack_bound(problem, prices) == price_bound(derived, prices)
        assert makespan_bound(configs, prices) == makespan_price_bound(derived, prices)
        compared += 1
    assert compared > 200
