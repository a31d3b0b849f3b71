"""The record by which a kind of problem registers its formulation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .formulation import Formulation
from .milp_model import MilpModel


@dataclass(frozen=True)
class FormulationKind:
    """The mathematics of one kind.

    Attributes
    ----------
    formulation
        Its objectives, constraints and bounds.
    milp_model
        Returns its textbook model; None where it has none.
    """

    formulation: type[Formulation[Any, Any]]
    milp_model: Callable[[Any], MilpModel[Any]] | None = None
