"""What a certificate proves, on two jobs whose optimum is known."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from clusterplan.formulations.allocation.check.bound import certified_bound
from clusterplan.formulations.allocation.check.configurations import CheckedConfigurations
from clusterplan.formulations.common.clock import Clock


def two_jobs(gpus: float) -> CheckedConfigurations:
    """Return two jobs that take 10 s with one GPU and 4 s with three."""
    return CheckedConfigurations(
        np.array([0, 2, 4]),
        np.array([10.0, 4.0, 10.0, 4.0]),
        np.array([[1.0], [3.0], [1.0], [3.0]]),
        np.array([1.0, 1.0]),
        ("gpu",),
        np.array([gpus]),
    )


def proven(gpus: float, price: float, cutoff: float | None, makespan: bool = False) -> float:
    """Return the bound of a certificate with one price."""
    data: dict[str, Any] = {"prices": {"gpu": price}, "cutoff": cutoff}
    found = certified_bound(two_jobs(gpus), makespan, data)
    assert found is not None
    return found


def test_enumeration_closes_what_prices_leave_open() -> None:
    """With five GPUs one job can be fast: 14 s; the best price alone proves 11."""
    assert proven(5, 3.0, 13.99) == 13.99
    assert proven(5, 3.0, 14.5) == pytest.approx(11)


def test_without_time_to_enumerate_the_bound_of_the_prices_stays() -> None:
    """With six GPUs one of three jobs can be fast: 24 s; the best price alone proves 21."""
    three = CheckedConfigurations(
        np.array([0, 2, 4, 6]),
        np.tile([10.0, 4.0], 3),
        np.tile([[1.0], [3.0]], (3, 1)),
        np.ones(3),
        ("gpu",),
        np.array([6.0]),
    )
    certificate = {"prices": {"gpu": 3.0}, "cutoff": 23.99}
    assert certified_bound(three, False, certificate) == 23.99
    with Clock(0.0).enforced():
        assert certified_bound(three, False, certificate) == pytest.approx(21)


def test_a_cutoff_above_the_optimum_is_not_certified() -> None:
    """Whatever the price."""
    assert all(proven(5, price, 15.0) <= 14 for price in (0.0, 1.0, 3.0, 10.0))


def test_that_there_is_no_plan_is_proven_by_prices_or_enumeration() -> None:
    """One GPU is not enough for two jobs; two are."""
    assert proven(1, 100.0, None) == math.inf
    assert proven(1, 0.0, None) == math.inf
    assert proven(2, 0.0, None) < math.inf


def test_the_makespan() -> None:
    """With five GPUs not both jobs are fast, so that 10 s is the optimum; with six both are."""
    assert proven(5, 1.0, 10.0, makespan=True) == 10
    assert proven(5, 0.0, 10.0, makespan=True) == 10
    assert proven(6, 1.0, 10.0, makespan=True) == 4


def test_a_malformed_certificate_proves_nothing() -> None:
    """It has no bound."""
    assert certified_bound(two_jobs(5), False, {"prices": {"gpu": -1}}) is None
    assert certified_bound(two_jobs(5), False, "prices") is None
