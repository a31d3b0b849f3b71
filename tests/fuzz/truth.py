"""What is true of a tiny instance: all its plans, with their values, as exact fractions.

The documentation treats a limit as kept within a relative slack of 1e-9. Floating-point sums round, so what
lies within 1e-12 of that slack is left open here: a plan is *certain* if it keeps every limit by the
smaller slack, and *possible* if it does by the larger one. A bound is wrong if a certain plan is better; a
plan is wrong if it is not possible.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

CERTAIN = 1 + Fraction(1, 10**9) - Fraction(1, 10**12)
POSSIBLE = 1 + Fraction(1, 10**9) + Fraction(1, 10**12)
TINY = Fraction(2, 10**18)
"""Absolute slack beside the relative one, so that a limit of 0 has some."""
Judgement = tuple[tuple[int, ...] | None, list[str]]
"""The costs of a plan, none where it is no plan at all, and what is wrong with it."""


class TooManyPlansError(Exception):
    """The instance has more plans than are worth looking through."""


def whole(amounts: Iterable[float | Fraction]) -> tuple[list[int], int]:
    """Return amounts as whole multiples of 1/unit, exactly, and that unit."""
    fractions = [Fraction(amount) for amount in amounts]
    unit = math.lcm(*(fraction.denominator for fraction in fractions)) if fractions else 1
    return [fraction.numerator * (unit // fraction.denominator) for fraction in fractions], unit


def limits(
    limit: float | Fraction | None, unit: int | Fraction = 1
) -> tuple[Fraction | float, Fraction | float]:
    """Return up to where an amount certainly keeps a limit, and possibly, in multiples of 1/unit."""
    if limit is None:
        return math.inf, math.inf
    exact = Fraction(limit)
    return math.floor(exact * CERTAIN * unit), math.floor((exact * POSSIBLE + TINY) * unit)


class Truth(ABC):
    """All plans of one instance.

    Attributes
    ----------
    objectives
        Name and sense of each, in order.
    plans
        Costs of each possible plan, one whole number for each objective, smaller ones being better, and
        whether the plan is certain.
    unclear
        What the slack leaves open beyond single plans; None if nothing.
    data
        The document.
    best_changed
        The best value of changed documents that were looked at; None where it is not known.
    """

    data: dict[str, Any]

    objectives: tuple[tuple[str, str], ...]
    plans: list[tuple[tuple[int, ...], bool]]
    unclear: str | None = None

    def __init__(self, data: dict[str, Any]) -> None:
        self.data = data
        self.best_changed: dict[str, Fraction | None] = {}

    @abstractmethod
    def value(self, index: int, cost: int) -> Fraction:
        """Return the value of an objective, as the documentation states it, from its cost."""

    @abstractmethod
    def judge(self, plan: Sequence[dict[str, Any]]) -> Judgement:
        """Return the costs of a plan given as plain data, and what is wrong with it."""

    @property
    def feasible(self) -> bool:
        """Whether there certainly is a plan."""
        return any(certain for _, certain in self.plans)

    def best(self, earlier: Sequence[int] = ()) -> Fraction | None:
        """Return the best value of the objective after these, over certain plans no worse in them."""
        index = len(earlier)
        costs = [
            plan[index]
            for plan, certain in self.plans
            if certain and all(own <= given for own, given in zip(plan, earlier, strict=False))
        ]
        return self.value(index, min(costs)) if costs else None

    def values(self, costs: Sequence[int]) -> list[Fraction]:
        """Return the value of each objective from its cost."""
        return [self.value(index, cost) for index, cost in enumerate(costs)]
