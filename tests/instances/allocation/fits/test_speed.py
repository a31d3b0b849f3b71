"""Fits of speeds: exact data gives exact coefficients, and the report says what was measured."""

from __future__ import annotations

import pytest

from clusterplan.instances.allocation.fits.measurements import SpeedPoint
from clusterplan.instances.allocation.fits.speed import fit_speed
from clusterplan.instances.allocation.fits.speed_fit import SpeedRange, instant_alone, span
from clusterplan.instances.common.errors import InstanceError, OptionError
from clusterplan.instances.common.speed import RingAllreduce


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
