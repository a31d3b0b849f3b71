"""Meet in the middle (Horowitz & Sahni 1974): partial choices of two halves of the jobs, and their best pair.

Dual prices guide the enumeration. At prices λ every item has a reduced cost d ≥ 0, and a choice that leaves
s ≥ 0 of the limits costs

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
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...formulations.common.compiled import compiled
from ...instances.common.arrays import Flags, Floats, Ints, offsets
from ..common.base import Clock
from .lagrangian import MultipleChoice

LONGEST_LIST = 2**19
"""The longest list."""
SAMPLED_CHOICES, SAMPLE_BISECTIONS = 2**12, 12
"""The reduced cost up to which so many partial choices exist is found by so many bisections."""
MAX_DEVIATIONS = 32
"""Most jobs of a half that may deviate together; more would give too many partial choices."""

Shorts = NDArray[np.int32]


class HalfProblem(NamedTuple):
    """The items (configurations) of a random half of the jobs except the base items, by reduced cost.

    Attributes
    ----------
    items, owner, reduced
        Shape (n,): the items, their jobs, and d.
    beyond
        Shape (n, R): what each takes beyond the base item of its job.
    """

    items: Ints
    owner: Ints
    reduced: Floats
    beyond: Floats


@dataclass(frozen=True)
class PartialChoices:
    """Partial choices of a half: the jobs that deviate from their base item, and their new items.

    Attributes
    ----------
    chosen
        Shape (n, DEEPEST): places in the half of the items of each, then -1.
    reduced, use
        Shapes (n,) and (n, R): Σ d of their items, and what these take beyond the base items of their jobs.
    complete
        Whether these are all up to the reduced cost that was asked for.
    """

    chosen: Shorts
    reduced: Floats
    use: Floats
    complete: bool


def sample_uses(half: HalfProblem, gap: float, size: int) -> tuple[float, Floats]:
    """Return the reduced cost up to which there are `size` partial choices, and a sample of their demands.

    The reduced cost is at most the gap. The demands are relative to the base items.

    The uses have shape (n, R), and are those of the partial choices of less reduced cost still.
    """
    sample = min(SAMPLED_CHOICES, size)
    origin = np.zeros(half.beyond.shape[1])

    def listed(most: float) -> tuple[Floats, int]:
        use = np.empty((sample, len(origin)))
        buffers = np.empty((sample, MAX_DEVIATIONS), np.int32), np.empty(sample), use, np.empty(sample)
        count, visited = _enumerate(half, most, origin, origin, sample, *buffers)
        return use[:count], visited

    use, visited = listed(gap)
    if visited <= sample:
        return gap, use
    low, high = 0.0, gap
    for _ in range(SAMPLE_BISECTIONS):
        middle = (low + high) / 2
        if listed(middle)[1] > sample:
            high = middle
        else:
            low = middle
    # Where reduced costs are spread evenly, the number of partial choices is about exp(c·√d).
    return min(gap, low * (math.log(size) / math.log(sample)) ** 2), listed(low)[0]


def nearest_choices(
    half: HalfProblem, most: float, point: Floats, prices: Floats, size: int
) -> PartialChoices:
    """Return the partial choices of reduced cost up to `most` whose demands are nearest to a point.

    A distance of one unit of a limit counts as its price.
    """
    longest = min(2 * size, LONGEST_LIST)
    chosen, use = np.empty((longest, MAX_DEVIATIONS), np.int32), np.empty((longest, len(prices)))
    reduced, distance = np.empty(longest), np.empty(longest)
    buffers = chosen, reduced, use, distance
    count, visited = _enumerate(half, most, point, prices, 2 * size, *buffers)
    complete = visited == count and visited <= 2 * size
    return PartialChoices(chosen[:count], reduced[:count], use[:count], complete)


@compiled
def _enumerate(
    half: HalfProblem,
    most: float,
    point: Floats,
    prices: Floats,
    enough: int,
    chosen: Shorts,
    sums: Floats,
    use: Floats,
    distance: Floats,
) -> tuple[int, int]:
    """Enumerate partial choices of reduced cost up to `most` depth first; keep those nearest to a point.

    Parameters
    ----------
    enough
        The enumeration ends when it has visited more.
    chosen, sums, use, distance
        Output: the partial choices, whose number these arrays limit.

    Returns
    -------
    count, visited
        How many are kept, and how many there are, or one more than enough.
    """
    limits, reduced, owner = len(point), half.reduced, half.owner
    radius, count, visited, depth = np.inf, 0, 0, 0
    path, after = np.zeros(MAX_DEVIATIONS, np.int64), np.zeros(MAX_DEVIATIONS + 1, np.int64)
    total, path_use = np.zeros(MAX_DEVIATIONS + 1), np.zeros((MAX_DEVIATIONS + 1, limits))
    changed = np.zeros(owner.max() + 1 if len(owner) else 0, np.bool_)
    new = True
    while True:
        if new:
            visited += 1
            if visited > enough:
                break
            far = 0.0
            for r in range(limits):
                far += (prices[r] * (path_use[depth, r] - point[r])) ** 2
            if far < radius and count == len(sums):
                count, radius = _drop_farther(chosen, sums, use, distance)
            if far < radius:
                for place in range(MAX_DEVIATIONS):
                    chosen[count, place] = path[place] if place < depth else -1
                for r in range(limits):
                    use[count, r] = path_use[depth, r]
                sums[count] = total[depth]
                distance[count] = far
                count += 1
        k = after[depth]
        extends = k < len(reduced) and total[depth] + reduced[k] <= most
        if extends and depth < MAX_DEVIATIONS:
            after[depth] = k + 1
            new = not changed[owner[k]]
            if new:
                changed[owner[k]] = True
                path[depth] = k
                total[depth + 1] = total[depth] + reduced[k]
                after[depth + 1] = k + 1
                for r in range(limits):
                    path_use[depth + 1, r] = path_use[depth, r] + half.beyond[k, r]
                depth += 1
        elif depth == 0:
            break
        else:
            depth -= 1
            changed[owner[path[depth]]] = False
            new = False
    return count, visited


@compiled
def _drop_farther(chosen: Shorts, sums: Floats, use: Floats, distance: Floats) -> tuple[int, float]:
    """Drop the partial choices of a full list that are farther than the mean; return count and mean."""
    mean = 0.0
    for row in range(len(distance)):
        mean += distance[row] / len(distance)
    kept = 0
    for row in range(len(distance)):
        if distance[row] < mean:
            for place in range(chosen.shape[1]):
                chosen[kept, place] = chosen[row, place]
            for r in range(use.shape[1]):
                use[kept, r] = use[row, r]
            sums[kept] = sums[row]
            distance[kept] = distance[row]
            kept += 1
    if kept == 0:  # all are equally far
        kept = len(distance) // 2
    return kept, mean


GRID_DIMENSIONS = 4
"""Dimensions of a grid: the priced use, and the three limits that exclude most."""
SPREAD = 2.5
"""Standard deviations on either side of the mean that a grid covers; its outer cells hold the rest."""
ROWS_AT_ONCE = 2**12
"""Rows of a list between two checks of the clock."""


class Grid(NamedTuple):
    """Rows of a table of partial choices, sorted by the cells of a grid over its first columns.

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
    """Return a grid over the first columns of a table, with about twice as many cells as rows."""
    columns = table[:, :GRID_DIMENSIONS]
    cells = math.ceil((2 * len(table)) ** (1 / GRID_DIMENSIONS))
    reach = SPREAD * columns.std(axis=0)
    low = columns.mean(axis=0) - reach
    width = np.where(reach > 0, 2 * reach, 1.0) / cells
    place = np.clip((columns - low) / width, 0, cells - 1).astype(np.int64)
    cell = place @ cells ** np.arange(GRID_DIMENSIONS)[::-1]
    first = offsets(np.bincount(cell, minlength=cells**GRID_DIMENSIONS))
    return Grid(np.argsort(cell, kind="stable"), first, low, width, cells)


