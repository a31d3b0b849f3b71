"""Times from measurements: what made the measurements is found again, and what was not measured is said."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from clusterplan.instances.common.errors import OptionError
from clusterplan.instances.prediction.hardware import gpu_named
from clusterplan.instances.prediction.measurement_plan import plan_measurements
from clusterplan.instances.prediction.models import Setting, load_model
from clusterplan.instances.prediction.operators import Operator
from clusterplan.instances.prediction.times.coefficients import pooled, relative_fit
from clusterplan.instances.prediction.times.data_sheet import DataSheetTimes
from clusterplan.instances.prediction.times.families import EXPOSED, FAMILY, USED, parts
from clusterplan.instances.prediction.times.fitted import FittedTimes
from clusterplan.instances.prediction.times.measurements import Measurement

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
    design = np.random.default_rng(0).uniform(0.1, 1.0, (20, 3))
    theta = np.array([2.0, 0.0, 0.5])
    assert relative_fit(design, design @ theta) == pytest.approx(theta, abs=1e-9)


def test_coefficients_are_never_negative() -> None:
    generator = np.random.default_rng(0)
    for _ in range(20):
        fit = relative_fit(generator.uniform(0, 1, (5, 3)), generator.uniform(0.1, 1, 5))
        assert np.all(fit >= 0)


def test_few_measurements_draw_to_others_but_keep_their_scale() -> None:
    """A GPU that is three times as slow as others in all arithmetic shows it in ten measurements."""
    others = np.array(TRUTH["linear"])
    slow = others * np.array([3, 3, 1, 3, 1, 1, 1])
    shapes = [Operator("linear", (2**k, 4096, 4096)) for k in range(5, 15)]
    design = parts(shapes, L4)
    found = relative_fit(design, design @ slow, others)
    new = parts([Operator("linear", (200, 2048, 8192))], L4)[0]
    assert found @ new == pytest.approx(slow @ new, rel=0.1)
    assert abs(found @ new / (slow @ new) - 1) < abs(others @ new / (slow @ new) - 1) / 5


def test_planned_measurements_predict_the_whole_model() -> None:
    setting = Setting(4, 512, training=True)
    operators = load_model("gpt2").operators(setting)
    times = FittedTimes(L4, _measured(plan_measurements(operators, L4), noise=0.03))
    truth = sum(m.seconds * op.count for m, op in zip(_measured(list(operators)), operators, strict=True))
    launches = sum(op.count for op in operators) * 1e-5 * (1 - EXPOSED)
    total = times.total(operators)
    assert total.seconds == pytest.approx(truth - launches, rel=0.1)
    assert total.low <= total.seconds <= total.high
    assert "measurements on l4" in total.basis
    without = DataSheetTimes(L4).total(operators)
    assert abs(without.seconds - truth) > abs(total.seconds - truth)
    assert not without.inside


def test_what_was_measured_in_the_cold_may_take_longer_in_a_model() -> None:
    """Products at the peak of an L4 are more than its power sustains; on a V100 they are not."""
    for name, longer in (("l4", True), ("v100", False)):
        gpu = gpu_named(name)
        shapes = [Operator("linear", (2**k, 4096, 4096)) for k in range(8, 15)]
        times = FittedTimes(gpu, [Measurement(op, 1.1 * op.flops / gpu.peak("fp32")) for op in shapes])
        cool, hot = times.cool_and_hot(shapes)
        assert (hot > 1.5 * cool) is longer
        assert times.total(shapes).high >= hot


def test_power_slows_down_nothing_on_a_board_that_holds_its_peak() -> None:
    """Also where the fit gives time of the arithmetic to the memory, so that little of it is left."""
    v100 = gpu_named("v100")
    shapes = [Operator("bmm", (16, 2**k, 512, 512)) for k in range(6, 13)]
    times = FittedTimes(v100, [Measurement(op, 0.7 * op.flops / v100.peak("fp32")) for op in shapes])
    cool, hot = times.cool_and_hot(shapes)
    assert hot == cool


def test_power_slows_down_only_what_was_measured() -> None:
    """The data sheet has the limit already: half of a total that was not measured adds nothing."""
    products = [Operator("bmm", (16, 2**k, 2048, 512)) for k in range(6, 13)]
    norms = [Operator("layer_norm", (2**k, 1024)) for k in range(6, 13)]
    cool, hot = FittedTimes(L4, _measured(norms)).cool_and_hot([*products, *norms])
    assert hot == cool


def test_a_larger_shape_is_outside_and_wider() -> None:
    measured = _measured([Operator("linear", (2**k, 1024, 1024)) for k in range(6, 14)], noise=0.05)
    times = FittedTimes(L4, measured)
    inside, outside = times.predict(
        [Operator("linear", (4096, 1024, 1024)), Operator("linear", (65536, 4096, 4096))]
    )
    assert inside.inside
    assert not outside.inside
    assert outside.high / outside.seconds > inside.high / inside.seconds


def test_a_total_of_larger_shapes_is_outside_and_wider() -> None:
    """Nine tenths of its time must be of calls no larger than those that were measured."""
    shapes = [Operator("linear", (2**k, 1024, 1024)) for k in range(8, 14)]
    times = FittedTimes(gpu_named("v100"), [Measurement(op, op.flops / 1e13) for op in shapes])
    small, large = shapes[-1], Operator("linear", (2**14, 1024, 1024))
    within, outside = times.total([small.times(19), large]), times.total([small.times(16), large])
    assert within.inside
    assert not outside.inside
    assert np.log(outside.high / outside.seconds) == pytest.approx(1.5 * np.log(within.high / within.seconds))


def test_few_measurements_are_drawn_to_the_coefficients_that_are_given() -> None:
    """Three small products say little of a large one; a prior of ten times the time says it takes longer."""
    few = _measured([Operator("linear", (2**k, 64, 64)) for k in range(3, 6)])
    slow = {name: 10.0 * np.array(theta) for name, theta in {**TRUTH, **OTHERS}.items()}
    truth = {name: np.array(theta) for name, theta in {**TRUTH, **OTHERS}.items()}
    large = [Operator("linear", (4096, 4096, 4096))]
    assert (
        FittedTimes(L4, few, slow).total(large).seconds > 2 * FittedTimes(L4, few, truth).total(large).seconds
    )


def test_what_was_not_measured_comes_from_the_data_sheet() -> None:
    times = FittedTimes(L4, _measured([Operator("linear", (2**k, 64, 64)) for k in range(5)]))
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
    norms = [Operator("layer_norm", (2**k, 1024)) for k in range(10, 15)]
    product, half = Operator("linear", (512, 1024, 1024)), Operator("layer_norm", (64, 64), precision="fp16")
    sheet, times = DataSheetTimes(L4), FittedTimes(L4, _measured(norms))
    assert times.total(norms).basis == "5 measurements on l4"
    assert times.total([half]).seconds == sheet.total([half]).seconds
    assert FittedTimes(L4, _measured(norms[:2])).total(norms).high == sheet.total(norms).high
    both, alone, least = times.total([*norms, product]), times.total(norms), sheet.total([product])
    share = alone.seconds / both.seconds
    assert both.basis.startswith("5 measurements on l4 for ")
    assert both.basis.endswith(f"% of the time; else {sheet.basis}")
    assert float(both.basis.split(" for ")[1].split("%")[0]) == pytest.approx(100 * share, abs=3.0)
    assert not both.inside
    assert both.high / both.seconds == pytest.approx(least.high / least.seconds)


def test_the_basis_counts_what_was_measured_of_these_operators() -> None:
    shapes = [Operator("linear", (2**k, 1024, 1024), precision="fp32") for k in range(5, 15)]
    times = FittedTimes(L4, _measured(shapes))
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
    times = FittedTimes(
        gpu_named("v100-sxm2"), [Measurement(Operator("add", at), seconds) for at, seconds in taken.items()]
    )
    small = [Operator("add", (2, 2))]
    for estimate in (*times.predict(small), times.total(small)):
        assert 0.0 < estimate.low < estimate.seconds < estimate.high


def test_pooled_coefficients_are_those_that_all_gpus_share() -> None:
    drawn = np.random.default_rng(0).integers(8, 4096, (40, 3))
    shapes = [Operator("linear", (int(rows), int(inner), int(outer))) for rows, inner, outer in drawn]
    found = pooled([(L4, _measured(shapes))])
    assert found["linear"] == pytest.approx(np.array(TRUTH["linear"]), rel=1e-6)
    assert not np.delete(found["linear"], USED["linear"]).any()
    assert found["conv"] is found["linear"]


def test_no_measurements_and_missing_peaks_are_one_line() -> None:
    with pytest.raises(OptionError, match="l4: there are no measurements"):
        FittedTimes(L4, [])
    with pytest.raises(OptionError, match="v100: has no peak for bf16"):
        DataSheetTimes(gpu_named("v100")).predict([Operator("linear", (1, 2, 3), precision="bf16")])
