"""Tolerances: how far equal figures may differ, since sums of floats depend on their order."""

from __future__ import annotations

import math

import numpy as np

from ...instances.common.arrays import Floats

TOLERANCE = 1e-9
"""Relative slack in every comparison of a float with a limit: 0.1 + 0.2 may fill a capacity of 0.3."""

TIE = 1e-12
"""Values of two plans that differ by no more than this, relatively, are the same."""


def within(amount: float, limit: float) -> bool:
    """Return whether an amount keeps a limit, up to the rounding of floating-point sums."""
    return amount <= loosened(limit)


def loosened(limit: float) -> float:
    """Return the largest amount that still keeps a limit; every method must allow what the check allows."""
    return limit + TOLERANCE * max(abs(limit), 1e-9)  # a limit of 0 has no size to be relative to


def all_loosened(limits: Floats) -> Floats:
    """Return `loosened` of each limit."""
    return limits + TOLERANCE * np.maximum(np.abs(limits), 1e-9)


def agree(a: float, b: float) -> bool:
    """Return whether two figures are the same up to the rounding of floating-point sums."""
    return math.isclose(a, b, rel_tol=1e-9)


def rounded_up(value: float, digits: int = 3) -> float:
    """Return a bound from above with so many digits that it still holds."""
    if not 0 < value < math.inf:
        return value
    places = digits - 1 - math.floor(math.log10(value))
    rounded = round(value, places)
    return rounded if rounded >= value else round(rounded + 10.0**-places, places)
