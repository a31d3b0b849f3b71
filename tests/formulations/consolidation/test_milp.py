"""The compact formulation: its size, its variables, and the way back to a plan."""

from __future__ import annotations

from placements import job, placement, server, three_jobs

from clusterplan.formulations.consolidation.cluster_data import ClusterData
from clusterplan.formulations.consolidation.milp import milp_model, model_terms
from clusterplan.formulations.consolidation.plan import JobPlacement


def test_the_size_is_known_beforehand() -> None:
    """Coefficients are counted for each group of tasks and each server that holds one of them."""
    data = ClusterData(
        placement(["value"], [server("n", gpu=1), server("m", gpu=4)], [job("a", 1, {"gpu": 2})])
    )
    assert model_terms(data) == 5 + 1 + 2
    assert model_terms(three_jobs("value")) == 3 * 2 * (5 + 1 + 2)


def test_a_plan_is_encoded_and_decoded() -> None:
    """Its start values keep every constraint, and mean the plan."""
    formulation = three_jobs("value", "servers", "spread")
    model = milp_model(formulation)
    assert [part.objective.name for part in model.objectives] == ["value", "servers", "spread"]
    plan = [
        JobPlacement(job="a", servers={"n": 3}),
        JobPlacement(job="b", servers={"m": 3}),
        JobPlacement(job="c", placed=False),
    ]
    start = model.encode(plan)
    assert [entry.servers for entry in model.decode(lambda x: start[x])] == [{"n": 3}, {"m": 3}, {}]
    for variable in model.problem.variables():
        variable.varValue = start.get(variable, 1.0)  # what is not encoded is a server in use
    assert model.problem.valid(1e-9)
    assert model.objectives[0].expression.value() == 6
