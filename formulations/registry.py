"""The formulation of each kind of problem; a new kind is a folder and one line here."""

from __future__ import annotations

from typing import Any

from ..instances.common.base import Instance
from .allocation.kind import ALLOCATION
from .common.formulation import Formulation
from .common.kind import FormulationKind
from .common.milp_model import MilpModel
from .consolidation.kind import CONSOLIDATION
from .scheduling.kind import SCHEDULING
from .staging.kind import STAGING

KINDS: dict[str, FormulationKind] = {
    "allocation": ALLOCATION,
    "staging": STAGING,
    "consolidation": CONSOLIDATION,
    "scheduling": SCHEDULING,
}


def formulate(instance: Instance) -> Formulation[Any, Any]:
    """Return the formulation (objectives, constraints, checks) of an instance."""
    kind = KINDS[instance.kind]
    return (kind.formulate or kind.formulation)(instance)


def milp_model(formulation: Formulation[Any, Any]) -> MilpModel[Any]:
    """Return the compact MILP formulation (textbook model) of an instance in PuLP.

    Raises
    ------
    TooLargeError
        If it would be too large.
    """
    build = KINDS[formulation.kind].milp_model
    assert build is not None, f"{formulation.kind} has no textbook model"
    return build(formulation)
