"""The formulation of each kind of problem."""

from __future__ import annotations

from typing import Any

from ..instances.common.base import Instance
from ..instances.common.errors import OptionError
from ..instances.common.kind import KindRegistry
from ..instances.registry import KINDS as INSTANCES
from .common.formulation import AnyFormulation, MilpModel
from .common.kind import FormulationKind

KINDS: KindRegistry[FormulationKind] = KindRegistry(__package__, INSTANCES.names)


def formulate(instance: Instance) -> AnyFormulation:
    """Return the formulation of an instance: its objectives, constraints and checks."""
    kind = KINDS[instance.kind]
    return (kind.formulate or kind.formulation)(instance)


def milp_model(formulation: AnyFormulation) -> MilpModel[Any]:
    """Return the compact MILP model (textbook formulation) of an instance in PuLP.

    Raises
    ------
    TooLargeError
        If it would be too large.
    OptionError
        If the kind has none.
    """
    build = KINDS[formulation.kind].milp_model
    if build is None:
        having = ", ".join(name for name, kind in KINDS.items() if kind.milp_model is not None)
        raise OptionError(f"{formulation.kind} has no textbook model; there is one for {having}")
    return build(formulation)
