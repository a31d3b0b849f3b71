"""Overlap: between the sum of both times and the longer one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterplan.instances.common.errors import OptionError
from clusterplan.instances.prediction.communication.overlap import step_s

TIMES = st.just(0.0) | st.floats(1e-9, 1e6)


@given(TIMES, TIMES, st.floats(1, 100))
def test_between_the_longer_time_and_the_sum(compute: float, communication: float, exponent: float) -> None:
    seconds = float(step_s(compute, communication, exponent))
    assert max(compute, communication) * (1 - 1e-9) <= seconds <= (compute + communication) * (1 + 1e-9)


def test_ends_and_arrays() -> None:
    assert step_s(3.0, 4.0) == 7.0
    assert step_s(3.0, 4.0, 2.0) == pytest.approx(5.0)
    assert step_s(3.0, 4.0, float("inf")) == 4.0
    assert step_s(np.array([3.0, 0.0]), np.array([4.0, 0.0]), 2.0) == pytest.approx([5.0, 0.0])


def test_an_exponent_below_one_would_slow_both_down() -> None:
    with pytest.raises(OptionError, match="1 or more"):
        step_s(1.0, 1.0, 0.5)
