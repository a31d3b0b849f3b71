"""What staging consists of on this floor."""

from ..common.kind import FormulationKind
from .formulation import StagingFormulation
from .graphs.formulation import formulation_of
from .graphs.milp import milp_of

STAGING = FormulationKind(StagingFormulation, milp_of, formulation_of)
