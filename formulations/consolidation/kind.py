"""What consolidation consists of on this floor."""

from ..common.kind import FormulationKind
from .devices.formulation import formulation_of
from .formulation import ConsolidationFormulation
from .milp import milp_model

CONSOLIDATION = FormulationKind(ConsolidationFormulation, milp_model, formulation_of)
