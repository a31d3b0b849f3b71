"""The record by which a kind of problem registers its formulation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .formulation import Formulation, MilpModel


@dataclass(frozen=True)
class FormulationKind:
    """The mathematics of one kind.

    Attributes
    ----------
    formulation
        Its objectives, constraints and bounds.
    milp_model
        Returns its textbook model; None where it has none.
    formulate
        Returns the formulation of an instance where some need one of their own; by default the class does.
    """

    formulation: type[Formulation[Any, Any]]
    milp_model: Callable[[Any], MilpModel[Any]] | None = None
    formulate: Callable[[Any], Formulation[Any, Any]] | None = None
