"""Estimates: a figure with its 90 % interval, and whether it lies inside what was measured."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

CONFIDENCE = 0.9
"""Level of all intervals."""


@dataclass(frozen=True)
class Estimate:
    """A predicted time.

    Parameters
    ----------
    seconds
        The prediction.
    low, high
        Ends of the 90 % interval; `low` ≤ `seconds` ≤ `high`.
    inside
        Whether it lies inside what was measured: the same hardware, and no larger shape.
    basis
        What it rests on, in a few words such as "20 measurements of linear on l4".
    """

    seconds: float
    low: float
    high: float
    inside: bool
    basis: str

    def times(self, factor: float) -> Estimate:
        """Return the estimate of so many of the same, whose errors are one error."""
        return replace(self, seconds=self.seconds * factor, low=self.low * factor, high=self.high * factor)


def together(estimates: Iterable[Estimate]) -> Estimate:
    """Return the estimate of the sum, as if all errors went the same way: its interval is the widest.

    `OperatorTimes.total` has a narrower one where sums were held out.
    """
    parts = list(estimates)
    return Estimate(
        seconds=sum(part.seconds for part in parts),
        low=sum(part.low for part in parts),
        high=sum(part.high for part in parts),
        inside=all(part.inside for part in parts),
        basis="; ".join(dict.fromkeys(part.basis for part in parts)),
    )
