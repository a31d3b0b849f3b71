"""Which nodes a pod may use: by labels and taints, by its volumes, and by the GPU models of nodes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from kubernetes_cluster import node, pod

from clusterplan.instances.common.errors import InstanceError
from clusterplan.instances.consolidation.instance import ConsolidationInstance
from clusterplan.instances.importers.clusters.kubernetes import ObjectLists, import_kubernetes
from clusterplan.instances.importers.clusters.kubernetes_affinity import (
    GpuModels,
    allowed_nodes,
    claims_of,
    constraint_of,
    describe,
    names_label,
)
from clusterplan.instances.importers.clusters.kubernetes_jobs import PodGroup, PodJob
from clusterplan.instances.importers.clusters.kubernetes_objects import Node, Pod
from clusterplan.instances.importers.node_restrictions import name_by_models
from clusterplan.planner.api import solve


def a_node(name: str, taints: list[dict[str, str]] | None = None, **labels: str) -> Node:
    """Return a node with labels."""
    document = {"metadata": {"name": name, "labels": labels}, "spec": {"taints": taints or []}}
    return Node.model_validate(document | {"status": {"allocatable": {}}})


def a_pod(**spec: Any) -> Pod:
    """Return a pod with constraints."""
    return Pod.model_validate({"metadata": {"name": "p"}, "spec": {"containers": [], **spec}, "status": {}})


def needs(operator: str, *values: str) -> dict[str, Any]:
    """Return an affinity for the label x."""
    term = {"matchExpressions": [{"key": "x", "operator": operator, "values": list(values)}]}
    rule = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    return {"nodeAffinity": rule}


TAINT = {"key": "t", "value": "1", "effect": "NoSchedule"}
NODES = [a_node("plain"), a_node("one", x="1"), a_node("five", x="5"), a_node("tainted", [TAINT], x="1")]


@pytest.mark.parametrize(
    ("spec", "names"),
    [
        ({}, {"plain", "one", "five"}),
        ({"nodeSelector": {"x": "1"}}, {"one"}),
        ({"affinity": needs("In", "1", "5")}, {"one", "five"}),
        ({"affinity": needs("NotIn", "1")}, {"plain", "five"}),
        ({"affinity": needs("Exists")}, {"one", "five"}),
        ({"affinity": needs("DoesNotExist")}, {"plain"}),
        ({"affinity": needs("Gt", "1")}, {"five"}),
        ({"affinity": needs("Lt", "5")}, {"one"}),
        ({"tolerations": [{"operator": "Exists"}]}, {"plain", "one", "five", "tainted"}),
        ({"tolerations": [{"key": "t", "value": "1"}], "nodeSelector": {"x": "1"}}, {"one", "tainted"}),
        ({"tolerations": [{"key": "t", "value": "2"}], "nodeSelector": {"x": "1"}}, {"one"}),
    ],
)
def test_allowed_nodes(spec: dict[str, Any], names: set[str]) -> None:
    """Selectors, required affinity, and taints that are not tolerated."""
    assert allowed_nodes(a_pod(**spec), NODES) == names


def test_a_label_may_be_left_out() -> None:
    """The GPU model is a field of its own in the instance."""
    assert allowed_nodes(a_pod(nodeSelector={"x": "1"}), NODES, without="x") == {"plain", "one", "five"}


def test_pods_with_equal_constraints_are_judged_once() -> None:
    """The text of a constraint depends on nothing else."""
    same = [a_pod(nodeSelector={"x": "1", "y": "2"}), a_pod(nodeSelector={"y": "2", "x": "1"})]
    assert constraint_of(same[0]) == constraint_of(same[1]) != constraint_of(a_pod())
    assert "x=1" in describe(a_pod(nodeSelector={"x": "1"}), NODES)


def test_what_keeps_a_pod_off_is_said() -> None:
    """Labels that it asks for, and taints that it does not tolerate."""
    tainted = describe(a_pod(nodeSelector={"x": "1"}), NODES)
    assert tainted.startswith("node with x=1 and toleration for taint ")
    assert describe(a_pod(tolerations=[{"operator": "Exists"}]), NODES) == "node"


def test_pods_that_name_values_of_a_label() -> None:
    """By their node selector, or by a required affinity."""
    terms = [{"matchExpressions": [{"key": "y", "operator": "In", "values": ["1"]}]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    both = a_pod(nodeSelector={"x": "1"}, affinity={"nodeAffinity": required})
    assert [names_label(both, label) for label in "xyz"] == [True, True, False]
    assert not names_label(a_pod(), "x")


ZONE = "topology.kubernetes.io/zone"
STATUS = {"allocatable": {"cpu": "8", "memory": "16Gi", "pods": "10", "nvidia.com/gpu": "4"}}
VOLUMES_NODES = [
    {"kind": "Node", "metadata": {"name": name, "labels": {ZONE: zone}}, "status": STATUS}
    for name, zone in (("a1", "a"), ("a2", "a"), ("b1", "b"))
]


def volumes_pod(name: str, claim: str | None) -> dict[str, Any]:
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}] if claim else []
    container = {"resources": {"requests": {"nvidia.com/gpu": "1"}}}
    spec = {"containers": [container], "volumes": volumes}
    return {"metadata": {"name": name, "namespace": "t"}, "spec": spec, "status": {"phase": "Pending"}}


def claim(name: str, volume: str | None) -> dict[str, Any]:
    spec = {"volumeName": volume} if volume else {}
    metadata = {"name": name, "namespace": "t"}
    return {"kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}


def volume(name: str, zone: str | None = None, label: str | None = None) -> dict[str, Any]:
    terms = [{"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}]
    spec = {"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}} if zone else {}
    metadata = {"name": name, "labels": {ZONE: label} if label else {}}
    return {"kind": "PersistentVolume", "metadata": metadata, "spec": spec}


def imported(folder: Path, pods: list[Any], volumes: list[Any] | None) -> ConsolidationInstance:
    files = {"nodes": VOLUMES_NODES, "pods": pods, "volumes": volumes}
    for name, items in files.items():
        (folder / f"{name}.json").write_text(json.dumps({"kind": "List", "items": items}))
    where = None if volumes is None else folder / "volumes.json"
    made = import_kubernetes(folder / "nodes.json", folder / "pods.json", volumes=where)
    assert isinstance(made, ConsolidationInstance)
    return made


def test_a_pod_is_placed_where_its_volume_is(tmp_path: Path) -> None:
    """By affinity, or by the label of an older volume; a claim that is not bound yet may be anywhere."""
    pods = [
        volumes_pod("by-affinity", "x"),
        volumes_pod("by-label", "y"),
        volumes_pod("unbound", "z"),
        volumes_pod("none", None),
    ]
    listed = [claim("x", "v"), claim("y", "w"), claim("z", None), volume("v", "b"), volume("w", label="b__c")]
    made = imported(tmp_path, pods, listed)
    result = solve(made)
    assert result.plan is not None
    where = {entry.job: set(entry.servers) for entry in result.plan}
    assert where["t/by-affinity"] == where["t/by-label"] == {"b1"}
    assert not any("volume claims" in said for said in made.assumptions)
    assert any("node that reaches volume v" in name for name in made.resource_names)


def test_without_the_file_or_a_claim_in_it_the_jobs_are_named(tmp_path: Path) -> None:
    pods = [volumes_pod("x", "x"), volumes_pod("y", "y"), volumes_pod("none", None)]
    said = " ".join(imported(tmp_path, pods, None).assumptions)
    assert "2 planned jobs have volume claims" in said
    assert "(--volumes has them read): t/x, t/y." in said
    said = " ".join(imported(tmp_path, pods, [claim("x", "v"), volume("v", "a")]).assumptions)
    assert "1 planned job has volume claims" in said
    assert "(the file of volumes does not list them): t/y." in said


def test_claims_of_a_pod() -> None:
    """Also those that are made for the pod alone."""
    document = volumes_pod("p", "x")
    document["spec"]["volumes"] += [{"name": "scratch", "ephemeral": {}}, {"name": "e", "emptyDir": {}}]
    claims = list(claims_of(Pod.model_validate(document)))
    assert [name for _, name in claims] == ["x", "p-scratch"]
    assert len({namespace for namespace, _ in claims}) == 1


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("{}", "has no list of items; give what kubectl get"),
        (
            '{"items": [{"kind": "Pod", "metadata": {"name": "p"}}]}',
            "lists Pod, and no PersistentVolumeClaim",
        ),
        (json.dumps({"items": [claim("x", "v")]}), "lists PersistentVolumeClaim, and no PersistentVolume;"),
        ('{"items": [3]}', "items[0]: is 3"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, text: str, wanted: str) -> None:
    (tmp_path / "v.json").write_text(text)
    with pytest.raises(InstanceError) as caught:
        ObjectLists((), tmp_path / "v.json").read_volumes()
    assert wanted in str(caught.value)


A100, L4 = (
    node("a", labels={"nvidia.com/gpu.product": "A100"}),
    node("l", labels={"nvidia.com/gpu.product": "L4"}),
)
MODELS = GpuModels.read([A100, L4], "", lambda _: True)


def job(nodes: set[str], on: str | None = None) -> PodJob:
    """Return a job of one pod that may use these nodes."""
    each = pod("p", 1, on)
    return PodJob("p", None, [PodGroup("pods", each.requests, frozenset(nodes), pods=[each])])


@pytest.mark.parametrize(("label", "models"), [("", ["A100", "L4"]), ("other", [None, None])])
def test_models_are_read_from_labels(label: str, models: list[str | None]) -> None:
    """By the label that is asked for, else by the first known one."""
    found = GpuModels.read([A100, L4], label, lambda _: True)
    assert found.label == (label or "nvidia.com/gpu.product")
    assert [found.of(each) for each in (A100, L4)] == models


def test_running_pods_keep_their_model() -> None:
    """One that waits may use any."""
    runs, waits = job({"a", "l"}, "a"), job({"a", "l"})
    MODELS.keep([runs, waits], lambda _: True)
    assert runs.groups[0].nodes == {"a"}
    assert waits.groups[0].nodes == {"a", "l"}


def test_a_choice_of_nodes_that_is_a_model_is_written_so() -> None:
    """Only where the model tells the nodes apart."""
    same = node("b", labels={"nvidia.com/gpu.product": "A100"})
    nodes = [A100, same, L4]
    models = GpuModels.read(nodes, "", lambda _: True)
    whole, part = job({"a", "b"}), job({"a"})
    name_by_models([whole, part], models.of_node)
    assert (whole.gpu_model, part.gpu_model) == (["A100"], None)
    assert (whole.groups[0].nodes, part.groups[0].nodes) == ({"a", "b", "l"}, {"a"})


def test_pools_have_labels_of_their_own() -> None:
    """A pool of TPUs beside one of GPUs, and one without a label of models, whose type stands for it."""
    kind = "node.kubernetes.io/instance-type"
    tpu = node("t", labels={"cloud.google.com/gke-tpu-accelerator": "tpu-v5p-slice", kind: "ct5p"})
    typed, plain = node("g", labels={kind: "g5.xlarge"}), node("c", 0, labels={kind: "m5.large"})
    models = GpuModels.read([A100, tpu, typed, plain], "", lambda each: each.name != "c")
    assert [models.of(each) for each in (A100, tpu, typed, plain)] == [
        "A100",
        "tpu-v5p-slice",
        "g5.xlarge",
        None,
    ]
    assert models.labels == ("nvidia.com/gpu.product", "cloud.google.com/gke-tpu-accelerator", kind)
    assert models.by_type == {"g"}
    runs = job({"a", "t", "g"}, "g")
    models.keep([runs], lambda _: True)
    assert runs.groups[0].nodes == {"g"}
