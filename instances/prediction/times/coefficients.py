"""Coefficients of the parts of a time, fitted to measurements: of one GPU, or of several together.

The sum of squared relative errors Σ (x·θ / t − 1)² is least over θ ≥ 0: non-negative least squares (Lawson &
Hanson 1974) on rows divided by their measured times. Twenty measurements tell the speed of a GPU, but not all
its coefficients. So the fit is drawn towards those of other GPUs, μ, in two steps (ridge regression; Hoerl &
Kennard 1970): to s·μ with a scale s of the arithmetic and one of the memory, and the scales to 1,

    Σ (x·θ/t − 1)² + `DRAWN`²·Σ (θ_k/μ_k − s_g(k))² + `SCALE_DRAWN`²·Σ (s_g − 1)².

What the formula leaves over is smooth in the logarithms of the sizes, for a library takes the same kernel for
like shapes: a Gaussian process corrects it near the measured shapes, and fades away from them (universal
kriging; Cressie 1993, section 3.4).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls

from ...common.arrays import Floats
from ..correction import Correction, fit_correction
from ..hardware import Gpu
from ..operators import Operator
from .families import FAMILIES, FAMILY, GROUPS, logarithms, parts
from .measurements import Measurement

DRAWN = 1.0
"""Weight of a coefficient of other GPUs, in their scale, beside one measurement."""
SCALE_DRAWN = 0.5
"""Weight of the scale of other GPUs beside one measurement.

Of 0.2, 0.5, 1, 1.5, 2 and 3 that with the least mean error of whole models on P100, T4, V100 and A100."""
LEAST = 1e-9
LEAST_CALL = 1e-8
"""Seconds of any call, whatever measurements that contradict each other say: no time is 0."""
LENGTHS = (2.0, 4.0, 8.0)
"""Over which a correction may change, in doublings of a size: no shorter than planned shapes lie apart."""
NOISES = (0.1, 0.3, 1.0)
"""Variances of the noise of a correction, as shares of its own variance."""
MOST_CORRECTED = 500
"""Measurements that a correction is fitted to; of more, these are taken in equal steps."""
MOST_LEFT_OUT = 50
"""Fits for the errors of left-out measurements; of more measurements, several are left out at once."""

PLATFORM: Mapping[str, tuple[float, ...]] = {
    "linear": (1.315, 0.02799, 0, 0.1897, 1.868, 0, 4.772e-05),
    "bmm": (0.07596, 0, 0.7936, 0.9984, 1.019, 0, 3.496e-05),
    "conv": (0, 1.637, 0, 0, 2.497, 0, 1.661e-4),
    "norm": (0, 0, 0, 0, 1.224, 0.5789, 4.704e-05),
    "softmax": (0, 0, 0, 0, 0, 1.61, 3.786e-05),
    "elementwise": (0, 0, 0, 0, 0, 1.232, 2.936e-05),
}
"""Coefficients of other GPUs, to which a fit is drawn: fitted by `pooled` to the single-precision rows of
NeuSight (Lee, Phanishayee & Mahajan 2025) on P4, P100, T4, V100 and A100."""

DATA_SHEETS: Mapping[str, tuple[float, ...]] = {
    **PLATFORM,
    "linear": (0.7553, 0.3867, 0, 0.6138, 0.5299, 0, 5.234e-05),
    "bmm": (0.3415, 0, 0.3849, 0.7097, 0.8665, 0, 3.732e-05),
    "conv": (0, 1.145, 0, 0, 2.163, 0, 1.93e-4),
}
"""The same over the peaks that GPUs sustain (`power.sustained`), for one that nobody measured.

