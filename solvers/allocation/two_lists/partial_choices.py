"""Partial choices of half of the jobs: those of little reduced cost whose use is nearest to a point."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ....formulations.common.compiled import compiled
from ....instances.common.arrays import Floats, Ints


@dataclass(frozen=True)
class PartialChoiceSettings:
    """Constants of the enumeration.

    Attributes
    ----------
    longest
        The longest list.
    sample, bisections
        The reduced cost up to which so many partial choices exist is found by so many bisections.
    """

    longest: int = 2**19
    sample: int = 2**12
    bisections: int = 12


SETTINGS = PartialChoiceSettings()
DEEPEST = 32
"""Jobs of a half that may deviate together; beyond, there are more partial choices than are ever enough."""

Shorts = NDArray[np.int32]


@dataclass(frozen=True)
class Half:
    """The items of half of the jobs beside the base items, in the order of their reduced costs.

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

    @property
    def jobs(self) -> int:
        """One more than the last job."""
        return int(self.owner.max(initial=-1)) + 1


@dataclass(frozen=True)
class PartialChoices:
    """Partial choices of a half.

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


def sample_uses(half: Half, gap: float, size: int) -> tuple[float, Floats]:
    """Return the reduced cost, at most the gap, up to which there are `size` partial choices; and some uses.

    The uses have shape (n, R), and are those of the partial choices of less reduced cost still.
    """
    sample = min(SETTINGS.sample, size)
    nowhere = np.zeros(half.beyond.shape[1])

    def listed(most: float) -> tuple[Floats, int]:
        use = np.empty((sample, len(nowhere)))
        room = np.empty((sample, DEEPEST), np.int32), np.empty(sample), use, np.empty(sample)
        count, visited = _enumerate(
            half.reduced, half.owner, half.jobs, half.beyond, most, nowhere, nowhere, sample, *room
        )
        return use[:count], visited

    use, visited = listed(gap)
    if visited <= sample:
        return gap, use
    low, high = 0.0, gap
    for _ in range(SETTINGS.bisections):
        middle = (low + high) / 2
        if listed(middle)[1] > sample:
            high = middle
        else:
            low = middle
    # Where reduced costs are spread evenly, the number of partial choices is about exp(c·√d).
    return min(gap, low * (math.log(size) / math.log(sample)) ** 2), listed(low)[0]


def nearest_choices(half: Half, most: float, point: Floats, prices: Floats, size: int) -> PartialChoices:
    """Return partial choices of reduced cost up to `most`, those whose use is nearest to a point.

    A distance of one unit of a limit counts as its price.
    """
    longest = min(2 * size, SETTINGS.longest)
    chosen, use = np.empty((longest, DEEPEST), np.int32), np.empty((longest, len(prices)))
    reduced, distance = np.empty(longest), np.empty(longest)
    count, visited = _enumerate(
        half.reduced,
        half.owner,
        half.jobs,
        half.beyond,
        most,
        point,
        prices,
        2 * size,
        chosen,
        reduced,
        use,
        distance,
    )
    complete = visited == count and visited <= 2 * size
    return PartialChoices(chosen[:count], reduced[:count], use[:count], complete)


@compiled
def _enumerate(
    reduced: Floats,
    owner: Ints,
    jobs: int,
    beyond: Floats,
    most: float,
    point: Floats,
    prices: Floats,
    enough: int,
    chosen: Shorts,
    sums: Floats,
    use: Floats,
    distance: Floats,
) -> tuple[int, int]:
    """Enumerate partial choices of reduced cost up to `most`, depth first; keep those nearest to a point.

    Parameters
    ----------
    enough
        The enumeration ends when it has visited more.
    chosen, sums, use, distance
        Take the partial choices, as many as there is room for.

    Returns
    -------
    count, visited
        How many are kept, and how many there are, or one more than enough.
    """
    limits = len(point)
    radius, count, visited, depth = np.inf, 0, 0, 0
    path, after = np.zeros(DEEPEST, np.int64), np.zeros(DEEPEST + 1, np.int64)
    total, taken = np.zeros(DEEPEST + 1), np.zeros((DEEPEST + 1, limits))
    changed = np.zeros(jobs, np.bool_)
    new = True
    while True:
        if new:
            visited += 1
            if visited > enough:
                break
            far = 0.0
            for r in range(limits):
                far += (prices[r] * (taken[depth, r] - point[r])) ** 2
            if far < radius and count == len(sums):
                count, radius = _drop_farther(chosen, sums, use, distance)
            if far < radius:
                for place in range(DEEPEST):
                    chosen[count, place] = path[place] if place < depth else -1
                for r in range(limits):
                    use[count, r] = taken[depth, r]
                sums[count] = total[depth]
                distance[count] = far
                count += 1
        k = after[depth]
        extends = k < len(reduced) and total[depth] + reduced[k] <= most
        if extends and depth < DEEPEST:
            after[depth] = k + 1
            new = not changed[owner[k]]
            if new:
                changed[owner[k]] = True
                path[depth] = k
                total[depth + 1] = total[depth] + reduced[k]
                after[depth + 1] = k + 1
                for r in range(limits):
                    taken[depth + 1, r] = taken[depth, r] + beyond[k, r]
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
    """Keep the partial choices of a full list that are nearer than the mean; return how many and the mean."""
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
