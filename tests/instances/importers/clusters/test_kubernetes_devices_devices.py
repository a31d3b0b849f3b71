"""Dumps of clusters whose GPUs are shared or partitioned, and the instances that they become."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from sample_documents import said, solved

from clusterplan.instances.common.errors import InstanceError
from clusterplan.instances.consolidation.instance import ConsolidationInstance
from clusterplan.instances.importers.clusters.kubernetes import import_kubernetes
from clusterplan.instances.importers.clusters.kubernetes_devices import asks_for_part, device_inventory
from clusterplan.instances.importers.clusters.kubernetes_objects import Node, Pod

A100 = "NVIDIA-A100-SXM4-40GB"
HAMI_DEVICE = "GPU-0fc3eda5-{},10,{},100,NVIDIA-Tesla V100-PCIE-32GB,0,{}:"


def node(name: str, offers: dict[str, str], annotations: Any = None, **labels: str) -> dict[str, Any]:
    """Return a node that is ready; labels have two underscores for a dot, and are of nvidia.com."""
    allocatable = {"cpu": "32", "memory": "256Gi", "pods": "110", **offers}
    own = {f"nvidia.com/{key.replace('__', '.')}": value for key, value in labels.items()}
    return {
        "kind": "Node",
        "metadata": {"name": name, "labels": own, "annotations": annotations or {}},
        "status": {"allocatable": allocatable, "conditions": [{"type": "Ready", "status": "True"}]},
    }


def pod(name: str, asks: dict[str, str], on: str | None = None, **metadata: Any) -> dict[str, Any]:
    """Return a pod of one container that waits, or runs on a node."""
    limits = {"limits": asks, "requests": {"cpu": "1", "memory": "2Gi"}}
    return {
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "ml", **metadata},
        "spec": {"containers": [{"resources": limits}], **({"nodeName": on} if on else {})},
        "status": {"phase": "Running" if on else "Pending"},
    }


def hami(name: str, percent: int, cores: int = 0, on: str | None = None, gpus: int = 1) -> dict[str, Any]:
    """Return a pod that asks HAMi for a share."""
    asks = {"nvidia.com/gpu": str(gpus)}
    asks |= {"nvidia.com/gpumem-percentage": str(percent)} if percent else {}
    return pod(name, asks | ({"nvidia.com/gpucores": str(cores)} if cores else {}), on)


def hami_node(name: str, devices: int = 2, memory: int = 32768, sick: int = 0) -> dict[str, Any]:
    """Return a node of HAMi, which offers ten virtual GPUs for each device."""
    listed = "".join(HAMI_DEVICE.format(k, memory, "true") for k in range(devices))
    listed += "".join(HAMI_DEVICE.format(f"s{k}", memory, "false") for k in range(sick))
    offers = {"nvidia.com/gpu": str(10 * devices)}
    return node(name, offers, {"hami.io/node-nvidia-register": listed}, gpu__product="Tesla-V100")


def imported(folder: Path, nodes: list[Any], pods: list[Any], **options: Any) -> ConsolidationInstance:
    """Return what these dumps become."""
    for name, items in (("nodes", nodes), ("pods", pods)):
        (folder / f"{name}.json").write_text(json.dumps({"kind": "List", "items": items}))
    return import_kubernetes(folder / "nodes.json", folder / "pods.json", **{"mig": "new", **options})


def asks(instance: ConsolidationInstance) -> dict[str, Any]:
    """Return what the jobs ask for of devices."""
    kinds = ("devices", "share", "profile")
    listed = {job.name: [getattr(job, kind) for kind in kinds if getattr(job, kind)] for job in instance.jobs}
    return {name: found[0]["gpu"] if found else None for name, found in listed.items()}


def devices(instance: ConsolidationInstance) -> dict[str, Any]:
    """Return the devices of the servers, without what is empty."""
    return {
        server.name: {
            key: value for key, value in server.devices["gpu"].model_dump(exclude_none=True).items() if value
        }
        if server.devices
        else None
        for server in instance.servers
    }


# HAMi


def test_memory_in_mebibytes(tmp_path: Path) -> None:
    """It is a part of what the devices have of all nodes that a pod may use."""
    wants = pod("a", {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "8192", "nvidia.com/gpucores": "20"})
    same = imported(tmp_path, [hami_node("n1"), hami_node("n2")], [wants])
    assert asks(same) == {"ml/a": 250}
    with pytest.raises(InstanceError, match=r"ml/a \(asks for another part of a device on other nodes\)"):
        imported(tmp_path, [hami_node("n1"), hami_node("n2", memory=16384)], [wants])


def test_what_pods_hold_is_taken(tmp_path: Path) -> None:
    """Pods that are not planned hold shares of devices on which the planned ones can stay."""
    pods = [
        hami("x", 30, on="n1"),
        hami("y", 30, on="n1"),
        hami("mine", 60, on="n1"),
        hami("own", 60, on="n1"),
    ]
    for other in pods[:2]:
        other["metadata"]["namespace"] = "other"
    instance = imported(tmp_path, [hami_node("n1")], pods, namespaces=["ml"])
    taken = devices(instance)["n1"]["taken"]
    assert sorted((row["device"], row["share"]) for row in taken) == [(0, 300), (1, 300)]
    assert [job.current for job in instance.jobs] == [{"n1": 1}, {"n1": 1}]
    solved(instance)


# GPU share of Alibaba


def shared_node(name: str, memory: int, count: int, **labels: str) -> dict[str, Any]:
    return node(name, {"aliyun.com/gpu-mem": str(memory), "aliyun.com/gpu-count": str(count)}, **labels)


def test_gpu_memory_of_alibaba(tmp_path: Path) -> None:
    """Of 15 GiB a device three pods of 5 GiB fit on one, as on the cluster."""
    pods = [pod(f"p{k}", {"aliyun.com/gpu-mem": "5"}) for k in range(6)]
    instance = imported(tmp_path, [shared_node("n1", 30, 2)], pods)
    assert set(asks(instance).values()) == {333}
    assert "rounded to thousandths" in said(instance)
    solved(instance)


def test_devices_of_several_sizes(tmp_path: Path) -> None:
    """A pod that selects a GPU model asks for a part of that."""
    nodes = [shared_node("t", 32, 2, gpu__product="T4"), shared_node("a", 80, 1, gpu__product="A100")]
    one, both = pod("one", {"aliyun.com/gpu-mem": "8"}), pod("both", {"aliyun.com/gpu-mem": "8"})
    one["spec"]["nodeSelector"] = {"nvidia.com/gpu.product": "A100"}
    instance = imported(tmp_path, nodes, [one, both])
    assert asks(instance) == {"ml/one": 100}
    assert instance.jobs[0].gpu_model == "A100"
    assert "ml/both (asks for another part" in said(instance)


# Run:ai and KAI


def fraction(name: str, part: str, on: str | None = None, **more: str) -> dict[str, Any]:
    return pod(name, {}, on, annotations={"gpu-fraction": part, **more})


# MIG


def mig_node(name: str, product: str = A100, gpus: int = 0, count: int = 0, **mig: int) -> dict[str, Any]:
    """Return a node with partitions, such as ``g1__5=7``."""
    listed = {
        f"nvidia.com/mig-{key[1:].replace('_', 'g.', 1).replace('_', '')}gb": str(n) for key, n in mig.items()
    }
    labels = {"gpu__product": product, "mig__strategy": "mixed", "mig__config": "all-balanced"}
    labels |= {"gpu__count": str(count)} if count else {}
    return node(name, {"nvidia.com/gpu": str(gpus), **listed}, **labels)


def test_partitions_of_no_known_geometry(tmp_path: Path) -> None:
    """Then all partitions are kept as resources, and the nodes named; shares are of devices all the same."""
    nodes = [mig_node("n1", "NVIDIA-H200", g1__18=7), mig_node("n2", count=1, g1__5=7)]
    pods = [pod("a", {"nvidia.com/mig-1g.5gb": "1"}), pod("b", {"nvidia.com/mig-1g.18gb": "1"})]
    instance = imported(tmp_path, nodes, pods)
    assert not instance.has_devices
    assert instance.servers[0].capacity["nvidia.com/mig-1g.18gb"] == 7
    assert "Partitions are not planned anew" in said(instance)
    assert "n1 (has 1g.18gb of NVIDIA-H200)" in said(instance)
    shared = imported(tmp_path, [*nodes, node("n3", {"nvidia.com/gpu": "2"})], [*pods, fraction("c", "0.5")])
    assert asks(shared)["ml/c"] == 500
    assert devices(shared) == {"n1": None, "n2": None, "n3": {"count": 2}}


def test_a_profile_that_no_node_has(tmp_path: Path) -> None:
    """The pod that asks for it is left out; a node that is not ready is none."""
    pods = [pod("a", {"nvidia.com/mig-1g.5gb": "1"}), pod("b", {"nvidia.com/mig-1g.18gb": "1"})]
    sick = mig_node("n1", count=1, g2__10=3)
    sick["status"]["conditions"] = [{"type": "Ready", "status": "Unknown"}]
    pods.append(pod("c", {"nvidia.com/mig-7g.80gb": "1"}, "n1"))
    instance = imported(tmp_path, [mig_node("n2", count=1, g1__5=7), sick], pods)
    assert asks(instance) == {"ml/a": "1g.5gb"}
    assert "ml/b (asks for a partition 1g.18gb, which the devices of no node have)" in said(instance)


# What is as it was


def test_time_slicing_is_said(tmp_path: Path) -> None:
    """Turns on a device stay amounts; the pods there are named."""
    nodes = [node("n1", {"nvidia.com/gpu": "8"}, gpu__count="2", gpu__replicas="4")]
    instance = imported(tmp_path, nodes, [pod("a", {"nvidia.com/gpu": "1"}, "n1")])
    assert not instance.has_devices
    assert instance.servers[0].capacity["gpu"] == 8
    assert "1 node offers turns on devices as GPUs (time-slicing)" in said(instance)
    assert "n1; on it are ml/a." in said(instance)


def test_nothing_is_left(tmp_path: Path) -> None:
    """Where all pods are left out, the error says why."""
    with pytest.raises(InstanceError, match=r"has no pod to plan.*ml/a \(asks for a GPU, of which no node"):
        imported(tmp_path, [node("n1", {})], [fraction("a", "0.5")])


def test_devices_that_annotations_name(tmp_path: Path) -> None:
    """Planned pods have them now, those of others are taken."""

    def on(name: str, index: int, amount: str, namespace: str = "ml") -> dict[str, Any]:
        listed = pod(
            name, {"aliyun.com/gpu-mem": amount}, "n1", annotations={"ALIYUN_COM_GPU_MEM_IDX": str(index)}
        )
        listed["metadata"]["namespace"] = namespace
        return listed

    pods = [on("a", 1, "5"), on("x", 2, "5", "other")]
    nodes = [shared_node("n1", 45, 3)]
    instance = imported(tmp_path, nodes, pods, namespaces=["ml"])
    held = instance.jobs[0].current_devices
    assert held == {"n1": ({"gpu": (1,)},)}
    assert devices(instance)["n1"]["taken"] == ({"device": 2, "share": 333},)
    solved(instance)


def test_what_pods_hold_of_devices() -> None:
    """A half holds five hundred thousandths; devices are needed only where any pod asks for a part."""
    half = Pod.model_validate(pod("half", {}, on="n", annotations={"gpu-fraction": "0.5"}))
    whole = Pod.model_validate(pod("whole", {"nvidia.com/gpu": "1"}, on="n"))
    assert [asks_for_part(each, keep_partitions=False) for each in (whole, half)] == [False, True]
    there = Node.model_validate(node("n", {"nvidia.com/gpu": "2"}))
    devices = device_inventory([there], [half, whole], keep_partitions=False)
    here = frozenset("n")
    asks = [devices.demand(each, here, here) for each in devices.tasks.values()]
    assert [ask and ask.thousandths for ask in asks] == [500, 1000]
    assert asks[0] is not None
    assert devices.worth(asks[0]) == 0.5
