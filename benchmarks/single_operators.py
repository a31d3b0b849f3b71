"""Times of single operators, corrected near the shapes that were measured, with intervals.

A planner adds up whole models, which such a correction does not help: a call that is repeated alone meets
other clocks and caches than one inside a model. Here the operators are predicted one by one.

The residual of the formula is smooth in the logarithms of the sizes, because a library uses the same kernel
for similar shapes: a Gaussian process corrects it near the measured shapes, and fades away from them
(universal kriging; Cressie 1993, section 3.4; Rasmussen & Williams 2006, chapters 2 and 5). Its Matérn kernel
is of order 3/2 over one distance. Its length and its noise are those of a small grid with the largest
marginal likelihood of the measurements, so that no other data are used for tuning.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, hypot

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.spatial.distance import cdist

from clusterplan.instances.common.arrays import Floats
from clusterplan.instances.prediction.calibration import OUTSIDE, Basis, Estimate
from clusterplan.instances.prediction.hardware import Gpu
from clusterplan.instances.prediction.operator_times import (
    DATA_SHEETS,
    FAMILY,
    PLATFORM,
    Coefficients,
    Measurement,
    OperatorTimes,
    logarithms,
    parts,
    relative_fit,
)
from clusterplan.instances.prediction.operators import Operator

LEAST = 1e-9
LENGTHS = (2.0, 4.0, 8.0)
"""Length scales of a correction in doublings of a size, at least the distance of planned shapes."""
NOISES = (0.1, 0.3, 1.0)
"""Variances of the noise of a correction, relative to its own variance."""
MAX_CORRECTED = 500
"""Limit of the measurements to which a correction is fitted; of more, a regular subset is used."""
MAX_LEFT_OUT = 50
"""Limit of the fits for leave-one-out errors; with more measurements, several are left out at once."""
SPREADS: Mapping[tuple[Basis, str], tuple[float, float]] = {
    ("measured", "bmm"): (-2.09, 1.46),
    ("measured", "conv"): (-1.21, 1.35),
    ("measured", "elementwise"): (-0.32, 0.38),
    ("measured", "linear"): (-3.38, 2.37),
    ("measured", "norm"): (-1.07, 0.88),
    ("measured", "softmax"): (-1.72, 1.75),
    ("data sheet", "bmm"): (-0.48, 0.69),
    ("data sheet", "conv"): (-0.54, 0.92),
    ("data sheet", "elementwise"): (-0.23, 0.30),
    ("data sheet", "linear"): (-0.50, 0.71),
    ("data sheet", "norm"): (-0.39, 0.36),
    ("data sheet", "softmax"): (-0.44, 0.49),
}
"""Basis and family → ends of the scores.

