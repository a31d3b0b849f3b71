"""Jobs that start at one moment are placed together by consolidation's proven method."""

from __future__ import annotations

import numpy as np

import clusterplan.solvers.run  # noqa: F401  which says how documents are solved
from clusterplan.solvers.scheduling.placement.jointly import placed_together


def test_jobs_are_on_as_few_servers_as_possible_together() -> None:
    """One after the other, the first would take the server that the second needs."""
    free = np.array([[4.0], [3.0]])
    places = placed_together(free, np.array([[1.0], [1.0]]), [3, 4], None)
    assert places is not None
    assert [dict(zip(*map(np.ndarray.tolist, place), strict=True)) for place in places] == [{1: 3}, {0: 4}]


def test_there_may_be_no_places() -> None:
    """A task of three GPUs fits nowhere, and nothing is free."""
    assert placed_together(np.array([[2.0], [2.0]]), np.array([[3.0]]), [1], None) is None
    assert placed_together(np.zeros((2, 1)), np.array([[1.0]]), [1], None) is None