def _table(use: Floats, prices: Floats, columns: Ints) -> Floats:
    """Return a table of partial choices: demand valued at dual prices λ·a, then demands in this order.

    It has at least as many columns as a grid has dimensions.
    """
    missing = np.zeros((len(use), max(0, GRID_DIMENSIONS - 1 - len(columns))))
    return np.ascontiguousarray(np.column_stack([use @ prices, use[:, columns], missing]))


def best_pair(
    one: PartialChoices, other: PartialChoices, slack: Floats, prices: Floats, gap: float, clock: Clock
) -> tuple[int, int] | None:
    """Return the feasible pair of partial choices with minimum Σ d + λ·s, None if not below the gap.

    Parameters
    ----------
    slack
        What the base items of all jobs leave, shape (R,); negative where they take too much.
    """
    # Of limit r a partner may leave gap/λ_r at most: first come the limits where this excludes most.
    columns = np.argsort(-prices * other.use.std(axis=0), kind="stable")
    mine, theirs = (_table(half.use, prices, columns) for half in (one, other))
    left = _table(slack[None], prices, columns)[0]
    # λ·s and each s_r may be at most the margin divided by these.
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
            grid,
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
    grid: Grid,
    weights: Floats,
    best: float,
) -> tuple[float, int, int]:
    """Compare partial choices with those partners in grid cells that may improve on the best pair.

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
    found_a, found_b, first, cells = -1, -1, grid.first, grid.cells
    bottom, top = np.zeros(GRID_DIMENSIONS, np.int64), np.zeros(GRID_DIMENSIONS, np.int64)
    for a in range(len(left)):
        margin = best - reduced[a]
        if margin <= 0:
            continue
        for side in range(GRID_DIMENSIONS):
            highest = (left[a, side] - grid.low[side]) / grid.width[side] + 1e-9
            lowest = 0.0
            if weights[side] > 0:
                lowest = highest - margin / weights[side] / grid.width[side] - 2e-9
            top[side] = int(min(max(highest, 0.0), cells - 1.0))
            bottom[side] = int(min(max(lowest, 0.0), cells - 1.0))
        below = margin - left[a, 0]
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


FEWEST_LISTED, MAX_LISTED = 2**12, 2**25
"""Partial choices that are enumerated for a list, in the first pass and at most; twice as many after every
pass that fails."""
MAX_FAILURES = 24
"""Passes in a row without a better choice after which the search ends."""
KEPT_SHARE = 0.5
"""Share of the incumbent's deviations from the base items that every other pass keeps."""
SCATTER = 0.3
"""Random spread of the points where lists meet, in standard deviations of the use of partial choices."""


