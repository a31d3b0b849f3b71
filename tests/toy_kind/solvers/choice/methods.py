"""The cheapest item, and the first one."""

from __future__ import annotations

from ...formulations.choice.formulation import ChoiceFormulation, Chosen
from ...formulations.common.objective import Diagnosis
from ..common.base import Clock, Outcome, Solver
from ..common.result import SolveOptions


class Cheapest(Solver[ChoiceFormulation]):
    """Look at every item."""

    kinds = ("choice",)
    proves = True

    def __init__(self, name: str) -> None:
        self.name = name
        self.what = "looks at every item"

    def solve(self, formulation: ChoiceFormulation, options: SolveOptions, clock: Clock) -> Outcome:
        """Return the cheapest item."""
        del options, clock
        prices = formulation.prices_usd
        best = min(prices, key=lambda name: prices[name])
        return Outcome((Chosen(item=best),), bounds=(prices[best],))


class First(Solver[ChoiceFormulation]):
    """Look at one item."""

    name, kinds, what = "first", ("choice",), "takes the first item"

    def solve(self, formulation: ChoiceFormulation, options: SolveOptions, clock: Clock) -> Outcome:
        """Return the first item."""
        del options, clock
        return Outcome((Chosen(item=next(iter(formulation.prices_usd))),))


def certify(formulation: ChoiceFormulation, outcome: Outcome, clock: Clock) -> None:
    """Do nothing: the check looks at every item itself."""
    del formulation, outcome, clock


def diagnose(formulation: ChoiceFormulation, known: Diagnosis | None, clock: Clock) -> Diagnosis | None:
    """Return what is known."""
    del formulation, clock
    return known
