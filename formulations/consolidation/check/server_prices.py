"""What a server is paid at most at given prices of pieces, in integers: the pricing problem of the check.

Where few sums of demands differ, dynamic programming lists the best value of each, for all servers of a pool
at once. Otherwise each server is a knapsack by itself. A piece that stays belongs to a resident task of the
server. In the table such pieces are tried one resident after the other, and what they leave is filled with
other pieces; in the knapsack each resident is one more group of alternatives.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ....instances.common.arrays import Ints
from ....instances.common.errors import TooLargeError
from ...common.clock import check_time
from ..classes import Classes
from .knapsack import Effort, Knapsack

MOST_MERGED = 1_000_000
"""Sums of demands looked at for the table of one pool, which takes a fraction of a second."""
MOST_SELECTIONS = 5_000
"""Ways to keep residents of a server that are looked at."""
LARGEST_KEY = 2**62
"""Amounts of all resources are turned into one number below this."""


class ServerPrices:
    """Prices the servers of one pool.

    Parameters
    ----------
    prices
        For each shape of each of its pieces.
    effort
        Choices that searches may look at; beyond, they bound what a server is paid.
    """

    def __init__(self, classes: Classes, pool: str | None, prices: Sequence[Ints], effort: Effort) -> None:
        self.classes, self.prices, self.effort = classes, prices, effort
        free = [server.free for server in classes.servers if server.pool == pool]
        self.limit = [max(amounts) for amounts in zip(*free, strict=True)]
        # Tasks of several jobs of one shape may meet: any split into pieces may be what is paid most.
        self.groups = [
            (classes.weights(k, classes.slots[k]), closure(classes.pieces[k], classes.slots[k], prices[k]))
            for k in classes.shapes_of(pool)
        ]
        self.table = _table(self.groups, np.array(self.limit, dtype=np.int64))
        self.searches: dict[tuple[int, ...], Knapsack] = {}

    def most(self, free: tuple[int, ...], residents: tuple[int, ...] = (), least: int = 0) -> int:
        """Return the most that a server is paid, or a bound on it.

        Parameters
        ----------
        residents
            Shapes of current placements of what is there now.
        least
            No need to tell apart what is paid less.

        Raises
        ------
        TooLargeError
            If there are too many residents.
        """
        if self.table is not None:
            check_time()
            return self._from_table(self.table, free, residents)
        if residents not in self.searches:
            there = [(self.classes.weights(k, self.classes.pieces[k]), self.prices[k]) for k in residents]
            self.searches[residents] = Knapsack([*there, *self.groups], self.limit)
        return self.searches[residents].most(free, least, self.effort)

    def _from_table(self, table: tuple[Ints, Ints], free: tuple[int, ...], residents: tuple[int, ...]) -> int:
        """Return the pricing value of a server: of residents that stay, and of others beside them."""
        selections = {free: 0}
        for shape in residents:
            weights = self.classes.weights(shape, self.classes.pieces[shape]).tolist()
            for left, paid in list(selections.items()):
                for weight, price in zip(weights, self.prices[shape].tolist(), strict=True):
                    rest = tuple(f - w for f, w in zip(left, weight, strict=True))
                    # A resident without a positive price had better go.
                    if price > 0 and min(rest) >= 0:
                        selections[rest] = max(selections.get(rest, 0), paid + price)
            if len(selections) > MOST_SELECTIONS:
                raise TooLargeError("a server has too many residents")
        taken, worth = table
        return max(
            paid + int(worth[(taken <= np.array(left)).all(axis=1)].max())
            for left, paid in selections.items()
        )


def _table(groups: Sequence[tuple[Ints, Ints]], limit: Ints) -> tuple[Ints, Ints] | None:
    """Return sums of demands and the best value of each; None if there are too many."""
    # Amounts as one number, in which equal amounts are found by sorting.
    sizes = [amount + 1 for amount in limit.tolist()]
    if math.prod(sizes) > LARGEST_KEY:
        return None
    radix = np.array([math.prod(sizes[r + 1 :]) for r in range(len(sizes))], dtype=np.int64)
    taken, worth, work = np.zeros((1, len(limit)), dtype=np.int64), np.zeros(1, dtype=np.int64), 0
    for weights, gain in groups:
        useful = gain > 0
        everything, paid = [taken], [worth]
        for weight, more in zip(weights[useful], gain[useful].tolist(), strict=True):
            check_time()
            fits = (taken + weight <= limit).all(axis=1)
            everything.append(taken[fits] + weight)
            paid.append(worth[fits] + more)
            work += len(taken)
            if work > MOST_MERGED:
                return None
        taken, worth = _best_of_each(np.concatenate(everything), np.concatenate(paid), radix)
    return taken, worth


def _best_of_each(taken: Ints, worth: Ints, radix: Ints) -> tuple[Ints, Ints]:
    """Keep the best of the patterns that take the same amounts."""
    keys = taken @ radix
    order = np.lexsort((worth, keys))
    last = np.append(np.diff(keys[order]) != 0, True)
    chosen = order[last]
    return taken[chosen], worth[chosen]


def closure(pieces: Ints, slots: Ints, prices: Ints) -> Ints:
    """Return the most that is paid for tasks of one shape on a server, in any pieces; shape (S,)."""
    if len(pieces) < len(slots):  # only single tasks have a price
        singles: Ints = slots[:, 0] * prices[0]
        return singles
    shape = tuple((slots.max(axis=0, initial=0) + 1).tolist())
    gain = np.full(shape, np.iinfo(np.int64).min // 4, dtype=np.int64)
    gain[(0,) * len(shape)] = 0
    gain[tuple(slots.T)] = prices
    for counts in slots[np.argsort(slots.sum(axis=1), kind="stable")].tolist():
        check_time()
        box = gain[tuple(slice(0, c + 1) for c in counts)]
        gain[tuple(counts)] = (box + np.flip(box)).max()
    result: Ints = gain[tuple(slots.T)]
    return result
