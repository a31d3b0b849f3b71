"""Muri's simulator on a trace that is followed by hand, and what it refuses.

Compiled loops of Muri's simulator, on what is followed by hand.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from malleable_instances import rigid_jobs, rows_of
from muri import arrival_events, least_attained, simulate

from clusterplan.instances.common.errors import OptionError
from clusterplan.instances.scheduling.instance import SchedulingInstance


def trace(*jobs: tuple[float, int, float], **others: Any) -> SchedulingInstance:
    """Return jobs of (arrival, GPUs, duration) on two servers of four GPUs."""
    rows = [{**row, "model": "dqn"} for row in rigid_jobs(*jobs)]
    servers = [{"name": "n", "count": 2, "capacity": {"gpu": 4}}]
    return SchedulingInstance.model_validate({"name": "t", "servers": servers, "jobs": rows, **others})


def test_every_event_costs_its_overhead_and_ends_ignore_it() -> None:
    """The first job has lost 5 s at 20 s, so that it ends at 105 s and not at 100 s."""
    assert rows_of(simulate(trace((0, 1, 100), (20, 1, 200)), "srtf"))[0] == (0, 0, 105)


def test_a_job_needs_one_server_if_it_fits_one() -> None:
    """Three GPUs on each server leave no two together."""
    there = trace((0, 3, 50), (0, 3, 50), (0, 2, 60))
    assert rows_of(simulate(there, "srtf"))[2][1] == 50
    assert rows_of(simulate(there, "las"))[2][1] == 0


def test_jobs_larger_than_a_server_need_idle_ones() -> None:
    """Six GPUs are one whole server and two of another."""
    there = trace((0, 2, 50), (0, 6, 60), (0, 1, 70))
    assert [row[1] for row in rows_of(simulate(there, "srtf"))] == [0, 0, 50]


@pytest.mark.parametrize(
    ("others", "needed"),
    [
        ({"preemption": "none"}, "preemption: free"),
        ({"lease_s": 5}, "no lease"),
        ({"events": [{"at_s": 5, "server": "n-0", "change": {"gpu": 1}}]}, "no events"),
        ({"servers": [{"name": "n", "capacity": {"gpu": 4, "cpu": 1}}]}, "one resource, gpu"),
    ],
)
def test_what_it_does_not_know_is_refused(others: dict[str, Any], needed: str) -> None:
    """With what it needs."""
    with pytest.raises(OptionError, match=f"Muri's simulator needs {needed}"):
        simulate(trace((0, 1, 100), **others), "srtf")


def test_arrivals_that_are_close_are_one_event() -> None:
    """Relatively by 1e-9."""
    times = np.array([1e7, 1e7 + 0.005, 1e7 + 1])
    assert arrival_events(times).tolist() == [1e7, 1e7, 1e7 + 1]


def test_a_job_that_reaches_its_limit_gives_way() -> None:
    """The first job has had 10 GPU-s after 5 s, when the second, which waits, takes its place."""
    found = least_attained(
        np.zeros(2),
        np.array([8.0, 4.0]),
        np.ones(2),
        np.array([2, 2]),
        np.zeros(2),
        np.array([10.0]),
        2,
    )
    assert found.tolist() == [[0, 0, 5], [1, 5, 9], [0, 9, 12]]
