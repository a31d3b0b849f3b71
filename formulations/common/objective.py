"""Objectives, violated constraints and diagnoses of infeasibility, with their numerical tolerances.

Equal figures may differ within a tolerance, since sums of floats depend on their order.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ...instances.common.arrays import Floats
from ...instances.common.fields import Many, Model

TOLERANCE = 1e-9
"""Relative slack in every comparison of a float with a limit: 0.1 + 0.2 may fill a capacity of 0.3."""

TIE_TOLERANCE = 1e-12
"""Relative difference up to which the values of two plans count as equal."""


def within(amount: float, limit: float) -> bool:
    """Return whether an amount is at most a limit, up to the rounding of floating-point sums."""
    return amount <= loosened(limit)


def loosened(limit: float) -> float:
    """Return an upper limit plus its tolerance: the maximum amount that the check accepts."""
    return limit + TOLERANCE * max(abs(limit), 1e-9)  # a limit of 0 has no size to be relative to


def all_loosened(limits: Floats) -> Floats:
    """Return the upper limits plus their tolerances, as `loosened` does for one limit."""
    return limits + TOLERANCE * np.maximum(np.abs(limits), 1e-9)


def agree(a: float, b: float) -> bool:
    """Return whether two numbers are equal within a relative tolerance of 1e-9."""
    return math.isclose(a, b, rel_tol=1e-9)


def rounded_up(value: float, digits: int = 3) -> float:
    """Return a positive number rounded up to the given number of significant digits."""
    if not 0 < value < math.inf:
        return value
    places = digits - 1 - math.floor(math.log10(value))
    rounded = round(value, places)
    return rounded if rounded >= value else round(rounded + 10.0**-places, places)


Sense = Literal["min", "max"]
Values = Sequence[float] | None
"""The value of each objective; None without a plan."""
Bounds = Sequence[float | None]
"""A bound on each objective, in its sense; None where nothing is proven."""


def refute_all_plans(bounds: Bounds) -> bool:
    """Return whether a bound is infinite: whatever objective it is on, no plan attains it."""
    return any(bound is not None and math.isinf(bound) for bound in bounds)


@dataclass(frozen=True)
class Objective:
    """One objective: its name, whether it is minimised or maximised, and the unit of its values."""

    name: str
    sense: Sense
    unit: str

    def gap(self, value: float | None, bound: float | None) -> float | None:
        """Return the relative optimality gap ``|value − bound| / |value|``; None if unknown or infinite."""
        if value is None or bound is None:
            return None
        if value == bound:
            return 0.0
        gap = abs(value - bound) / abs(value) if value else math.inf
        return gap if math.isfinite(gap) else None

    def better(self, a: float, b: float) -> bool:
        """Return whether objective value `a` is strictly better than `b`, beyond rounding."""
        if agree(a, b):
            return False
        return a < b if self.sense == "min" else a > b

    def tighter(self, a: float | None, b: float | None) -> float | None:
        """Return the tighter of two bounds on the objective; None stands for an unknown bound."""
        if a is None or b is None:
            return b if a is None else a
        return max(a, b) if self.sense == "min" else min(a, b)


@dataclass(frozen=True)
class Violation:
    """A constraint that a plan violates, and by how much."""

    constraint: str
    what: str

    def __str__(self) -> str:
        return f"{self.constraint}: {self.what}"


class Diagnosis(Model):
    """Why an instance has no plan.

    Attributes
    ----------
    reasons
        What is in the way, in sentences that name the job, resource or layer and what is missing.
    remedies
        Changes, each of which is needed or would help, smallest first.
    """

    reasons: Many[str]
    remedies: Many[str] = ()


def exact_fraction(value: float) -> Fraction:
    """Return the fraction of the decimal representation of a float: 0.1 gives 1/10."""
    return Fraction(repr(float(value)))


def whole_numbers(figures: Iterable[Fraction | float], finest: int = 1) -> tuple[NDArray[Any], int]:
    """Return figures times their least common denominator with `finest`, and that denominator."""
    ratios = [each.as_integer_ratio() for each in figures]
    unit = math.lcm(finest, *{denominator for _, denominator in ratios})
    return np.array([numerator * (unit // part) for numerator, part in ratios], dtype=object), unit


def common_divisor(amounts: Iterable[Fraction]) -> Fraction | None:
    """Return the greatest common divisor of the amounts; None if all amounts are 0."""
    wholes, unit = whole_numbers(set(amounts))
    return Fraction(math.gcd(*wholes), unit) or None
