"""Runs of distributed training.

Pipelines: the bubble, against a schedule that is played through.

The formula of a step: what must follow from each of its terms.

Whole steps: coefficients found again, and vTrain's measured iterations held out.

Intervals of steps: wider outside, widest where nothing was tried, and of the cluster that was measured.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterplan.instances.common.arrays import Floats
from clusterplan.instances.common.errors import OptionError
from clusterplan.instances.prediction.step_times import (
    A100_SERVER,
    COEFFICIENTS,
    UNKNOWN,
    VOCABULARY,
    Runs,
    StepIntervals,
    fit_steps,
    fit_with_intervals,
    pipeline_s,
    step_seconds,
)

ROW = {
    **{"batch": 64, "microbatch": 2, "hidden": 1024, "heads": 16, "layers": 24, "sequence": 1024},
    **{"tensor": 2, "data": 4, "pipeline": 2},
}


def test_microbatches_and_choice() -> None:
    runs = Runs.of([ROW, ROW | {"data": 8}])
    assert runs.microbatches.tolist() == [8, 4]
    assert runs.only(runs.data == 8).data.tolist() == [8]
    assert runs.features().shape == (2, 8)


@pytest.mark.parametrize(
    ("change", "what"), [({"tensor": 0}, "tensor must be 1"), ({"batch": 60}, "multiple")]
)
def test_runs_that_cannot_be(change: dict[str, int], what: str) -> None:
    with pytest.raises(OptionError, match=what):
        Runs.of([ROW | change])


@given(st.lists(st.just(0.0) | st.floats(1e-9, 100), min_size=1, max_size=6), st.integers(1, 8))
def test_microbatches_that_pass_one_after_the_other(stages: list[float], microbatches: int) -> None:
    done = [0.0] * len(stages)
    for _ in range(microbatches):
        before = 0.0
        for index, seconds in enumerate(stages):
            done[index] = before = max(before, done[index]) + seconds
    assert pipeline_s(stages, microbatches) == pytest.approx(done[-1])


@pytest.mark.parametrize(("stages", "microbatches"), [([], 1), ([1.0], 0), ([-1.0], 1)])
def test_pipelines_that_cannot_be(stages: list[float], microbatches: int) -> None:
    with pytest.raises(OptionError, match="1 or more of each"):
        pipeline_s(stages, microbatches)


MEGATRON_ROW = {
    **{"batch": 64, "microbatch": 2, "hidden": 1024, "heads": 16, "layers": 24, "sequence": 1024},
    **{"tensor": 1, "data": 1, "pipeline": 1},
}
NONE = dict.fromkeys(COEFFICIENTS, 0.0)


def _seconds(change: dict[str, int], **values: float) -> float:
    return float(step_seconds(NONE | values, Runs.of([MEGATRON_ROW | change]))[0])


def test_matrices_take_six_operations_a_parameter_and_token_and_those_of_attention() -> None:
    tokens = 64 * 1024
    flops = 3 * 24 * tokens * (24 * 1024**2 + 4 * 1024 * 1024)
    assert _seconds({}, matrices=1.0) == pytest.approx(flops / A100_SERVER.flops_per_s)
    assert _seconds({"tensor": 4}, matrices=1.0) == pytest.approx(flops / A100_SERVER.flops_per_s / 4)


def test_a_pipeline_of_four_stages_and_thirty_two_microbatches_has_its_bubble() -> None:
    alone = _seconds({}, matrices=1.0)
    assert _seconds({"pipeline": 4}, matrices=1.0) == pytest.approx(alone * 35 / 32 / 4)


def test_replicas_add_their_gradients_up_in_a_ring() -> None:
    size = 2 * (24 * 12 * 1024**2 + 1024 * VOCABULARY)
    inside = _seconds({"data": 4}, data_link=1.0)
    assert inside == pytest.approx(2 * 3 / 4 * size / A100_SERVER.inside_bytes_per_s)
    outside = _seconds({"data": 16}, network=1.0)
    assert outside == pytest.approx(2 * 15 / 16 * size / A100_SERVER.network_bytes_per_s)
    assert _seconds({"data": 1}, data_link=1.0, network=1.0) == 0.0


def test_launches_hide_behind_the_work_of_the_gpu() -> None:
    work = _seconds({}, matrices=1.0)
    assert _seconds({}, matrices=1.0, launch_s=1e-6) == pytest.approx(work)
    assert _seconds({}, launch_s=1e-3) == pytest.approx(32 * 24 * 1e-3)


def test_every_coefficient_counts_somewhere() -> None:
    wide = {"tensor": 16, "data": 2, "pipeline": 2}
    for name in COEFFICIENTS:
        found = _seconds(wide, **{name: 1.0}) + _seconds({"data": 2}, **{name: 1.0})
        assert found > 0, name


COLUMNS = {
    **{"global batch": "batch", "micro batch": "microbatch", "hidden size": "hidden", "# layers": "layers"},
    **{"attention heads": "heads", "sequence length": "sequence", "tensor parallelism": "tensor"},
    **{"data parallelism": "data", "pipeline parallelism": "pipeline"},
}


def _measured(folder: Path, name: str) -> tuple[Runs, Floats]:
    table = pd.read_csv(folder / "vtrain" / name, encoding="utf-8-sig").rename(columns=COLUMNS)
    rows = table[list(COLUMNS.values())].to_dict("records")
    return Runs.of(rows), table["iteration time (ms)"].to_numpy() / 1e3


def _mape(predicted: Floats, measured: Floats) -> float:
    return float(np.abs(predicted / measured - 1).mean())


def test_steps_that_the_formula_made_are_fitted() -> None:
    rows = [
        {"batch": 64, "microbatch": b, "hidden": h, "heads": 16, "layers": 24, "sequence": 1024}
        | {"tensor": t, "data": d, "pipeline": p}
        for b in (1, 4)
        for h in (1024, 4096)
        for t in (1, 2)
        for d in (1, 4)
        for p in (1, 2)
    ]
    runs = Runs.of(rows)
    values = {name: 1.1 * one.value for name, one in COEFFICIENTS.items()}
    seconds = step_seconds(values, runs)
    fit = fit_steps(runs, seconds)
    assert fit.correction is None
    assert _mape(fit.seconds(runs), seconds) < 0.03
    assert _mape(fit.scaled_to(runs, 2 * seconds).seconds(runs), 2 * seconds) < 0.03
    assert fit.inside(runs).all()
    assert not fit.inside(Runs.of([rows[0] | {"hidden": 512}])).any()


def test_measurements_that_cannot_be() -> None:
    with pytest.raises(OptionError, match="one or more"):
        fit_steps(Runs.of([]), np.array([]))


@pytest.mark.slow
def test_five_folds_of_one_server(shared_data: Path) -> None:
    runs, seconds = _measured(shared_data, "ground_truth_single.csv")
    folds = np.random.default_rng(0).permutation(len(seconds)) % 5
    predicted = np.zeros(len(seconds))
    for fold in range(5):
        held = folds == fold
        predicted[held] = fit_steps(runs.only(~held), seconds[~held]).seconds(runs.only(held))
    assert _mape(predicted, seconds) <= 0.03


@pytest.mark.slow
def test_a_hidden_size_that_was_left_out(shared_data: Path) -> None:
    runs, seconds = _measured(shared_data, "ground_truth_single.csv")
    errors = []
    for hidden in (1024, 2048):
        held = runs.hidden == hidden
        fit = fit_steps(runs.only(~held), seconds[~held])
        assert not fit.inside(runs.only(held)).any()
        errors.append(_mape(fit.seconds(runs.only(held)), seconds[held]))
    assert np.mean(errors) <= 0.12


@pytest.mark.slow
def test_several_servers_from_one_and_ten_runs(shared_data: Path) -> None:
    fit = fit_steps(*_measured(shared_data, "ground_truth_single.csv"))
    runs, seconds = _measured(shared_data, "ground_truth_multi_half.csv")
    errors = []
    for seed in range(20):
        chosen = np.random.default_rng(seed).permutation(len(seconds)) < 10
        scaled = fit.scaled_to(runs.only(chosen), seconds[chosen])
        errors.append(_mape(scaled.seconds(runs.only(~chosen)), seconds[~chosen]))
    assert np.mean(errors) <= 0.12


ROWS = [
    {"batch": 64, "microbatch": micro, "hidden": 1024, "heads": 16, "layers": 24, "sequence": sequence}
    | {"tensor": tensor, "data": data, "pipeline": pipeline}
    for micro in (1, 2)
    for sequence in (512, 1024)
    for tensor in (1, 2)
    for data in (1, 4)
    for pipeline in (1, 2, 4)
]


def _fitted() -> tuple[StepIntervals, Runs]:
    runs = Runs.of(ROWS)
    truth = step_seconds({name: one.value for name, one in COEFFICIENTS.items()}, runs)
    noise = np.random.default_rng(0).normal(0.0, 0.05, len(runs))
    return fit_with_intervals(runs, truth * np.exp(noise)), runs


def test_outside_is_said_and_untried_features_are_widest() -> None:
    fitted, runs = _fitted()
    known, longer, wider = fitted.predict(
        Runs.of([ROWS[0], ROWS[0] | {"sequence": 2048}, ROWS[0] | {"hidden": 2048}])
    )
    assert (known.inside, longer.inside, wider.inside) == (True, False, False)
    assert all(one.low <= one.seconds <= one.high for one in (known, longer, wider))
    assert wider.high / wider.seconds > longer.high / longer.seconds
    assert fitted.outside[0] < fitted.outside[1]
    assert len(fitted.predict(runs)) == len(runs)


def test_another_cluster_has_the_errors_that_were_measured_there() -> None:
    fitted, runs = _fitted()
    there = fitted.scaled_to(runs, 3.0 * fitted.fit.seconds(runs))
    assert there.inside == pytest.approx((0.0, 0.0), abs=1e-9)
    assert there.predict(runs)[0].seconds == pytest.approx(3.0 * fitted.fit.seconds(runs)[0])
    one = fitted.scaled_to(Runs.of(ROWS[:1]), 2.0 * fitted.fit.seconds(Runs.of(ROWS[:1])))
    assert one.inside == fitted.outside
    with pytest.raises(OptionError, match="measure one or more"):
        fitted.scaled_to(Runs.of([]), np.array([]))


def test_too_few_runs_to_try_are_a_factor_of_two() -> None:
    runs = Runs.of(ROWS[:3])
    assert fit_with_intervals(runs, np.ones(3)).outside == UNKNOWN


def test_enough_runs_have_the_quantiles_of_left_out_errors_inside_and_of_left_out_ends_outside() -> None:
    """Noise of 5 %: nine of ten errors lie inside ends of ±1.645 · 5 %, and the outside was tried."""
    runs = Runs.of([*ROWS, *(row | {"microbatch": 4} for row in ROWS[: len(ROWS) // 2])])
    truth = step_seconds({name: one.value for name, one in COEFFICIENTS.items()}, runs)
    fitted = fit_with_intervals(runs, truth * np.exp(np.random.default_rng(0).normal(0.0, 0.05, len(runs))))
    assert fitted.fit.correction is not None
    errors = fitted.fit.correction.errors
    low, high = fitted.inside
    assert np.mean((errors >= low) & (errors <= high)) == pytest.approx(0.9, abs=0.03)
    assert (low, high) == pytest.approx((-0.0823, 0.0823), abs=0.03)
    assert fitted.outside != UNKNOWN
