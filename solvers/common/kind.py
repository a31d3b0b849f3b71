"""The record by which a kind of problem registers its solvers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .base import Clock, Outcome, Solver
from .conclude import Diagnose

Search = Callable[[Any, Clock], Sequence[Any] | None]
"""Returns a plan of a formulation, or None where it finds none in time."""


@dataclass(frozen=True)
class SolverKind:
    """How one kind is solved.

    Attributes
    ----------
    exact
        The method that proves optima, which `auto` uses.
    solvers
        All others, in the order in which they are listed.
    certify
        Adds a certificate to the outcome of a method that proves but makes none.
    diagnose
        Finds out why there is no plan.
    quick
        The quickest methods with their options, in the order in which they are tried.
    more_quick
        Quick searches beside them that are no solvers, by name.
    """

    exact: Solver[Any]
    solvers: tuple[Solver[Any], ...]
    certify: Callable[[Any, Outcome, Clock], object]
    diagnose: Diagnose
    quick: tuple[tuple[str, Mapping[str, Any]], ...]
    more_quick: Mapping[str, Search] = field(default_factory=dict)

    def __post_init__(self) -> None:
        names = [solver.name for solver in (self.exact, *self.solvers)]
        assert {name for name, _ in self.quick} <= set(names), f"quick methods are none of {names}"
        assert len(set(names)) == len(names), f"two solvers have the same name: {names}"
