"""Coefficients of the three parts of a time, fitted to measurements: of one GPU, or of several together.

The sum of squared relative errors Σ (x·θ / t − 1)² is least over θ ≥ 0: non-negative least squares (Lawson &
Hanson 1974) on rows divided by their measured times. The fit of one GPU is drawn towards the coefficients of
others by as many relative errors (ridge regression; Hoerl & Kennard 1970), for twenty measurements of large
shapes say little about the constant of a call.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls

from ...common.arrays import Floats
from ..hardware import Gpu
from ..operators import Operator
from .families import FAMILIES, FAMILY, parts
from .measurements import Measurement

DRAWN = 1.0
"""Weight of a coefficient of other GPUs beside one measurement.

Of 0.1, 0.2, 0.3, 0.5, 1 and 2 that with the least mean error of whole models on P100, T4, V100 and A100.
"""
LEAST = 1e-9

PLATFORM: Mapping[str, tuple[float, float, float]] = {
    "linear": (1.339, 1.977, 49e-6),
    "bmm": (1.064, 1.390, 37e-6),
    "conv": (1.339, 1.977, 49e-6),
    "norm": (0.0, 1.742, 45e-6),
    "softmax": (0.0, 1.424, 32e-6),
    "elementwise": (0.0, 1.123, 24e-6),
}
"""Coefficients of GPUs that nobody measured: fitted by `pooled` to the single-precision measurements of
NeuSight (Lee, Phanishayee & Mahajan 2025) on P4, P100, T4, V100 and A100. `linear` reaches 75 % of the peak,
elementwise operators 89 % of the bandwidth. Convolutions have those of linear layers."""

Coefficients = Mapping[str, Floats]
"""Family → its three coefficients."""


def platform() -> Coefficients:
    """Return the coefficients of GPUs that nobody measured."""
    return {family: np.array(theta) for family, theta in PLATFORM.items()}


@dataclass(frozen=True)
class Fit:
    """The fit of one family on one GPU.

    Parameters
    ----------
    theta
        The three coefficients.
    residuals
        Logarithm of measured over fitted time, each fitted without that measurement.
    largest
        The most floating-point operations and bytes of a measured call.
    """

    theta: Floats
    residuals: Floats
    largest: Floats


def relative_fit(design: Floats, seconds: Floats, towards: Floats | None = None) -> Floats:
    """Return θ ≥ 0 with the least sum of squared relative errors.

    Parameters
    ----------
    design
        Shape (measurements, 3).
    seconds
        Shape (measurements,).
    towards
        Coefficients of other GPUs to which it is drawn.
    """
    rows, ones = design / seconds[:, None], np.ones(len(seconds))
    if towards is not None:
        known = towards > 0
        rows = np.vstack([rows, np.diag(DRAWN / np.maximum(towards, LEAST))[known]])
        ones = np.append(ones, np.full(known.sum(), DRAWN))
    lengths = np.linalg.norm(rows, axis=0)
    lengths = np.where(lengths > 0, lengths, 1.0)
    theta, _ = nnls(rows / lengths, ones)
    return np.asarray(theta / lengths)


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
        largest = np.max([[op.flops, op.bytes] for op in chosen], axis=0)
        fits[family] = Fit(theta, _left_out(design, seconds, prior), largest)
    return fits


def _left_out(design: Floats, seconds: Floats, prior: Floats) -> Floats:
    """Return log(measured/fitted) of each measurement, fitted to the others."""
    residuals = np.empty(len(seconds))
    for index in range(len(seconds)):
        others = np.arange(len(seconds)) != index
        theta = relative_fit(design[others], seconds[others], prior)
        residuals[index] = np.log(seconds[index] / max(float(design[index] @ theta), LEAST))
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
            design = np.vstack(rows) * weight[:, None]
            lengths = np.linalg.norm(design, axis=0)
            lengths = np.where(lengths > 0, lengths, 1.0)
            theta, _ = nnls(design / lengths, weight)
            found[family] = np.asarray(theta / lengths)
    if "conv" not in found and "linear" in found:
        found["conv"] = found["linear"]
    return found
