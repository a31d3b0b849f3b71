"""What consolidation consists of on this floor."""

from ..common.kind import FormulationKind
from .formulation import ConsolidationFormulation
from .milp import milp_model

CONSOLIDATION = FormulationKind(ConsolidationFormulation, milp_model)
