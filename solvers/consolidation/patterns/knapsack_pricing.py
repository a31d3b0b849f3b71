"""Server pricing by knapsack bounds and branch and bound, for too many distinct demand sums.

A dynamic programme over two resources in coarse units, with demands rounded down, prices all classes of a
pool at once; every feasible pattern is in its table (state-space relaxation, Christofides, Mingozzi & Toth
1981). Resources without an axis have Lagrangian multipliers. Its optimum bounds the price of a server's
patterns, and its pattern is a column. An infeasible pattern is repaired: tasks of least density are removed,
and the remaining capacity is filled. Where pattern and bound differ, branch and bound solves the knapsack of
a class to optimality.

The knapsack of one server is multi-dimensional and multiple-choice: each shape of tasks is one choice, a
number of tasks, one of its slots, or none.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ....formulations.common.clock import check_time, time_is_up
from ....formulations.consolidation.classes import ClassTable
from ....instances.common.arrays import Flags, Floats, Ints, ShortInts
from ...backends.base import BackendError
from ...backends.highs import MIP_SETTINGS, highs_with_settings, linear_optimum, linear_program, run_end
from ..progress import SETTINGS
from .pricing import PoolPricing, ServerPattern, resident_selections


@dataclass(frozen=True)
class Item:
    """A choice of the knapsack: the alternative numbers of tasks of one shape on a server (slots).

    Attributes
    ----------
    rows
        Rows of the slots in the shape's table; shape (S,).
    weights
        Demand of each slot, in units of each resource; shape (S, R).
    gains
        Price of each slot; shape (S,).
    single
        Whether slot i is i + 1 equal tasks, so that weights and gains are linear.
    """

    shape: int
    rows: Ints
    weights: Ints
    gains: Floats
    single: bool

    @property
    def choices(self) -> int:
        """Number of variables in the knapsack model: one if slots are multiples of a task, else one each."""
        return 1 if self.single else len(self.gains)

    def worth(self, multipliers: Floats) -> Floats:
        """Return each slot's dual price less its demand's cost at the resource multipliers, shape (S,)."""
        return self.gains - self.weights @ multipliers

    def kept(self, which: Any) -> Item:
        """Return the item with the slots that a mask or index array selects."""
        return Item(self.shape, self.rows[which], self.weights[which], self.gains[which], self.single)

    def within(self, free: Ints) -> Item:
        """Return the item with the slots whose demand is within the free capacity `free`, shape (R,)."""
        return self.kept((self.weights <= free).all(axis=1))

    def promising(self, multipliers: Floats, slack: float) -> Item:
        """Return the item with the slots that may be in a pattern at most `slack` below the relaxation."""
        worth = self.worth(multipliers)
        best = 0.0 if self.single else worth.max(initial=0.0)
        return self.kept(max(0.0, best) - worth <= slack)


def with_slots(items: Iterable[Item]) -> list[Item]:
    """Return the items that have any slots."""
    return [item for item in items if len(item.gains)]


@dataclass(frozen=True)
class RelaxedKnapsack:
    """Linear relaxation of a server's knapsack: upper bound on the price, and multiplier per resource."""

    bound: float
    multipliers: Floats


OPTIMALITY_TOLERANCE = 1e-7
"""Relative gap up to which a pattern counts as optimal."""


@dataclass
class SolvedKnapsack:
    """Best pattern found for a server, its total dual price, and an upper bound on that of any pattern."""

    slots: ServerPattern
    value: float
    bound: float

    @property
    def closed(self) -> bool:
        """Whether the pattern's price attains the upper bound, within a tolerance."""
        return self.bound <= self.value + OPTIMALITY_TOLERANCE * max(1.0, self.value)


def multiplier_bound(items: Sequence[Item], free: Floats, multipliers: Floats) -> float:
    """Return the Lagrangian upper bound on a pattern's price at non-negative resource multipliers."""
    best = (float(item.worth(multipliers).max(initial=0.0)) for item in items)
    return float(multipliers @ free) + math.fsum(best)


