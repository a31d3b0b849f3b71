"""Which nodes reach the volumes of a pod."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from clusterplan.instances.common.errors import InstanceError
from clusterplan.instances.consolidation.instance import ConsolidationInstance
from clusterplan.instances.importers.kubernetes.importer import import_kubernetes
from clusterplan.instances.importers.kubernetes.objects import Pod
from clusterplan.instances.importers.kubernetes.volumes import claims_of, read_volumes
from clusterplan.planner.api import solve

ZONE = "topology.kubernetes.io/zone"
STATUS = {"allocatable": {"cpu": "8", "memory": "16Gi", "pods": "10", "nvidia.com/gpu": "4"}}
NODES = [
    {"kind": "Node", "metadata": {"name": name, "labels": {ZONE: zone}}, "status": STATUS}
    for name, zone in (("a1", "a"), ("a2", "a"), ("b1", "b"))
]


def pod(name: str, claim: str | None) -> dict[str, Any]:
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
    files = {"nodes": NODES, "pods": pods, "volumes": volumes}
    for name, items in files.items():
        (folder / f"{name}.json").write_text(json.dumps({"kind": "List", "items": items}))
    where = None if volumes is None else folder / "volumes.json"
    made = import_kubernetes(folder / "nodes.json", folder / "pods.json", volumes=where)
    assert isinstance(made, ConsolidationInstance)
    return made


def test_a_pod_is_placed_where_its_volume_is(tmp_path: Path) -> None:
    """By affinity, or by the label of an older volume; a claim that is not bound yet may be anywhere."""
    pods = [pod("by-affinity", "x"), pod("by-label", "y"), pod("unbound", "z"), pod("none", None)]
    listed = [claim("x", "v"), claim("y", "w"), claim("z", None), volume("v", "b"), volume("w", label="b__c")]
    made = imported(tmp_path, pods, listed)
    result = solve(made)
    assert result.plan is not None
    where = {entry.job: set(entry.servers) for entry in result.plan}
    assert where["t/by-affinity"] == where["t/by-label"] == {"b1"}
    assert not any("volume claims" in said for said in made.assumptions)
    assert any("node that reaches volume v" in name for name in made.resource_names)


def test_without_the_file_or_a_claim_in_it_the_jobs_are_named(tmp_path: Path) -> None:
    pods = [pod("x", "x"), pod("y", "y"), pod("none", None)]
    said = " ".join(imported(tmp_path, pods, None).assumptions)
    assert "2 planned jobs have volume claims" in said
    assert "(--volumes has them read): t/x, t/y." in said
    said = " ".join(imported(tmp_path, pods, [claim("x", "v"), volume("v", "a")]).assumptions)
    assert "1 planned job has volume claims" in said
    assert "(the file of volumes does not list them): t/y." in said


def test_claims_of_a_pod() -> None:
    """Also those that are made for the pod alone."""
    document = pod("p", "x")
    document["spec"]["volumes"] += [{"name": "scratch", "ephemeral": {}}, {"name": "e", "emptyDir": {}}]
    assert list(claims_of(Pod.model_validate(document))) == ["x", "p-scratch"]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("{}", "has no list of items; give what kubectl get pv,pvc"),
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
        read_volumes(tmp_path / "v.json")
    assert wanted in str(caught.value)
