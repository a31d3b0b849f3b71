"""What choice consists of on this floor."""

from ..common.kind import FormulationKind
from .formulation import ChoiceFormulation
from .milp import milp_model

CHOICE = FormulationKind(ChoiceFormulation, milp_model)
