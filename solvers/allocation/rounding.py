"""From dual prices to a plan: raise the prices until the choice keeps the limits, then improve locally.

At the best prices the least-cost items of all jobs together overfill some limits by little, because at most R
jobs are fractional in a basic solution of the relaxation (Sinha & Zoltners 1979). A small rise of all prices
mends that; exchanges of single jobs, then of pairs of jobs, use the capacity that it leaves.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...instances.common.arrays import Floats, Ints
from ..common.base import Clock
from .knapsack import MultipleChoice


@dataclass(frozen=True)
class RoundingSettings:
    """Constants of rounding and local search.

    Attributes
    ----------
    first_rise, rise_growth
        The first relative rise of all prices, and the factor to the next one.
    most_rises, bisections
        Rises until the limits are kept, and bisections between the last two.
    highest_price
        No price is raised beyond this.
    unpriced_share
        Price of a limit that has none, as a share of the mean cost per unit of mean demand.
    most_passes
        Passes of each local search.
    items_paired
        Items that change places in pairs: those of least reduced cost.
    """

    first_rise: float = 1e-4
    rise_growth: float = 4
    most_rises: int = 60
    bisections: int = 12
    highest_price: float = 1e100
    unpriced_share: float = 1e-3
    most_passes: int = 20
    items_paired: int = 300


SETTINGS = RoundingSettings()


def round_prices(problem: MultipleChoice, prices: Floats, clock: Clock) -> Ints | None:
    """Return an item of each job that keep the limits together; None if none were found.

    Parameters
    ----------
    prices
        λ, shape (R,); the best ones, or near them.
    """
    items = _raised(problem, prices, clock)
    return None if items is None else improve(problem, items, prices, clock)


def _raised(problem: MultipleChoice, prices: Floats, clock: Clock) -> Ints | None:
    """Return the choice at prices λ + s·λ′ for about the least s at which it keeps the limits."""
    _, items = problem.choose(prices)
    if problem.fits(items):
        return items
    costs = float(np.abs(problem.cost).mean()) or 1.0
    # λ′ is λ with small prices added: a limit may bind only once the others are kept.
    mean = problem.demand.mean(axis=0)
    small = np.divide(SETTINGS.unpriced_share * costs, mean, out=np.zeros(len(mean)), where=mean > 0)
    raised, low, high, found = np.maximum(prices, small), 0.0, SETTINGS.first_rise, None
    for _ in range(SETTINGS.most_rises):
        _, items = problem.choose(prices + high * raised)
        if problem.fits(items):
            found = items
            break
        low, high = high, high * SETTINGS.rise_growth
        if clock.expired or float((high * raised).max()) > SETTINGS.highest_price:
            return None
    for _ in range(SETTINGS.bisections if found is not None else 0):
        middle = (low + high) / 2
        _, items = problem.choose(prices + middle * raised)
        if problem.fits(items):
            high, found = middle, items
        else:
            low = middle
        if clock.expired:
            break
    return found


def improve(problem: MultipleChoice, items: Ints, prices: Floats, clock: Clock) -> Ints:
    """Return items that cost no more, by local search over single jobs, then over pairs of jobs."""
    items = items.copy()
    counts = np.diff(problem.start)
    for _ in range(SETTINGS.most_passes):
        if clock.expired or not _move_single(problem, items, counts):
            break
    for _ in range(SETTINGS.most_passes):
        if clock.expired or not _move_pair(problem, items, prices):
            break
    return items


def _move_single(problem: MultipleChoice, items: Ints, counts: Ints) -> bool:
    """Move each job to its cheapest item that still fits, largest saving first; change `items`."""
    slack = problem.limit - problem.take(items)
    saved = np.repeat(problem.cost[items], counts) - problem.cost
    better = np.flatnonzero(saved > 0)
    owner = np.searchsorted(problem.start, better, side="right") - 1
    more = problem.demand[better] - problem.demand[items[owner]]
    fits = (more <= slack).all(axis=1)
    better, owner, more = better[fits], owner[fits], more[fits]
    order = np.lexsort((-saved[better], owner))
    first = np.unique(owner[order], return_index=True)[1]
    best = order[first]
    moved = False
    # The slack shrinks with every move, so that each is compared again.
    for i in best[np.argsort(-saved[better[best]])].tolist():
        if (more[i] <= slack).all():
            slack = slack - more[i]
            items[owner[i]] = better[i]
            moved = True
    return moved


def _move_pair(problem: MultipleChoice, items: Ints, prices: Floats) -> bool:
    """Make the pair of moves that saves most among items of small reduced cost; change `items`."""
    slack = problem.limit - problem.take(items)
    near = _near(problem, items, prices)
    owner = np.searchsorted(problem.start, near, side="right") - 1
    change = problem.cost[near] - problem.cost[items[owner]]
    more = problem.demand[near] - problem.demand[items[owner]]
    total = change[:, None] + change[None, :]
    allowed = (owner[:, None] != owner[None, :]) & (total < 0)
    for r in range(len(slack)):
        allowed &= more[:, None, r] + more[None, :, r] <= slack[r]
    total[~allowed] = np.inf
    if not len(near) or not np.isfinite(total).any():
        return False
    a, b = np.unravel_index(int(total.argmin()), total.shape)
    items[owner[a]], items[owner[b]] = near[a], near[b]
    return True


def _near(problem: MultipleChoice, items: Ints, prices: Floats) -> Ints:
    """Return the items of least reduced cost that are not chosen."""
    reduced = problem.reduced_costs(prices)
    reduced[items] = np.inf
    if len(reduced) > SETTINGS.items_paired:
        return np.argpartition(reduced, SETTINGS.items_paired)[: SETTINGS.items_paired]
    return np.flatnonzero(np.isfinite(reduced))
