"""The best pair of two lists of partial choices, found with a grid over what the partners take."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ....formulations.common.compiled import compiled
from ....instances.common.arrays import Floats, Ints
from ...common.base import Clock
from .partial_choices import PartialChoices

SIDES = 4
"""Of a grid: the priced use, and the three limits that exclude most."""
SPREAD = 2.5
"""Standard deviations on either side of the mean that a grid covers; its outer cells hold the rest."""
ROWS_AT_ONCE = 2**12
"""Rows of a list between two looks at the clock."""


@dataclass(frozen=True)
class Grid:
    """Rows of a table in the order of the cells of a grid over its first columns.

    Attributes
    ----------
    order
        Shape (n,): the rows, cell by cell.
    first
        Shape (cells ** SIDES + 1,): where each cell starts in that order.
    low, width
        Shape (SIDES,): where the cells of each side start, and how wide one is.
    cells
        Along each side.
    """

    order: Ints
    first: Ints
    low: Floats
    width: Floats
    cells: int


def _grid(table: Floats) -> Grid:
    """Return a grid of about twice as many cells as rows."""
    columns = table[:, :SIDES]
    cells = math.ceil((2 * len(table)) ** (1 / SIDES))
    reach = SPREAD * columns.std(axis=0)
    low = columns.mean(axis=0) - reach
    width = np.where(reach > 0, 2 * reach, 1.0) / cells
    place = np.clip((columns - low) / width, 0, cells - 1).astype(np.int64)
    cell = place @ cells ** np.arange(SIDES)[::-1]
    first = np.concatenate([[0], np.cumsum(np.bincount(cell, minlength=cells**SIDES))])
    return Grid(np.argsort(cell, kind="stable"), first, low, width, cells)


def _table(use: Floats, prices: Floats, columns: Ints) -> Floats:
    """Return priced uses λ·a in front of the uses of the limits in this order, at least SIDES columns."""
    missing = np.zeros((len(use), max(0, SIDES - 1 - len(columns))))
    return np.ascontiguousarray(np.column_stack([use @ prices, use[:, columns], missing]))


def best_pair(
    one: PartialChoices, other: PartialChoices, slack: Floats, prices: Floats, gap: float, clock: Clock
) -> tuple[int, int] | None:
    """Return the pair of least Σ d + λ·s that keeps the limits; None if that is not below the gap.

    Parameters
    ----------
    slack
        What the base items of all jobs leave, shape (R,); negative where they take too much.
    """
    # Of limit r a partner may leave gap/λ_r at most: first come the limits where this excludes most.
    columns = np.argsort(-prices * other.use.std(axis=0), kind="stable")
    mine, theirs = (_table(half.use, prices, columns) for half in (one, other))
    left = _table(slack[None], prices, columns)[0]
    # What λ·s or one s_r may be at most is the room by these.
    weights = np.zeros(len(left))
    weights[0], weights[1 : len(columns) + 1] = 1.0, prices[columns]
    grid, own_order = _grid(theirs), _grid(mine).order  # neighbours read the same cells
    theirs = theirs[grid.order]
    value = other.reduced[grid.order] - theirs[:, 0]
    best, pair = gap, None
    for row in range(0, len(mine), ROWS_AT_ONCE):
        rows = own_order[row : row + ROWS_AT_ONCE]
        best, a, b = _scan(
            left - mine[rows],
            one.reduced[rows],
            theirs,
            value,
            grid.first,
            grid.low,
            grid.width,
            grid.cells,
            weights,
            best,
        )
        if a >= 0:
            pair = int(rows[a]), int(grid.order[b])
        if clock.expired:
            break
    return pair


@compiled
def _scan(
    left: Floats,
    reduced: Floats,
    theirs: Floats,
    value: Floats,
    first: Ints,
    low: Floats,
    width: Floats,
    cells: int,
    weights: Floats,
    best: float,
) -> tuple[float, int, int]:
    """Compare partial choices with those partners in a grid that may be better than the best pair.

    Parameters
    ----------
    left, reduced
        Shapes (m, C) and (m,): what partial choices leave of each column, and their reduced costs.
    theirs, value
        Shapes (n, C) and (n,): what those of the grid take, and Σ d less the priced use.

    Returns
    -------
    best, a, b
        Least Σ d + λ·s below the given one, and where it was found; -1 if nowhere.
    """
    found_a, found_b = -1, -1
    bottom, top = np.zeros(SIDES, np.int64), np.zeros(SIDES, np.int64)
    for a in range(len(left)):
        room = best - reduced[a]
        if room <= 0:
            continue
        for side in range(SIDES):
            highest = (left[a, side] - low[side]) / width[side] + 1e-9
            lowest = 0.0
            if weights[side] > 0:
                lowest = highest - room / weights[side] / width[side] - 2e-9
            top[side] = int(min(max(highest, 0.0), cells - 1.0))
            bottom[side] = int(min(max(lowest, 0.0), cells - 1.0))
        below = room - left[a, 0]
        for i in range(bottom[0], top[0] + 1):
            for j in range(bottom[1], top[1] + 1):
                for k in range(bottom[2], top[2] + 1):
                    cell = ((i * cells + j) * cells + k) * cells
                    for b in range(first[cell + bottom[3]], first[cell + top[3] + 1]):
                        if value[b] >= below:
                            continue
                        fits = True
                        for r in range(1, left.shape[1]):
                            if theirs[b, r] > left[a, r]:
                                fits = False
                                break
                        if fits:
                            below = value[b]
                            best = reduced[a] + left[a, 0] + below
                            found_a, found_b = a, b
    return best, found_a, found_b
