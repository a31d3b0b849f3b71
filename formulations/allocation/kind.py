"""What allocation consists of on this floor."""

from ..common.kind import FormulationKind
from .formulation import AllocationFormulation
from .milp import milp_model

ALLOCATION = FormulationKind(AllocationFormulation, milp_model)
