"""The knapsack of one server: its linear relaxation with multipliers, and branch and bound.

Every shape of tasks is one choice: so many tasks of it, or one of its slots, or none. Amounts are vectors
(multi-dimensional multiple-choice knapsack).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ....instances.common.arrays import Floats, Ints
from ...backends.base import BackendError
from ...backends.highs_mip import FIXED, how_it_ended, linear_program, solver_with
from ..settings import SETTINGS


@dataclass(frozen=True)
class Item:
    """What a server may hold of one shape.

    Attributes
    ----------
    rows
        Of the slots in the shape's table; shape (S,).
    weights
        Units of each resource that a slot takes; shape (S, R).
    gains
        What a slot is paid; shape (S,).
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
        """How many variables the choice takes: the number of tasks, or one for each slot."""
        return 1 if self.single else len(self.gains)

    def worth(self, multipliers: Floats) -> Floats:
        """Return what slots are paid beyond the worth of what they take; shape (S,)."""
        return self.gains - self.weights @ multipliers

    def kept(self, which: Any) -> Item:
        """Return the item with some of its slots only."""
        return Item(self.shape, self.rows[which], self.weights[which], self.gains[which], self.single)

    def within(self, free: Ints) -> Item:
        """Return the item with the slots that a server holds."""
        return self.kept((self.weights <= free).all(axis=1))

    def promising(self, multipliers: Floats, slack: float) -> Item:
        """Return the item with the slots that may stand in a pattern at most `slack` below the relaxation."""
        worth = self.worth(multipliers)
        best = 0.0 if self.single else worth.max(initial=0.0)
        return self.kept(max(0.0, best) - worth <= slack)


@dataclass(frozen=True)
class RelaxedKnapsack:
    """The linear relaxation: a bound on all patterns, and what a unit of each resource is worth."""

    bound: float
    multipliers: Floats


@dataclass(frozen=True)
class SolvedKnapsack:
    """The rows of shapes in the best pattern found, what it is paid, and a bound on all patterns."""

    slots: tuple[tuple[int, int], ...]
    value: float
    bound: float


def multiplier_bound(items: Sequence[Item], free: Floats, multipliers: Floats) -> float:
    """Return a bound on what any pattern is paid; it holds for all multipliers that are not negative."""
    best = (float(item.worth(multipliers).max(initial=0.0)) for item in items)
    return float(multipliers @ free) + math.fsum(best)


def relaxed_knapsack(items: Sequence[Item], free: Floats) -> RelaxedKnapsack:
    """Solve the linear relaxation for a server with so much free; shape (R,)."""
    multipliers = np.zeros(len(free))
    if items:
        highs = solver_with({"solver": "simplex"}, BackendError)
        highs.passModel(_model(items, free, whole=False))
        highs.run()
        duals = np.array(highs.getSolution().row_dual)
        if len(duals) >= len(free):
            # Duals of the wrong sign are rounding of the simplex method.
            multipliers = np.maximum(-duals[: len(free)], 0.0)
    return RelaxedKnapsack(multiplier_bound(items, free, multipliers), multipliers)


def solved_knapsack(items: Sequence[Item], free: Ints) -> SolvedKnapsack | None:
    """Return the best pattern of a server by branch and bound; None if no pattern was found.

    The bound is above the pattern's value where the limit on nodes cut the search short.
    """
    limits = {"mip_max_nodes": SETTINGS.most_pricing_nodes, "time_limit": SETTINGS.pricing_patience_s}
    highs = solver_with({**FIXED, **limits}, BackendError)
    highs.passModel(_model(items, free.astype(float), whole=True))
    highs.run()
    if not how_it_ended(highs).found:
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
    """Return the knapsack as a model for HiGHS: a row for each resource and for each choice."""
    resources, several = len(free), [item for item in items if not item.single]
    columns = sum(item.choices for item in items)
    matrix = np.zeros((resources + len(several), columns))
    gains, most = np.empty(columns), np.ones(columns)
    first, row = 0, resources
    for item in items:
        here = slice(first, first + item.choices)
        matrix[:resources, here] = item.weights[: item.choices].T
        gains[here] = item.gains[: item.choices]
        if item.single:
            most[here] = len(item.gains)
        else:
            matrix[row, here] = 1.0
            row += 1
        first += item.choices
    held, indices = np.nonzero(matrix.T)
    starts = np.searchsorted(held, np.arange(columns + 1))
    sparse = starts.astype(np.int32), indices.astype(np.int32), matrix.T[held, indices]
    limits = np.append(free, np.ones(len(several)))
    return linear_program(
        -gains,
        (np.zeros(columns), most),
        (np.full(len(limits), -np.inf), limits),
        sparse,
        [True] * columns * whole,
    )
