"""Coefficients: each GPU counts as much, and what is left over is what the correction cannot say."""

from __future__ import annotations

import numpy as np
import pytest

from clusterplan.instances.prediction.hardware import gpu_named
from clusterplan.instances.prediction.operators import Operator
from clusterplan.instances.prediction.times.coefficients import fitted, platform, pooled
from clusterplan.instances.prediction.times.families import parts
from clusterplan.instances.prediction.times.measurements import Measurement

V100, T4 = gpu_named("v100"), gpu_named("t4")
SHAPES = [Operator("linear", (2**k, 1024, 1024)) for k in range(6, 16)]


def test_each_gpu_counts_as_much_however_many_of_its_calls_were_timed() -> None:
    fast = [Measurement(op, op.flops / 1e13 + 1e-5) for op in SHAPES]
    slow = [Measurement(op, 3 * op.flops / 1e13 + 5e-5) for op in SHAPES]
    one, other = pooled([(V100, fast * 30), (T4, slow)]), pooled([(V100, fast), (T4, slow * 30)])
    assert one["linear"] == pytest.approx(other["linear"], rel=1e-6)


def test_residuals_are_those_of_the_corrected_time_without_the_measurement() -> None:
    """A smooth wave of 30 % that the formula cannot follow, and the correction from the neighbours can."""
    shapes = [Operator("linear", (round(2 ** (k / 3)), 1024, 1024)) for k in range(18, 46)]
    wave = np.exp(0.3 * np.sin(np.arange(len(shapes)) / 3.0))
    measured = [
        Measurement(op, op.flops / 1e13 * float(factor)) for op, factor in zip(shapes, wave, strict=True)
    ]
    fit = fitted(V100, measured, platform())["linear"]
    formula = np.log(np.array([m.seconds for m in measured]) / (parts(shapes, V100) @ fit.theta))
    assert np.abs(fit.residuals).mean() < 0.6 * np.abs(formula).mean()