Those of ``measured`` are in units of the errors of left-out measurements. What widens that of linear layers
is P4, whose training shapes were measured when it was three times as slow as for the larger ones.
"""
LEAST_SCALE = 0.1
"""Added in quadrature to leave-one-out errors, because few of them may be small by chance."""


@dataclass(frozen=True)
class Correction:
    """A correction of predicted times, fitted by Gaussian-process regression.

    Parameters
    ----------
    at
        The features of the measurements, shape (points, features).
    weights
        Weight of the kernel at each of them.
    length
        Length scale of the kernel, in the units of the features.
    errors
        Leave-one-out error at each of them, after the correction.
    """

    at: Floats
    weights: Floats
    length: float
    errors: Floats

    def __call__(self, features: Floats) -> Floats:
        """Return the correction at some features, shape (points,)."""
        return np.asarray(_matern(features, self.at, self.length) @ self.weights)


def _matern(one: Floats, other: Floats, length: float) -> Floats:
    distance = np.sqrt(3.0) * cdist(one, other) / length
    return np.asarray((1.0 + distance) * np.exp(-distance))


def fit_correction(
    features: Floats, rest: Floats, lengths: Sequence[float], noises: Sequence[float]
) -> Correction:
    """Fit a Gaussian-process correction to the residuals of a formula.

    Parameters
    ----------
    features
        Shape (points, features), all in one unit.
    rest
        The residuals, shape (points,).
    lengths, noises
        The grid of length scales, and of noise variances relative to the variance of the process.
    """
    tried = []
    for length in lengths:
        kernel = _matern(features, features, length)
        for noise in noises:
            factor = cho_factor(kernel + noise * np.eye(len(rest)), lower=True)
            weights = cho_solve(factor, rest)
            # The variance of the process maximises the likelihood.
            variance = max(float(rest @ weights) / len(rest), 1e-300)
            likelihood = -0.5 * len(rest) * np.log(variance) - float(np.log(np.diag(factor[0])).sum())
            tried.append((likelihood, length, weights, factor))
    _, length, weights, factor = max(tried, key=lambda each: each[0])
    # Leave-one-out errors from the inverse alone (section 5.4.2).
    errors = weights / np.diag(cho_solve(factor, np.eye(len(rest))))
    return Correction(features, weights, length, errors)


def spread(basis: Basis, family: str, inside: bool, scale: float = 1.0) -> tuple[float, float]:
    """Return both ends of the interval of an operator's time, as factors of the predicted time.

    Parameters
    ----------
    basis
        ``data sheet`` or ``measured``.
    inside
        Whether it lies inside the measured range.
    scale
        Size of the leave-one-out errors; 1 without measurements.
    """
    low, high = SPREADS[basis, family]
    if basis == "measured":
        scale = float(hypot(scale, LEAST_SCALE)) * (1.0 if inside else OUTSIDE)
    return exp(min(low * scale, 0.0)), exp(max(high * scale, 0.0))


@dataclass(frozen=True)
class Corrected:
    """What the measurements of one family of operators on one GPU say beside the formula.

    Parameters
    ----------
    correction
        Correction of the logarithm of the time, as a function of `logarithms`.
    residuals
        Logarithm of measured over fitted time, each fitted without that measurement.
    """

    correction: Correction
    residuals: Floats

    @classmethod
    def of(cls, gpu: Gpu, measured: Sequence[Measurement], prior: Floats, theta: Floats) -> Corrected:
        """Return the correction of a formula with these coefficients, which were drawn to a prior."""
        operators = [one.operator for one in measured]
        design, seconds = parts(operators, gpu), np.array([one.seconds for one in measured])
        at = np.array([logarithms(op) for op in operators])
        rest = np.log(seconds / np.maximum(design @ theta, LEAST))
        part = slice(None, None, -(-len(rest) // MAX_CORRECTED))
        correction = fit_correction(at[part], rest[part], LENGTHS, NOISES)
        left_out = _left_out(design, seconds, prior)
        # The correction from the other measurements explains this part of the leave-one-out error.
        left_out[part] -= rest[part] - correction.errors
        return cls(correction, left_out[part])

    def factor(self, operator: Operator) -> float:
        """Return the factor by which the correction multiplies the predicted time of an operator."""
        return float(np.exp(self.correction(np.array([logarithms(operator)]))[0]))


def _left_out(design: Floats, seconds: Floats, prior: Floats) -> Floats:
    """Return log(measured/fitted) of each time by leave-one-out, without a correction."""
    residuals = np.empty(len(seconds))
    folds = np.arange(len(seconds)) % MAX_LEFT_OUT
    for fold in range(min(MAX_LEFT_OUT, len(seconds))):
        held_out = folds == fold
        theta = relative_fit(design[~held_out], seconds[~held_out], prior)
        residuals[held_out] = np.log(seconds[held_out] / np.maximum(design[held_out] @ theta, LEAST))
    return residuals


class SingleOperatorTimes(OperatorTimes):
    """Predicts the seconds of single operators, with corrections near measured shapes."""

    def __init__(
        self,
        gpu: Gpu,
        measured: Sequence[Measurement] = (),
        sheet: Coefficients = DATA_SHEETS,
        towards: Coefficients = PLATFORM,
    ) -> None:
        super().__init__(gpu, measured, sheet, towards)
        self.corrected = {}
        for (family, precision), fit in self.fits.items():
            here = [one for one in measured if one.operator.precision == precision]
            own = [one for one in here if FAMILY[one.operator.kind] == family]
            prior = np.asarray(towards[family])
            self.corrected[family, precision] = Corrected.of(gpu, own, prior, fit.theta)

    def predict(self, operators: Sequence[Operator]) -> list[Estimate]:
        """Return the predicted seconds of each operator, summed over its `count` calls.

        Raises
        ------
        OptionError
            If the GPU has no peak for a precision.
        """
        estimates = []
        for row, operator in zip(self.seconds(operators), operators, strict=True):
            seconds, inside, basis = float(row.sum()) * operator.count, False, self.sheet_basis
            family = FAMILY[operator.kind]
            known = self.corrected.get((family, operator.precision))
            if known is None:
                low, high = spread("data sheet", family, inside)
            else:
                seconds *= known.factor(operator)
                inside = self._inside(operator)
                low, high = spread("measured", family, inside, float(np.sqrt(np.mean(known.residuals**2))))
                basis = f"{len(known.residuals)} measurements of {family} on {self.gpu.name}"
            estimates.append(Estimate(seconds, seconds * low, seconds * high, inside, basis))
        return estimates
