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

Cells = NDArray[np.int32]
CELL = 2**30
"""Values are scaled integers below this: half as long as floating-point numbers, and twice as fast."""
MOST_UNITS = 500
"""Units of one axis that are compared."""


@dataclass(frozen=True)
class _Step:
    """A slot of an item that may be added, and where this pays; several of them make up single tasks."""

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
        self.weights = [self._coarse(item) for item in items]
        self.scale = CELL / (self._most(multipliers, largest) or 1.0)
        self.values = np.zeros((*self._size(largest).tolist(), 1)[:2], dtype=np.int32)
        self.steps: list[list[_Step]] = []
        for number, item in enumerate(items):
            check_time()
            gains = item.gains - item.weights @ self.others
            if gains.max() > 0:
                # Rounded up, so that values are bounds.
                self.steps.append(self._add(number, item, np.ceil(gains * self.scale).astype(np.int64)))

    def _coarse(self, item: Item) -> Ints:
        """Return what slots take along both axes in coarse units; shape (S, 2)."""
        weights = np.zeros((len(item.gains), 2), dtype=np.int64)
        weights[:, : len(self.axes)] = item.weights[:, self.axes] // self.units
        if item.single:
            # Tasks are rounded one by one: no more of them fit than rounding all together allows.
            weights = np.arange(1, len(item.gains) + 1)[:, None] * weights[0]
        return weights

    def _most(self, multipliers: Floats, largest: Ints) -> float:
        """Return a bound on all values of the table, by multipliers."""
        worth = multipliers[self.axes] * self.units
        most = float(multipliers[self.axes] @ largest[self.axes])
        for item, weights in zip(self.items, self.weights, strict=True):
            gains = item.gains - item.weights @ self.others - weights[:, : len(self.axes)] @ worth
            most += max(0.0, float(gains.max()))
        return most

    def _size(self, largest: Ints) -> Ints:
        size: Ints = largest[self.axes] // self.units + 1
        return size

    def _add(self, number: int, item: Item, gains: Ints) -> list[_Step]:
        """Add one item: counts that make up any number of tasks, or one of its slots."""
        held = (self.weights[number] < self.values.shape).all(axis=1)
        if not item.single:
            before, slots = self.values.copy(), np.flatnonzero(held & (gains > 0)).tolist()
            return [self._step(before, number, slot, gains) for slot in slots]
        steps, left, count = [], int(held.sum()), 1
        while left:
            count = min(count, left)
            steps.append(self._step(self.values, number, count - 1, gains))
            left, count = left - count, 2 * count
        return steps

    def _step(self, before: Cells, number: int, slot: int, gains: Ints) -> _Step:
        """Let one more way to go on improve the values; return where it does."""
        a, b = self.weights[number][slot].tolist()
        rest = self.values[a:, b:]
        candidate = before[: before.shape[0] - a, : before.shape[1] - b] + np.int32(gains[slot])
        chosen = candidate > rest
        np.maximum(candidate, rest, out=rest)
        return _Step(number, slot, (a, b), chosen)

    def _places(self, free: Ints) -> tuple[Ints, Ints]:
        places = np.zeros((len(free), 2), dtype=np.int64)
        places[:, : len(self.axes)] = free[:, self.axes] // self.units
        return places[:, 0], places[:, 1]

    def bounds(self, free: Ints) -> Floats:
        """Return the most that any pattern is paid on servers with so much free; shape (N,)."""
        bounds: Floats = self.values[self._places(free)] / self.scale + free @ self.others
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
                    found[step.item] = found.get(step.item, -1) + step.slot + 1
        return found


def _unit(demands: Ints, largest: int, most: int) -> int:
    """Return the unit of an axis of at most so many steps by which demands lose least to rounding."""
    least = max(1, -(-largest // most))
    if not len(demands):
        return least
    span = max(1, least // 4)
    # Where units are large, not each of them is tried.
    units = np.arange(least, least + span + 1, max(1, span // MOST_UNITS))
    lost = ((demands[:, None] % units[None, :]) / demands[:, None]).sum(axis=0)
    return int(units[np.argmin(lost)])
