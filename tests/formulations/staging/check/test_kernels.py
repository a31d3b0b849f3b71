"""The compiled loops of the check on inputs whose answer is known."""

from __future__ import annotations

import math

import numpy as np
import pytest

from clusterplan.formulations.staging.check import kernels

ONE = np.ones(1)
NONE = np.zeros(1)
TYPE = np.zeros(1, dtype=np.int64)


def test_parts_are_sums_over_layers_that_memory_can_hold() -> None:
    """Two layers on two types; the second type cannot run layer 1, the first cannot hold both."""
    own = np.array(
        [[[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]], [[10.0, 20.0, 30.0, 40.0], [math.inf, 0, 0, 0]]]
    )
    rows = np.array([[2.0, 2.0], [3.0, 3.0]]), np.array([4.0, 9.0]), np.array([0.0, 0.5])
    found = kernels.derive(own, *rows, math.inf)
    first, last, unit_type, *parts = (column.tolist() for column in found)
    assert list(zip(first, last, unit_type, strict=True)) == [(0, 0, 0), (0, 0, 1), (1, 1, 0)]
    assert list(zip(*parts, strict=True)) == [(1, 2, 3, 4), (5, 6, 7, 8), (10, 20, 30, 40.5)]
    # What computes or communicates for longer than 5 s even on infinitely many units is left out.
    first, last, unit_type, *parts = (column.tolist() for column in kernels.derive(own, *rows, 5.0))
    assert list(zip(first, last, unit_type, strict=True)) == [(0, 0, 0)]


def test_what_just_fits_is_not_left_out() -> None:
    """A segment that fills a unit's memory, and takes just the slowest time that matters."""
    for part in (0, 2):
        own = np.zeros((1, 1, 4))
        own[0, 0, part] = 5.0
        for room, last_s, found in ((3.0, 5.0, 1), (2.9, 5.0, 0), (3.0, 4.9, 0)):
            columns = kernels.derive(own, 3 * np.ones((1, 1)), room * ONE, NONE, last_s)
            assert len(columns[0]) == found


@pytest.mark.parametrize(
    ("serial", "parallel", "high", "units"),
    [(0.0, 6.0, 2.0, 3.0), (0.0, 6.0, 1.9, 4.0), (3.0, 1.0, 2.0, math.inf), (0.0, 101.0, 1.0, math.inf)],
)
def test_least_units_and_cost(serial: float, parallel: float, high: float, units: float) -> None:
    parts = serial * ONE, parallel * ONE, NONE, NONE, 100 * ONE, 2 * ONE
    need, cost = np.empty(1), np.empty(1)
    kernels.least(TYPE, *parts, high, high, True, need, cost)
    assert need[0] == (units if math.isfinite(units) else 1.0)
    assert cost[0] == 2 * units * high
    kernels.least(TYPE, *parts, high, high, False, need, cost)
    assert cost[0] == (0.0 if units < math.inf else math.inf)


def test_a_quotient_beyond_all_integers_is_no_overflow() -> None:
    """Where A/τ exceeds what a 64-bit integer holds no units suffice."""
    units, cost = np.empty(1), np.empty(1)
    columns = TYPE, NONE, 1e300 * ONE, NONE, NONE, 100 * ONE, ONE
    kernels.least(*columns, 1e-5, 1e-5, True, units, cost)
    assert math.isinf(cost[0])


def test_paths_of_two_layers() -> None:
    """Whole on type 0 costs 5; 1 + 2 on types 0 and 1 costs 3; 1 + 1 on type 0 alone must not alternate."""
    columns = np.array([0, 0, 1, 1]), np.array([0, 1, 1, 1]), np.array([0, 0, 0, 1])
    weight = np.array([1.0, 5.0, 1.0, 2.0])
    for alternating, least in ((True, 3.0), (False, 2.0)):
        shortest, arrival = kernels.forward(*columns, weight, 2, 2, alternating)
        assert shortest == least
        through = np.empty(4)
        kernels.through(*columns, weight, arrival, alternating, through)
        assert through.tolist() == ([3.0, 5.0, math.inf, 3.0] if alternating else [2.0, 5.0, 2.0, 3.0])
