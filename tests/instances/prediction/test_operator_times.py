"""The table of measurements: what the script writes is read, and what is wrong is named by its line.

Parts of times: what waits for the memory has no arithmetic, and launches overlap.

What all times promise: one estimate an operator, counts included, and a total of them.

Coefficients: each GPU counts as much, and what is left over is what the correction cannot say.

Times from a data sheet: what the board sustains, and an interval around every figure.

Times from measurements: what made the measurements is found again, and what was not measured is said.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sample_documents import refused
from single_operators import SPREADS, SingleOperatorTimes

from clusterplan.instances.common.errors import InstanceError, OptionError
from clusterplan.instances.prediction.calibration import TOTALS
from clusterplan.instances.prediction.hardware import gpu_named, known_gpus
from clusterplan.instances.prediction.measurement_plan import plan_measurements
from clusterplan.instances.prediction.models import Setting, load_model
from clusterplan.instances.prediction.operator_times import (
    DATA_SHEETS,
    EXPOSED,
    FAMILIES,
    FAMILY,
    HOST,
    PARTS,
    PLATFORM,
    USED,
    WINOGRAD_SHARE,
    Measurement,
    OperatorTimes,
    parts,
    queued,
    read_measurements,
    relative_fit,
)
from clusterplan.instances.prediction.operators import SHAPES, Operator

HEADER = "kind,precision,shape,seconds\n"


def test_a_table_is_read_and_used(tmp_path: Path) -> None:
    file = tmp_path / "mine.csv"
    file.write_text(HEADER + "".join(f"linear,fp32,{n}x64x64,{n * 1e-6}\n" for n in (8, 16, 32, 64)))
    rows = read_measurements(file)
    assert [row.operator.shape[0] for row in rows] == [8, 16, 32, 64]
    estimate = SingleOperatorTimes(gpu_named("l4"), rows).predict([rows[0].operator])[0]
    assert estimate.basis == "4 measurements of linear on l4"
    assert estimate.low <= estimate.seconds <= estimate.high


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ("lstm,fp32,1x2,1", "line 2: operator 'lstm': unknown"),
        ("linear,fp32,1x2,1", "line 2: linear: has 2 sizes"),
        ("linear,fp32,1xax3,1", "line 2: shape[1]: is 'a'; it must be a whole number"),
        ("linear,fp32,1x2x3,fast", "line 2: seconds: is 'fast', which is not a number"),
        ("linear,fp32,1x2x3,-1", "line 2: seconds: is -1.0, but must be greater than 0"),
        ("linear,fp32,1x2x3,nan", "line 2: seconds: is nan, which is not a finite number"),
        ("linear,fp7,1x2x3,1", "line 2: precision 'fp7': unknown"),
        ("linear,fp32,,1", "line 2: shape: is missing"),
    ],
)
def test_wrong_rows_are_one_line(tmp_path: Path, row: str, says: str) -> None:
    file = tmp_path / "mine.csv"
    file.write_text(HEADER + row + "\n")
    with refused(says):
        read_measurements(file)


def test_columns_are_checked(tmp_path: Path) -> None:
    file = tmp_path / "mine.csv"
    file.write_text("kind,shape\nlinear,1x2x3\n")
    with pytest.raises(InstanceError, match="has no column precision, seconds"):
        read_measurements(file)


def test_every_kind_has_a_family_with_coefficients() -> None:
    assert set(FAMILY) == set(SHAPES)
    assert set(PLATFORM) == set(DATA_SHEETS) == set(FAMILIES)


def test_parts_are_seconds_of_the_data_sheet() -> None:
    gpu = gpu_named("p100")
    rows = parts([Operator("linear", (130, 20, 30)), Operator("add", (10_000, 200))], gpu)
    flops, moved = 156_000 / 9.3e12, 4 * (2600 + 600 + 3900) / 732e9
    assert rows[0] == pytest.approx([flops, flops * 256 / 130, 0, 2 * 64 * 3900 / 9.3e12, moved, 0, 1.0])
    assert rows[1] == pytest.approx([0, 0, 0, 0, 24e6 / 732e9, 20e6 / 732e9, 1.0])


def test_batched_products_and_convolutions_have_tiles() -> None:
    product = parts([Operator("bmm", (8, 70, 16, 32))], gpu_named("p100"))[0]
    assert product[1] / product[0] == pytest.approx(128 / 70)
    assert product[2] / product[0] == pytest.approx(128 / 70)
    picture = Operator("conv", (2, 3, 8, 3, 3, 10, 10, 1, 1, 1, 1))
    row = parts([picture], gpu_named("p100"))[0]
    assert row[1] / row[0] == pytest.approx(256 / 200)


def test_small_kernels_multiply_less() -> None:
    sizes = {"3×3": (3, 3, 1), "3×3, steps of two": (3, 3, 2), "5×3": (5, 3, 1)}
    gpu, shares = gpu_named("a100"), {}
    for name, (high, wide, stride) in sizes.items():
        picture = Operator("conv", (2, 3, 8, high, wide, 16, 16, stride, 1, 1, 1))
        shares[name] = parts([picture], gpu)[0, 0] * gpu.peak("fp32") / picture.flops
    assert shares == pytest.approx({"3×3": WINOGRAD_SHARE, "3×3, steps of two": 1.0, "5×3": 1.0})
    half = Operator("conv", (2, 3, 8, 3, 3, 16, 16, 1, 1, 1, 1), precision="tf32")
    assert parts([half], gpu)[0, 0] * gpu.peak("tf32") == pytest.approx(half.flops)
    grouped = Operator("conv", (2, 8, 8, 3, 3, 16, 16, 1, 1, 1, 8))
    assert parts([grouped], gpu)[0, 0] * gpu.peak("fp32") == pytest.approx(grouped.flops)


def test_a_short_convolution_takes_no_less_than_its_multiplications() -> None:
    """F(2×2, 3×3) multiplies 16 times for 36; on A100 a 3 × 3 kernel counts half and a bit."""
    picture = Operator("conv", (2, 64, 64, 3, 3, 16, 16, 1, 1, 1, 1))
    row, gpu = parts([picture], gpu_named("a100"))[0], gpu_named("a100")
    assert 16 / 36 < row[0] * gpu.peak("fp32") / picture.flops < 0.6
    assert row[3] == pytest.approx(WINOGRAD_SHARE * 2 * 64 * picture.outputs / gpu.peak("fp32"))
    assert not row[2]


def test_only_what_a_family_uses_is_there() -> None:
    rows = parts([Operator("linear", (64, 64, 64)), Operator("softmax", (64, 64))], gpu_named("a100"))
    assert not rows[0, 2]
    assert not rows[0, 5]
    assert not rows[1, :4].any()
    assert {column for used in USED.values() for column in used} == set(range(len(PARTS)))


def test_a_queue_takes_its_work_or_its_launches() -> None:
    counts = np.array([3.0])
    assert queued(np.array([[2.0, 1.0, 0.5]]), counts) == pytest.approx(9.0 + 1.5 * EXPOSED)
    assert queued(np.array([[0.2, 0.1, 5.0]]), counts) == pytest.approx(15.0 * HOST)


def growing(kind: str, first: int, beyond: int, *sizes: int) -> list[Operator]:
    """Return operators whose first size is a power of two, from one exponent up to another."""
    return [Operator(kind, (2**k, *sizes)) for k in range(first, beyond)]


def cool_and_hot(times: OperatorTimes, operators: list[Operator]) -> tuple[float, float]:
    """Return the seconds of operators without and with the limit of the board's power."""
    return times.unthrottled_and_power_limited(operators, times.seconds(operators))


