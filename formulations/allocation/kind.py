"""The registered parts of allocation: its formulation and its compact model."""

from ..common.kind import FormulationKind
from .formulation import AllocationFormulation, milp_model

ALLOCATION = FormulationKind(AllocationFormulation, milp_model)
