"""The solvers of one kind of problem, as the registry takes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...formulations.common.formulation import AnyFormulation
from .base import Clock, Outcome, Solver
from .conclude import Diagnose

Adapt = Callable[[Any, Sequence[Any]], Sequence[Any] | None]
"""A function that makes a plan of an earlier instance fit a formulation."""
Search = Callable[[Any, Clock], Sequence[Any] | None]
"""A function that returns a plan of a formulation, or None if it finds none in time."""


def _as_formulated(formulation: AnyFormulation, plan: Sequence[Any]) -> Sequence[Any] | None:
    return formulation.adapted(plan)


@dataclass(frozen=True)
class SolverKind:
    """The solvers of one kind of problem, with certification, diagnosis and quick searches.

    Attributes
    ----------
    exact
        The method that proves optima, which `auto` uses.
    solvers
        All other methods, in the order of listings.
    certify
        Adds a certificate to the outcome of a proving method that makes none.
    diagnose
        Returns the diagnosis of an infeasible instance.
    quick
        The quickest methods with their options, in the order in which they are tried.
    more_quick
        Further quick searches that are no solvers, by name.
    adapted
        Returns a plan of an earlier instance, made to fit a formulation; None if what is new has no room.
    """

    exact: Solver[Any]
    solvers: tuple[Solver[Any], ...]
    certify: Callable[[Any, Outcome, Clock], object]
    diagnose: Diagnose
    quick: tuple[tuple[str, Mapping[str, Any]], ...]
    more_quick: Mapping[str, Search] = field(default_factory=dict)
    adapted: Adapt = _as_formulated
