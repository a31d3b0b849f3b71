"""Elementary bounds, in times that start long after 0."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from clusterplan.formulations.scheduling.check.elementary import (
    earliest_ends_s,
    least_makespan_s,
    least_mean_completion_s,
)
from clusterplan.instances.scheduling.instance import SchedulingInstance


def instance(start_s: float) -> SchedulingInstance:
    """Return two jobs on one GPU, which the second needs for 100 s."""
    jobs = [
        {"name": "a", "arrival_s": start_s, "demand": {"gpu": 1}, "duration_s": 1},
        {"name": "b", "arrival_s": start_s + 10, "demand": {"gpu": 1}, "duration_s": 100, "weight": 3},
    ]
    return SchedulingInstance.model_validate({"name": "t", "resources": {"gpu": 1}, "jobs": jobs})


@pytest.mark.parametrize("start_s", [0.0, 1.5e9])
def test_bounds_are_just_below_what_is_attained(start_s: float) -> None:
    """By what the check of plans tolerates, which does not grow with the date."""
    there = instance(start_s)
    assert earliest_ends_s(there) - start_s == pytest.approx([1, 110], abs=2e-5)
    mean, makespan = least_mean_completion_s(there), least_makespan_s(there)
    assert mean <= (1 + 3 * 100) / 4
    assert mean == pytest.approx((1 + 3 * 100) / 4, abs=2e-5)
    assert makespan <= 110
    assert makespan == pytest.approx(110, abs=2e-4)


def gang(name: str, arrival_s: float, gpus: int, duration_s: float) -> dict[str, object]:
    return {
        "name": name,
        "arrival_s": arrival_s,
        "tasks": gpus,
        "demand": {"gpu": 1},
        "duration_s": duration_s,
    }


def on_gpus(gpus: int, *jobs: dict[str, object]) -> SchedulingInstance:
    return SchedulingInstance.model_validate({"name": "t", "resources": {"gpu": gpus}, "jobs": jobs})


def test_jobs_that_come_late_need_their_time_after_they_came() -> None:
    """What ran before leaves no room for them."""
    there = on_gpus(1, gang("a", 0, 1, 1), gang("b", 10, 1, 5), gang("c", 10, 1, 5))
    assert 20 - 1e-4 < least_makespan_s(there) <= 20


def test_jobs_over_half_of_the_cluster_follow_each_other() -> None:
    """Two that take just half of it may run together, but not beside one that takes more."""
    wide = [gang("a", 0, 2, 10), gang("b", 0, 2, 10)]
    assert 20 - 1e-4 < least_makespan_s(on_gpus(3, *wide)) <= 20
    assert 10 - 1e-4 < least_makespan_s(on_gpus(4, *wide)) <= 10
    assert 14 - 1e-4 < least_makespan_s(on_gpus(4, *wide, gang("c", 0, 3, 4))) <= 14


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
    there = on_gpus(gpus, *(gang(f"j{k}", arrival, g, d) for k, (arrival, g, d) in enumerate(jobs)))
    assert least_makespan_s(there) <= shortest(gpus, jobs)


def test_jobs_below_half_of_the_cluster_take_nothing_from_those_over_half() -> None:
    """They may run beside them, and do not make the bound weaker."""
    there = on_gpus(4, gang("a", 0, 3, 10), gang("b", 0, 3, 10), gang("c", 0, 1, 10))
    assert 20 - 1e-4 < least_makespan_s(there) <= 20
