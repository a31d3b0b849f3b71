"""What all times promise: one estimate an operator, counts included, and a total of them."""

from __future__ import annotations

import pytest

from clusterplan.instances.prediction.operators import Operator
from clusterplan.instances.prediction.times.choose import times_on
from clusterplan.instances.prediction.times.families import HOST
from clusterplan.instances.prediction.times.measurements import Measurement
from clusterplan.instances.prediction.times.operator_times import OperatorTimes

ONE = Operator("linear", (512, 512, 512))
MEASURED = [Measurement(Operator("linear", (2**k, 512, 512)), 2.0**k * 1e-7) for k in range(4, 12)]


@pytest.mark.parametrize("measured", [None, MEASURED])
def test_counts_are_in_the_estimate(measured: list[Measurement] | None) -> None:
    times = times_on("h100", measured)
    assert isinstance(times, OperatorTimes)
    one, seven = times.predict([ONE, ONE.times(7)])
    assert seven.seconds == pytest.approx(7 * one.seconds)
    assert seven.low < seven.seconds < seven.high


@pytest.mark.parametrize("measured", [None, MEASURED])
def test_a_total_is_no_more_than_its_parts(measured: list[Measurement] | None) -> None:
    """But for the host, which takes longer in a model; and never less than the work without launches."""
    times = times_on("h100", measured)
    operators = [ONE.times(9), Operator("add", (4096, 4096))]
    parts = sum(part.seconds for part in times.predict(operators))
    assert 0 < times.total(operators).seconds <= HOST * parts
    large = [Operator("linear", (8192, 8192, 8192)), Operator("add", (8192, 8192))]
    assert 0 < times.total(large).seconds <= sum(part.seconds for part in times.predict(large))
