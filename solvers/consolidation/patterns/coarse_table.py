"""A dynamic programme over two resources in coarse units: a bound and a pattern for every server of a pool.

Demands are rounded down, so that every pattern that a server holds is in the table (state-space relaxation,
Christofides, Mingozzi & Toth 1981). Resources without an axis have Lagrangian multipliers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ....formulations.common.clock import check_time
from ....instances.common.arrays import Floats, Ints
from ..settings import SETTINGS
from .knapsack import Item


@dataclass(frozen=True)
class _Step:
    """Tasks that may be added: of which item, which slot or how many single tasks, and where this pays."""

    item: int
    slot: int
    weight: tuple[int, int]
    chosen: NDArray[np.bool_]


class CoarseTable:
    """The best value of items within all amounts of two resources.

    Parameters
    ----------
    free
        Of each server that will be asked for; shape (N, R).
    multipliers
        What a unit of each resource is worth; the two that are worth most have the axes.
    """

    def __init__(self, items: Sequence[Item], free: Ints, multipliers: Floats) -> None:
        largest = free.max(axis=0)
        self.items = items
        self.axes = np.argsort(-multipliers * largest, kind="stable")[:2]
        self.others = multipliers.copy()
        self.others[self.axes] = 0.0
        cells = SETTINGS.most_coarse_cells
        self.units = np.ones(len(self.axes), dtype=np.int64)
        for place, axis in enumerate(self.axes.tolist()):
            most = SETTINGS.most_coarse_steps if place == 0 else cells // int(self._size(largest)[0])
            demands = np.array([item.weights[0, axis] for item in items], dtype=np.int64)
            self.units[place] = _unit(demands[demands > 0], int(largest[axis]), max(1, most))
        size = self._size(largest)
        self.values = np.zeros((*size.tolist(), 1)[:2])
        self.steps: list[list[_Step]] = []
        for number, item in enumerate(items):
            check_time()
            gains = item.gains - item.weights @ self.others
            if gains.max() > 0:
                self.steps.append(self._add(number, item, gains))

    def _size(self, largest: Ints) -> Ints:
        size: Ints = largest[self.axes] // self.units + 1
        return size

    def _add(self, number: int, item: Item, gains: Floats) -> list[_Step]:
        """Add one item: counts that make up any number of tasks, or one of its slots."""
        weights = np.zeros((len(gains), 2), dtype=np.int64)
        if not item.single:
            weights[:, : len(self.axes)] = item.weights[:, self.axes] // self.units
            before, after = self.values, self.values.copy()
            steps = [
                self._step(before, after, number, slot, weights[slot], float(gains[slot]))
                for slot in np.flatnonzero(gains > 0).tolist()
            ]
            self.values = after
            return list(reversed(steps))
        # Tasks are rounded one by one: no more of them fit than rounding all together allows.
        weights[:, : len(self.axes)] = item.weights[:1, self.axes] // self.units
        steps, left, count = [], len(gains), 1
        while left:
            count = min(count, left)
            gain = count * float(gains[0])
            steps.append(self._step(self.values, self.values, number, count, count * weights[0], gain))
            left, count = left - count, 2 * count
        return steps

    @staticmethod
    def _step(before: Floats, after: Floats, number: int, slot: int, weight: Ints, gain: float) -> _Step:
        """Let one more way to go on improve the values; return where it does."""
        a, b = weight.tolist()
        rest = after[a:, b:]
        candidate = before[: before.shape[0] - a, : before.shape[1] - b] + gain
        chosen = candidate > rest
        np.copyto(rest, candidate, where=chosen)
        return _Step(number, slot, (a, b), chosen)

    def _places(self, free: Ints) -> tuple[Ints, Ints]:
        places = np.zeros((len(free), 2), dtype=np.int64)
        places[:, : len(self.axes)] = free[:, self.axes] // self.units
        return places[:, 0], places[:, 1]

    def bounds(self, free: Ints) -> Floats:
        """Return the most that any pattern is paid on servers with so much free; shape (N,)."""
        bounds: Floats = self.values[self._places(free)] + free @ self.others
        return bounds

    def slots(self, free: Ints) -> dict[int, int]:
        """Return the slot of each item in the table's pattern for a server, which may not hold it."""
        place = [int(index[0]) for index in self._places(free[None, :])]
        found: dict[int, int] = {}
        for steps in reversed(self.steps):
            for step in reversed(steps):
                a, b = place[0] - step.weight[0], place[1] - step.weight[1]
                if a >= 0 and b >= 0 and step.chosen[a, b]:
                    place = [a, b]
                    if not self.items[step.item].single:
                        found[step.item] = step.slot
                        break
                    found[step.item] = found.get(step.item, -1) + step.slot
        return found


def _unit(demands: Ints, largest: int, most: int) -> int:
    """Return the unit of an axis of at most so many steps by which demands lose least to rounding."""
    least = max(1, -(-largest // most))
    if not len(demands):
        return least
    units = np.arange(least, least + max(1, least // 4) + 1)
    lost = ((demands[:, None] % units[None, :]) / demands[:, None]).sum(axis=0)
    return int(units[np.argmin(lost)])


def repaired(
    items: Sequence[Item], slots: dict[int, int], free: Ints, random: np.random.Generator | None = None
) -> dict[int, int]:
    """Return a pattern that a server holds: the least dense is left out, and what is left is filled.

    Parameters
    ----------
    slots
        Of each item by its position.
    random
        Disturbs the order in which items fill what is left.
    """
    slots = dict(slots)
    scale = np.maximum(free, 1).astype(float)
    taken = sum((items[i].weights[slot] for i, slot in slots.items()), np.zeros(len(free), dtype=np.int64))
    while (taken > free).any():
        over = taken > free
        worst = min(slots, key=lambda i: _density(items[i], slots[i], over / scale))
        slot = slots.pop(worst)
        taken = taken - items[worst].weights[slot]
        if items[worst].single and slot > 0:
            slots[worst] = slot - 1
            taken = taken + items[worst].weights[slot - 1]
    density = np.array([_density(item, 0, 1.0 / scale) for item in items])
    if random is not None:
        density *= 1 + random.random(len(density))
    for i in np.argsort(-density, kind="stable").tolist():
        item, left = items[i], free - taken
        first = slots.get(i, -1)
        if item.single:
            more = item.weights[0]
            fit = min((left[more > 0] // more[more > 0]).tolist(), default=len(item.gains))
            slot = min(len(item.gains) - 1, first + fit)
        else:
            held = (item.weights <= left).all(axis=1)
            slot = int(np.argmax(np.where(held, item.gains, 0.0))) if first < 0 and held.any() else first
        if slot > first:
            now = item.weights[first] if first >= 0 else 0
            taken, slots[i] = taken + item.weights[slot] - now, slot
    return slots


def _density(item: Item, slot: int, scale: Floats) -> float:
    """Return what a slot is paid for its share of a server; infinite if it takes nothing that is scarce."""
    share = float(item.weights[slot] @ scale)
    return float(item.gains[slot]) / share if share > 0 else np.inf
