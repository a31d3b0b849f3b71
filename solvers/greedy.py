"""Greedy staging: layer after layer, the type that makes the plan so far cheapest (HeterPS's baseline)."""

from __future__ import annotations

from typing import Any

from ..formulations.base import Formulation
from ..formulations.staging import StagingFormulation
from .base import Clock, Outcome, Solver
from .options import SolveOptions
from .provisioning import balance_load, runs_of


class Greedy(Solver):
    """Choose a type for each layer in turn, with the paper's load-balancing provisioning."""

    name = "greedy"
    kinds = ("staging",)
    what = "the paper's baseline: layer after layer the best type, units by load balance (HeterPS)"

    def solve(self, formulation: Formulation[Any, Any], options: SolveOptions, clock: Clock) -> Outcome:
        """Extend the plan by one layer at a time; what was chosen is not revised."""
        del options
        assert isinstance(formulation, StagingFormulation)
        objective = formulation.objectives[0]
        types: list[int] = []
        plan = None
        for layer in range(len(formulation.instance.layers)):
            best: tuple[float, int, Any] | None = None
            for kind in range(len(formulation.instance.types)):
                if clock.expired:
                    return Outcome(limit="time", message="greedy: the time was up before all layers had a type")
                candidate = balance_load(formulation, runs_of([*types, kind]))
                if candidate is not None:
                    value = formulation.evaluate(candidate)[0]
                    if best is None or objective.better(value, best[0]):
                        best = value, kind, candidate
            if best is None:
                name = formulation.instance.layers[layer].name
                return Outcome(message=f"greedy: no type for layer {name!r} goes with the choices before it")
            types.append(best[1])
            plan = best[2]
        return Outcome(plan)
