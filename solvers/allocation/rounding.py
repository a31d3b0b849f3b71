"""From prices to a plan: choose at slightly higher prices until the limits are kept, then improve locally.

At the best prices the cheapest rows of all jobs together overfill some limits by little, because at most R
jobs are fractional in the relaxation. A small rise of all prices mends that; what it leaves unused is given
back, job by job and then to pairs of jobs.
"""

from __future__ import annotations

import numpy as np

from ...instances.common.arrays import Floats, Ints
from ..common.base import Clock
from .knapsack import MultipleChoice

DOUBLINGS = 60
HALVINGS = 12
HIGHEST = 1e100
"""No price is raised beyond this."""
PASSES = 20
PAIRED = 300
"""Rows that change places in pairs: those with the least reduced cost."""


def round_prices(problem: MultipleChoice, prices: Floats, clock: Clock) -> Ints | None:
    """Return a row of each job that keep the limits together; None if none were found.

    Parameters
    ----------
    prices
        λ, shape (R,); the best ones, or near them.
    """
    rows = _raised(problem, prices, clock)
    return None if rows is None else improve(problem, rows, prices, clock)


def _raised(problem: MultipleChoice, prices: Floats, clock: Clock) -> Ints | None:
    """Choose at prices (1 + s)·λ with the least s, about, at which the choice keeps the limits."""
    _, rows = problem.choose(prices)
    if problem.fits(rows):
        return rows
    costs = float(np.abs(problem.cost).mean()) or 1.0
    # A limit that binds only once others have been mended has no price yet.
    mean = problem.demand.mean(axis=0)
    small = np.divide(1e-3 * costs, mean, out=np.zeros(len(mean)), where=mean > 0)
    raised, low, high, found = np.maximum(prices, small), 0.0, 1e-4, None
    for _ in range(DOUBLINGS):
        _, rows = problem.choose(prices + high * raised)
        if problem.fits(rows):
            found = rows
            break
        low, high = high, high * 4
        if clock.expired or float((high * raised).max()) > HIGHEST:
            return None
    for _ in range(HALVINGS if found is not None else 0):
        middle = (low + high) / 2
        _, rows = problem.choose(prices + middle * raised)
        if problem.fits(rows):
            high, found = middle, rows
        else:
            low = middle
        if clock.expired:
            break
    return found


def improve(problem: MultipleChoice, rows: Ints, prices: Floats, clock: Clock) -> Ints:
    """Return rows that cost no more: single jobs move first, then pairs of jobs."""
    rows = rows.copy()
    counts = np.diff(problem.start)
    for _ in range(PASSES):
        if clock.expired or not _move_single(problem, rows, counts):
            break
    for _ in range(PASSES):
        if clock.expired or not _move_pair(problem, rows, prices):
            break
    return rows


def _move_single(problem: MultipleChoice, rows: Ints, counts: Ints) -> bool:
    """Move each job to its cheapest row that still fits, those that save most first; change `rows`."""
    slack = problem.limit - problem.take(rows)
    saved = np.repeat(problem.cost[rows], counts) - problem.cost
    better = np.flatnonzero(saved > 0)
    owner = np.searchsorted(problem.start, better, side="right") - 1
    more = problem.demand[better] - problem.demand[rows[owner]]
    fits = (more <= slack).all(axis=1)
    better, owner, more = better[fits], owner[fits], more[fits]
    order = np.lexsort((-saved[better], owner))
    first = np.unique(owner[order], return_index=True)[1]
    best = order[first]
    moved = False
    for i in best[np.argsort(-saved[better[best]])].tolist():
        if (more[i] <= slack).all():
            slack = slack - more[i]
            rows[owner[i]] = better[i]
            moved = True
    return moved


def _move_pair(problem: MultipleChoice, rows: Ints, prices: Floats) -> bool:
    """Make the pair of moves that saves most, among rows of little reduced cost; change `rows`."""
    slack = problem.limit - problem.take(rows)
    near = _near(problem, rows, prices)
    owner = np.searchsorted(problem.start, near, side="right") - 1
    change = problem.cost[near] - problem.cost[rows[owner]]
    more = problem.demand[near] - problem.demand[rows[owner]]
    total = change[:, None] + change[None, :]
    allowed = (owner[:, None] != owner[None, :]) & (total < 0)
    for r in range(len(slack)):
        allowed &= more[:, None, r] + more[None, :, r] <= slack[r]
    total[~allowed] = np.inf
    if not len(near) or not np.isfinite(total).any():
        return False
    a, b = np.unravel_index(int(total.argmin()), total.shape)
    rows[owner[a]], rows[owner[b]] = near[a], near[b]
    return True


def _near(problem: MultipleChoice, rows: Ints, prices: Floats) -> Ints:
    """Return the rows of least reduced cost that are not chosen."""
    reduced = problem.reduced_costs(prices)
    reduced[rows] = np.inf
    if len(reduced) > PAIRED:
        return np.argpartition(reduced, PAIRED)[:PAIRED]
    return np.flatnonzero(np.isfinite(reduced))
