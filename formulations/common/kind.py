"""The record with which a problem kind registers its formulation and its compact MILP model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .formulation import AnyFormulation, MilpModel


@dataclass(frozen=True)
class FormulationKind:
    """Formulation and compact MILP model of one problem kind.

    Attributes
    ----------
    formulation
        Class with its objectives, constraints and bounds.
    milp_model
        Returns its compact MILP model; None where it has none.
    formulate
        Returns the formulation of an instance, where different instances need different classes.
    """

    formulation: type[AnyFormulation]
    milp_model: Callable[[Any], MilpModel[Any]] | None = None
    formulate: Callable[[Any], AnyFormulation] | None = None