def relaxed_knapsack(items: Sequence[Item], free: Floats) -> RelaxedKnapsack:
    """Solve the linear relaxation of the knapsack of a server with free capacity `free`, shape (R,)."""
    multipliers = np.zeros(len(free))
    found = linear_optimum(_model(items, free, whole=False)) if items else None
    if found is not None:
        # Duals of the wrong sign are rounding of the simplex method.
        multipliers = np.maximum(-found.prices[: len(free)], 0.0)
    return RelaxedKnapsack(multiplier_bound(items, free, multipliers), multipliers)


def solved_knapsack(items: Sequence[Item], free: Ints) -> SolvedKnapsack | None:
    """Return the pattern of maximum price for a server by branch and bound; None if none was found.

    The bound is above the pattern's value where the limit on nodes cut the search short.
    """
    limits = {"mip_max_nodes": SETTINGS.most_pricing_nodes, "time_limit": SETTINGS.pricing_patience_s}
    highs = highs_with_settings({**MIP_SETTINGS, **limits}, BackendError)
    highs.passModel(_model(items, free.astype(float), whole=True))
    highs.run()
    if not run_end(highs).found:
        return None
    values = np.round(np.array(highs.getSolution().col_value)).astype(int)
    slots, value, first = list[tuple[int, int]](), 0.0, 0
    for item in items:
        chosen = values[first : first + item.choices]
        first += item.choices
        if chosen.any():
            slot = int(chosen[0]) - 1 if item.single else int(np.argmax(chosen))
            slots.append((item.shape, int(item.rows[slot])))
            value += float(item.gains[slot])
    bound = -float(highs.getInfo().mip_dual_bound)
    return SolvedKnapsack(tuple(slots), value, max(value, bound))


def _model(items: Sequence[Item], free: Floats, whole: bool) -> Any:
    """Return the knapsack as a HiGHS model, with a row for each resource and each multiple choice."""
    choices = [item.choices for item in items]
    gains = np.concatenate([item.gains[: item.choices] for item in items])
    most = np.repeat([float(len(item.gains)) if item.single else 1.0 for item in items], choices)
    several = np.flatnonzero([not item.single for item in items])
    of_item = np.repeat(np.arange(len(items)), choices)[:, None] == several
    demands = np.concatenate([item.weights[: item.choices] for item in items])
    matrix = np.hstack([demands, of_item]).astype(float)
    column_of_entry, indices = np.nonzero(matrix)
    starts = np.searchsorted(column_of_entry, np.arange(len(gains) + 1))
    sparse = starts.astype(np.int32), indices.astype(np.int32), matrix[column_of_entry, indices]
    limits = np.append(free, np.ones(len(several)))
    rows = np.full(len(limits), -np.inf), limits
    return linear_program(-gains, (np.zeros(len(gains)), most), rows, sparse, [True] * len(gains) * whole)


MAX_CELL_VALUE = 2**30
"""Values are scaled integers below this: half as long as floating-point numbers, and twice as fast."""
MAX_UNITS_COMPARED = 500
"""Largest number of units of one axis that are compared."""


@dataclass(frozen=True)
class _Step:
    """An update of the coarse dynamic programme by a slot of an item, with a mask of the improved cells."""

    item: int
    slot: int
    weight: tuple[int, int]
    chosen: Flags


