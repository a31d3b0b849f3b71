"""The compiled loops of the search on inputs whose answer is known."""

from __future__ import annotations

import math

import numpy as np
import pytest

from clusterplan.solvers.staging import kernels

ONE = np.ones(1)
NONE = np.zeros(1)


@pytest.mark.parametrize(
    ("serial", "parallel", "comm_parallel", "tau", "units"),
    [
        (0.0, 6.0, 0.0, 2.0, 3.0),  # an exact breakpoint: 6/3 = 2
        (0.0, 6.0, 0.0, math.nextafter(2.0, 0.0), 4.0),
        (0.0, 6.0, 9.0, 2.0, 5.0),  # the transfer asks for more
        (1.0, 0.0, 0.0, 1.0, 1.0),  # nothing is parallel, and 0/0 asks for no more units
        (1.0, 1.0, 0.0, 1.0, math.inf),  # no number of units is fast enough
        (3.0, 1.0, 0.0, 2.0, math.inf),
        (0.0, 101.0, 0.0, 1.0, math.inf),  # more than the limit of 100
        (1.0, 1e-30, 0.0, 1.0, 1.0),  # A vanishes beside S
    ],
)
def test_fewest_units_and_their_cost(
    serial: float, parallel: float, comm_parallel: float, tau: float, units: float
) -> None:
    parts = serial * ONE, parallel * ONE, NONE, comm_parallel * ONE, 100 * ONE
    found = np.empty((1, 1))
    kernels.fewest_units(*parts, np.array([tau]), found)
    assert found[0, 0] == units
    need, cost = np.empty((2, 1))
    kernels.least_cost(*parts, 2 * ONE, tau, tau, np.zeros(1, bool), need, cost)
    assert need[0] == (units if math.isfinite(units) else 1.0)
    assert cost[0] == 2 * units * tau


def test_paths_of_two_layers() -> None:
    """Whole on type 0 costs 5; 1 + 2 on types 0 and 1 costs 3; 1 + 1 on type 0 alone must not alternate."""
    first, last, unit_type = np.array([0, 0, 1, 1]), np.array([0, 1, 1, 1]), np.array([0, 0, 0, 1])
    weight = np.array([[1.0, 5.0, 1.0, 2.0]])
    for alternating, least, path in ((True, 3.0, [0, 3]), (False, 2.0, [0, 2])):
        graph = kernels.SegmentGraph(2, 2, first, last, unit_type, alternating)
        shortest, arrival = graph.forward(weight)
        assert shortest.tolist() == [least]
        assert graph.backward(weight)[0, 0].min() == least
        through = [3.0, 5.0, math.inf, 3.0] if alternating else [2.0, 5.0, 2.0, 3.0]
        assert graph.through(weight, arrival)[0].tolist() == through
        assert graph.cheapest(weight[0], arrival[0]).tolist() == path
