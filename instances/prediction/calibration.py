"""Calibration: estimates with 90 % intervals from held-out groups.

An estimate states whether it lies inside the measured range.

Intervals over groups are for the rows of a new group. Errors of one GPU are correlated, so that a random
split would give intervals that are too narrow. The ends are those of a normal group effect and a normal
error within groups; all groups have the same weight. With k means m and variances v of the n rows of each
group (over n, not n − 1), a new row deviates from their mean with the variance

    (1 + 1/k)·var(m) + mean(v),

which is free of bias: the first part has the share σ²/n of the error within that the second has not. It
is a Student t with the degrees of freedom of Satterthwaite (1946). Simulated with normal groups, such
ends hold 88 to 93 % from three groups on, and 84 to 93 % with two, whose degrees of freedom are a guess.

From 19 groups on, errors need not be normal: no end is nearer than the corrected quantile of rows, of
which those of each group together count as much (hierarchical conformal prediction; Lee, Barber & Willett
2023). It holds 90 % or more for any exchangeable groups. Of 19 it is the farthest row, so that
groups that are alike and have 50 rows have 99 % inside; from 60 on it is 94 % or less. Fewer have no such
quantile at a level of 90 %: a new group lies beyond the largest or the smallest of k others with
probability 2/(k + 1).

The widths of predictions are calibrated on held-out GPUs. The score of a prediction is the logarithm of
measured over predicted time, and the ends are those of a row of a new GPU, with an effect of the GPU and
an error within (`student_ends`). `benchmarks/prediction.py` prints them, and the coverage on each GPU
with the widths of the others.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp

import numpy as np
from scipy import stats

from ..common.arrays import Floats

CONFIDENCE = 0.9
"""Level of all intervals."""


@dataclass(frozen=True)
class Estimate:
    """A predicted time with its 90 % interval.

    Parameters
    ----------
    seconds
        The prediction.
    low, high
        Ends of the 90 % interval; `low` ≤ `seconds` ≤ `high`.
    inside
        Whether it lies inside the measured range: the same hardware, and no larger shape.
    basis
        The data it is based on, such as "20 measurements of linear on l4".
    """

    seconds: float
    low: float
    high: float
    inside: bool
    basis: str

    def times(self, factor: float) -> Estimate:
        """Return the estimate with prediction and interval multiplied by a factor."""
        return replace(self, seconds=self.seconds * factor, low=self.low * factor, high=self.high * factor)


Basis = str
"""``data sheet`` or ``measured``."""

TOTALS: Mapping[Basis, tuple[float, float]] = {"data sheet": (-0.34, 0.26), "measured": (-0.13, 0.12)}
"""Basis → ends of the scores of whole models.

The score of ``measured`` is 0 between the sum of the operators and what it becomes where the board's power
slows them down (`FittedTimes.unthrottled_and_power_limited`): whole models on P4 take up to 1.8 times
the sum.
"""
OUTSIDE = 1.5
"""Factor that widens the interval of scores outside the measured range."""


def spread_of_total(basis: Basis, inside: bool) -> tuple[float, float]:
    """Return both ends of the interval of a whole step's time, as factors of the predicted time."""
    low, high = TOTALS[basis]
    factor = 1.0 if inside or basis == "data sheet" else OUTSIDE
    return exp(low * factor), exp(high * factor)


ROUNDING = 1e-9
"""Tolerance of sums of weights."""


def student_ends(scores: Floats, groups: Sequence[Hashable]) -> tuple[float, float]:
    """Return both ends of the prediction interval for a score of a new group (Student's t).

    Raises
    ------
    ValueError
        If there are fewer than two groups.
    """
    names = list(dict.fromkeys(groups))
    if len(names) < 2 or len(scores) != len(groups):
        raise ValueError(
            f"{len(scores)} scores of {len(groups)} rows in {len(names)} groups; needs two groups"
        )
    parts = [scores[np.array([group == name for group in groups])] for name in names]
    means = np.array([part.mean() for part in parts])
    count = len(names)
    between = float(means.var(ddof=1)) * (1.0 + 1.0 / count)
    within = np.array([part.var() for part in parts]) / count
    free = np.array([max(len(part) - 1, 1) for part in parts])  # a single row has no variance within
    total = between + float(within.sum())
    shares = between**2 / (count - 1) + float((within**2 / free).sum())
    level = (1.0 + CONFIDENCE) / 2.0
    away = stats.t.ppf(level, total**2 / shares) * np.sqrt(total) if total else 0.0
    low, high = float(means.mean() - away), float(means.mean() + away)
    level *= (count + 1) / count
    if level > 1.0:
        return low, high
    rows = np.concatenate(parts)
    # The rows of each group together count as much.
    weights = np.concatenate([np.full(len(part), 1.0 / len(part)) for part in parts])
    below, above = (
        float(np.quantile(side, level - ROUNDING, weights=weights, method="inverted_cdf"))
        for side in (-rows, rows)
    )
    return min(low, -below), max(high, above)