ONE = Operator("linear", (512, 512, 512))
MEASURED = [Measurement(Operator("linear", (2**k, 512, 512)), 2.0**k * 1e-7) for k in range(4, 12)]


@pytest.mark.parametrize("measured", [[], MEASURED])
def test_counts_are_in_the_estimate(measured: list[Measurement]) -> None:
    times = SingleOperatorTimes(gpu_named("h100"), measured)
    one, seven = times.predict([ONE, ONE.times(7)])
    assert seven.seconds == pytest.approx(7 * one.seconds)
    assert seven.low < seven.seconds < seven.high


@pytest.mark.parametrize("measured", [[], MEASURED])
def test_a_total_is_no_more_than_its_parts(measured: list[Measurement]) -> None:
    """But for the host, which takes longer in a model; and never less than the work without launches."""
    times = SingleOperatorTimes(gpu_named("h100"), measured)
    operators = [ONE.times(9), Operator("add", (4096, 4096))]
    parts = sum(part.seconds for part in times.predict(operators))
    assert 0 < times.total(operators).seconds <= HOST * parts
    large = [Operator("linear", (8192, 8192, 8192)), Operator("add", (8192, 8192))]
    assert 0 < times.total(large).seconds <= sum(part.seconds for part in times.predict(large))


V100 = gpu_named("v100")


