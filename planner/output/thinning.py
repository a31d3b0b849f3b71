"""Choosing a few of many: points of a curve, so that a table shows its shape, and lines of one sort."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

MOST_ROWS = 40
MOST_NAMED = 20
"""Lines of one sort that are written out."""

PointT = TypeVar("PointT")


def thinned(points: Sequence[PointT], figures: Callable[[PointT], tuple[float, float]]) -> list[PointT]:
    """Return at most `MOST_ROWS` points, evenly along the curve as it looks on logarithmic axes.

    Parameters
    ----------
    points
        In the order of the curve, along which both figures rise or fall.
    figures
        The two figures of a point; one that is 0 does not count.
    """
    if len(points) <= MOST_ROWS:
        return list(points)
    first, last = figures(points[0]), figures(points[-1])
    spans = [math.log(a / b) if a > 0 and b > 0 else 0.0 for a, b in zip(first, last, strict=True)]
    axes = [axis for axis, span in enumerate(spans) if span]
    chosen = {0: points[0], len(points) - 1: points[-1]}
    for index, point in enumerate(points):
        here = figures(point)
        shares = [math.log(first[axis] / here[axis]) / spans[axis] for axis in axes if here[axis] > 0]
        along = sum(shares) / len(shares) if shares else index / (len(points) - 1)
        # The next point is taken once the curve has come as far as the points taken so far should reach.
        if along * (MOST_ROWS - 1) >= len(chosen) - 1:
            chosen[index] = point
    return [chosen[index] for index in sorted(chosen)][:MOST_ROWS]


def some(lines: Sequence[str], more: str) -> Iterator[str]:
    """Yield the first lines, and how many more there are, in words with a place for the number."""
    yield from lines[:MOST_NAMED]
    if len(lines) > MOST_NAMED:
        yield more.format(len(lines) - MOST_NAMED)
