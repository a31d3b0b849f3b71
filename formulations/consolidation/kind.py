"""Registration of the consolidation formulation."""

from ..common.kind import FormulationKind
from .formulation import ConsolidationFormulation
from .presolve import formulation_of, model_of

CONSOLIDATION = FormulationKind(ConsolidationFormulation, model_of, formulation_of)
