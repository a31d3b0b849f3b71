"""What a certificate proves, on two jobs whose optimum is known."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from clusterplan.formulations.allocation.check import bound
from clusterplan.formulations.allocation.check.bound import certified_bound
from clusterplan.formulations.allocation.check.configurations import CheckedConfigurations
from clusterplan.formulations.allocation.check.dual_bound import (
    MARGIN,
    least_priced,
    price_bound,
    priced_capacity,
)
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


def test_each_figure_of_a_bound_is_wrong_by_its_margin_to_the_safe_side(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By at least half of it, so that no rounding of a sum makes a bound that is false."""
    configs, prices = two_jobs(5), np.array([3.0])
    least, capacity = least_priced(configs, prices, configs.cost), priced_capacity(configs, prices)
    half = MARGIN / 2 * (least + capacity)
    assert least - capacity - 4 * half <= price_bound(configs, prices) <= least - capacity - half
    asked: list[float] = []
    monkeypatch.setattr(bound, "_survivors", lambda *given: asked.append(given[-1]))
    certified_bound(configs, True, {"prices": {"gpu": 3.0}, "cutoff": 11.0})
    late = np.where(configs.time_s < 11.0, 0.0, math.inf)
    least = least_priced(configs, prices, late)
    half = MARGIN / 2 * (least + capacity)
    assert capacity - least + half <= asked[0] <= capacity - least + 4 * half


def test_a_configuration_at_the_threshold_survives_whatever_the_rounding() -> None:
    """Reduced costs of 6 s without a price: with a threshold that is short of it by a rounding, too."""
    configs, prices = two_jobs(5), np.zeros(1)
    for part, kept in ((0.0, 4), (3.0, 4), (1e9, 2)):
        left = bound._survivors(configs, configs.cost, prices, 6.0 * (1 - part * MARGIN))
        assert left is not None
        assert len(left.cost) == kept


def test_enumeration_is_left_where_too_many_configurations_survive(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside one of each job; here two more do."""
    monkeypatch.setattr(bound, "MOST_FREE", 2)
    assert proven(5, 3.0, 13.99) == 13.99
    monkeypatch.setattr(bound, "MOST_FREE", 1)
    assert proven(5, 3.0, 13.99) == pytest.approx(11)


def test_a_bound_within_the_margin_of_the_dearest_choice_excludes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each job has one configuration, so that prices of 0 prove just what it costs."""
    monkeypatch.setattr(bound, "MARGIN", 0.1)
    single = CheckedConfigurations(
        np.array([0, 1]), np.array([10.0]), np.array([[1.0]]), np.ones(1), ("gpu",), np.ones(1)
    )
    found = certified_bound(single, False, {"prices": {"gpu": 0.0}, "cutoff": None})
    assert found == pytest.approx(10.0)
