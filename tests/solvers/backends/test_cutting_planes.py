"""The highest point of an envelope, against figures worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from clusterplan.solvers.backends.cutting_planes import Envelope, highest_point

ONE = np.ones(1)


def test_two_lines_meet_at_the_highest_point() -> None:
    # min(1 − x, 1 + x) on [−2, 2]
    found = highest_point(np.array([1.0, 1.0]), np.array([[-1.0], [1.0]]), -2 * ONE, 2 * ONE)
    assert found is not None
    assert found[0] == pytest.approx([0.0])
    assert found[1] == pytest.approx(1.0)


def test_the_box_and_the_total_are_kept() -> None:
    slopes = np.array([[1.0, 2.0]])
    low, high = np.zeros(2), np.array([5.0, 3.0])
    boxed = highest_point(np.zeros(1), slopes, low, high)
    assert boxed is not None
    assert boxed[1] == pytest.approx(11.0)
    shared = highest_point(np.zeros(1), slopes, low, high, total=4.0)
    assert shared is not None
    assert shared[0] == pytest.approx([1.0, 3.0])
    assert highest_point(np.zeros(1), slopes, low, high, total=9.0) is None


@pytest.mark.parametrize("unit", [1e-9, 1.0, 1e9])
def test_tangents_of_a_parabola_meet_between_their_points(unit: float) -> None:
    """Of −(x − 1)² at 0 and 3 these are −1 + 2x and 8 − 4x, which meet at (1.5, 2), in any unit of height."""
    envelope = Envelope()
    envelope.constants, envelope.slopes = [-unit, 8 * unit], [2 * unit * ONE, -4 * unit * ONE]
    place, above = envelope.highest(0 * ONE, -unit, 0 * ONE, 3 * ONE)
    assert place == pytest.approx([1.5])
    assert above == pytest.approx(3 * unit)