def test_residuals_are_those_of_the_corrected_time_without_the_measurement() -> None:
    """A smooth wave of 30 % that the formula cannot follow, and the correction from the neighbours can."""
    shapes = [Operator("linear", (round(2 ** (k / 3)), 1024, 1024)) for k in range(18, 46)]
    wave = np.exp(0.3 * np.sin(np.arange(len(shapes)) / 3.0))
    measured = [
        Measurement(op, op.flops / 1e13 * float(factor)) for op, factor in zip(shapes, wave, strict=True)
    ]
    times = SingleOperatorTimes(V100, measured)
    theta = times.fits["linear", "fp32"].theta
    formula = np.log(np.array([m.seconds for m in measured]) / (parts(shapes, V100) @ theta))
    assert np.abs(times.corrected["linear", "fp32"].residuals).mean() < 0.6 * np.abs(formula).mean()


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
DATA_SHEET_MEASURED = st.builds(Measurement, OPERATORS, st.floats(1e-7, 1.0))


def test_no_operators_take_no_time() -> None:
    linear = [Measurement(Operator("linear", (2**k, 64, 64)), 1e-5) for k in range(5)]
    for times in (SingleOperatorTimes(gpu_named("l4")), SingleOperatorTimes(gpu_named("l4"), linear)):
        assert times.predict([]) == []
        assert times.total([]).seconds == 0.0


def test_the_coefficients_are_those_of_data_sheets_over_what_power_sustains() -> None:
    """A product of T4 takes 14.0 · 70/250 = 3.92 TFLOP/s, not 8.1; its bytes and launch are as ever."""
    product = Operator("linear", (1024, 1024, 1024))
    row = SingleOperatorTimes(gpu_named("t4")).seconds([product])[0]
    theta = DATA_SHEETS["linear"]
    assert row[0] == pytest.approx(theta[0] * 2 * 1024**3 / 3.92e12)
    assert row[4] == pytest.approx(theta[4] * 3 * 4 * 1024**2 / 320e9)
    assert row[6] == theta[6]


def test_only_families_with_arithmetic_have_coefficients_of_their_own() -> None:
    own = {family for family in DATA_SHEETS if DATA_SHEETS[family] != PLATFORM[family]}
    assert own == {"linear", "bmm", "conv"}


def test_the_interval_of_an_operator_is_that_of_its_family() -> None:
    for kind, shape in (("linear", (512, 512, 512)), ("bmm", (8, 64, 64, 64)), ("softmax", (512, 512))):
        one = SingleOperatorTimes(gpu_named("v100")).predict([Operator(kind, shape, 3)])[0]
        again = SingleOperatorTimes(gpu_named("v100")).predict([Operator(kind, shape)])[0]
        low, high = SPREADS["data sheet", FAMILY[kind]]
        assert one.seconds == pytest.approx(3 * again.seconds)
        assert one.low / one.seconds == pytest.approx(2.718281828**low)
        assert one.high / one.seconds == pytest.approx(2.718281828**high)
    total = SingleOperatorTimes(gpu_named("v100")).total([Operator("linear", (512, 512, 512))])
    assert total.high / total.seconds == pytest.approx(2.718281828 ** TOTALS["data sheet"][1])


