"""Better choices from two lists that meet in the middle (Horowitz & Sahni 1974), guided by dual prices.

At prices λ every item has a reduced cost d ≥ 0, and a choice that leaves s ≥ 0 of the limits costs

    L(λ) + Σ_j d_j + λ·s.

So a choice is better than the incumbent only if it deviates little from the items of least priced cost, and
leaves little of what has a price. The jobs are split at random into two halves. For each half the partial
choices of least reduced cost are enumerated, and those listed whose use is nearest to a point where both
halves together fill the limits. Every pair, one of each list, is a choice. A grid holds one list, so that of
n² pairs only those are read that leave little.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ....instances.common.arrays import Flags, Floats, Ints
from ...common.base import Clock
from ..knapsack import MultipleChoice
from .pairs import best_pair
from .partial_choices import Half, nearest_choices, sample_uses


@dataclass(frozen=True)
class TwoListSettings:
    """Constants of the search.

    Attributes
    ----------
    fewest, most
        Partial choices that are enumerated for a list, in the first pass and at most; twice as many after
        every pass that fails.
    most_failures
        Passes in a row without a better choice after which the search ends.
    kept_share
        Share of the incumbent's deviations from the base items that every other pass keeps.
    scatter
        Of the points where lists meet, in standard deviations of what partial choices take.
    """

    fewest: int = 2**12
    most: int = 2**25
    most_failures: int = 24
    kept_share: float = 0.5
    scatter: float = 0.3


SETTINGS = TwoListSettings()


def better_choices(
    problem: MultipleChoice, prices: Floats, items: Ints, clock: Clock, seed: int | None
) -> Iterator[Ints]:
    """Yield choices that keep the limits, each better than the one before, until the search fails too often.

    Parameters
    ----------
    prices
        λ, shape (R,).
    items
        The incumbent, shape (J,).
    """
    rng = np.random.default_rng(seed or 0)
    _, base = problem.choose(prices)
    size, failures = SETTINGS.fewest, 0
    while failures < SETTINGS.most_failures and not clock.expired:
        # Around the base items alone, and around them and what the incumbent changes of them in turn.
        kept = SETTINGS.kept_share if failures % 2 else 0.0
        free = (items == base) | (rng.random(problem.jobs) >= kept)
        found, everywhere = best_of_pairs(problem, prices, items, free, size, rng, clock)
        if everywhere:
            failures = SETTINGS.most_failures
        elif found is None:
            failures, size = failures + 1, min(2 * size, SETTINGS.most)
        else:
            failures = 0
        if found is not None:
            items = found
            yield items


def best_of_pairs(
    problem: MultipleChoice,
    prices: Floats,
    items: Ints,
    free: Flags,
    size: int,
    rng: np.random.Generator,
    clock: Clock,
) -> tuple[Ints | None, bool]:
    """Return the best choice of all pairs of two lists, None if none is better than the incumbent.

    Parameters
    ----------
    items
        The incumbent, shape (J,).
    free
        Shape (J,): the jobs that may leave their item of the incumbent.
    size
        About how many partial choices are enumerated for each list.

    Returns
    -------
    found, everywhere
        The choice; and whether all that could be better than the incumbent were compared.
    """
    least, base = problem.choose(prices)
    reduced = problem.reduced_costs(prices)
    base = np.where(free, base, items)
    slack = problem.limit - problem.take(base)
    # What the incumbent costs beyond L(λ) and the reduced costs of the jobs that are not free.
    lowest = math.fsum(least) + math.fsum(reduced[base]) - float(prices @ problem.limit)
    gap = problem.value(items) - lowest
    halves = _halves(problem, base, reduced, free, gap, rng)
    samples = [sample_uses(half, gap, size) for half in halves]
    means = [use.mean(axis=0) for _, use in samples]
    # Where the lists meet: both means moved alike to where nothing is left, and that point at random.
    scatter = SETTINGS.scatter * samples[0][1].std(axis=0) * rng.standard_normal(len(prices))
    point = means[0] + (slack - means[0] - means[1]) / 2 + scatter
    points = point, slack - point
    lists = [
        nearest_choices(half, most, at, prices, size)
        for half, (most, _), at in zip(halves, samples, points, strict=True)
    ]
    pair = best_pair(lists[0], lists[1], slack, prices, gap, clock)
    whole = all(half.complete and most >= gap for half, (most, _) in zip(lists, samples, strict=True))
    everywhere = whole and bool(free.all()) and not clock.expired
    if pair is None:
        return None, everywhere
    chosen = base.copy()
    for half, listed, row in zip(halves, lists, pair, strict=True):
        places = listed.chosen[row]
        places = places[places >= 0]
        chosen[half.owner[places]] = half.items[places]
    better = problem.fits(chosen) and problem.value(chosen) < problem.value(items)
    return (chosen if better else None), everywhere


def _halves(
    problem: MultipleChoice, base: Ints, reduced: Floats, free: Flags, gap: float, rng: np.random.Generator
) -> list[Half]:
    """Split the free jobs at random; leave out items whose reduced cost reaches the gap."""
    owner = np.repeat(np.arange(problem.jobs), np.diff(problem.start))
    near = free[owner] & (reduced < gap)
    near[base] = False
    order = np.flatnonzero(near)
    order = order[np.argsort(reduced[order], kind="stable")]
    first = rng.random(problem.jobs) < 0.5
    halves = []
    for half in (first, ~first):
        own = order[half[owner[order]]]
        beyond = problem.demand[own] - problem.demand[base[owner[own]]]
        halves.append(Half(own, owner[own], reduced[own], beyond))
    return halves
