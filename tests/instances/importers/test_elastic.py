"""Elastic jobs of a cluster in use: their workers, speeds and places, and what others leave free."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from sample_documents import faults, is_kept
from typer.testing import CliRunner

from clusterplan.instances.allocation.instance import AllocationInstance
from clusterplan.instances.documents import parse_instance
from clusterplan.instances.importers.clusters.device_inventory import NO_DEVICES
from clusterplan.instances.importers.clusters.snapshot import (
    WHOLE_NODE,
    ClusterSnapshot,
    SnapshotNode,
    TaskGroup,
    Workload,
)
from clusterplan.instances.importers.elastic import elastic_instance
from clusterplan.planner.cli.instances.imports import importers

NODES = frozenset("abc")
MODELS = {"a": "v100", "b": "v100", "c": "t4"}


def workload(
    name: str, *places: str | None, gpus: float = 1.0, nodes: frozenset[str] = NODES, **fields: Any
) -> Workload:
    """Return a workload with a task on each of these nodes, and waiting ones."""
    current = {place: places.count(place) for place in places}
    group = TaskGroup("tasks", {"gpu": gpus, "cpu": 2.0}, nodes, current, lambda: "node with a label")
    return Workload(name, [group], gpus * len(places), None, None not in places, **fields)


def elastic(folder: Path, text: str, *workloads: Workload) -> AllocationInstance:
    """Return the elastic jobs of three nodes of 4 GPUs and 16 CPUs, of which others hold some on a."""
    held = {"a": {"gpu": 1.0, "cpu": 3.0}}
    nodes = [
        SnapshotNode(name, {"gpu": 4.0, "cpu": 16.0}, held.get(name, {}), gpu_model=model)
        for name, model in MODELS.items()
    ]
    made = ClusterSnapshot(nodes, workloads, NO_DEVICES, "gpus", "free")
    (folder / "speeds.csv").write_text(text)
    instance = made.instance("x", "a test", ["An assumption."], Path("x"))
    return elastic_instance(instance, made, folder / "speeds.csv")


def free(instance: AllocationInstance, resource: str) -> list[float]:
    return [server.available.get(resource, 0.0) for server in instance.servers or ()]


ROWS = "job,gpus,servers,samples_per_s,restart_s\nt*,1,,10,60\nt*,2,1,19,60\nt*,2,2,15,60\n"


def test_what_runs_has_its_place_and_what_others_hold_is_not_free(tmp_path: Path) -> None:
    runs, other = workload("train", "a", "b"), workload("notebook", "b", "b")
    instance = elastic(tmp_path, ROWS, runs, other, workload("queued", None))
    (job,) = instance.jobs
    assert job.current is not None
    assert (job.current.variant, job.current.workers, job.restart_s) == ("gpu", 2, 60)
    assert {name: tasks.workers for name, tasks in (job.current.placement or {}).items()} == {"a": 1, "b": 1}
    assert [dict(variant.worker_demand) for variant in job.variants] == [{"gpu": 1, "cpu": 2}]
    assert (free(instance, "gpu"), free(instance, "cpu")) == ([3, 2, 4], [13, 12, 16])
    said = " ".join(instance.assumptions)
    assert "1 job is elastic" in said
    assert "left out: notebook (not in the table), queued (not in the table)." in said
    assert "An assumption." in said
    assert is_kept(instance)


def test_a_worker_is_a_whole_task(tmp_path: Path) -> None:
    """Of two GPUs here; what they measured on one GPU is of no use, and a waiting job has no place."""
    (job,) = elastic(tmp_path, ROWS, workload("train", None, gpus=2.0)).jobs
    (variant,) = job.variants
    rows = [(row.workers, row.servers, row.steps_per_s) for row in variant.speed.rows]
    assert rows == [(1, 1, 19), (1, 2, 15)]
    assert (dict(variant.worker_demand), job.current, job.restart_s) == ({"gpu": 2, "cpu": 2}, None, 60)


def test_the_first_pattern_counts_and_a_move_has_a_price(tmp_path: Path) -> None:
    text = "job,gpus,samples_per_s,optional,unplaced_s\ntrain,1,5,true,9\nt*,1,7,,\n"
    runs, waits = workload("train", "c"), workload("tune", None)
    first, second = elastic(tmp_path, text, runs, waits).jobs
    assert [job.variants[0].speed.rows[0].steps_per_s for job in (first, second)] == [5, 7]
    assert (first.optional, first.restart_s, second.restart_s) == (False, 900, 0)
    assert elastic(tmp_path, text, workload("train", None)).jobs[0].optional


def test_choices_of_nodes_and_gpu_models_are_kept_at_any_size(tmp_path: Path) -> None:
    """A job has a variant for each GPU model that it may use, and as many workers as there are GPUs."""
    text = ROWS + "m,4,,30,\n"
    two = workload("t1", "a", "a", nodes=frozenset("a"))
    alone, on_v100 = workload("t2", None, exclusive=True), workload("m", None, gpus=2.0, gpu_model="v100")
    instance = elastic(tmp_path, text, two, alone, on_v100)
    first, second, third = instance.jobs
    label, model = "node with a label", "GPU model v100"
    assert first.variants[0].worker_demand == {"gpu": 1, "cpu": 2, label: 1, WHOLE_NODE: 1}
    assert second.variants[0].worker_demand[WHOLE_NODE] == 1000
    assert third.variants[0].worker_demand[model] == 2
    assert (free(instance, label), free(instance, model)) == ([3, 0, 0], [3, 4, 0])
    assert free(instance, WHOLE_NODE) == [999, 1000, 1000]

    text = "job,gpus,samples_per_s,gpu_model\nt*,1,9,v100\nt*,1,4,t4\nt*,1,1,other\n"
    any_model, kept = elastic(tmp_path, text, workload("t1", "c"), workload("t2", "c", gpu_model="t4")).jobs
    assert [variant.name for variant in any_model.variants] == ["v100", "t4"]
    assert any_model.current is not None
    assert any_model.current.variant == "t4"
    assert [variant.name for variant in kept.variants] == ["t4"]


def two_kinds(name: str) -> Workload:
    made = workload(name, None)
    made.groups.append(TaskGroup("master", {"gpu": 2.0}, NODES, {None: 1}, lambda: "node"))
    return made


@pytest.mark.parametrize(
    ("job", "why"),
    [
        (workload("t", "a", stays="interactive"), "is not to be moved"),
        (workload("t", "a", None), "runs in part"),
        (workload("t", None, gpus=3.0), "has no row for whole tasks on its GPU model"),
        (workload("t", None, gpus=0.0), "has no row for whole tasks on its GPU model"),
        (workload("t", "a", nodes=frozenset("bc")), "could not start again where it runs"),
        (two_kinds("t"), "has tasks of several kinds"),
        (workload("u", None), "not in the table"),
    ],
)
def test_what_is_not_elastic(tmp_path: Path, job: Workload, why: str) -> None:
    """It is named with the reason; without any other job there is nothing to plan."""
    (fault,) = faults(lambda: elastic(tmp_path, ROWS, job))
    assert fault.endswith(f"has no job that may run on another number of GPUs; there are: {job.name} ({why})")
    instance = elastic(tmp_path, ROWS, job, workload("train", None))
    assert [each.name for each in instance.jobs] == ["train"]
    assert f"{job.name} ({why})" in " ".join(instance.assumptions)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("job,gpus\nt,1\n", "line 1: has no column samples_per_s"),
        (ROWS + "t*,0,,1,\n", "line 5: gpus: is 0"),
        (ROWS + "t*,1,,9,60\n", "gpus: is 1 a second time for job 'train'"),
    ],
)
def test_a_faulty_table(tmp_path: Path, text: str, what: str) -> None:
    assert what in faults(lambda: elastic(tmp_path, text, workload("train", "a")))[0]


def written(folder: Path, **files: Any) -> list[str]:
    """Write files of JSON, and the table of speeds; return their paths."""
    (folder / "speeds.csv").write_text("job,gpus,samples_per_s\n*train*,1,10\n*train*,2,19\n*train*,4,30\n")
    for name, data in files.items():
        (folder / f"{name}.json").write_text(json.dumps(data))
    return [str(folder / f"{name}.json") for name in files]


def imported(*words: str) -> AllocationInstance:
    done = CliRunner().invoke(importers, [*words, "--quiet"])
    assert done.exit_code == 0, done.output
    instance = parse_instance(yaml.safe_load(done.stdout))
    assert isinstance(instance, AllocationInstance)
    return instance


def test_a_slurm_cluster(tmp_path: Path) -> None:
    """A share of one GPU is a worker; another job holds one of four GPUs, and the elastic one two."""
    node = {
        **{"name": "n1", "state": ["MIXED"], "partitions": ["p"], "cpus": 16, "real_memory": 65536},
        **{"alloc_cpus": 6, "alloc_memory": 12288, "gres": "gpu:a100:4", "gres_used": "gpu:a100:3"},
    }
    runs = {"job_state": ["RUNNING"], "partition": "p", "nodes": "n1", "node_count": 1, "batch_flag": True}
    train = {"job_id": 7, "name": "train", "tres_req_str": "cpu=4,mem=8G,node=1,gres/gpu=2", **runs}
    other = {"job_id": 8, "name": "other", "tres_req_str": "cpu=2,mem=4G,node=1,gres/gpu=1", **runs}
    files = written(tmp_path, nodes={"nodes": [node]}, queue={"jobs": [train, other]})
    speeds = str(tmp_path / "speeds.csv")
    instance = imported("slurm", *files, "--kind", "allocation", "--speeds", speeds)
    (job,) = instance.jobs
    assert job.current is not None
    assert (job.name, job.current.workers) == ("7 train", 2)
    assert dict(job.variants[0].worker_demand) == {"cpu": 2, "memory_gib": 4, "gpu": 1}
    assert [free(instance, resource) for resource in ("cpu", "memory_gib", "gpu")] == [[14], [60], [3]]


def test_a_kubernetes_cluster(tmp_path: Path) -> None:
    """The master of a PyTorchJob is a worker where it asks for the same; the job names its object."""
    operator = "training.kubeflow.org"
    owner = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "name": "train", "controller": True}
    pods = [
        {
            "kind": "Pod",
            "metadata": {
                "name": f"train-{role}",
                "namespace": "team",
                "labels": {f"{operator}/job-name": "train", f"{operator}/replica-type": role},
                "ownerReferences": [owner],
            },
            "spec": {
                "containers": [{"name": "c", "resources": {"requests": {"cpu": 1, "nvidia.com/gpu": 1}}}],
                "nodeName": "n1",
            },
            "status": {"phase": "Running"},
        }
        for role in ("master", "worker")
    ]
    node = {
        "kind": "Node",
        "metadata": {"name": "n1"},
        "status": {
            "allocatable": {"cpu": "8", "memory": "32Gi", "nvidia.com/gpu": "4"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }
    (file,) = written(tmp_path, cluster={"kind": "List", "items": [node, *pods]})
    speeds = str(tmp_path / "speeds.csv")
    (job,) = imported("kubernetes", file, "--kind", "allocation", "--speeds", speeds).jobs
    assert job.current is not None
    assert job.current.workers == 2
    assert {name: tasks.workers for name, tasks in (job.current.placement or {}).items()} == {"n1": 2}
    assert job.workload is not None
    assert (job.workload.resource, job.workload.namespace, job.workload.name) == (
        *("pytorchjobs.kubeflow.org", "team"),
        "train",
    )