@given(
    name=st.sampled_from(sorted(known_gpus())),
    measured=st.lists(DATA_SHEET_MEASURED, min_size=1, max_size=12),
    operators=st.lists(OPERATORS, min_size=1, max_size=6),
)
def test_every_interval_holds_its_prediction(
    name: str, measured: list[Measurement], operators: list[Operator]
) -> None:
    """Whatever was measured, possible or not, of which families."""
    gpu = gpu_named(name)
    for times in (SingleOperatorTimes(gpu), SingleOperatorTimes(gpu, measured)):
        for estimate in (*times.predict(operators), times.total(operators)):
            assert 0.0 < estimate.low <= estimate.seconds <= estimate.high < float("inf")
    cool, hot = cool_and_hot(SingleOperatorTimes(gpu, measured), operators)
    assert cool <= hot


def test_a_precision_that_the_gpu_does_not_have_is_refused_measured_or_not() -> None:
    half = [Measurement(Operator("linear", (2**k, 64, 64)), 1e-5) for k in range(5)]
    for times in (SingleOperatorTimes(gpu_named("t4")), SingleOperatorTimes(gpu_named("t4"), half)):
        with pytest.raises(OptionError, match="t4: has no peak for bf16; it has fp32, fp16"):
            times.total([Operator("linear", (4, 64, 64), precision="bf16")])


TRUTH = {"linear": (1.5, 0.5, 0, 0.2, 1.2, 0, 1e-5), "bmm": (1.0, 1.0, 1.0, 0.5, 1.1, 0, 1e-5)}
OTHERS = {
    "norm": (0, 0, 0, 0, 0.5, 1.0, 1e-5),
    "softmax": (0, 0, 0, 0, 0.3, 1.0, 1e-5),
    "elementwise": (0, 0, 0, 0, 0.2, 1.0, 1e-5),
}
L4 = gpu_named("l4")


def _measured(operators: list[Operator], noise: float = 0.0) -> list[Measurement]:
    """Return times that follow the truth, with a relative noise."""
    truth = {name: np.array(theta) for name, theta in {**TRUTH, **OTHERS}.items()}
    errors = np.random.default_rng(1).normal(0.0, noise, len(operators))
    rows = parts(operators, L4)
    return [
        Measurement(op, float(row @ truth[FAMILY[op.kind]] * np.exp(error)))
        for op, row, error in zip(operators, rows, errors, strict=True)
    ]


def test_the_fit_is_the_truth_where_there_is_no_noise() -> None:
    design = np.random.default_rng(0).uniform(0.1, 1.0, (20, 7))
    theta = np.array(TRUTH["linear"])
    assert relative_fit(design, design @ theta, theta) == pytest.approx(theta, abs=1e-9)


def test_coefficients_are_never_negative() -> None:
    generator = np.random.default_rng(0)
    for _ in range(20):
        others = np.array(TRUTH["bmm"])
        fit = relative_fit(generator.uniform(0, 1, (5, 7)), generator.uniform(0.1, 1, 5), others)
        assert np.all(fit >= 0)


def test_few_measurements_draw_to_others_but_keep_their_scale() -> None:
    """A GPU that is three times as slow as others in all arithmetic shows it in ten measurements."""
    others = np.array(TRUTH["linear"])
    slow = others * np.array([3, 3, 1, 3, 1, 1, 1])
    shapes = growing("linear", 5, 15, 4096, 4096)
    design = parts(shapes, L4)
    found = relative_fit(design, design @ slow, others)
    new = parts([Operator("linear", (200, 2048, 8192))], L4)[0]
    assert found @ new == pytest.approx(slow @ new, rel=0.1)
    assert abs(found @ new / (slow @ new) - 1) < abs(others @ new / (slow @ new) - 1) / 5


