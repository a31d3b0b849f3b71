"""Widths of the 90 % intervals, calibrated on held-out GPUs.

The score of a prediction is the logarithm of measured over predicted time, and the ends are those of a row
of a new GPU, with an effect of the GPU and an error within (`conformal.student_ends`).
`benchmarks/prediction.py` prints them, and the coverage on each GPU with the widths of the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import exp, hypot

Basis = str
"""``data sheet`` or ``measured``."""

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
TOTALS: Mapping[Basis, tuple[float, float]] = {"data sheet": (-0.34, 0.26), "measured": (-0.13, 0.12)}
"""Basis → ends of the scores of whole models.

The score of ``measured`` is 0 between the sum of the operators and what it becomes where the board's power
slows them down (`FittedTimes.cool_and_hot`): whole models on P4 take up to 1.8 times the sum.
"""
OUTSIDE = 1.5
"""Factor of the scores outside the measured range."""
LEAST_SCALE = 0.1
"""Added in quadrature to the errors of left-out measurements: few that agree by chance promise too much."""


def spread(basis: Basis, family: str, inside: bool, scale: float = 1.0) -> tuple[float, float]:
    """Return the ends of an operator's interval, as factors of the prediction.

    Parameters
    ----------
    basis
        ``data sheet`` or ``measured``.
    inside
        Whether it lies inside the measured range.
    scale
        Size of the errors of left-out measurements; 1 where nothing was measured.
    """
    low, high = SPREADS[basis, family]
    if basis == "measured":
        scale = float(hypot(scale, LEAST_SCALE)) * (1.0 if inside else OUTSIDE)
    return exp(min(low * scale, 0.0)), exp(max(high * scale, 0.0))


def spread_of_total(basis: Basis, inside: bool) -> tuple[float, float]:
    """Return the ends of the interval of a whole step, as factors of the prediction."""
    low, high = TOTALS[basis]
    factor = 1.0 if inside or basis == "data sheet" else OUTSIDE
    return exp(low * factor), exp(high * factor)
