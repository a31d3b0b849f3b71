"""Fits of loss curves, of speeds, and of weak scaling."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sample_documents import ALLOCATION, faults

from clusterplan.instances.allocation.fits.loss import fit_loss
from clusterplan.instances.allocation.fits.measurements import LossPoint, SpeedPoint
from clusterplan.instances.allocation.fits.speed import (
    SpeedRange,
    column_lengths,
    design_matrix,
    fit_speed,
    instant_alone,
    rank_of,
    reasons,
    remedy,
    span,
)
from clusterplan.instances.allocation.instance import AllocationInstance
from clusterplan.instances.common.errors import InstanceError, OptionError
from clusterplan.instances.common.speed import FORMULAS, PsAsync, RingAllreduce, SpeedTable
from clusterplan.instances.documents import parse_instance


def curve(count: int = 30, b: tuple[float, float, float] = (0.01, 0.5, 0.2)) -> list[LossPoint]:
    """Return l(k) = 1/(b0·k + b1) + b2 at steps 10, 20, …"""
    return [LossPoint(step=10 * k, loss=1 / (b[0] * 10 * k + b[1]) + b[2]) for k in range(1, count + 1)]


def test_the_converged_step_is_that_of_the_rule() -> None:
    """The first epoch of 100 steps whose fall, and that of the next two, is below 1 % of the first loss."""
    fit = fit_loss(curve(), steps_per_epoch=100, delta=0.01, patience=3)
    assert fit.coefficients == pytest.approx((0.01, 0.5, 0.2), rel=1e-4)

    def loss(step: float) -> float:
        return 1 / (0.01 * step + 0.5) + 0.2

    epoch = next(e for e in range(1000) if loss(100 * e) - loss(100 * e + 100) < 0.01 * loss(10))
    assert fit.converged_step == 100 * (epoch + 3)
    assert fit.remaining_steps == fit.converged_step - 300
    low, high = fit.interval
    assert low <= fit.remaining_steps <= high


def test_an_outlier_is_left_out_and_said() -> None:
    """A single spike changes nothing."""
    points = curve()
    points[12] = LossPoint(step=points[12].step, loss=50.0)
    fit = fit_loss(points, steps_per_epoch=100)
    assert fit.outliers == 1
    assert [row.outlier for row in fit.rows].index(True) == 12
    assert fit.coefficients == pytest.approx((0.01, 0.5, 0.2), rel=1e-4)
    assert any("outliers" in line for line in fit.warnings)


def test_a_loss_that_does_not_fall_and_wrong_arguments_are_refused() -> None:
    """With their names."""
    flat = [LossPoint(step=k, loss=1 + 0.1 * (k % 2)) for k in range(1, 20)]
    with pytest.raises(InstanceError, match="a curve needs a loss that falls"):
        fit_loss(flat, steps_per_epoch=10)
    with pytest.raises(InstanceError, match="at least 5 are needed"):
        fit_loss(curve(4), steps_per_epoch=10)
    with pytest.raises(OptionError, match="patience"):
        fit_loss(curve(), steps_per_epoch=10, patience=0)
    with pytest.raises(OptionError, match="confidence"):
        fit_loss(curve(), steps_per_epoch=10, confidence=1.0)


def ring(theta: tuple[float, float, float, float]) -> list[SpeedPoint]:
    """Return speeds of a ring without noise, with two batches."""
    model = RingAllreduce(model="ring_allreduce", theta=theta, batch=8)
    return [
        SpeedPoint(
            workers=workers,
            batch=batch,
            steps_per_s=1 / float(model.model_copy(update={"batch": batch}).step_time_s(0, workers)),
        )
        for workers in (1, 2, 3, 5)
        for batch in (8.0, 32.0)
    ]


def test_exact_speeds_give_their_coefficients() -> None:
    """The fit has no error, is of full rank and becomes the speed of a document."""
    theta = (0.1, 0.5, 0.2, 0.05)
    fit = fit_speed(ring(theta), batch=16)
    assert fit.model == "ring_allreduce"
    assert fit.theta == pytest.approx(theta, rel=1e-6)
    assert fit.mape == pytest.approx(0, abs=1e-9)
    assert fit.leave_one_out == pytest.approx(0, abs=1e-6)
    assert (fit.rank, fit.coefficients) == (4, 4)
    assert fit.fields() == {"model": "ring_allreduce", "theta": list(fit.theta), "batch": 16}
    assert isinstance(fit.speed(), RingAllreduce)
    assert not fit.instant_alone


def test_a_ring_of_one_worker_without_time_is_warned_of() -> None:
    """θ0 = θ1 = 0 means that a step of one worker takes none."""
    assert instant_alone("ring_allreduce", (0, 0, 1, 1), 8, 1.0)
    assert not instant_alone("ring_allreduce", (0, 0.1, 1, 1), 8, 1.0)
    assert not instant_alone("ps_sync", (0, 0, 1, 1, 1), 8, 1.0)


def test_ranges_as_text() -> None:
    """One number where both ends are the same."""
    assert span(2, 2) == "2"
    assert span(1, 2.5) == "1–2.5"
    assert SpeedRange(ps=(0, 0), workers=(1, 4), batch=None).words() == "1–4 workers"
    assert SpeedRange(ps=(1, 2), workers=(3, 3), batch=(8, 8)).words() == (
        "1–2 parameter servers, 3 workers, batch 8"
    )


def test_one_configuration_or_an_unknown_model_is_refused() -> None:
    """With what is missing."""
    with pytest.raises(InstanceError, match="at least 2 different ones"):
        fit_speed([SpeedPoint(workers=2, steps_per_s=1.0)] * 3, batch=8)
    with pytest.raises(OptionError, match="allowed: auto"):
        fit_speed(ring((1, 1, 1, 1)), model="table")  # type: ignore[arg-type]


Columns = tuple[np.ndarray, np.ndarray, np.ndarray]


def columns(ps: list[float], workers: list[float], batch: list[float]) -> Columns:
    """Return the columns of measurements."""
    return np.array(ps, dtype=float), np.array(workers, dtype=float), np.array(batch, dtype=float)


def test_a_row_of_the_design_has_the_factors_of_the_coefficients() -> None:
    """M/w, 1, w/p, w and p of `ps_sync`."""
    assert design_matrix("ps_sync", *columns([2], [4], [8])).tolist() == [[2, 1, 2, 4, 2]]


def test_columns_of_zeros_have_length_one() -> None:
    """So that they can be divided by it."""
    assert column_lengths(np.array([[3.0, 0.0], [4.0, 0.0]])).tolist() == [5, 1]


def test_different_configurations_determine_all_coefficients() -> None:
    """Nothing is undetermined."""
    design = design_matrix("ps_sync", *columns([1, 2, 1, 3, 2, 4], [1, 1, 2, 2, 5, 3], [8] * 6))
    assert rank_of(design) == (5, [])


@pytest.mark.parametrize(
    ("model", "given", "rank", "common"),
    [
        ("ps_sync", columns([1, 2, 3, 4], [1, 2, 3, 4], [8] * 4), 3, "ps = workers"),
        ("ps_sync", columns([2, 2, 2, 2], [1, 2, 3, 4], [8] * 4), 3, "ps = 2"),
        ("ps_sync", columns([2, 4, 6, 8], [1, 2, 3, 4], [8] * 4), 3, "the same ratio of ps to workers"),
        ("ring_allreduce", columns([0] * 4, [1, 2, 3, 4], [8] * 4), 3, "batch = 8"),
        ("ring_allreduce", columns([0] * 4, [1, 2, 3, 4], [8, 16, 24, 32]), 3, "the same batch per worker"),
    ],
)
def test_a_common_property_hides_coefficients(model: str, given: Columns, rank: int, common: str) -> None:
    """It is named, with how many coefficients are left."""
    design = design_matrix(model, *given)
    found, undetermined = rank_of(design)
    assert found == rank < design.shape[1]
    assert undetermined
    assert common in reasons(model, *given)


def test_a_remedy_asks_for_what_varies_too_little() -> None:
    """Another batch, or another ratio."""
    assert "another batch" in remedy("ring_allreduce", np.array([8.0, 8.0]))
    assert "workers and batch" in remedy("ring_allreduce", np.array([8.0, 16.0]))
    assert "not all in one ratio" in remedy("ps_sync", np.array([8.0]))


GRID = [(p, w) for p in (1, 2, 3) for w in (1, 2, 4, 7)]


def weak(model: str, theta: list[float], pairs: list[tuple[int, int]], per_gpu: float) -> list[SpeedPoint]:
    """Return noiseless measurements with one batch for each GPU."""
    step_s = FORMULAS[model][1]
    return [
        SpeedPoint(
            ps=p, workers=w, steps_per_s=1 / float(step_s(theta, per_gpu * w, p, w)), batch=per_gpu * w
        )
        for p, w in pairs
    ]


def test_one_batch_per_gpu_determines_a_ring() -> None:
    """θ0 and θ1 are one figure; the speeds of all numbers of workers are those of all together."""
    theta = [0.002, 0.05, 0.1, 0.001]
    fit = fit_speed(weak("ring_allreduce", theta, [(0, w) for w in (1, 2, 4, 8)], 32), batch_per_gpu=32)
    assert fit.theta == pytest.approx((0.002 + 0.05 / 32, 0, 0.1, 0.001))
    assert (fit.rank, fit.coefficients, fit.batch, fit.batch_per_gpu) == (3, 3, None, 32)
    assert any("A step is the batch of one GPU, 32 samples" in warning for warning in fit.warnings)
    speed = fit.speed()
    assert isinstance(speed, SpeedTable)
    for row in speed.rows:
        step_s = 0.002 * 32 + 0.05 + 0.1 * (row.workers - 1) / row.workers + 0.001 * (row.workers - 1)
        assert row.steps_per_s == pytest.approx(row.workers / step_s)
    assert [row.workers for row in speed.rows] == list(range(1, 9))


def test_one_batch_per_gpu_makes_a_synchronous_job_have_the_form_of_an_asynchronous_one() -> None:
    """Its speed, in batches of one GPU, is w·f."""
    theta = [0.002, 0.05, 0.1, 0.01, 0.02]
    fit = fit_speed(weak("ps_sync", theta, GRID, 32), batch_per_gpu=32)
    assert fit.model == "ps_async"
    assert fit.theta == pytest.approx((0.002 * 32 + 0.05, 0.1, 0.01, 0.02))
    assert isinstance(fit.speed(), PsAsync)


def test_one_batch_per_gpu_is_offered_where_it_would_help() -> None:
    measured = weak("ring_allreduce", [0.002, 0.05, 0.1, 0.001], [(0, w) for w in (1, 2, 4, 8)], 32)
    (line,) = faults(lambda: fit_speed(measured, batch=64))
    assert "give batch_per_gpu 32 if the job keeps it" in line


def test_one_batch_per_gpu_contradicts_other_batches() -> None:
    measured = weak("ring_allreduce", [0.002, 0.05, 0.1, 0.001], [(0, w) for w in (1, 2, 4)], 32)
    found = faults(lambda: fit_speed(measured, batch_per_gpu=16))
    assert found[0].endswith("points[0]: batch: is 32; 16 for each GPU make 16")
    with pytest.raises(OptionError, match="exclude each other"):
        fit_speed(measured, batch=64, batch_per_gpu=32)
    with pytest.raises(OptionError, match="ps_async"):
        fit_speed(weak("ps_sync", [0.1] * 5, GRID, 8), "ps_sync", batch_per_gpu=8)


def test_one_batch_per_gpu_in_a_document(tmp_path: Path) -> None:
    """The range of workers says which speeds are listed."""
    rows = weak("ring_allreduce", [0.002, 0.05, 0.1, 0.001], [(0, w) for w in (1, 2, 4)], 32)
    text = "workers,steps_per_s\n" + "".join(f"{row.workers},{row.steps_per_s!r}\n" for row in rows)
    (tmp_path / "w.csv").write_text(text)
    variant: dict[str, Any] = {"name": "v", "worker_demand": {"gpu": 1}, "workers": {"min": 2, "max": 6}}
    variant["speed"] = {"measurements": "w.csv", "batch_per_gpu": 32}
    document = {**ALLOCATION, "jobs": [{"name": "j", "remaining_steps": 10, "variants": [variant]}]}
    instance = parse_instance(document, folder=tmp_path)
    assert isinstance(instance, AllocationInstance)
    speed = instance.jobs[0].variants[0].speed
    assert isinstance(speed, SpeedTable)
    assert [row.workers for row in speed.rows] == [2, 3, 4, 5, 6]
    variant["workers"] = {"min": 3, "max": 2}
    (line,) = faults(lambda: parse_instance(document, folder=tmp_path))
    assert "jobs[0].variants[0].workers: is {'min': 3, 'max': 2}; write a range" in line


def test_a_time_in_place_of_a_speed_is_pointed_out() -> None:
    """Only where every further worker makes the step as much longer as a time would look."""
    times = [SpeedPoint(workers=w, steps_per_s=0.8 / w, batch=b) for w in (1, 2, 4) for b in (64,)]
    fit = fit_speed(times, batch=64, allow_rank_deficient=True)
    assert any("does steps_per_s hold a time" in warning for warning in fit.warnings)
    speeds = [SpeedPoint(workers=w, steps_per_s=1 / (1 + 0.1 * w), batch=64) for w in (1, 2, 4)]
    fit = fit_speed(speeds, batch=64, allow_rank_deficient=True)
    assert not any("does steps_per_s hold a time" in warning for warning in fit.warnings)
