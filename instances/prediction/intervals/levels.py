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

SPREADS: Mapping[tuple[Basis, str], tuple[float, float]] = {}
"""Basis and family → quantiles of 5 and 95 % of the scores.

Those of ``measured`` are in units of the errors of left-out measurements.
"""
TOTALS: Mapping[Basis, tuple[float, float]] = {"data sheet": (-0.5, 0.8), "measured": (-0.25, 0.15)}
"""Basis → quantiles of the scores of whole models."""
WIDEST = (-0.9, 1.2)
"""Where no held-out GPU was measured, as for convolutions on a data sheet."""
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
    low, high = SPREADS.get((basis, family), WIDEST)
    if basis == "measured":
        scale = max(scale, LEAST_SCALE) * (1.0 if inside else OUTSIDE)
    return exp(min(low * scale, 0.0)), exp(max(high * scale, 0.0))


def spread_of_total(basis: Basis, inside: bool) -> tuple[float, float]:
    """Return the ends of the interval of a whole step, as factors of the prediction."""
    low, high = TOTALS[basis]
    factor = 1.0 if inside or basis == "data sheet" else OUTSIDE
    return exp(low * factor), exp(high * factor)
