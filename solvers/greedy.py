"""Greedy staging: layer after layer, the type that makes the plan so far best (HeterPS's baseline)."""

from __future__ import annotations

from typing import Any

from ..formulations.base import Formulation
from ..formulations.staging import Stage, StagingFormulation
from .base import Clock, Outcome, Solver
from .options import SolveOptions
from .provisioning import balance_load, runs_of

MOST_TRIALS = 20_000
"""How many partial plans are looked at before greedy gives up."""


class Greedy(Solver):
    """Choose a type for each layer in turn, with the paper's load-balancing provisioning.

    Where no type for the next layer goes with the choices before it (limits are used up), the last
    choice that has an alternative is revised.
    """

    name = "greedy"
    kinds = ("staging",)
    what = "the paper's baseline: layer after layer the best type, units by load balance (HeterPS)"

    def solve(self, formulation: Formulation[Any, Any], options: SolveOptions, clock: Clock) -> Outcome:
        """Extend the plan by one layer at a time, best type first."""
        del options
        assert isinstance(formulation, StagingFormulation)
        objective, size = formulation.objectives[0], len(formulation.instance.layers)
        sign = 1.0 if objective.sense == "min" else -1.0
        trials = 0

        def ranked(types: list[int]) -> list[tuple[int, tuple[Stage, ...]]]:
            """Return the types that the next layer can have with the plans they lead to, best last."""
            nonlocal trials
            found = []
            for kind in range(len(formulation.instance.types)):
                trials += 1
                plan = balance_load(formulation, runs_of([*types, kind]))
                if plan is not None:
                    found.append((sign * formulation.evaluate(plan)[0], kind, plan))
            return [(kind, plan) for _, kind, plan in sorted(found, key=lambda f: (-f[0], -f[1]))]

        types: list[int] = []
        open_choices = [ranked(types)]
        while open_choices:
            if clock.expired:
                return Outcome(limit="time", message="greedy: the time was up before all layers had a type")
            if trials > MOST_TRIALS:
                return Outcome(message=f"greedy: found no plan among {MOST_TRIALS:,} partial ones")
            if not open_choices[-1]:
                open_choices.pop()
                types = types[:-1]
                continue
            kind, plan = open_choices[-1].pop()
            if len(types) + 1 == size:
                return Outcome(plan)
            types = [*types, kind]
            open_choices.append(ranked(types))
        return Outcome(message="greedy: load balance finds no plan within the limits")
