"""Ideals (down-sets) of the order of blocks: what may have been done when a stage begins.

A stage is the difference of two ideals I ⊂ J. Blocks are numbered in an order of their arcs, so every
superset of I is reached once by adding blocks in rising order, through ideals alone.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from ....instances.common.arrays import Ints
from ...common.clock import check_time

MOST_IDEALS = 100_000
"""Where there are more, only those of one order of the blocks are looked at."""
LOOK_EVERY = 1000
"""Ideals between two looks at the clock."""


@dataclass(frozen=True)
class Ideals:
    """Ideals by rising size, from the empty one to all blocks.

    Attributes
    ----------
    sets
        The blocks of each as the bits of a number.
    start, block, target
        Ideal i with block b = block[e] added is ideal target[e], for e from start[i] to start[i + 1] - 1, by
        rising block.
    complete
        Whether these are all ideals.
    """

    sets: tuple[int, ...]
    start: Ints
    block: Ints
    target: Ints
    complete: bool

    def __len__(self) -> int:
        return len(self.sets)


def ideals_of(count: int, arcs: Collection[tuple[int, int]], most: int = MOST_IDEALS) -> Ideals:
    """Return the ideals of an order; where there are more than `most`, the beginnings of the numbering.

    Parameters
    ----------
    count
        Number of blocks.
    arcs
        Pairs a < b of which a belongs to every ideal with b.
    """
    needs = [0] * count
    followers: list[list[int]] = [[] for _ in range(count)]
    for a, b in arcs:
        needs[b] |= 1 << a
        followers[a].append(b)
    place, sets = {0: 0}, [0]
    addable = [[b for b in range(count) if not needs[b]]]
    start, block, target = [0], [], []
    index = 0
    while index < len(sets):
        if index % LOOK_EVERY == 0:
            check_time()
        ideal, own = sets[index], addable[index]
        if 1 << len(own) > most:
            # Any of these blocks make a larger ideal.
            return beginnings(count)
        for added in own:
            larger = ideal | 1 << added
            found = place.get(larger)
            if found is None:
                found = place[larger] = len(sets)
                if found >= most:
                    return beginnings(count)
                sets.append(larger)
                freed = [b for b in followers[added] if not needs[b] & ~larger]
                addable.append(sorted([b for b in own if b != added] + freed))
            block.append(added)
            target.append(found)
        start.append(len(block))
        index += 1
    return Ideals(tuple(sets), np.array(start), np.array(block), np.array(target), complete=True)


def beginnings(count: int) -> Ideals:
    """Return the ideals that are the first blocks of the numbering."""
    sets = tuple((1 << size) - 1 for size in range(count + 1))
    places = np.arange(count)
    return Ideals(sets, np.append(places, [count, count]), places, places + 1, complete=False)
