"""Times from a data sheet: what the board sustains, and an interval around every figure."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterplan.instances.common.errors import OptionError
from clusterplan.instances.prediction.hardware import gpu_named, known_gpus
from clusterplan.instances.prediction.intervals.levels import SPREADS, TOTALS
from clusterplan.instances.prediction.operators import Operator
from clusterplan.instances.prediction.times.coefficients import DATA_SHEETS, PLATFORM
from clusterplan.instances.prediction.times.data_sheet import DataSheetTimes
from clusterplan.instances.prediction.times.families import FAMILY
from clusterplan.instances.prediction.times.fitted import FittedTimes
from clusterplan.instances.prediction.times.measurements import Measurement

SIZE = st.integers(1, 4096)
OPERATORS = st.one_of(
    st.builds(lambda *shape: Operator("linear", shape[:3], shape[3]), SIZE, SIZE, SIZE, st.integers(1, 50)),
    st.builds(lambda *shape: Operator("bmm", shape), st.integers(1, 64), SIZE, SIZE, SIZE),
    st.builds(
        lambda kind, *shape: Operator(kind, shape),
        st.sampled_from(["layer_norm", "softmax", "add"]),
        SIZE,
        SIZE,
    ),
)
MEASURED = st.builds(Measurement, OPERATORS, st.floats(1e-7, 1.0))


def test_no_operators_take_no_time() -> None:
    linear = [Measurement(Operator("linear", (2**k, 64, 64)), 1e-5) for k in range(5)]
    for times in (DataSheetTimes(gpu_named("l4")), FittedTimes(gpu_named("l4"), linear)):
        assert times.predict([]) == []
        assert times.total([]).seconds == 0.0


def test_the_coefficients_are_those_of_data_sheets_over_what_power_sustains() -> None:
    """A product of T4 takes 14.0 · 70/250 = 3.92 TFLOP/s, not 8.1; its bytes and launch are as ever."""
    product = Operator("linear", (1024, 1024, 1024))
    row = DataSheetTimes(gpu_named("t4")).seconds([product])[0]
    theta = DATA_SHEETS["linear"]
    assert row[0] == pytest.approx(theta[0] * 2 * 1024**3 / 3.92e12)
    assert row[4] == pytest.approx(theta[4] * 3 * 4 * 1024**2 / 320e9)
    assert row[6] == theta[6]


def test_only_families_with_arithmetic_have_coefficients_of_their_own() -> None:
    own = {family for family in DATA_SHEETS if DATA_SHEETS[family] != PLATFORM[family]}
    assert own == {"linear", "bmm", "conv"}


def test_the_interval_of_an_operator_is_that_of_its_family() -> None:
    for kind, shape in (("linear", (512, 512, 512)), ("bmm", (8, 64, 64, 64)), ("softmax", (512, 512))):
        one = DataSheetTimes(gpu_named("v100")).predict([Operator(kind, shape, 3)])[0]
        again = DataSheetTimes(gpu_named("v100")).predict([Operator(kind, shape)])[0]
        low, high = SPREADS["data sheet", FAMILY[kind]]
        assert one.seconds == pytest.approx(3 * again.seconds)
        assert one.low / one.seconds == pytest.approx(2.718281828**low)
        assert one.high / one.seconds == pytest.approx(2.718281828**high)
    total = DataSheetTimes(gpu_named("v100")).total([Operator("linear", (512, 512, 512))])
    assert total.high / total.seconds == pytest.approx(2.718281828 ** TOTALS["data sheet"][1])


@given(
    name=st.sampled_from(sorted(known_gpus())),
    measured=st.lists(MEASURED, min_size=1, max_size=12),
    operators=st.lists(OPERATORS, min_size=1, max_size=6),
)
def test_every_interval_holds_its_prediction(
    name: str, measured: list[Measurement], operators: list[Operator]
) -> None:
    """Whatever was measured, possible or not, of which families."""
    gpu = gpu_named(name)
    for times in (DataSheetTimes(gpu), FittedTimes(gpu, measured)):
        for estimate in (*times.predict(operators), times.total(operators)):
            assert 0.0 < estimate.low <= estimate.seconds <= estimate.high < float("inf")
    cool, hot = FittedTimes(gpu, measured).cool_and_hot(operators)
    assert cool <= hot


def test_a_precision_that_the_gpu_does_not_have_is_refused_measured_or_not() -> None:
    half = [Measurement(Operator("linear", (2**k, 64, 64)), 1e-5) for k in range(5)]
    for times in (DataSheetTimes(gpu_named("t4")), FittedTimes(gpu_named("t4"), half)):
        with pytest.raises(OptionError, match="t4: has no peak for bf16; it has fp32, fp16"):
            times.total([Operator("linear", (4, 64, 64), precision="bf16")])
