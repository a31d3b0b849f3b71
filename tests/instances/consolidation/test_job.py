"""Jobs of consolidation: GPU models that will do, what a job is worth, and its speed on several servers."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from clusterplan.instances.consolidation.job import PlacementJob, allows, models_of


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
