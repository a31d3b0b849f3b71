"""Elementary bounds, in times that start long after 0."""

from __future__ import annotations

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
