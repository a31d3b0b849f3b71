"""Registration of the formulation of scheduling."""

from ..common.kind import FormulationKind
from .formulation import SchedulingFormulation

SCHEDULING = FormulationKind(SchedulingFormulation)
"""Scheduling has no compact MILP model, which would need a discretisation of time."""