class CoarseTable:
    """Table of the maximum total price of items for all amounts of two resources in coarse units.

    Parameters
    ----------
    free
        Free capacity of each server; shape (N, R).
    multipliers
        Multiplier of each resource; the two resources worth most have the axes.
    """

    def __init__(self, items: Sequence[Item], free: Ints, multipliers: Floats) -> None:
        largest = free.max(axis=0)
        self.items, self.multipliers = items, multipliers
        self.axes = np.argsort(-multipliers * largest, kind="stable")[:2]
        self.others = multipliers.copy()
        self.others[self.axes] = 0.0
        cells = SETTINGS.most_coarse_cells
        self.units = np.ones(len(self.axes), dtype=np.int64)
        for place, axis in enumerate(self.axes.tolist()):
            most = SETTINGS.most_coarse_steps if place == 0 else cells // int(self._size(largest)[0])
            demands = np.array([item.weights[0, axis] for item in items], dtype=np.int64)
            self.units[place] = _best_unit(demands[demands > 0], int(largest[axis]), max(1, most))
        self.weights = [self._coarse(item) for item in items]
        paid = [item.gains - item.weights @ self.others for item in items]
        self.scale = MAX_CELL_VALUE / (self._most(paid, multipliers, largest) or 1.0)
        self.values = np.zeros(self._size(largest), dtype=np.int32)
        self.steps: list[list[_Step]] = []
        for number, (item, gains) in enumerate(zip(items, paid, strict=True)):
            check_time()
            if gains.max() > 0:
                # Rounded up, so that values are bounds.
                self.steps.append(self._add(number, item, np.ceil(gains * self.scale).astype(np.int64)))

    def _coarse(self, item: Item) -> Ints:
        """Return the demand of each slot for the two axis resources in coarse units, shape (S, 2)."""
        weights = self._in_units(item.weights)
        if item.single:
            # Tasks are rounded one by one: no more of them fit than rounding all together allows.
            weights = np.arange(1, len(item.gains) + 1)[:, None] * weights[0]
        return weights

    def _most(self, paid: Sequence[Floats], multipliers: Floats, largest: Ints) -> float:
        """Return an upper bound on all prices of the table, by resource multipliers."""
        worth = multipliers[self.axes] * self.units
        most = float(multipliers[self.axes] @ largest[self.axes])
        for gains, weights in zip(paid, self.weights, strict=True):
            most += max(0.0, float((gains - weights[:, : len(self.axes)] @ worth).max()))
        return most

    def _size(self, largest: Ints) -> Ints:
        size: Ints = self._in_units(largest[None])[0] + 1
        return size

    def _in_units(self, amounts: Ints) -> Ints:
        """Return amounts of the two axis resources in coarse units, shape (N, 2)."""
        units = np.zeros((len(amounts), 2), dtype=np.int64)
        units[:, : len(self.axes)] = amounts[:, self.axes] // self.units
        return units

    def _add(self, number: int, item: Item, gains: Ints) -> list[_Step]:
        """Add an item to the table as binary-coded multiples of a task, or as one slot; return updates."""
        fits = (self.weights[number] < self.values.shape).all(axis=1)
        if not item.single:
            before, slots = self.values.copy(), np.flatnonzero(fits & (gains > 0)).tolist()
            return [self._step(before, number, slot, gains) for slot in slots]
        steps, left, count = [], int(fits.sum()), 1
        while left:
            count = min(count, left)
            steps.append(self._step(self.values, number, count - 1, gains))
            left, count = left - count, 2 * count
        return steps

    def _step(self, before: ShortInts, number: int, slot: int, gains: Ints) -> _Step:
        """Update the table by a slot of an item; return the update with a mask of the improved cells."""
        a, b = self.weights[number][slot].tolist()
        rest = self.values[a:, b:]
        candidate = before[: before.shape[0] - a, : before.shape[1] - b] + np.int32(gains[slot])
        chosen = candidate > rest
        np.maximum(candidate, rest, out=rest)
        return _Step(number, slot, (a, b), chosen)

    def bounds(self, free: Ints) -> Floats:
        """Return an upper bound on the total dual price of any pattern for each free capacity, shape (N,)."""
        bounds: Floats = self.values[*self._in_units(free).T] / self.scale + free @ self.others
        return bounds

    def slots(self, free: Ints) -> dict[int, int]:
        """Return the slot of each item in the table's pattern for a free capacity; it may be infeasible."""
        place = self._in_units(free[None])[0].tolist()
        slot_of_item: dict[int, int] = {}
        for steps in reversed(self.steps):
            for step in reversed(steps):
                a, b = place[0] - step.weight[0], place[1] - step.weight[1]
                if a >= 0 and b >= 0 and step.chosen[a, b]:
                    place = [a, b]
                    if not self.items[step.item].single:
                        slot_of_item[step.item] = step.slot
                        break
                    slot_of_item[step.item] = slot_of_item.get(step.item, -1) + step.slot + 1
        return slot_of_item


