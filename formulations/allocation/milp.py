"""The multiple-choice knapsack model of allocation in PuLP; symbols as in the formulation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..common.clock import check_time, in_time, refuse_beyond
from ..common.milp_model import MilpModel, ModelObjective, at_most, new_problem
from .formulation import AllocationFormulation
from .plan import JobAllocation

MOST_UNITS = 1e9
"""The largest completion time of the model; its unit is the shortest makespan, if that is enough."""


def milp_model(formulation: AllocationFormulation) -> MilpModel[JobAllocation]:
    """Return the multiple-choice model of the formulation."""
    import pulp

    configs = formulation.configurations
    refuse_beyond(formulation.model_terms, "the textbook model")
    problem = new_problem(formulation.instance.name)
    x: list[Any] = []
    for j in range(configs.jobs):
        check_time()
        x += [problem.add_variable(f"x_{j}_{i}", cat=pulp.LpBinary) for i in range(len(configs.of(j)))]
        problem += pulp.lpSum(x[k] for k in configs.of(j)) == 1, f"one_configuration_{j}"
    for r in range(len(configs.resources)):
        check_time()
        problem += at_most(x, configs.demand[:, r].tolist(), float(configs.capacity[r])), f"capacity_{r}"
    if formulation.instance.objective == "makespan":
        # No makespan is below 1, so that tolerances are small beside it; but from 1e20 on, backends take a
        # coefficient for infinite.
        shortest, longest = formulation.elementary_bounds()[0] or 0.0, float(configs.time_s.max(initial=0.0))
        unit = max(shortest, longest / MOST_UNITS) or 1.0
        latest = problem.add_variable("makespan", lowBound=0)
        for j in range(configs.jobs):
            check_time()
            times = pulp.lpSum(float(configs.time_s[k]) / unit * x[k] for k in configs.of(j))
            problem += times <= latest, f"completion_{j}"
        expression = pulp.LpAffineExpression([(latest, unit)])
    else:
        expression = pulp.LpAffineExpression(in_time(zip(x, configs.cost.tolist(), strict=True)))

    def decode(value: Callable[[Any], float]) -> tuple[JobAllocation, ...]:
        best = [max(configs.of(j), key=lambda k: value(x[k])) for j in range(configs.jobs)]
        return formulation.plan_of(best)

    def encode(plan: Sequence[JobAllocation]) -> Mapping[Any, float]:
        chosen = set(formulation.indices_of(plan).tolist())
        start: dict[Any, float] = {x[k]: float(k in chosen) for k in range(len(x))}
        if formulation.instance.objective == "makespan":
            start[latest] = formulation.evaluate(plan)[0] / unit
        return start

    objective = ModelObjective(formulation.objectives[0], expression, "min")
    return MilpModel(problem, (objective,), decode, encode)
