"""Consolidation instances: jobs, builder, generator."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

import clusterplan
from clusterplan.formulations.consolidation.cluster_data import ClusterData
from clusterplan.formulations.consolidation.formulation import DeviceFormulation
from clusterplan.instances.common.workload import Workload
from clusterplan.instances.consolidation.generate import generate_consolidation
from clusterplan.instances.consolidation.instance import ConsolidationInstance, Server
from clusterplan.instances.consolidation.job import PlacementJob
from clusterplan.instances.consolidation.kind import CONSOLIDATION, Consolidation
from clusterplan.instances.documents import parse_instance, save, wants_tables
from clusterplan.instances.files.tables import read_table
from clusterplan.instances.references import Folder
from clusterplan.planner.api import solve


def test_all_of_a_server_is_available_unless_it_says_what_is_free() -> None:
    assert Server(name="a", capacity={"cpu": 8, "gpu": 2}).available == {"cpu": 8, "gpu": 2}
    assert Server(name="a", capacity={"cpu": 8, "gpu": 2}, free={"cpu": 3}).available == {"cpu": 3}


def test_lists_that_are_no_tables_stay(tmp_path: Path) -> None:
    """Rows of a document go to the validation as they are; a tiny instance is saved in tables if one asks."""
    data = {"servers": [{"name": "s"}], "jobs": []}
    assert CONSOLIDATION.resolved(data, "doc", Folder(tmp_path)) == data
    tiny = CONSOLIDATION.tiny()
    assert not wants_tables(tiny)
    save(tiny, tmp_path / "x.yaml", "csv")
    assert {path.name for path in tmp_path.glob("*.csv")} == {"x-servers.csv", "x-jobs.csv"}
    assert len(read_table(tmp_path / "x-jobs.csv", "t")) == tiny.sizes()["jobs"]


def test_several_gpu_models_are_one_set_however_they_are_written() -> None:
    def wanted(*models: str) -> PlacementJob:
        return PlacementJob(name="j", tasks=1, task_demand={"gpu": 1}, gpu_model=models)

    assert wanted("T4", "A10", "T4").gpu_model == ("A10", "T4")
    assert wanted("T4", "T4").gpu_model == "T4"


def test_a_job_is_worth_its_gpus_as_amounts_and_devices_unless_it_says_otherwise() -> None:
    pooled = {"tasks": 3, "task_demand": {"gpu": 2}}
    shared = {"tasks": 3, "task_demand": {"cpu": 2}, "share": {"gpu": 500}}
    whole = {"tasks": 3, "task_demand": {"cpu": 2}, "devices": {"gpu": 4}}
    worth = [PlacementJob.model_validate({"name": "j", **job}).worth for job in (pooled, shared, whole)]
    assert worth == [6, 1.5, 12]
    assert PlacementJob.model_validate({"name": "j", **pooled, "value": 1}).worth == 1


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


def _limited(current: dict[str, int], most: int = 1) -> ConsolidationInstance:
    """Return two servers of four GPUs, and a job of three tasks with a limit per server."""
    return (
        Consolidation("limited")
        .add_server("a", {"gpu": 4})
        .add_server("b", {"gpu": 4})
        .add_job("j", 3, {"gpu": 1}, max_per_server=most, current=current)
        .add_job("k", 1, {"gpu": 1})
        .build()
    )


def test_a_job_has_no_more_tasks_on_a_server_than_it_may() -> None:
    """Three tasks do not start on two servers with one on each, and do with two."""
    for most, placed in ((1, {"k"}), (2, {"j", "k"})):
        result = solve(_limited({}, most))
        assert result.plan is not None
        assert {entry.job for entry in result.plan if entry.placed} == placed
        assert result.status == "optimal"


def test_more_tasks_that_run_on_a_server_than_the_job_may_have_stay() -> None:
    """What runs is right; and an instance that is read again says the same."""
    instance = _limited({"a": 2, "b": 1})
    assert instance.choices == {"at most 1 a server: j"}
    assert [server.capacity["at most 1 a server: j"] for server in instance.servers] == [2, 1]
    again = parse_instance(instance.model_dump(mode="json"), "again")
    assert again == instance
    result = solve(instance)
    assert result.plan is not None
    assert [entry.action for entry in result.plan] == ["keep", "start"]


def test_what_is_assumed_about_a_job_is_said_once_and_counts_for_nothing() -> None:
    """A document without it is as it was before; a table has a column for each sentence."""
    plain = {"name": "a", "tasks": 1, "task_demand": {"gpu": 1}}
    said = {**plain, "name": "b", "assumed": ["Its licence is not planned."]}
    document: dict[str, Any] = {
        **{"schema_version": 1, "kind": "consolidation", "name": "x"},
        "servers": [{"name": "s", "capacity": {"gpu": 1}}],
        "jobs": [plain, said],
    }
    instance = parse_instance(document, "x")
    assert isinstance(instance, ConsolidationInstance)
    assert instance.document()["jobs"][1]["assumed"] == said["assumed"]
    assert "assumed" not in instance.document()["jobs"][0]
    assert [jobs for _, jobs in ClusterData(instance).distinct_jobs] == [[0, 1]]


@pytest.mark.parametrize("sentences", [[], ["x" * 301], ["a\nb"], [" "], ["x"] * 21, "x"])
def test_assumptions_that_no_table_could_show_are_refused(sentences: Any) -> None:
    job = {"name": "a", "tasks": 1, "task_demand": {"gpu": 1}, "assumed": sentences}
    with pytest.raises(ValidationError, match="assumed"):
        PlacementJob.model_validate(job)


def test_resources_that_stand_for_a_choice_of_servers_are_known() -> None:
    """By name only where the document does not say."""
    capacity = {"gpu": 1, "local disk": 1, "licence": 1}

    def choices(most: int | None = None, **more: Any) -> frozenset[str]:
        instance = ConsolidationInstance(
            name="x",
            servers=(Server(name="s", capacity=capacity),),
            jobs=(PlacementJob(name="a", tasks=1, task_demand={"gpu": 1}, max_per_server=most),),
            **more,
        )
        assert instance.listed_choices == instance.choices - ({"local disk"} if not more else set())
        return instance.choices

    assert choices() == {"local disk"}
    assert choices(2) == {"local disk", "at most 2 a server: a"}
    assert choices(2, restrictions=()) == {"at most 2 a server: a"}
    assert choices(restrictions=("licence",)) == {"licence"}
    assert choices(restrictions=()) == frozenset()
    with pytest.raises(ValidationError, match="unknown resource 'cpu'"):
        choices(restrictions=("cpu",))


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


def _made(**options: Any) -> ConsolidationInstance:
    return generate_consolidation(**{"servers": 80, "jobs": 200, "resources": 3, "load": 1.2, **options})


def test_jobs_of_one_gpu_become_replicas() -> None:
    """Of which one GPU holds as many as there are; other jobs ask for whole devices."""
    plain, made = _made(seed=3), _made(seed=3, devices=True, shared=0.3, partitioned=0.2)
    forms = Counter[str]()
    for before, job in zip(plain.jobs, made.jobs, strict=True):
        (group,) = job.task_groups
        ask = group.asks["gpu"]
        form = "share" if ask.share else "profile" if ask.profile else "devices"
        if form == "devices":
            assert job.tasks == before.tasks
            assert job.worth == before.worth
        else:
            forms[form] += 1
            assert before.worth == 1
            assert 0.5 < job.worth <= 1
        assert "gpu" not in group.demand
        for name, amount in group.demand.items():
            total = sum(one.tasks * one.demand[name] for one in before.task_groups)
            assert total <= group.tasks * amount <= total + 0.01 * group.tasks
    single = sum(job.worth == 1 for job in plain.jobs)
    assert 0.2 < forms["share"] / single < 0.4
    assert 0.1 < forms["profile"] / single < 0.3


def test_what_is_not_free_is_taken() -> None:
    """Whole, or as a share; the free devices are as many as the free GPUs before."""
    plain, made = _made(seed=1), _made(seed=1, devices=True)
    for before, server in zip(plain.servers, made.servers, strict=True):
        states = server.device_states["gpu"]
        assert len(states) == before.capacity["gpu"]
        assert sum(state.mode == "free" for state in states) == before.available["gpu"]
    modes = Counter(state.mode for server in made.servers for state in server.device_states["gpu"])
    assert 0.2 < modes["shared"] / (modes["shared"] + modes["whole"]) < 0.4
    assert {name for server in made.servers for name in server.capacity} == {"cpu", "memory_gib"}


@pytest.mark.parametrize("devices", [False, True])
def test_unlike_amounts_and_values_have_many_digits(devices: bool) -> None:
    """In whole milli-CPUs and MiB; what fitted on an empty server still does."""
    made = _made(seed=2, devices=devices, unlike=True, shapes=3)
    demands = [job.task_demand or {} for job in made.jobs]
    for amounts in [*demands, *(server.available for server in made.servers)]:
        assert round(amounts["cpu"], 3) == amounts["cpu"]
        assert float(1024 * amounts["memory_gib"]).is_integer()
    assert len({tuple(demand.items()) for demand in demands}) > 50
    assert len({job.worth for job in made.jobs}) > 50
    plain = _made(seed=2, shapes=3)
    for demand, before in zip(demands, plain.jobs, strict=True):
        if not devices:
            assert all(demand[r] <= amount for r, amount in (before.task_demand or {}).items())
        assert any(all(demand[r] <= s.capacity[r] for r in demand) for s in made.servers)


def test_a_generated_instance_is_read_again_and_solved() -> None:
    """With all that can be asked for, and the queue does not depend on the servers."""
    options = {"jobs": 12, "devices": True, "partitioned": 0.3, "unlike": True, "seed": 5}
    made = _made(servers=4, **options)
    assert parse_instance(made.document()).sha256() == made.sha256()
    assert made.sha256() == _made(servers=4, **options).sha256()
    other = _made(servers=9, **options)
    asked = [[(j.name, j.task_demand, j.share, j.profile, j.value) for j in i.jobs] for i in (made, other)]
    assert asked[0] == asked[1]
    result = clusterplan.solve(made, solver="best-fit")
    assert result.plan is not None
    formulation = DeviceFormulation(made)
    assert formulation.violations(formulation.parse_plan([e.model_dump() for e in result.plan])) == []


@pytest.mark.parametrize(
    "options",
    [
        {"devices": True, "resources": 1},
        {"partitioned": 0.5},
        {"devices": True, "shared": 0.7, "partitioned": 0.5},
        {"devices": True, "partitioned": 0.5, "shapes": 2},
    ],
)
def test_what_does_not_go_together_is_refused(options: dict[str, Any]) -> None:
    """The first two shapes, v100 and t4, cannot be partitioned."""
    with pytest.raises(clusterplan.OptionError, match="must"):
        _made(**options)
