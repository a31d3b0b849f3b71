"""What a cluster's nodes and pods become."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clusterplan.instances.importers.kubernetes.assumptions import assumptions, what_is_ignored
from clusterplan.instances.importers.kubernetes.cluster import Cluster
from clusterplan.instances.importers.kubernetes.objects import Node, Owner, Pod
from clusterplan.instances.importers.kubernetes.options import KubernetesOptions


def node(name: str, gpus: int = 4, **spec: Any) -> Node:
    """Return a node that is ready."""
    status = {"allocatable": {"cpu": "8", "memory": "16Gi", "pods": "10", "nvidia.com/gpu": str(gpus)}}
    status |= {"conditions": [{"type": "Ready", "status": "True"}]}
    return Node.model_validate({"metadata": {"name": name}, "spec": spec, "status": status})


def pod(name: str, gpus: int, on: str | None = None, **spec: Any) -> Pod:
    """Return a pod that waits, or runs on a node."""
    requests = {"cpu": "500m", "memory": "1Gi"} | ({"nvidia.com/gpu": str(gpus)} if gpus else {})
    spec = {"containers": [{"resources": {"requests": requests}}], "nodeName": on, **spec}
    status = {"phase": "Running" if on else "Pending"}
    return Pod.model_validate({"metadata": {"name": name, "namespace": "t"}, "spec": spec, "status": status})


def cluster(*pods: Pod, nodes: tuple[Node, ...] = (), **options: Any) -> Cluster:
    """Return a cluster of two nodes, one of them cordoned."""
    files = {"nodes": Path("n"), "pods": Path("p")}
    listed = nodes or (node("a"), node("b", unschedulable=True))
    return Cluster(listed, pods, KubernetesOptions(**files, **options))


def test_what_is_held_by_others_is_not_free() -> None:
    """A planned pod's own part is free for the plan."""
    made = cluster(pod("mine", 1, "a"), pod("other", 0, "a"), pod("waits", 2))
    assert [job.name for job in made.jobs] == ["t/mine", "t/waits"]
    server = made.server(made.nodes[0])
    assert server["capacity"] == {"cpu": 8, "memory_gib": 16, "gpu": 4, "pods": 10}
    assert server["free"] == {"cpu": 7.5, "memory_gib": 15, "gpu": 4, "pods": 9}
    assert (made.out, made.names) == (["b"], {"a"})


def test_a_job_is_worth_its_gpus_and_stays_placed_where_it_runs() -> None:
    """One that waits may be left out."""
    made = cluster(pod("mine", 2, "a"), pod("waits", 1))
    mine, waits = (made.job(job) for job in made.jobs)
    assert (mine["value"], mine["must_place"], mine["current"]) == (2.0, True, {"a": 1})
    assert (waits["value"], waits["must_place"], waits["spread"]) == (1.0, False, "free")
    assert waits["task_demand"] == {"cpu": 0.5, "memory_gib": 1, "gpu": 1, "pods": 1}


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({}, ["t/runs", "t/waits"]),
        ({"running": "stay"}, ["t/waits"]),
        ({"choice": "all"}, ["t/runs", "t/waits", "t/small"]),
        ({"namespaces": ("x",)}, []),
    ],
)
def test_which_jobs_are_planned(options: dict[str, Any], names: list[str]) -> None:
    """By GPUs, by state and by namespace."""
    made = cluster(pod("runs", 1, "a"), pod("waits", 1), pod("small", 0), **options)
    assert [job.name for job in made.jobs] == names


def test_pods_on_cordoned_nodes_stay() -> None:
    """They are no jobs of the plan, and the assumptions say so."""
    made = cluster(pod("stays", 1, "b"), pod("waits", 1))
    assert [job.name for job in made.staying] == ["t/stays"]
    said = " ".join(assumptions(made, made.options))
    assert "1 node is cordoned or not ready and left out: b." in said
    assert "1 job has pods on cordoned nodes" in said


def test_what_runs_of_a_job_stays_and_the_rest_is_a_job_of_its_own() -> None:
    """Both say which object they are; what waits of it is worth its own GPUs."""
    owner = {"kind": "Job", "name": "j", "apiVersion": "batch/v1", "controller": True}
    pods = [pod("j-0", 2, "a"), pod("j-1", 1), pod("j-2", 1), pod("whole", 1, "a")]
    for each in pods[:3]:
        each.__dict__["metadata"] = each.metadata.model_copy(update={"ownerReferences": (Owner(**owner),)})
    made = cluster(*pods)
    assert [job.name for job in made.jobs] == ["t/j", "t/j (waits)", "t/whole"]
    runs, waits, _ = (made.job(job) for job in made.jobs)
    assert (runs["current"], runs["movable"], runs["must_place"]) == ({"a": 1}, False, True)
    assert (waits["tasks"], waits["current"], waits["must_place"], waits["value"]) == (2, {}, False, 2.0)
    assert runs["workload"] == waits["workload"]
    said = " ".join(assumptions(made, made.options))
    assert "1 job runs in part: the pods that run stay" in said
    assert "their pods run while others of their job wait: t/j." in said


def test_more_than_there_is() -> None:
    """Requests of planned and other pods together."""
    assert cluster(pod("x", 5, "a")).overcommitted() == ["a"]
    assert cluster(pod("x", 4, "a")).overcommitted() == []


def test_what_is_ignored_is_said() -> None:
    """Only where there is something."""
    plain = cluster(pod("x", 1))
    assert list(what_is_ignored(plain)) == []
    asks = pod("x", 1, affinity={"podAntiAffinity": {"a": 1}})
    assert list(what_is_ignored(cluster(asks))) == [
        "1 planned job has pod anti-affinity, which the plan does not look at: t/x."
    ]
