"""Registration of the formulation and the compact MILP model of mix."""

from ..common.kind import FormulationKind
from .formulation import MixFormulation
from .milp import milp_model

MIX = FormulationKind(MixFormulation, milp_model)
