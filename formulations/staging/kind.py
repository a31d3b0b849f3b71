"""Registration of the formulations and the compact MILP model of staging."""

from ..common.kind import FormulationKind
from .formulation import StagingFormulation, formulation_of
from .milp import milp_of

STAGING = FormulationKind(StagingFormulation, milp_of, formulation_of)
