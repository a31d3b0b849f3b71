"""Jobs that accept several GPU models, by every method."""

from __future__ import annotations

from typing import Any

import pytest

import clusterplan
from clusterplan.formulations.consolidation.formulation import ConsolidationFormulation
from clusterplan.instances.common.errors import InstanceError
from clusterplan.instances.consolidation.instance import ConsolidationInstance

DOCUMENT: dict[str, Any] = {
    "schema_version": 1,
    "kind": "consolidation",
    "name": "models",
    "servers": [
        {"name": "a", "capacity": {"gpu": 4}, "gpu_model": "A"},
        {"name": "b", "capacity": {"gpu": 4}, "gpu_model": "B"},
        {"name": "c", "capacity": {"gpu": 4}},
    ],
    "jobs": [
        {"name": "either", "tasks": 2, "task_demand": {"gpu": 2}, "gpu_model": ["B", "A"]},
        {"name": "only a", "tasks": 1, "task_demand": {"gpu": 4}, "gpu_model": "A"},
        {"name": "any", "tasks": 1, "task_demand": {"gpu": 4}},
        {"name": "none", "tasks": 1, "task_demand": {"gpu": 4}, "gpu_model": ["D", "C"]},
    ],
}


def _with(models: Any) -> ConsolidationInstance:
    first, *others = DOCUMENT["jobs"]
    found = clusterplan.parse_instance({**DOCUMENT, "jobs": [{**first, "gpu_model": models}, *others]})
    assert isinstance(found, ConsolidationInstance)
    return found


@pytest.mark.parametrize("solver", ["exact", "brute-force", "milp:highs", "cp-sat"])
def test_a_job_goes_to_any_of_its_models(solver: str) -> None:
    """The optimum needs it on B, for another job can only be on A; the certificate says so too."""
    result = clusterplan.solve(clusterplan.parse_instance(DOCUMENT), solver=solver)
    assert result.plan is not None
    assert [entry.model_dump()["servers"] for entry in result.plan] == [{"b": 2}, {"a": 1}, {"c": 1}, {}]
    assert result.objectives[0].certified_bound == result.objectives[0].value == 12.0
    reason = result.plan[-1].model_dump()["reason"]
    assert reason == "never fits: no server has the GPU model 'C' or 'D'; there are: 'A', 'B'"


@pytest.mark.parametrize("solver", ["best-fit", "first-fit-decreasing", "consolidate-or-wait"])
def test_heuristics_keep_to_the_models(solver: str) -> None:
    """Every constraint of their plans is checked."""
    result = clusterplan.solve(clusterplan.parse_instance(DOCUMENT), solver=solver)
    assert result.status == "feasible"


def test_a_plan_on_another_model_is_no_plan() -> None:
    """The job of two models stands on a server without any."""
    formulation = ConsolidationFormulation(_with(["A", "B"]))
    left = [{"job": job.name, "placed": False} for job in formulation.instance.jobs[1:]]
    plan = formulation.parse_plan([{"job": "either", "servers": {"c": 2}}, *left])
    assert list(map(str, formulation.violations(plan))) == [
        "gpu_model: job 'either' needs A or B; 'c' has another model"
    ]


def test_models_mean_the_same_in_any_order_and_number() -> None:
    """They are sorted, and one alone is no list."""
    assert _with(["B", "A", "B"]).jobs[0].gpu_model == ("A", "B")
    assert _with(["B"]).jobs[0].gpu_model == "B"


@pytest.mark.parametrize(
    ("models", "fault"),
    [
        (5, "jobs[0].gpu_model: is 5, which is not text; write it in quotes"),
        ([], "jobs[0].gpu_model: has 0 entries; at least 1 needed"),
        (["A", 3], "jobs[0].gpu_model[1]: is 3, which is not text; write it in quotes"),
    ],
)
def test_wrong_models_are_refused_in_words(models: Any, fault: str) -> None:
    """With the place in the document."""
    with pytest.raises(InstanceError) as error:
        _with(models)
    assert fault in str(error.value)
