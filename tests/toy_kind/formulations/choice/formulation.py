"""Choosing the cheapest item.

Sets
    items i
Data
    c_i price [USD]
Variables
    x_i ∈ {0, 1}: item i is chosen
Objective
    minimise Σ c_i x_i
Constraints
    Σ x_i = 1
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import ClassVar

from ...instances.choice.instance import ChoiceInstance
from ...instances.common.base import ProblemKind
from ...instances.common.fields import Model, Name
from ..common.formulation import Formulation
from ..common.objective import Diagnosis, Objective, Violation
from .check.least_price import least_price_usd


class Chosen(Model):
    """The item that is chosen."""

    item: Name


class ChoiceFormulation(Formulation[ChoiceInstance, Chosen]):
    """The mathematics of a choice."""

    kind: ClassVar[ProblemKind] = "choice"
    entry = Chosen

    @cached_property
    def prices_usd(self) -> dict[str, float]:
        """The price of each item."""
        return {item.name: item.price_usd for item in self.instance.items}

    @cached_property
    def objectives(self) -> tuple[Objective, ...]:
        """The price."""
        return (Objective("price", "min", "USD"),)

    def violations(self, plan: Sequence[Chosen]) -> list[Violation]:
        """Return what is wrong with a plan."""
        found = [Violation("item", f"there is no {e.item!r}") for e in plan if e.item not in self.prices_usd]
        return found if len(plan) == 1 else [*found, Violation("one item", f"{len(plan)} are chosen")]

    def evaluate(self, plan: Sequence[Chosen]) -> tuple[float, ...]:
        """Return the price."""
        return (self.prices_usd[plan[0].item],)

    def elementary_bounds(self) -> tuple[float | None, ...]:
        """Return the least price."""
        return (least_price_usd(self.instance),)

    def elementary_infeasibility(self) -> Diagnosis | None:
        """Return nothing: there is an item."""
        return None
