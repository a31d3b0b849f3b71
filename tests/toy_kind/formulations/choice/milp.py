"""The textbook model of a choice in PuLP."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..common.formulation import MilpModel, ModelObjective, new_problem
from .formulation import ChoiceFormulation, Chosen


def milp_model(formulation: ChoiceFormulation) -> MilpModel[Chosen]:
    """Return the model."""
    import pulp

    problem = new_problem(formulation.instance.name)
    names, prices = list(formulation.prices_usd), list(formulation.prices_usd.values())
    x = [problem.add_variable(f"x_{i}", cat=pulp.LpBinary) for i in range(len(names))]
    problem += pulp.lpSum(x) == 1
    price = pulp.LpAffineExpression(list(zip(x, prices, strict=True)))

    def decode(value: Callable[[Any], float]) -> tuple[Chosen, ...]:
        return tuple(
            Chosen(item=name) for name, variable in zip(names, x, strict=True) if value(variable) > 0.5
        )

    def encode(plan: Sequence[Chosen]) -> Mapping[Any, float]:
        return {variable: float(name == plan[0].item) for name, variable in zip(names, x, strict=True)}

    return MilpModel(problem, (ModelObjective(formulation.objectives[0], price, "min"),), decode, encode)
