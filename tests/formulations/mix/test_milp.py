"""The textbook model of a mix: a plan there and back."""

from __future__ import annotations

import pytest
from mix_truth import instances_of

import clusterplan
from clusterplan.formulations.mix.formulation import MixFormulation
from clusterplan.formulations.mix.kind import MIX
from clusterplan.formulations.mix.milp import milp_model


@pytest.mark.parametrize("serves", [False, True])
def test_a_plan_is_encoded(serves: bool) -> None:
    """Each configuration with its copies, and the first objective with its value."""
    for instance in instances_of(serves, 0, 8):
        formulation, plan = MixFormulation(instance), clusterplan.solve(instance, "exact").plan
        if plan is None:
            continue
        model = milp_model(formulation)
        values = model.encode(plan)
        counts = {entry.configuration: entry.count for entry in plan}
        assert [*values.values()] == [counts.get(name, 0) for name in formulation.configurations]
        first = model.objectives[0].expression
        found = sum(part * values.get(symbol, 0.0) for symbol, part in first.items())
        assert found == pytest.approx(formulation.evaluate(plan)[0])


def test_it_is_the_model_of_the_kind() -> None:
    """Backends take it from there."""
    assert MIX.milp_model is milp_model