def _best_unit(demands: Ints, largest: int, most: int) -> int:
    """Return a resource's coarse unit, for at most `most` steps, of minimum rounding loss of demands."""
    least = max(1, -(-largest // most))
    if not len(demands):
        return least
    span = max(1, least // 4)
    # Where units are large, not each of them is tried.
    units = np.arange(least, least + span + 1, max(1, span // MAX_UNITS_COMPARED))
    lost = ((demands[:, None] % units[None, :]) / demands[:, None]).sum(axis=0)
    return int(units[np.argmin(lost)])


Slots = dict[int, int]
"""Slot of each item in a pattern, by the item's position."""


class PatternRepair:
    """Makes server patterns feasible by removing tasks, and maximal by adding tasks."""

    def __init__(self, items: Sequence[Item]) -> None:
        self.items = items
        self.first = np.array([item.weights[0] for item in items], dtype=np.int64)
        self.gains = np.array([item.gains[0] for item in items], dtype=float)

    def repaired(
        self, slots: Mapping[int, int], free: Ints, random: np.random.Generator | None = None
    ) -> Slots:
        """Return a feasible server pattern to which no task of positive dual price can be added.

        Parameters
        ----------
        random
            Random generator that perturbs the order in which items are added.
        """
        if not self.items:
            return {}
        chosen = dict(slots)
        scale = 1.0 / np.maximum(free, 1)
        taken = sum((self.items[i].weights[slot] for i, slot in chosen.items()), np.zeros_like(free))
        while (taken > free).any():
            over = (taken > free) * scale
            worst = min(chosen, key=lambda i: self._density(i, chosen[i], over))
            slot, item = chosen.pop(worst), self.items[worst]
            taken = taken - item.weights[slot]
            if item.single and slot > 0:
                chosen[worst] = slot - 1
                taken = taken + item.weights[slot - 1]
        share = self.first @ scale
        with np.errstate(divide="ignore"):
            density = self.gains / share
        if random is not None:
            density *= 1 + random.random(len(density))
        self._fill(chosen, free - taken, np.argsort(-density, kind="stable"))
        return chosen

    def _density(self, i: int, slot: int, scale: Floats) -> float:
        """Return a slot's price divided by its share of scarce resources; infinite if that is zero."""
        share = float(self.items[i].weights[slot] @ scale)
        return float(self.items[i].gains[slot]) / share if share > 0 else np.inf

    def _fill(self, chosen: Slots, left: Ints, order: Ints) -> None:
        """Add as many tasks as fit in the residual capacity to a pattern, one item after the other."""
        order = order[(self.first[order] <= left).all(axis=1)]
        while len(order):
            i, order = int(order[0]), order[1:]
            item, now = self.items[i], chosen.get(i, -1)
            if item.single:
                need = item.weights[0]
                fit = min((left[need > 0] // need[need > 0]).tolist(), default=len(item.gains))
                slot = min(len(item.gains) - 1, now + fit)
            else:
                fits = (item.weights <= left).all(axis=1)
                slot = int(np.argmax(np.where(fits, item.gains, 0.0))) if now < 0 else now
            if slot > now:
                left = left - item.weights[slot] + (item.weights[now] if now >= 0 else 0)
                chosen[i] = slot
                order = order[(self.first[order] <= left).all(axis=1)]


class SearchPricing(PoolPricing):
    """Pricing problem of the server classes of one pool by knapsack search instead of a table."""

    def __init__(self, classes: ClassTable, pool: str | None) -> None:
        super().__init__(classes, pool)
        self.members = np.array([len(classes.servers[n].members) for n in self.numbers], dtype=float)
        self.random = np.random.default_rng(0)

    def alone(self, k: int) -> list[tuple[int, ServerPattern]]:
        """Return (class, pattern) pairs: as many tasks of one shape as fit on a server of the class.

        There is one for each server class, or one in all if there are many classes.
        """
        sizes, patterns = self.classes.slots[k].sum(axis=1), list[tuple[int, ServerPattern]]()
        for number, free in zip(self.numbers, self.free, strict=True):
            fits = (self.classes.slot_weights[k] <= free).all(axis=1)
            if fits.any():
                patterns.append((number, ((k, int(np.argmax(np.where(fits, sizes, -1)))),)))
                if len(self.numbers) * len(self.task_shapes) > SETTINGS.most_first_patterns:
                    break
        return patterns

    def best(
        self, paid: Sequence[Floats], most: int = 1, search: bool = True
    ) -> list[tuple[int, float, ServerPattern]]:
        """Return server patterns of high total dual price as (number of the class, upper bound, pattern).

        Parameters
        ----------
        paid
            Dual price of each slot of each shape.
        most
            Patterns for each class; they differ in the residents that stay.
        search
            Whether branch and bound closes the gaps of the coarse table.

        Returns
        -------
        results
            The bound is on the value of any pattern of the class, and is attained if the search ended.
        """
        if not self.numbers:
            return []
        items = with_slots(self._item(k, paid[k]) for k in self.task_shapes)
        # Multipliers of a server of average size do for all classes of the pool.
        average = self.members @ self.free / self.members.sum()
        table = CoarseTable(items, self.free, relaxed_knapsack(items, average).multipliers)
        results = []
        for number, free in zip(self.numbers, self.free, strict=True):
            check_time()
            patterns = self._from_table(number, paid, table, most)
            if search and not patterns[0].closed and not time_is_up():
                self._search(number, free, paid, items, patterns[0])
            results += [(number, patterns[0].bound, priced.slots) for priced in patterns]
        return results

    def _item(self, k: int, gains: Floats) -> Item:
        """Return the knapsack item of a task shape with the slots of positive dual price."""
        weights, single = self.classes.slot_weights[k], self.classes.single(k)
        return Item(k, np.arange(len(gains)), weights, gains, single).kept(gains > 0)

    def _from_table(
        self, number: int, paid: Sequence[Floats], table: CoarseTable, most: int
    ) -> list[SolvedKnapsack]:
        """Return patterns of a server class from the coarse table, best first, with an upper bound on all."""
        stays = resident_selections(self.classes, number, paid, table.multipliers)
        free = np.array(list(stays), dtype=np.int64).reshape(len(stays), len(self.classes.units))
        bounds = table.bounds(free) + np.array([gain for gain, _ in stays.values()])
        bound, patterns = float(bounds.max()), list[SolvedKnapsack]()
        if len(stays) == SETTINGS.most_priced_selections:
            # Some selections may be missing; with residents as items, Lagrange multipliers bound all.
            server = self.classes.servers[number]
            items = [*table.items, *(self._item(k, paid[k]) for k in server.residents)]
            bound = multiplier_bound(items, np.array(server.free, dtype=float), table.multipliers)
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
    def _priced(
        table: CoarseTable, bound: float, gain: float, stay: ServerPattern, slots: Slots
    ) -> SolvedKnapsack:
        """Return a pattern of table items and staying residents, with its price and a known upper bound."""
        chosen = [(table.items[i], slot) for i, slot in sorted(slots.items())]
        value = gain + sum(float(item.gains[slot]) for item, slot in chosen)
        pattern = (*stay, *((item.shape, int(item.rows[slot])) for item, slot in chosen))
        return SolvedKnapsack(pattern, value, bound)

    def _search(
        self, number: int, free: Ints, paid: Sequence[Floats], items: Sequence[Item], known: SolvedKnapsack
    ) -> None:
        """Improve bound and pattern of a server class by the linear relaxation, then by branch and bound."""
        residents = (self._item(k, paid[k]) for k in self.classes.servers[number].residents)
        candidates = with_slots(item.within(free) for item in (*residents, *items))
        relaxed = relaxed_knapsack(candidates, free.astype(float))
        known.bound = max(known.value, min(known.bound, relaxed.bound))
        if known.closed:
            return
        # Reduced-cost fixing: what costs more than bound and pattern differ by is in no better pattern.
        slack = relaxed.bound - known.value + OPTIMALITY_TOLERANCE * max(1.0, known.value)
        candidates = with_slots(item.promising(relaxed.multipliers, slack) for item in candidates)
        solved = solved_knapsack(candidates, free) if candidates else None
        if solved is None:
            return
        known.bound = max(known.value, min(known.bound, solved.bound))
        if solved.value > known.value:
            known.value, known.slots = solved.value, solved.slots
