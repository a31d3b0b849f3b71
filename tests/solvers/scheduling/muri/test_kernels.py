"""Compiled loops of Muri's simulator, on what is followed by hand."""

from __future__ import annotations

import numpy as np

from clusterplan.solvers.scheduling.muri.kernels import arrival_events, least_attained


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