def test_planned_measurements_predict_the_whole_model() -> None:
    setting = Setting(4, 512, training=True)
    operators = load_model("gpt2").operators(setting)
    times = SingleOperatorTimes(L4, _measured(plan_measurements(operators, L4), noise=0.03))
    truth = sum(m.seconds * op.count for m, op in zip(_measured(list(operators)), operators, strict=True))
    launches = sum(op.count for op in operators) * 1e-5 * (1 - EXPOSED)
    total = times.total(operators)
    assert total.seconds == pytest.approx(truth - launches, rel=0.1)
    assert total.low <= total.seconds <= total.high
    assert "measurements on l4" in total.basis
    without = SingleOperatorTimes(L4).total(operators)
    assert abs(without.seconds - truth) > abs(total.seconds - truth)
    assert not without.inside


def test_what_was_measured_in_the_cold_may_take_longer_in_a_model() -> None:
    """Products at the peak of an L4 are more than its power sustains; on a V100 they are not."""
    for name, longer in (("l4", True), ("v100", False)):
        gpu = gpu_named(name)
        shapes = growing("linear", 8, 15, 4096, 4096)
        times = SingleOperatorTimes(
            gpu, [Measurement(op, 1.1 * op.flops / gpu.peak("fp32")) for op in shapes]
        )
        cool, hot = cool_and_hot(times, shapes)
        assert (hot > 1.5 * cool) is longer
        assert times.total(shapes).high >= hot


def test_power_slows_down_nothing_on_a_board_that_holds_its_peak() -> None:
    """Also where the fit gives time of the arithmetic to the memory, so that little of it is left."""
    v100 = gpu_named("v100")
    shapes = [Operator("bmm", (16, 2**k, 512, 512)) for k in range(6, 13)]
    times = SingleOperatorTimes(v100, [Measurement(op, 0.7 * op.flops / v100.peak("fp32")) for op in shapes])
    cool, hot = cool_and_hot(times, shapes)
    assert hot == cool


def test_power_slows_down_only_what_was_measured() -> None:
    """The data sheet has the limit already: half of a total that was not measured adds nothing."""
    products = [Operator("bmm", (16, 2**k, 2048, 512)) for k in range(6, 13)]
    norms = growing("layer_norm", 6, 13, 1024)
    cool, hot = cool_and_hot(SingleOperatorTimes(L4, _measured(norms)), [*products, *norms])
    assert hot == cool


def test_a_larger_shape_is_outside_and_wider() -> None:
    measured = _measured(growing("linear", 6, 14, 1024, 1024), noise=0.05)
    times = SingleOperatorTimes(L4, measured)
    inside, outside = times.predict(
        [Operator("linear", (4096, 1024, 1024)), Operator("linear", (65536, 4096, 4096))]
    )
    assert inside.inside
    assert not outside.inside
    assert outside.high / outside.seconds > inside.high / inside.seconds


def test_a_total_of_larger_shapes_is_outside_and_wider() -> None:
    """Nine tenths of its time must be of calls no larger than those that were measured."""
    shapes = growing("linear", 8, 14, 1024, 1024)
    times = SingleOperatorTimes(gpu_named("v100"), [Measurement(op, op.flops / 1e13) for op in shapes])
    small, large = shapes[-1], Operator("linear", (2**14, 1024, 1024))
    within, outside = times.total([small.times(19), large]), times.total([small.times(16), large])
    assert within.inside
    assert not outside.inside
    assert np.log(outside.high / outside.seconds) == pytest.approx(1.5 * np.log(within.high / within.seconds))