A fit needs no such guess: its measurements say what the GPU sustains."""

Coefficients = Mapping[str, Floats]
"""Family → its coefficients, one for each of `PARTS`."""


def platform() -> Coefficients:
    """Return the coefficients to which a fit is drawn."""
    return {family: np.array(theta) for family, theta in PLATFORM.items()}


def of_data_sheets() -> Coefficients:
    """Return the coefficients for the data sheet of a GPU that nobody measured."""
    return {family: np.array(theta) for family, theta in DATA_SHEETS.items()}


@dataclass(frozen=True)
class Fit:
    """The fit of one family on one GPU.

    Parameters
    ----------
    theta
        The coefficients.
    correction
        Of the logarithm of the time, over `logarithms`.
    residuals
        Logarithm of measured over fitted time, each fitted without that measurement.
    largest
        The most floating-point operations and bytes of a measured call.
    """

    theta: Floats
    correction: Correction
    residuals: Floats
    largest: Floats

    def factor(self, operator: Operator) -> float:
        """Return by what the correction multiplies the time of an operator."""
        return float(np.exp(self.correction(np.array([logarithms(operator)]))[0]))


def relative_fit(design: Floats, seconds: Floats, towards: Floats | None = None) -> Floats:
    """Return θ ≥ 0 with the least sum of squared relative errors.

    Parameters
    ----------
    design
        Shape (measurements, parts).
    seconds
        Shape (measurements,).
    towards
        Coefficients of other GPUs to which it is drawn, up to a scale.
    """
    rows, values = design / seconds[:, None], np.ones(len(seconds))
    if towards is not None:
        drawn, to = _drawn(towards)
        rows = np.vstack([np.pad(rows, ((0, 0), (0, len(GROUPS)))), drawn])
        values = np.append(values, to)
    return _least(rows, values)[: design.shape[1]]


def _drawn(towards: Floats) -> tuple[Floats, Floats]:
    """Return the rows that draw coefficients to those of others times a scale, and their right sides.

    The scales of `GROUPS` are unknowns after the coefficients; the call has none.
    """
    rows, values = [], []
    for column in np.flatnonzero(towards > 0):
        row, value = np.zeros(len(towards) + len(GROUPS)), DRAWN
        row[column] = DRAWN / towards[column]
        for index, group in enumerate(GROUPS):
            if column in group:
                row[len(towards) + index], value = -DRAWN, 0.0
        rows.append(row)
        values.append(value)
    for index in range(len(GROUPS)):
        row = np.zeros(len(towards) + len(GROUPS))
        row[len(towards) + index] = SCALE_DRAWN
        rows.append(row)
        values.append(SCALE_DRAWN)
    return np.array(rows), np.array(values)


def _least(rows: Floats, values: Floats) -> Floats:
    """Return non-negative least squares, with columns of one length: the parts are of very unlike sizes."""
    lengths = np.linalg.norm(rows, axis=0)
    lengths = np.where(lengths > 0, lengths, 1.0)
    found, _ = nnls(rows / lengths, values)
    return np.asarray(found / lengths)


def by_family(operators: Iterable[Operator]) -> dict[str, list[int]]:
    """Return the indices of the operators of each family."""
    found: dict[str, list[int]] = {}
    for index, operator in enumerate(operators):
        found.setdefault(FAMILY[operator.kind], []).append(index)
    return found


def fitted(gpu: Gpu, measured: Sequence[Measurement], towards: Coefficients) -> dict[str, Fit]:
    """Return the fit of each family that was measured on a GPU."""
    operators = [measurement.operator for measurement in measured]
    fits = {}
    for family, indices in by_family(operators).items():
        chosen = [operators[index] for index in indices]
        design = parts(chosen, gpu)
        seconds = np.array([measured[index].seconds for index in indices])
        prior = towards[family]
        theta = relative_fit(design, seconds, prior)
        theta[-1] = max(theta[-1], LEAST_CALL)
        largest = np.max([[op.flops, op.bytes] for op in chosen], axis=0)
        at = np.array([logarithms(op) for op in chosen])
        rest = np.log(seconds / np.maximum(design @ theta, LEAST))
        part = slice(None, None, -(-len(rest) // MOST_CORRECTED))
        correction = fit_correction(at[part], rest[part], LENGTHS, NOISES)
        left_out = _left_out(design, seconds, prior)
        # Of the left-out error, the correction from the other measurements explains this part.
        left_out[part] -= rest[part] - correction.errors
        fits[family] = Fit(theta, correction, left_out[part], largest)
    return fits


def _left_out(design: Floats, seconds: Floats, prior: Floats) -> Floats:
    """Return log(measured/fitted) of each measurement, fitted to the others without a correction."""
    residuals = np.empty(len(seconds))
    folds = np.arange(len(seconds)) % MOST_LEFT_OUT
    for fold in range(min(MOST_LEFT_OUT, len(seconds))):
        held = folds == fold
        theta = relative_fit(design[~held], seconds[~held], prior)
        residuals[held] = np.log(seconds[held] / np.maximum(design[held] @ theta, LEAST))
    return residuals


def pooled(measured: Sequence[tuple[Gpu, Sequence[Measurement]]]) -> dict[str, Floats]:
    """Return the coefficients that are best for several GPUs together; each GPU has the same weight."""
    found = {}
    for family in FAMILIES:
        rows, weights = [], []
        for gpu, all_of_it in measured:
            own = [m for m in all_of_it if FAMILY[m.operator.kind] == family]
            if own:
                seconds = np.array([m.seconds for m in own])
                rows.append(parts([m.operator for m in own], gpu) / seconds[:, None])
                weights.append(np.full(len(own), len(own) ** -0.5))
        if rows:
            weight = np.concatenate(weights)
            found[family] = _least(np.vstack(rows) * weight[:, None], weight)
    if "conv" not in found and "linear" in found:
        found["conv"] = found["linear"]
    return found
