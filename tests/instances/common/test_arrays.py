"""Arrays in the narrowest type in which their numbers are exact."""

from __future__ import annotations

import numpy as np
import pytest

from clusterplan.instances.common.arrays import NarrowFloats

PARTS = {
    "whole": ([[1.0, 65535.0], [0.0, 7.0]], np.uint16),
    "half": ([[0.5, 65536.0], [1.0, 2.25]], np.float32),
    "tenth": ([[0.1, 1.0], [2.0, 3.0]], np.float64),
    "negative": ([[-1.0, 1.0], [2.0, 3.0]], np.float32),
    "odd": ([[16777217.0, 1.0], [2.0, 3.0]], np.float64),
}


@pytest.mark.parametrize(("rows", "kind"), PARTS.values(), ids=PARTS)
def test_numbers_are_read_as_they_were_written(rows: list[list[float]], kind: type) -> None:
    """Whatever was written before, and in whatever part they are read."""
    array, first = NarrowFloats((4, 2)), np.array([[3.0, 4.0], [5.0, 6.0]])
    array[0:2], array[2:4] = first, np.array(rows)
    usual = np.vstack([first, rows])
    assert array.stored.dtype == kind
    assert np.array_equal(array, usual)
    assert np.array_equal(array[1:3], usual[1:3])
    assert array[1:3].dtype == np.float64
    assert np.array_equal(array @ np.array([2.0, 0.5]), usual @ np.array([2.0, 0.5]))
    assert np.array_equal(array <= 3.0, usual <= 3.0)
    assert np.array_equal(np.max(array, axis=0), usual.max(axis=0))
    assert np.array_equal(
        np.minimum.reduceat(array, [0, 2], axis=0), np.minimum.reduceat(usual, [0, 2], axis=0)
    )
    assert np.array_equal(np.mean(array, axis=0), usual.mean(axis=0))
    array.truncate(3)
    assert np.array_equal(array, usual[:3])


def test_sums_are_those_of_floats_of_64_bits() -> None:
    array = NarrowFloats((70_000, 1))
    array[:] = np.full((70_000, 1), 65535.0)
    assert array[:].sum() == 70_000 * 65535.0
    assert np.add.reduce(array, axis=0) == 70_000 * 65535.0
