"""Bounds are on the safe side of what the check of plans tolerates, and of rounding."""

from __future__ import annotations

import math

import numpy as np
import pytest

from clusterplan.formulations.common.objective import TOLERANCE
from clusterplan.formulations.scheduling.certificate import PriceGrid
from clusterplan.formulations.scheduling.check import price_bound as module
from clusterplan.formulations.scheduling.check.elementary import earliest_ends_s, least_mean_completion_s
from clusterplan.formulations.scheduling.check.price_bound import (
    least_costs,
    price_bound,
    priced_capacity,
    relative_weights,
)
from clusterplan.formulations.scheduling.formulation import SchedulingFormulation
from clusterplan.formulations.scheduling.plan import Segment
from clusterplan.instances.scheduling.instance import SchedulingInstance


def two_jobs() -> SchedulingInstance:
    """Return two jobs of unlike weight on one GPU each."""
    jobs = [
        {"name": "a", "demand": {"gpu": 1}, "arrival_s": 5, "duration_s": 100, "weight": 3},
        {"name": "b", "demand": {"gpu": 1}, "arrival_s": 7, "duration_s": 50},
    ]
    return SchedulingInstance.model_validate({"name": "t", "resources": {"gpu": 2}, "jobs": jobs})


@pytest.mark.parametrize("part", [0.5, 0.99])
def test_no_plan_that_is_accepted_ends_before_the_bound(part: float) -> None:
    """Each job ends early by as much as is tolerated, or by a half of it."""
    instance = two_jobs()
    formulation = SchedulingFormulation(instance)
    jobs = instance.table()
    whole = jobs.arrival_s + jobs.duration_s
    ends = whole - part * TOLERANCE * (jobs.duration_s + whole - 5)
    names = zip(jobs.names, jobs.arrival_s.tolist(), ends.tolist(), strict=True)
    plan = [Segment(job=name, start_s=start, end_s=end) for name, start, end in names]
    assert formulation.violations(plan) == []
    assert (earliest_ends_s(instance) <= ends).all()
    assert least_mean_completion_s(instance) <= formulation.evaluate(plan)[0]
    assert (earliest_ends_s(instance) >= whole * (1 - 3 * TOLERANCE)).all()


def test_capacity_is_priced_with_what_is_granted_beside_it() -> None:
    """Two GPUs for ten seconds at a price of 3, and more by more than the check of plans tolerates."""
    grid = PriceGrid(np.array([0.0, 10.0]), np.array([[3.0], [0.0]]))
    assert 60 * (1 + TOLERANCE) <= priced_capacity(two_jobs(), grid) <= 60 * (1 + 4 * TOLERANCE)


def test_the_bound_of_prices_is_rounded_down() -> None:
    """By more than the sums that it is made of may be rounded up, also of a few jobs."""
    instance = two_jobs()
    grid = PriceGrid(np.array([0.0, 20.0]), np.array([[0.01], [0.0]]))
    weight = relative_weights(instance)
    least = math.fsum(least_costs(instance, grid, weight))
    exact = (least - priced_capacity(instance, grid)) / math.fsum(weight)
    assert exact > 0
    assert exact * (1 - 200 * module.UNIT) <= price_bound(instance, grid) <= exact * (1 - 16 * module.UNIT)
