"""Jobs of consolidation: GPU models that will do, what a job is worth, and its speed on several servers.

The objects that jobs are: their names go into scripts, so only those that objects can have are taken.
"""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from clusterplan.instances.consolidation.job import PlacementJob, Workload, allows, models_of


def test_several_gpu_models_are_one_set_however_they_are_written() -> None:
    def wanted(*models: str) -> PlacementJob:
        return PlacementJob(name="j", tasks=1, task_demand={"gpu": 1}, gpu_model=models)

    assert wanted("T4", "A10", "T4").gpu_model == ("A10", "T4")
    assert wanted("T4", "T4").gpu_model == "T4"


def test_a_server_will_do_if_its_gpu_model_is_named_or_none_is() -> None:
    assert allows(None, None)
    assert allows(None, "T4")
    assert allows("T4", "T4")
    assert allows(("A10", "T4"), "T4")
    assert not allows("T4", "A10")
    assert not allows(("A10", "T4"), None)
    assert [models_of(models) for models in (None, "T4", ("A10", "T4"))] == [(), ("T4",), ("A10", "T4")]


def test_a_job_is_worth_its_gpus_as_amounts_and_devices_unless_it_says_otherwise() -> None:
    pooled = {"tasks": 3, "task_demand": {"gpu": 2}}
    shared = {"tasks": 3, "task_demand": {"cpu": 2}, "share": {"gpu": 500}}
    whole = {"tasks": 3, "task_demand": {"cpu": 2}, "devices": {"gpu": 4}}
    worth = [PlacementJob.model_validate({"name": "j", **job}).worth for job in (pooled, shared, whole)]
    assert worth == [6, 1.5, 12]
    assert PlacementJob.model_validate({"name": "j", **pooled, "value": 1}).worth == 1


def test_speed_on_a_number_of_servers_that_is_not_listed_is_that_of_the_next_lower_one() -> None:
    job = PlacementJob(name="j", tasks=8, task_demand={"gpu": 1}, speed_by_servers={2: 0.8, 4: 0.5})
    assert [job.relative_speed(servers) for servers in (1, 2, 3, 4, 9)] == [0.8, 0.8, 0.8, 0.5, 0.5]


def test_a_group_beside_the_same_fields_of_the_job_is_refused() -> None:
    group = {"tasks": 1, "demand": {"gpu": 1}}
    with pytest.raises(ValidationError, match="set beside groups"):
        PlacementJob.model_validate({"name": "j", "tasks": 1, "groups": [group]})


def test_movable_is_the_default_that_no_document_shows() -> None:
    plain = {"name": "j", "tasks": 1, "task_demand": {"gpu": 1}}
    jobs = [
        PlacementJob.model_validate({**plain, **more})
        for more in ({}, {"movable": True, "current": {"s": 1}}, {"movable": False}, {"restart_s": 60})
    ]
    shown = [set(job.model_dump(exclude_none=True)) & {"movable", "restart_s"} for job in jobs]
    assert shown == [set(), set(), {"movable"}, {"restart_s"}]


FIELDS: dict[str, Any] = {"resource": "pytorchjobs.kubeflow.org", "namespace": "team", "name": "bert-1.5"}


def test_a_job_may_say_which_object_it_is() -> None:
    """A document without it is as it was before."""
    plain = {"name": "a", "tasks": 1, "task_demand": {"gpu": 1}}
    job = PlacementJob.model_validate({**plain, "workload": {**FIELDS, "parts": {"tasks": "Worker"}}})
    assert job.workload == Workload(**FIELDS, parts={"tasks": "Worker"})
    assert "workload" not in PlacementJob.model_validate(plain).model_dump(exclude_none=True)


@pytest.mark.parametrize("field", ["resource", "namespace", "name"])
@pytest.mark.parametrize("text", ["", "a b", "$(x)", "a;b", "A", "-a", "a\n", "a'", "x" * 254])
def test_other_names_are_refused(field: str, text: str) -> None:
    """Nothing that a shell would take for more than a word."""
    with pytest.raises(ValidationError):
        Workload.model_validate({**FIELDS, field: text})


@pytest.mark.parametrize("part", ["", "a.b", "$x", "-a", "a\n"])
def test_other_parts_are_refused(part: str) -> None:
    """A dot would lead elsewhere in the object."""
    with pytest.raises(ValidationError):
        Workload.model_validate({**FIELDS, "parts": {"tasks": part}})
