"""The knee of a frontier: the point after which more speed costs much more."""

from __future__ import annotations

import math
from collections.abc import Sequence

LEAST_BEND = 0.1
"""A frontier that bends less than this, as a share of its height, has no knee."""
MANY = 2.995
"""From here on a ratio is told as a multiple."""


def knee(trades: Sequence[tuple[float, float]]) -> int | None:
    """Return which point lies farthest below the line from the cheapest to the fastest one.

    This is the knee of Satopää, Albrecht, Irwin and Raghavan (2011), for few points and no noise. Speeds and
    costs are compared as ratios, so that the line is straight where each per cent of speed costs the same.

    Parameters
    ----------
    trades
        Speed and cost of each point.
    """
    if len(trades) < 3 or min(map(min, trades)) <= 0:
        return None
    speeds, costs = ([math.log(value) for value in values] for values in zip(*trades, strict=True))
    faster, dearer = max(speeds) - min(speeds), max(costs) - min(costs)
    if not faster or not dearer:
        return None
    bends = [
        (speed - min(speeds)) / faster - (cost - min(costs)) / dearer
        for speed, cost in zip(speeds, costs, strict=True)
    ]
    best = max(range(len(trades)), key=bends.__getitem__)
    return best if bends[best] >= LEAST_BEND else None


def knee_words(speed: float, cost: float) -> str:
    """Return a trade in words; speed and cost are ratios to those of the cheapest point."""
    faster = f"{_added(speed)} faster" if speed < MANY else f"{speed:.1f} times as fast"
    dearer = f"{_added(cost)} more" if cost < MANY else f"{cost:.1f} times the cost"
    return f"{faster} for {dearer}"


def _added(ratio: float) -> str:
    return f"{100 * (ratio - 1):.0f} %"
