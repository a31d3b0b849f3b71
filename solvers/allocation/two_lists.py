"""Better choices from two lists that meet in the middle (Horowitz & Sahni 1974), guided by dual prices.

At prices λ every item has a reduced cost d ≥ 0, and a choice that leaves s ≥ 0 of the limits costs

    L(λ) + Σ_j d_j + λ·s.

So a choice is better than the incumbent only if it deviates little from the items of least priced cost, and
leaves little of what has a price. The jobs are split at random into two halves. For each half the partial
choices of least reduced cost are listed; every pair, one of each list, is a choice. A grid over the limits
that exclude most holds one list, so that only partners are read that leave little. Lists of n stand for n²
choices, which differ from the base items in a dozen jobs and more.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ...formulations.common.compiled import compiled
from ...instances.common.arrays import Flags, Floats, Ints
from ..common.base import Clock
from .knapsack import MultipleChoice


@dataclass(frozen=True)
class TwoListSettings:
    """Constants of the search.

    Attributes
    ----------
    shortest, longest
        Partial choices in a list, of the first passes and at most; they double with every two that fail.
    most_failures
        Passes in a row without a better choice after which the search ends.
    kept_share
        Share of the incumbent's deviations from the base items that every other pass keeps.
    bisections
        Of the reduced cost up to which partial choices are listed.
    spread
        Standard deviations on either side of the mean that a grid covers; its outer cells hold the rest.
    rows_at_once
        Rows of a list between two looks at the clock.
    """

    shortest: int = 2**12
    longest: int = 2**20
    most_failures: int = 40
    kept_share: float = 0.5
    bisections: int = 5
    spread: float = 2.5
    rows_at_once: int = 2**12


SETTINGS = TwoListSettings()
SIDES = 4
"""Of a grid: the priced use, and the three limits that exclude most."""
MOST_HALVINGS = 60
"""Of a reduced cost, before what is left are ties."""


@dataclass(frozen=True)
class PartialChoices:
    """Partial choices of one half of the jobs, in the order in which they were listed.

    Attributes
    ----------
    before, last
        Shape (n,): the partial choice that each extends by one item, and that item; -1 for the first, which
        has none.
    reduced, use
        Shapes (n,) and (n, R): Σ d of their items, and what these take beyond the base items of their jobs.
    complete
        Whether the list holds all whose reduced cost is below the gap.
    """

    before: Ints
    last: Ints
    reduced: Floats
    use: Floats
    complete: bool = True

    def items(self, row: int) -> Iterator[int]:
        """Yield the items of a partial choice."""
        while self.last[row] >= 0:
            yield int(self.last[row])
            row = int(self.before[row])


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
    size, failures = SETTINGS.shortest, 0
    while failures < SETTINGS.most_failures and not clock.expired:
        # Around the base items alone, and around them and what the incumbent changes of them in turn.
        kept = SETTINGS.kept_share if failures % 2 else 0.0
        free = (items == base) | (rng.random(problem.jobs) >= kept)
        found, everywhere = best_of_pairs(problem, prices, items, free, size, rng, clock)
        if everywhere:
            failures = SETTINGS.most_failures
        elif found is None:
            failures += 1
            size = min(2 * size, SETTINGS.longest) if failures % 2 == 0 else size
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
        Most partial choices in a list.

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
    owner = np.repeat(np.arange(problem.jobs), np.diff(problem.start))
    near = free[owner] & (reduced < gap)
    near[base] = False
    order = np.flatnonzero(near)
    order = order[np.argsort(reduced[order], kind="stable")]
    first_half = rng.random(problem.jobs) < 0.5
    lists = []
    for half in (first_half, ~first_half):
        own = order[half[owner[order]]]
        beyond = problem.demand[own] - problem.demand[base[owner[own]]]
        lists.append(_partial_choices(own, owner[own], reduced[own], beyond, gap, size))
    pair = _best_pair(lists[0], lists[1], slack, prices, gap, clock)
    everywhere = bool(free.all()) and all(half.complete for half in lists) and not clock.expired
    if pair is None:
        return None, everywhere
    chosen = base.copy()
    for half_list, row in zip(lists, pair, strict=True):
        for item in half_list.items(row):
            chosen[owner[item]] = item
    better = problem.fits(chosen) and problem.value(chosen) < problem.value(items)
    return (chosen if better else None), everywhere


def _partial_choices(
    items: Ints, owner: Ints, reduced: Floats, beyond: Floats, gap: float, size: int
) -> PartialChoices:
    """Return the partial choices of least reduced cost, at most `size` of them.

    Parameters
    ----------
    items, owner, reduced
        Shape (n,): the items beside the base items in the order of their reduced costs, and their jobs.
    beyond
        Shape (n, R): what each takes beyond the base item of its job.
    gap
        No partial choice of more reduced cost is of use.
    """
    before, last, total = np.empty(size, np.int64), np.empty(size, np.int64), np.empty(size)
    most, too_much = gap, math.inf
    count = _list_within(reduced, owner, most, before, last, total)
    halved = 0
    while count > size and halved < MOST_HALVINGS:
        most, too_much, halved = most / 2, most, halved + 1
        count = _list_within(reduced, owner, most, before, last, total)
    for _ in range(SETTINGS.bisections if halved else 0):
        middle = (most + too_much) / 2
        if _list_within(reduced, owner, middle, before, last, total) > size:
            too_much = middle
        else:
            most = middle
    # Where ties alone are too many, some of them are listed.
    count = min(_list_within(reduced, owner, most, before, last, total), size)
    # The first has no item: its -1 reads the last entry.
    named = np.append(items, -1)[last[:count]]
    use = _uses(before[:count], last[:count], beyond)
    return PartialChoices(before[:count], named, total[:count], use, complete=not halved)


@compiled
def _list_within(reduced: Floats, owner: Ints, most: float, before: Ints, last: Ints, total: Floats) -> int:
    """List partial choices of reduced cost up to `most`; return how many, beyond the room if too many."""
    before[0], last[0], total[0] = -1, -1, 0.0
    count, row = 1, 0
    while row < count:
        # Items come in the order of the list, so that no partial choice is listed twice.
        for k in range(last[row] + 1, len(reduced)):
            added = total[row] + reduced[k]
            if added > most:
                break
            above = row
            while above > 0 and owner[last[above]] != owner[k]:
                above = before[above]
            if above > 0:  # the job has left its base item already
                continue
            if count == len(total):
                return count + 1
            before[count], last[count], total[count] = row, k, added
            count += 1
        row += 1
    return count


@compiled
def _uses(before: Ints, last: Ints, beyond: Floats) -> Floats:
    """Return what partial choices take beyond the base items of their jobs, shape (n, R)."""
    use = np.zeros((len(before), beyond.shape[1]))
    for row in range(1, len(before)):
        for r in range(beyond.shape[1]):
            use[row, r] = use[before[row], r] + beyond[last[row], r]
    return use


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
    reach = SETTINGS.spread * columns.std(axis=0)
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


def _best_pair(
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
    for row in range(0, len(mine), SETTINGS.rows_at_once):
        rows = own_order[row : row + SETTINGS.rows_at_once]
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
