"""The certificate that the exact search writes, and the incumbent that it begins with."""

from __future__ import annotations

import math

import numpy as np
import pytest
from staging_instances import half_serial

from clusterplan.formulations.staging.formulation import StagingFormulation
from clusterplan.solvers.common.result import SolveOptions
from clusterplan.solvers.staging.exact import certificate, incumbent_of, intervals_of
from clusterplan.solvers.staging.intervals import Cheapest, Fastest, Interval


def interval(low: float, high: float, price: float, counts_cost: bool = True) -> Interval:
    return Interval(low, high, np.zeros(1), np.zeros(1), np.array([price]), counts_cost)


def test_intervals_become_those_of_a_certificate() -> None:
    """The stage times before the first are one more; the last goes on for ever."""
    formulation = StagingFormulation(half_serial())
    found = intervals_of(formulation, [interval(0.5, 0.7, 2.0, False), interval(0.7, 1.0, 0.0)], 1.0)
    assert found == [
        {"until_s": math.nextafter(0.5, 0)},
        {"until_s": 0.7, "prices": {"t": 2.0}, "counts_cost": False},
        {"until_s": 1e100},
    ]


def test_a_cutoff_lies_just_beyond_the_bound() -> None:
    """Below a cost, above a throughput; there is none for a bound that the form does not hold."""
    cost = certificate(StagingFormulation(half_serial()), [], 2.0, 1.0)
    assert cost is not None
    assert 2.0 * (1 - 1e-8) < cost["cutoff"] < 2.0
    speed = certificate(StagingFormulation(half_serial(objective="throughput")), [], 2.0, 1.0)
    assert speed is not None
    assert 2.0 < speed["cutoff"] < 2.0 * (1 + 1e-8)
    assert certificate(StagingFormulation(half_serial()), [], 1e101, 1.0) is None


def test_the_objective_decides_what_is_searched_for() -> None:
    """The fastest plan for throughput and time, within the cost limit."""
    assert isinstance(incumbent_of(StagingFormulation(half_serial()), SolveOptions()), Cheapest)
    fast = incumbent_of(StagingFormulation(half_serial(objective="time", cost_limit_usd=2)), SolveOptions())
    assert isinstance(fast, Fastest)
    assert fast.cost_limit_usd == pytest.approx(2)
