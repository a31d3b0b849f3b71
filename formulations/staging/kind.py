"""What staging consists of on this floor."""

from ..common.kind import FormulationKind
from .formulation import StagingFormulation
from .graphs.formulation import formulation_of
from .milp import milp_model

STAGING = FormulationKind(StagingFormulation, milp_model, formulation_of)
