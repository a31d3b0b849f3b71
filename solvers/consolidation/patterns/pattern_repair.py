"""Patterns that a server holds, from others: what is least dense goes, what is left is filled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ....instances.common.arrays import Floats, Ints
from .knapsack import Item

Slots = dict[int, int]
"""For each item in a pattern, by its position, one of its slots."""


class PatternRepair:
    """Makes patterns of some items feasible and full."""

    def __init__(self, items: Sequence[Item]) -> None:
        self.items = items
        self.first = np.array([item.weights[0] for item in items], dtype=np.int64)
        self.gains = np.array([item.gains[0] for item in items], dtype=float)

    def repaired(
        self, slots: Mapping[int, int], free: Ints, random: np.random.Generator | None = None
    ) -> Slots:
        """Return a pattern within what is free, to which no task that is paid anything can be added.

        Parameters
        ----------
        random
            Disturbs the order in which items fill what is left.
        """
        if not self.items:
            return {}
        found = dict(slots)
        scale = 1.0 / np.maximum(free, 1)
        taken = sum((self.items[i].weights[slot] for i, slot in found.items()), np.zeros_like(free))
        while (taken > free).any():
            over = (taken > free) * scale
            worst = min(found, key=lambda i: self._density(i, found[i], over))
            slot, item = found.pop(worst), self.items[worst]
            taken = taken - item.weights[slot]
            if item.single and slot > 0:
                found[worst] = slot - 1
                taken = taken + item.weights[slot - 1]
        share = self.first @ scale
        with np.errstate(divide="ignore"):
            density = self.gains / share
        if random is not None:
            density *= 1 + random.random(len(density))
        self._fill(found, free - taken, np.argsort(-density, kind="stable"))
        return found

    def _density(self, i: int, slot: int, scale: Floats) -> float:
        """Return what a slot is paid for its share of what is scarce, infinite if that is none."""
        share = float(self.items[i].weights[slot] @ scale)
        return float(self.items[i].gains[slot]) / share if share > 0 else np.inf

    def _fill(self, found: Slots, left: Ints, order: Ints) -> None:
        """Add as much as is left room for of one item after the other."""
        order = order[(self.first[order] <= left).all(axis=1)]
        while len(order):
            i, order = int(order[0]), order[1:]
            item, now = self.items[i], found.get(i, -1)
            if item.single:
                need = item.weights[0]
                fit = min((left[need > 0] // need[need > 0]).tolist(), default=len(item.gains))
                slot = min(len(item.gains) - 1, now + fit)
            else:
                held = (item.weights <= left).all(axis=1)
                slot = int(np.argmax(np.where(held, item.gains, 0.0))) if now < 0 else now
            if slot > now:
                left = left - item.weights[slot] + (item.weights[now] if now >= 0 else 0)
                found[i] = slot
                order = order[(self.first[order] <= left).all(axis=1)]
