"""Greedy staging: layer after layer, the type that makes the plan so far best (HeterPS's baseline).

Single-type staging: every layer on the same type, the simplest of HeterPS's baselines.
"""

from __future__ import annotations

from ....formulations.staging.formulation import StagingFormulation
from ...common.base import Clock, Outcome, Solver
from ...common.options import SolveOptions
from .provisioning import Provision, Provisioner, segments_of
from .type_search import PROVISIONING, TypeSearch

MOST_TRIALS = 20_000
"""Partial plans that greedy provisions before it gives up."""


class Greedy(Solver[StagingFormulation]):
    """Choose a type for each layer in turn, by the units that the layers so far would get.

    Where no type for the next layer goes with the choices before it (limits are used up), the last
    choice that has an alternative is revised.
    """

    name = "greedy"
    kinds = ("staging",)
    method_options = {"provisioning": PROVISIONING}
    what = "the paper's baseline: layer after layer the best type, units by load balance (HeterPS)"

    def solve(self, formulation: StagingFormulation, options: SolveOptions, clock: Clock) -> Outcome:
        """Extend the plan by one layer at a time, best type first."""
        size, way = len(formulation.instance.layers), self.setting(options, "provisioning")
        provisioner = Provisioner(formulation)
        trials = 0

        def ranked(types: list[int]) -> list[tuple[int, Provision]]:
            """Return the types that the next layer can have with the units they lead to, best last."""
            nonlocal trials
            found = []
            for unit_type in range(len(formulation.instance.types)):
                trials += 1
                provision = provisioner.provision(segments_of([*types, unit_type]), way)
                if provision is not None:
                    found.append((unit_type, provision))
            return sorted(found, key=lambda f: (-f[1].score, -f[0]))

        types: list[int] = []
        open_choices = [ranked(types)]
        while open_choices:
            if clock.expired:
                return Outcome(limit="time", message="greedy: the time was up before all layers had a type")
            if trials > MOST_TRIALS:
                return Outcome(message=f"greedy: found no plan among {MOST_TRIALS:,} partial ones")
            # No type is left for this layer: the choice for the layer before is revised.
            if not open_choices[-1]:
                open_choices.pop()
                types = types[:-1]
                continue
            unit_type, provision = open_choices[-1].pop()
            types = [*types, unit_type]
            if len(types) == size:
                return Outcome(provisioner.plan(segments_of(types), provision))
            open_choices.append(ranked(types))
        return Outcome(message="greedy: no plan found within the limits")


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
