"""The multiple-choice knapsack model, solved by HiGHS, against brute force."""

from __future__ import annotations

import pulp
import pytest
from random_instances import random_allocation

import clusterplan
from clusterplan.formulations.allocation.formulation import AllocationFormulation, milp_model
from clusterplan.formulations.allocation.kind import ALLOCATION
from clusterplan.instances.allocation.instance import AllocationInstance


def test_the_kind_has_this_formulation_and_model() -> None:
    """As the registry finds them."""
    assert ALLOCATION.formulation is AllocationFormulation
    assert ALLOCATION.milp_model is milp_model


@pytest.mark.parametrize("seed", range(8))
def test_an_optimal_plan_is_a_feasible_point_of_its_value(seed: int) -> None:
    """Every constraint holds at the encoded plan, the expression has its value, and decoding returns it."""
    instance = random_allocation(seed)
    assert isinstance(instance, AllocationInstance)
    best = clusterplan.solve(instance, "brute-force")
    if best.plan is None:
        return
    formulation = AllocationFormulation(instance)
    model = milp_model(formulation)
    plan = formulation.parse_plan([entry.model_dump() for entry in best.plan])
    for variable, value in model.encode(plan).items():
        variable.varValue = value
    for constraint in model.problem.constraints():
        assert constraint.valid(1e-6)
    assert pulp.value(model.objectives[0].expression) == pytest.approx(best.objective)
    decoded = model.decode(lambda variable: float(variable.varValue))
    assert formulation.finish(decoded) == formulation.finish(plan)
