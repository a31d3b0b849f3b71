"""What scheduling consists of on this floor."""

from ..common.kind import FormulationKind
from .formulation import SchedulingFormulation

SCHEDULING = FormulationKind(SchedulingFormulation)
"""It has no compact model: time would have to be cut into slots."""