def test_few_measurements_are_drawn_to_the_coefficients_that_are_given() -> None:
    """Three small products say little of a large one; a prior of ten times the time says it takes longer."""
    few = _measured(growing("linear", 3, 6, 64, 64))
    slow = {name: 10.0 * np.array(theta) for name, theta in {**TRUTH, **OTHERS}.items()}
    truth = {name: np.array(theta) for name, theta in {**TRUTH, **OTHERS}.items()}
    large = [Operator("linear", (4096, 4096, 4096))]
    assert (
        SingleOperatorTimes(L4, few, towards=slow).total(large).seconds
        > 2 * SingleOperatorTimes(L4, few, towards=truth).total(large).seconds
    )


def test_what_was_not_measured_comes_from_the_data_sheet() -> None:
    times = SingleOperatorTimes(L4, _measured([Operator("linear", (2**k, 64, 64)) for k in range(5)]))
    linear, product, half = times.predict(
        [
            Operator("linear", (4, 64, 64)),
            Operator("bmm", (4, 8, 8, 8)),
            Operator("linear", (4, 64, 64), precision="fp16"),
        ]
    )
    assert linear.basis == "5 measurements of linear on l4"
    assert product.basis.startswith("data sheet of l4")
    assert half.basis.startswith("data sheet of l4")


def test_a_total_says_how_much_of_it_was_measured() -> None:
    """Norms alone say nothing of products, nor of another precision; one call of a family says nothing."""
    norms = growing("layer_norm", 10, 15, 1024)
    product, half = Operator("linear", (512, 1024, 1024)), Operator("layer_norm", (64, 64), precision="fp16")
    sheet, times = SingleOperatorTimes(L4), SingleOperatorTimes(L4, _measured(norms))
    assert times.total(norms).basis == "5 measurements on l4"
    assert times.total([half]).seconds == sheet.total([half]).seconds
    assert SingleOperatorTimes(L4, _measured(norms[:2])).total(norms).high == sheet.total(norms).high
    both, alone, least = times.total([*norms, product]), times.total(norms), sheet.total([product])
    share = alone.seconds / both.seconds
    assert both.basis.startswith("5 measurements on l4 for ")
    assert both.basis.endswith(f"% of the time; else {sheet.sheet_basis}")
    assert float(both.basis.split(" for ")[1].split("%")[0]) == pytest.approx(100 * share, abs=3.0)
    assert not both.inside
    assert both.high / both.seconds == pytest.approx(least.high / least.seconds)


def test_the_basis_counts_what_was_measured_of_these_operators() -> None:
    shapes = [Operator("linear", (2**k, 1024, 1024), precision="fp32") for k in range(5, 15)]
    times = SingleOperatorTimes(L4, _measured(shapes))
    assert times.total(shapes).basis == "10 measurements on l4"
    other = [replace(shape, precision="bf16") for shape in shapes]
    assert times.total(other).basis.startswith("data sheet of l4, ")
    few = "; too few measurements are of this model's operators in"
    assert times.total(other).basis.endswith(f"{few} bf16, and they are in fp32")
    norms = [Operator("layer_norm", (64, 64), precision="fp32")]
    assert times.total(norms).basis.endswith(f"{few} fp32")


def test_measurements_that_contradict_each_other_leave_no_time_at_zero() -> None:
    """Small sums that take longer than large ones leave nothing for a call that finds all in the cache."""
    taken = {
        (1214, 1129): 4e-6,
        (1, 27): 4e-4,
        (1736, 379): 1e-7,
        (18, 144): 8e-5,
        (247, 2): 3e-6,
        (11, 18): 0.1,
    }
    times = SingleOperatorTimes(
        gpu_named("v100-sxm2"), [Measurement(Operator("add", at), seconds) for at, seconds in taken.items()]
    )
    small = [Operator("add", (2, 2))]
    for estimate in (*times.predict(small), times.total(small)):
        assert 0.0 < estimate.low < estimate.seconds < estimate.high


def test_missing_peaks_are_one_line() -> None:
    with pytest.raises(OptionError, match="v100: has no peak for bf16"):
        SingleOperatorTimes(gpu_named("v100")).predict([Operator("linear", (1, 2, 3), precision="bf16")])
