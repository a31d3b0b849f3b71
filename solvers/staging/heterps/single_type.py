"""Single-type staging: every layer on the same type, the simplest of HeterPS's baselines."""

from __future__ import annotations

from ....formulations.staging.formulation import StagingFormulation
from ...common.base import Clock, Outcome, Solver
from ...common.options import SolveOptions
from .type_search import PROVISIONING, TypeSearch


class SingleType(Solver[StagingFormulation]):
    """Try each type for all layers, and keep the best plan."""

    name = "single-type"
    kinds = ("staging",)
    method_options = {"provisioning": PROVISIONING}
    what = "the best plan whose layers all run on one type (HeterPS's homogeneous baselines)"

    def solve(self, formulation: StagingFormulation, options: SolveOptions, clock: Clock) -> Outcome:
        """Judge as many choices of types as there are types."""
        layers, types = len(formulation.instance.layers), len(formulation.instance.types)
        search = TypeSearch(formulation, self.setting(options, "provisioning"), clock, types)
        for unit_type in range(types):
            if search.over:
                break
            search.fitness([unit_type] * layers)
        return search.outcome(f"single-type: {search.judged} of {types} types tried")
