"""What staging consists of on this floor."""

from ..common.kind import FormulationKind
from .formulation import StagingFormulation
from .milp import milp_model

STAGING = FormulationKind(StagingFormulation, milp_model)
