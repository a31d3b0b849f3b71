"""Elementary bounds of schedules, and the margins that they grant to roundings."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from malleable_instances import rigid_trace

from clusterplan.formulations.common.objective import TOLERANCE
from clusterplan.formulations.scheduling.certificate import PriceGrid
from clusterplan.formulations.scheduling.check import price_bound as module
from clusterplan.formulations.scheduling.check.price_bound import (
    earliest_ends_s,
    job_cost_bounds,
    least_makespan_s,
    least_mean_completion_s,
    price_bound,
    priced_capacity,
    relative_weights,
)
from clusterplan.formulations.scheduling.formulation import SchedulingFormulation
from clusterplan.formulations.scheduling.plan import Segment
from clusterplan.instances.scheduling.instance import SchedulingInstance


def two_jobs(*jobs: tuple[float, float, float], gpus: float = 2) -> SchedulingInstance:
    """Return jobs of (arrival, duration, weight) on a GPU each; two of unlike weight if none are given."""
    rows = [
        {
            "name": "ab"[k],
            "demand": {"gpu": 1},
            "arrival_s": arrival,
            "duration_s": duration,
            "weight": weight,
        }
        for k, (arrival, duration, weight) in enumerate(jobs or ((5, 100, 3), (7, 50, 1)))
    ]
    return SchedulingInstance.model_validate({"name": "t", "resources": {"gpu": gpus}, "jobs": rows})


@pytest.mark.parametrize("start_s", [0.0, 1.5e9])
def test_bounds_are_just_below_what_is_attained(start_s: float) -> None:
    """By what the check of plans tolerates, which does not grow with the date."""
    there = two_jobs((start_s, 1, 1), (start_s + 10, 100, 3), gpus=1)
    assert earliest_ends_s(there) - start_s == pytest.approx([1, 110], abs=2e-5)
    mean, makespan = least_mean_completion_s(there), least_makespan_s(there)
    assert mean <= (1 + 3 * 100) / 4
    assert mean == pytest.approx((1 + 3 * 100) / 4, abs=2e-5)
    assert makespan <= 110
    assert makespan == pytest.approx(110, abs=2e-4)


@pytest.mark.parametrize(
    ("jobs", "gpus", "makespan_s"),
    [
        ([(0, 1, 1), (10, 1, 5), (10, 1, 5)], 1, 20),  # what ran before leaves no room for who comes late
        ([(0, 2, 10), (0, 2, 10)], 3, 20),  # over half of the cluster they follow each other
        ([(0, 2, 10), (0, 2, 10)], 4, 10),  # with just half of it they may run together,
        ([(0, 2, 10), (0, 2, 10), (0, 3, 4)], 4, 14),  # but not beside one that takes more;
        ([(0, 3, 10), (0, 3, 10), (0, 1, 10)], 4, 20),  # who takes less takes nothing from them
    ],
)
def test_late_and_wide_jobs_follow_each_other(
    jobs: list[tuple[int, int, int]], gpus: int, makespan_s: float
) -> None:
    """Just below what is attained."""
    assert makespan_s - 1e-4 < least_makespan_s(rigid_trace(*jobs, gpus=gpus)) <= makespan_s


def shortest(gpus: int, jobs: list[tuple[int, int, int]]) -> int:
    """Return the least makespan with preemption at whole seconds, by all subsets at every second."""
    states, now = {tuple(duration for _, _, duration in jobs)}, 0
    while (0,) * len(jobs) not in states:
        found = set()
        for left in states:
            ready = [j for j, (arrival, _, _) in enumerate(jobs) if arrival <= now and left[j]]
            for count in range(len(ready) + 1):
                for chosen in itertools.combinations(ready, count):
                    if sum(jobs[j][1] for j in chosen) <= gpus:
                        found.add(tuple(each - (j in chosen) for j, each in enumerate(left)))
        states, now = found, now + 1
    return now - min(arrival for arrival, _, _ in jobs)


@pytest.mark.parametrize("seed", range(60))
def test_no_schedule_of_a_tiny_trace_is_shorter(seed: int) -> None:
    """By exhaustive search; arrivals and durations are even, so that jobs may stop halfway through a unit."""
    rng = np.random.default_rng(seed)
    gpus = int(rng.integers(2, 5))
    jobs = [
        (2 * int(rng.integers(0, 4)), int(rng.integers(1, gpus + 1)), 2 * int(rng.integers(1, 3)))
        for _ in range(int(rng.integers(1, 5)))
    ]
    assert least_makespan_s(rigid_trace(*jobs, gpus=gpus)) <= shortest(gpus, jobs)


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
    least = math.fsum(job_cost_bounds(instance, grid))
    exact = (least - priced_capacity(instance, grid)) / math.fsum(relative_weights(instance))
    assert exact > 0
    assert exact * (1 - 200 * module.UNIT) <= price_bound(instance, grid) <= exact * (1 - 16 * module.UNIT)
