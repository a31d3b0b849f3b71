"""Intervals over groups: what would hold for the rows of a group that was not there.

Rows of one GPU err together, so that a random split would promise too much. The ends are those of a group
effect and an error within, both normal; each group counts as much, whatever its rows. With k means m and
variances v of the n rows of each group (over n, not n − 1), a new row is off their mean with the variance

    (1 + 1/k)·var(m) + mean(v),

which is free of bias: the first part has the share σ²/n of the error within that the second has not. It is a
Student t with the degrees of freedom of Satterthwaite (1946). Simulated with normal groups, such ends hold 88
to 93 % from three groups on, and 84 to 93 % with two, whose degrees of freedom are a guess.

From 19 groups on, errors need not be normal: no end is nearer than the corrected quantile of rows, of which
those of each group together count as much (hierarchical conformal prediction; Lee, Barber & Willett 2023). It
holds 90 % or more for whatever groups are exchangeable. Of 19 it is the farthest row, so that groups that
are alike and have 50 rows have 99 % inside; from 60 on it is 94 % or less. Fewer have no such quantile at a
level of 90 %: a new group lies beyond the largest or the smallest of k others with probability 2/(k + 1).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import combinations
from math import ceil

import numpy as np
from scipy import stats

from ...common.arrays import Floats
from ..estimate import CONFIDENCE

ROUNDING = 1e-9
"""Of sums of weights."""


def student_ends(
    scores: Floats, groups: Sequence[Hashable], confidence: float = CONFIDENCE
) -> tuple[float, float]:
    """Return the ends of the prediction interval of a row of a new group.

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
    away = stats.t.ppf((1.0 + confidence) / 2.0, total**2 / shares) * np.sqrt(total) if total else 0.0
    low, high = float(means.mean() - away), float(means.mean() + away)
    level = (1.0 + confidence) / 2.0 * (count + 1) / count
    if level > 1.0:
        return low, high
    weights = np.repeat([1.0 / len(part) for part in parts], [len(part) for part in parts]) / count
    below, above = (_quantile(sign * np.concatenate(parts), weights, level) for sign in (-1.0, 1.0))
    return min(low, -below), max(high, above)


def _quantile(scores: Floats, weights: Floats, level: float) -> float:
    """Return the smallest score up to which the weights make up the level."""
    order = np.argsort(scores)
    place = int(np.searchsorted(np.cumsum(weights[order]), level - ROUNDING))
    return float(scores[order[min(place, len(order) - 1)]])


def farthest(errors: Floats, confidence: float = CONFIDENCE) -> float:
    """Return how far a new error is from 0 at most: the corrected quantile, or the largest of too few errors.

    Raises
    ------
    ValueError
        If there are no errors.
    """
    if not len(errors):
        raise ValueError("no errors: their quantile needs one or more")
    rank = min(ceil(confidence * (len(errors) + 1)), len(errors))
    return float(np.sort(np.abs(errors))[rank - 1])


def coverage(
    scores: Floats, groups: Sequence[Hashable], confidence: float = CONFIDENCE, together: int = 1
) -> dict[Hashable, float]:
    """Return for each group the share of its scores between the ends of other groups' scores.

    Parameters
    ----------
    scores, groups
        One group for each score.
    together
        Groups that are left out at a time, all choices of them in turn; a group's share is the mean of its
        own. Few groups that are covered wholly or not at all have few shares: two at a time have more.

    Raises
    ------
    ValueError
        If fewer than two groups stay.
    """
    shares: dict[Hashable, list[float]] = {name: [] for name in dict.fromkeys(groups)}
    for held in combinations(shares, together):
        out = np.array([group in held for group in groups])
        low, high = student_ends(scores[~out], [group for group in groups if group not in held], confidence)
        for name in held:
            own = scores[np.array([group == name for group in groups])]
            shares[name].append(float(np.mean((own >= low) & (own <= high))))
    return {name: float(np.mean(of_it)) for name, of_it in shares.items()}
