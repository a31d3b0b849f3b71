"""Fits of speeds: exact data gives exact coefficients, and the report says what was measured.

Which coefficients measured configurations determine, by hand.
"""

from __future__ import annotations

import numpy as np
import pytest

from clusterplan.instances.allocation.fits.measurements import SpeedPoint
from clusterplan.instances.allocation.fits.speed import (
    SpeedRange,
    column_lengths,
    design_matrix,
    explanation,
    fit_speed,
    instant_alone,
    rank_of,
    reasons,
    remedy,
    span,
)
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
    rank = rank_of(design_matrix("ps_sync", *columns([1, 2, 1, 3, 2, 4], [1, 1, 2, 2, 5, 3], [8] * 6)))
    assert rank.full
    assert rank.undetermined == ()


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
    found = rank_of(design_matrix(model, *given))
    assert found.rank == rank
    assert not found.full
    assert common in reasons(model, *given)
    assert f"only {rank} of the" in explanation(found, model, *given)


def test_a_remedy_asks_for_what_varies_too_little() -> None:
    """Another batch, or another ratio."""
    assert "another batch" in remedy("ring_allreduce", np.array([8.0, 8.0]))
    assert "workers and batch" in remedy("ring_allreduce", np.array([8.0, 16.0]))
    assert "not all in one ratio" in remedy("ps_sync", np.array([8.0]))
