"""Fits of speeds: words of the report, one batch for each GPU, and times in place of speeds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sample_documents import ALLOCATION, faults

from clusterplan.instances.allocation.fits.measurements import SpeedPoint
from clusterplan.instances.allocation.fits.speed import (
    SpeedRange,
    fit_speed,
    remedy,
    span,
)
from clusterplan.instances.allocation.instance import AllocationInstance
from clusterplan.instances.common.errors import OptionError
from clusterplan.instances.common.speed import FORMULAS, PsAsync, SpeedTable
from clusterplan.instances.documents import parse_instance


def test_ranges_as_text() -> None:
    """One number where both ends are the same."""
    assert span(2, 2) == "2"
    assert span(1, 2.5) == "1–2.5"
    assert SpeedRange(ps=(0, 0), workers=(1, 4), batch=None).words() == "1–4 workers"
    assert SpeedRange(ps=(1, 2), workers=(3, 3), batch=(8, 8)).words() == (
        "1–2 parameter servers, 3 workers, batch 8"
    )


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
