"""Why a job is not placed: the resource that is short, with what is asked for and the most that is left."""

from __future__ import annotations

from typing import Any

import pytest

from clusterplan.formulations.consolidation.explain import Reasons, no_room
from clusterplan.formulations.consolidation.fewest_servers import Shapes, shape_of
from clusterplan.formulations.consolidation.formulation import ConsolidationFormulation
from clusterplan.formulations.consolidation.plan import entry_of
from clusterplan.instances.consolidation.instance import ConsolidationInstance
from clusterplan.instances.consolidation.job import Group


@pytest.mark.parametrize(
    ("tasks", "demand", "words"),
    [
        (1, {"gpu": 4}, "it needs 4 gpu on one server; the most that is free now is 3"),
        (2, {"gpu": 4}, "each of its 2 workers needs 4 gpu on one server; the most that is free now is 3"),
        (1, {"tpu": 1}, "it needs 1 tpu on one server; the most that is free now is 0"),
        (1, {"gpu": 3, "cpu": 9}, "it needs 9 cpu and 3 gpu on one server; none has all of that free now"),
    ],
)
def test_the_resource_that_no_server_has_enough_of_is_named(
    tasks: int, demand: dict[str, float], words: str
) -> None:
    left = Shapes([shape_of({"gpu": 3, "cpu": 8, "tpu": 1e-9}), shape_of({"gpu": 1, "cpu": 64})])
    assert no_room(Group(name="workers", tasks=tasks, demand=demand), left) == words


def test_a_job_that_waits_is_told_what_is_free_and_what_the_placed_jobs_leave() -> None:
    def job(name: str, **demand: float) -> dict[str, Any]:
        return {"name": name, "tasks": 1, "task_demand": demand}

    instance = ConsolidationInstance.model_validate(
        {
            "name": "x",
            "servers": [
                {"name": "a", "capacity": {"gpu": 8}, "free": {"gpu": 3}},
                {"name": "b", "capacity": {"gpu": 8}},
            ],
            "jobs": [job("placed", gpu=6), job("later", gpu=4), job("never", gpu=9), job("small", gpu=1)],
        }
    )
    plan = [entry_of(entry, {"tasks": {"b": 1}} if entry.name == "placed" else {}) for entry in instance.jobs]
    reasons = Reasons(ConsolidationFormulation(instance), plan)
    assert reasons.why(1) == "waits: it needs 4 gpu on one server; the most that the placed jobs leave is 3"
    assert reasons.why(2).startswith("never fits: a task of 'tasks' needs 9 gpu; the largest server has 8")
    assert reasons.why(3).startswith("left out although there is room")


def test_servers_that_lack_different_things_are_counted() -> None:
    """Most servers first; what a server has none of is told from what it has too little of."""
    capacities = [{"gpu": 8}, {"gpu": 8}, {"gpu": 2, "toleration for taint t": 1}]
    asks = {"gpu": 4, "toleration for taint t": 1}
    instance = ConsolidationInstance.model_validate(
        {
            "name": "x",
            "servers": [{"name": f"s{k}", "capacity": capacity} for k, capacity in enumerate(capacities)],
            "jobs": [{"name": "a", "tasks": 1, "task_demand": asks}],
        }
    )
    plan = [entry_of(entry, {}) for entry in instance.jobs]
    assert Reasons(ConsolidationFormulation(instance), plan).why(0) == (
        "never fits: no server has all that a task of 'tasks' needs; on 2 servers: no toleration for taint t "
        "(1 needed); on 1 server: too little gpu (4 needed)"
    )
