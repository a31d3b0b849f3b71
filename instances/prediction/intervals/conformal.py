"""Split conformal intervals over groups: what would have held for every group that was measured.

Rows of one GPU err together, so that a random split would promise too much. The ends are the widest of the
quantiles of the groups: with few groups the corrected quantile over groups is their largest (Vovk, Gammerman
& Shafer 2005, ch. 2; Dunn, Wasserman & Ramdas 2023). The coverage of a group is that of the others' ends.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

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


def coverage(
    scores: Floats, groups: Sequence[Hashable], confidence: float = CONFIDENCE
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
        low, high = ends(scores[~own], others, confidence)
        found[name] = float(np.mean((scores[own] >= low) & (scores[own] <= high)))
    return found
