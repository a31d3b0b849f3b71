"""The pricing problem of servers where sums of demands hardly repeat, so that no table holds them all.

A dynamic programme over two resources in coarse units, with demands rounded down, prices all classes of a
pool at once (state-space relaxation, Christofides, Mingozzi & Toth 1981); the other resources have Lagrangian
multipliers. It bounds what a server is paid. Its pattern, repaired where the server does not hold it, is a
column. Where pattern and bound differ, branch and bound solves the knapsack of a class to optimality.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ....formulations.common.clock import check_time, time_is_up
from ....formulations.consolidation.classes import ClassTable
from ....instances.common.arrays import Floats, Ints
from ..settings import SETTINGS
from .coarse_table import CoarseTable
from .knapsack import Item, relaxed_knapsack, solved_knapsack
from .pattern_repair import PatternRepair, Slots
from .price_servers import ServerPattern, stays_of

CLOSE = 1e-7
"""A pattern whose value is this close to its bound, relatively, is the best."""


@dataclass
class _Priced:
    """A class of servers: no pattern is paid more than `bound`, and this one is paid `value`."""

    bound: float
    value: float
    pattern: ServerPattern

    @property
    def closed(self) -> bool:
        """Whether the pattern is the best."""
        return self.bound <= self.value + CLOSE * max(1.0, self.value)


class SearchPricing:
    """Prices the classes of servers of one pool; the interface is that of `ServerPricing`."""

    def __init__(self, classes: ClassTable, pool: str | None) -> None:
        self.classes = classes
        self.numbers = [n for n, server in enumerate(classes.servers) if server.pool == pool]
        self.task_shapes = [k for k in classes.shapes_of(pool) if len(classes.slots[k])]
        free = [classes.servers[n].free for n in self.numbers]
        self.free = np.array(free, dtype=np.int64).reshape(len(free), len(classes.units))
        self.members = np.array([len(classes.servers[n].members) for n in self.numbers], dtype=float)
        self.random = np.random.default_rng(0)
        self.weights = {k: classes.weights(k, classes.slots[k]) for k in self.task_shapes}

    def alone(self, k: int) -> list[tuple[int, ServerPattern]]:
        """Return as many tasks of a shape as servers hold: of each class, or of one where they are many."""
        sizes, found = self.classes.slots[k].sum(axis=1), list[tuple[int, ServerPattern]]()
        for number, free in zip(self.numbers, self.free, strict=True):
            fits = (self.weights[k] <= free).all(axis=1)
            if fits.any():
                found.append((number, ((k, int(np.argmax(np.where(fits, sizes, -1)))),)))
                if len(self.numbers) * len(self.task_shapes) > SETTINGS.most_first_patterns:
                    break
        return found

    def best(
        self, paid: Sequence[Floats], most: int = 1, search: bool = True
    ) -> list[tuple[int, float, ServerPattern]]:
        """Return patterns of each class of servers: number of the class, bound, pattern.

        Parameters
        ----------
        paid
            For each shape of the instance what each of its slots is paid.
        most
            Patterns for each class; they differ in who stays.
        search
            Whether branch and bound closes what the coarse table leaves open.

        Returns
        -------
        found
            The bound is on what any pattern of the class is paid, and that of its best pattern where the
            search was not cut short.
        """
        if not self.numbers:
            return []
        items = [item for k in self.task_shapes for item in [self._item(k, paid[k])] if len(item.gains)]
        # Multipliers of a server of average size do for all classes of the pool.
        average = self.members @ self.free / self.members.sum()
        table = CoarseTable(items, self.free, relaxed_knapsack(items, average).multipliers)
        found = []
        for number, free in zip(self.numbers, self.free, strict=True):
            check_time()
            patterns = self._from_table(number, paid, table, most)
            if search and not patterns[0].closed and not time_is_up():
                self._search(number, free, paid, items, patterns[0])
            found += [(number, patterns[0].bound, priced.pattern) for priced in patterns]
        return found

    def within(
        self, paid: Sequence[Floats], least: Floats, most: int
    ) -> list[tuple[int, ServerPattern]] | None:
        """Return None: where sums of demands hardly repeat, patterns are too many to be listed."""
        del paid, least, most
        return None

    def _item(self, k: int, gains: Floats) -> Item:
        """Return the slots of a shape that are paid anything."""
        single = len(self.classes.pieces[k]) < len(self.classes.slots[k])
        weights = self.weights[k] if k in self.weights else self.classes.weights(k, self.classes.slots[k])
        return Item(k, np.arange(len(gains)), weights, gains, single).kept(gains > 0)

    def _from_table(
        self, number: int, paid: Sequence[Floats], table: CoarseTable, most: int
    ) -> list[_Priced]:
        """Return patterns of the coarse table for a class, best first, with the bound on all."""
        stays = stays_of(self.classes, number, paid)
        free = np.array(list(stays), dtype=np.int64).reshape(len(stays), len(self.classes.units))
        bounds = table.bounds(free) + np.array([gain for gain, _ in stays.values()])
        bound, patterns = float(bounds.max()), list[_Priced]()
        repair = PatternRepair(table.items)
        for index in np.argsort(-bounds, kind="stable")[:most].tolist():
            gain, stay = stays[tuple(free[index].tolist())]
            slots = repair.repaired(table.slots(free[index]), free[index])
            patterns.append(self._priced(table, bound, gain, stay, slots))
        # Many patterns are paid about the same; where they differ, the relaxation needs fewer rounds.
        while most > 1 and len(patterns) < SETTINGS.patterns_per_search:
            fewer = {i: slot for i, slot in slots.items() if self.random.random() < 0.5}
            again = repair.repaired(fewer, free[index], self.random)
            patterns.append(self._priced(table, bound, gain, stay, again))
        return sorted(patterns, key=lambda priced: -priced.value)

    @staticmethod
    def _priced(table: CoarseTable, bound: float, gain: float, stay: ServerPattern, slots: Slots) -> _Priced:
        """Return a pattern of items of a table and of what stays."""
        chosen = [(table.items[i], slot) for i, slot in sorted(slots.items())]
        value = gain + sum(float(item.gains[slot]) for item, slot in chosen)
        return _Priced(bound, value, (*stay, *((item.shape, int(item.rows[slot])) for item, slot in chosen)))

    def _search(
        self, number: int, free: Ints, paid: Sequence[Floats], items: Sequence[Item], known: _Priced
    ) -> None:
        """Improve bound and pattern of a class by its linear relaxation, then by branch and bound."""
        residents = self.classes.servers[number].residents
        there = [item.within(free) for item in (*(self._item(k, paid[k]) for k in residents), *items)]
        there = [item for item in there if len(item.gains)]
        relaxed = relaxed_knapsack(there, free.astype(float))
        known.bound = max(known.value, min(known.bound, relaxed.bound))
        if known.closed:
            return
        # Reduced-cost fixing: what costs more than bound and pattern differ by is in no better pattern.
        slack = relaxed.bound - known.value + CLOSE * max(1.0, known.value)
        there = [
            item for item in (item.promising(relaxed.multipliers, slack) for item in there) if len(item.gains)
        ]
        found = solved_knapsack(there, free)
        if found is None:
            return
        known.bound = max(known.value, min(known.bound, found.bound))
        if found.value > known.value:
            known.value, known.pattern = found.value, found.slots
