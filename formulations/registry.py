"""Which formulation goes with which kind of instance."""

from __future__ import annotations

from typing import Any

from ..instances.common.base import Instance
from .allocation.formulation import AllocationFormulation
from .common.formulation import Formulation
from .consolidation.formulation import ConsolidationFormulation
from .staging.formulation import StagingFormulation

FORMULATIONS: dict[str, type[Formulation[Any, Any]]] = {
    "allocation": AllocationFormulation,
    "staging": StagingFormulation,
    "consolidation": ConsolidationFormulation,
}


def formulate(instance: Instance) -> Formulation[Any, Any]:
    """Return the mathematics of an instance."""
    return FORMULATIONS[instance.kind](instance)
