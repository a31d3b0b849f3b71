"""Widths of the 90 % intervals, calibrated on held-out GPUs.

Split conformal over groups (see `conformal`): the score of a prediction is the logarithm of measured over
predicted time, and the ends of an interval are quantiles of the scores of GPUs. `benchmarks/prediction.py`
prints them, and the coverage on each GPU with the widths of the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import exp

Basis = str
"""``data sheet`` or ``measured``."""

SPREADS: Mapping[tuple[Basis, str], tuple[float, float]] = {
    ("measured", "bmm"): (-3.62, 3.20),
    ("measured", "elementwise"): (-1.34, 6.86),
    ("measured", "linear"): (-1.93, 1.91),
    ("measured", "norm"): (-3.18, 2.02),
    ("measured", "softmax"): (-2.45, 5.31),
    ("data sheet", "bmm"): (-0.51, 0.55),
    ("data sheet", "elementwise"): (-0.09, 0.31),
    ("data sheet", "linear"): (-0.46, 1.13),
    ("data sheet", "norm"): (-0.45, 0.47),
    ("data sheet", "softmax"): (-0.28, 0.63),
}
"""Basis and family → ends of the scores.

Those of ``measured`` are in units of the errors of left-out measurements.
"""
TOTALS: Mapping[Basis, tuple[float, float]] = {"data sheet": (-0.34, 0.6), "measured": (-0.13, 0.6)}
"""Basis → quantiles of the scores of whole models.

The upper end of both is that of P4, whose whole models take up to 1.8 times the sum of their operators.
Without measurements the figure is 0.50, but nobody is surer before measuring than after.
"""
WIDEST = (-4.0, 7.0)
"""Where no GPU was held out, as for convolutions: wider than every other."""
WIDEST_SHEET = (-0.9, 1.2)
"""The same for data sheets."""
OUTSIDE = 1.5
"""Factor of the scores outside the measured range."""
LEAST_SCALE = 0.02
"""Measurements that agree by chance are not better than this."""


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
    default = WIDEST if basis == "measured" else WIDEST_SHEET
    low, high = SPREADS.get((basis, family), default)
    if basis == "measured":
        scale = max(scale, LEAST_SCALE) * (1.0 if inside else OUTSIDE)
    return exp(min(low * scale, 0.0)), exp(max(high * scale, 0.0))


def spread_of_total(basis: Basis, inside: bool) -> tuple[float, float]:
    """Return the ends of the interval of a whole step, as factors of the prediction."""
    low, high = TOTALS[basis]
    factor = 1.0 if inside or basis == "data sheet" else OUTSIDE
    return exp(low * factor), exp(high * factor)