def better_choices(
    problem: MultipleChoice, prices: Floats, items: Ints, clock: Clock, seed: int | None
) -> Iterator[Ints]:
    """Yield feasible choices of one item per job, each cheaper than the one before (meet in the middle).

    Parameters
    ----------
    prices
        λ, shape (R,).
    items
        The incumbent, shape (J,).
    """
    rng = np.random.default_rng(seed or 0)
    _, base = problem.choose(prices)
    size, failures = FEWEST_LISTED, 0
    while failures < MAX_FAILURES and not clock.expired:
        # Around the base items alone, and around them and what the incumbent changes of them in turn.
        kept = KEPT_SHARE if failures % 2 else 0.0
        free = (items == base) | (rng.random(problem.jobs) >= kept)
        better, exhaustive = best_of_pairs(problem, prices, items, free, size, rng, clock)
        if exhaustive:
            failures = MAX_FAILURES
        elif better is None:
            failures, size = failures + 1, min(2 * size, MAX_LISTED)
        else:
            failures = 0
        if better is not None:
            items = better
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
    """Return the best choice from all pairs of two lists of partial choices, None if not an improvement.

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
    better, exhaustive
        The choice, and whether all choices that could be better than the incumbent were compared.
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
    scatter = SCATTER * samples[0][1].std(axis=0) * rng.standard_normal(len(prices))
    point = means[0] + (slack - means[0] - means[1]) / 2 + scatter
    points = point, slack - point
    lists = [
        nearest_choices(half, most, at, prices, size)
        for half, (most, _), at in zip(halves, samples, points, strict=True)
    ]
    pair = best_pair(lists[0], lists[1], slack, prices, gap, clock)
    whole = all(half.complete and most >= gap for half, (most, _) in zip(lists, samples, strict=True))
    exhaustive = whole and bool(free.all()) and not clock.expired
    if pair is None:
        return None, exhaustive
    chosen = base.copy()
    for half, listed, row in zip(halves, lists, pair, strict=True):
        places = listed.chosen[row]
        places = places[places >= 0]
        chosen[half.owner[places]] = half.items[places]
    better = problem.fits(chosen) and problem.value(chosen) < problem.value(items)
    return (chosen if better else None), exhaustive


def _halves(
    problem: MultipleChoice, base: Ints, reduced: Floats, free: Flags, gap: float, rng: np.random.Generator
) -> list[HalfProblem]:
    """Return the items of two random halves of the free jobs, of reduced cost below the gap."""
    owner = problem.owner
    near = free[owner] & (reduced < gap)
    near[base] = False
    order = np.flatnonzero(near)
    order = order[np.argsort(reduced[order], kind="stable")]
    first = rng.random(problem.jobs) < 0.5
    halves = []
    for half in (first, ~first):
        own = order[half[owner[order]]]
        beyond = problem.demand[own] - problem.demand[base[owner[own]]]
        halves.append(HalfProblem(own, owner[own], reduced[own], beyond))
    return halves
