"""Registration of the formulation and the compact MILP model of allocation."""

from ..common.kind import FormulationKind
from .formulation import AllocationFormulation, milp_model

ALLOCATION = FormulationKind(AllocationFormulation, milp_model)
