"""The compiled loops over the columns of a core on inputs whose answer is known."""

from __future__ import annotations

import math

import numpy as np

from clusterplan.solvers.staging.cores import kernels

# Two layers: whole on type 0 with 2 units, or layer by layer with 1 unit of type 0 and then 1 of type 1.
FIRST, AFTER, TYPE = np.array([0, 0, 1]), np.array([1, 2, 2]), np.array([0, 0, 1])
WEIGHT = np.array([1.0, 5.0, 2.0])
DIGITS = np.array([[1, 3, 1], [1, 3, 2], [3, 1, 0]])
"""The units of type 0 are counted, of which there are two: states 0, 1 and 2."""


def test_least_weights_by_units_used() -> None:
    least = kernels.least_by_state(FIRST, AFTER, TYPE, WEIGHT, DIGITS, 2, 2, 3, True)
    assert least[0].tolist() == [[0.0, math.inf, math.inf]] * 2
    assert least[1].tolist() == [[math.inf] * 3, [math.inf, 1.0, math.inf]]
    assert least[2].min(axis=0).tolist() == [math.inf, 3.0, 5.0]


def test_least_weights_through_columns() -> None:
    to = kernels.least_by_state(FIRST, AFTER, TYPE, WEIGHT, DIGITS, 2, 2, 3, True)
    rest = np.zeros((3, 2, 3))
    rest[1, 0] = 2.0
    rest[1, 1] = math.inf
    assert kernels.through_states(FIRST, AFTER, TYPE, WEIGHT, DIGITS, to, rest).tolist() == [3.0, 5.0, 3.0]


def test_labels_are_extended_within_limits_and_bounds() -> None:
    labels = np.array([1, 1, 0]), np.array([[0.0], [2.0], [0.0]]), np.array([1.0, 1.0, 1.0])
    core = np.array([1]), np.array([0]), np.array([[1.0]]), np.array([3.0])
    one = np.ones(1)
    bounds = one, np.zeros((1, 1)), np.zeros((1, 1), dtype=np.int64), np.array([0]), np.full((2, 2, 1), 2.0)
    moved = np.empty((3, 2), dtype=np.int64)
    columns = np.array([0])
    # The second has no unit left, the third has the same type, and the first costs 1 + 3 + 2.
    kept, work = kernels.extend(labels, columns, core, 2 * one, True, bounds, 6 * one, moved)
    assert (kept, work, moved[0].tolist()) == (1, 1, [0, 0])
    kept, work = kernels.extend(labels, columns, core, 2 * one, True, bounds, 5.9 * one, moved)
    assert (kept, work) == (0, 1)
