"""Fits of losses: the step of convergence by hand, outliers, and what is refused."""

from __future__ import annotations

import pytest

from clusterplan.instances.allocation.fits.loss import fit_loss
from clusterplan.instances.allocation.fits.measurements import LossPoint
from clusterplan.instances.common.errors import InstanceError, OptionError


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
