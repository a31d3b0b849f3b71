"""What consolidation consists of on this floor."""

from ..common.kind import FormulationKind
from .fixed_jobs import model_of
from .formulation import ConsolidationFormulation
from .nothing_moves import formulation_of

CONSOLIDATION = FormulationKind(ConsolidationFormulation, model_of, formulation_of)
