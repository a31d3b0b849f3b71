"""Intervals over groups: what would hold for the rows of a group that was not there.

Rows of one GPU err together, so that a random split would promise too much. There are two ways to the ends:

* `ends`, split conformal: the widest of the quantiles of the groups, for with few groups the corrected
  quantile over groups is their largest (Vovk, Gammerman & Shafer 2005, ch. 2; Dunn, Wasserman & Ramdas 2023).
* `student_ends`, where groups differ more from each other than rows within them: a group effect and an error
  within, both normal, so that a new row is a Student t with the degrees of freedom of Satterthwaite (1946).

The coverage of a group is that of the ends which all other groups give.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from math import ceil

import numpy as np
from scipy import stats

from ...common.arrays import Floats
from ..estimate import CONFIDENCE


def ends(scores: Floats, groups: Sequence[Hashable], confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Return the lowest and the highest of the groups' quantiles of their middle share `confidence`.

    Raises
    ------
    ValueError
        If there are no scores, or not as many groups.
    """
    if not len(scores) or len(scores) != len(groups):
        raise ValueError(f"{len(scores)} scores of {len(groups)} rows")
    tail = (1.0 - confidence) / 2.0
    lows, highs = [], []
    for name in dict.fromkeys(groups):
        own = scores[np.array([group == name for group in groups])]
        lows.append(np.quantile(own, tail, method="inverted_cdf"))
        highs.append(np.quantile(own, 1.0 - tail, method="inverted_cdf"))
    return float(min(lows)), float(max(highs))


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
    count, free = len(names), len(scores) - len(names)
    between = float(means.var(ddof=1)) * (1.0 + 1.0 / count)
    within = float(np.mean([part.var() for part in parts])) * (len(scores) / free if free else 0.0)
    total = between + within
    shares = between**2 / (count - 1) + (within**2 / free if free else 0.0)
    away = stats.t.ppf((1.0 + confidence) / 2.0, total**2 / shares) * np.sqrt(total) if total else 0.0
    return float(means.mean() - away), float(means.mean() + away)


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


Ends = Callable[[Floats, Sequence[Hashable], float], tuple[float, float]]


def coverage(
    scores: Floats,
    groups: Sequence[Hashable],
    confidence: float = CONFIDENCE,
    way: Ends = ends,
) -> dict[Hashable, float]:
    """Return for each group the share of its scores between the ends of all other groups' scores.

    Raises
    ------
    ValueError
        If there are fewer than two groups.
    """
    names = list(dict.fromkeys(groups))
    if len(names) < 2:
        raise ValueError("coverage needs two groups: one that is held out, and another")
    found: dict[Hashable, float] = {}
    for name in names:
        own = np.array([group == name for group in groups])
        others = [group for group in groups if group != name]
        low, high = way(scores[~own], others, confidence)
        found[name] = float(np.mean((scores[own] >= low) & (scores[own] <= high)))
    return found
