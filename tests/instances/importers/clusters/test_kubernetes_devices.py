"""What single pods ask for of GPUs, and what single nodes have.

Dumps of clusters whose GPUs are shared or partitioned, and the instances that they become.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sample_documents import said, solved

from clusterplan.instances.common.errors import InstanceError
from clusterplan.instances.consolidation.devices import DeviceDemand
from clusterplan.instances.consolidation.instance import ConsolidationInstance
from clusterplan.instances.importers.clusters.device_sharing import GpuRequest, Gpus, UnclearDemandError
from clusterplan.instances.importers.clusters.kubernetes import import_kubernetes
from clusterplan.instances.importers.clusters.kubernetes_devices import (
    FRACTION,
    asks_for_part,
    device_inventory,
    devices_of,
    gpu_request_of,
    gpus_of,
    is_device,
    is_reservation,
    is_time_sliced,
    parts_as_amounts,
)
from clusterplan.instances.importers.clusters.kubernetes_objects import Node, Pod

GPU, PERCENT, CORES, MEMORY = (
    f"nvidia.com/{name}" for name in ("gpu", "gpumem-percentage", "gpucores", "gpumem")
)
MIG = "nvidia.com/mig-1g.5gb"


def pod(asks: dict[str, str], namespace: str = "a", containers: int = 1, **annotations: str) -> Pod:
    """Return a pod; an underscore of an annotation is a hyphen."""
    metadata = {"name": "p", "namespace": namespace}
    own = {key.replace("_", "-"): value for key, value in annotations.items()}
    return Pod.model_validate(
        {
            "metadata": {**metadata, "annotations": own},
            "spec": {"containers": [{"resources": {"limits": asks}}] * containers},
        }
    )


def node(there: dict[str, str], annotations: dict[str, str] | None = None, **labels: str) -> Node:
    """Return a node; labels are those of nvidia.com, with an underscore for a dot."""
    own = {f"nvidia.com/{key.replace('_', '.')}": value for key, value in labels.items()}
    metadata = {"name": "n", "labels": own, "annotations": annotations}
    return Node.model_validate({"metadata": metadata, "status": {"allocatable": there}})


@pytest.mark.parametrize(
    ("asks", "wish"),
    [
        ({"cpu": "2"}, None),
        ({GPU: "0"}, None),
        ({GPU: "2"}, GpuRequest(GPU, DeviceDemand(whole=2))),
        ({GPU: "1", PERCENT: "25"}, GpuRequest(PERCENT, DeviceDemand(share=250))),
        ({PERCENT: "25"}, GpuRequest(PERCENT, DeviceDemand(share=250))),
        ({GPU: "1", PERCENT: "25", CORES: "30"}, GpuRequest(PERCENT, DeviceDemand(share=300))),
        ({GPU: "1", CORES: "30"}, GpuRequest(GPU, DeviceDemand(whole=1))),
        ({GPU: "3", PERCENT: "100"}, GpuRequest(GPU, DeviceDemand(whole=3))),
        ({GPU: "1", MEMORY: "4000", CORES: "15"}, GpuRequest(MEMORY, memory=4000, cores=150)),
        ({"aliyun.com/gpu-mem": "3"}, GpuRequest("aliyun.com/gpu-mem", memory=3)),
        ({"volcano.sh/gpu-memory": "1024"}, GpuRequest("volcano.sh/gpu-memory", memory=1024)),
        ({"volcano.sh/vgpu-number": "2"}, GpuRequest("volcano.sh/vgpu-number", DeviceDemand(whole=2))),
        ({MIG: "1"}, GpuRequest(MIG, DeviceDemand(profile="1g.5gb"))),
    ],
)
def test_wishes(asks: dict[str, str], wish: GpuRequest | None) -> None:
    """Of memory and cores the larger part; without memory all of it, as in HAMi."""
    assert gpu_request_of(pod(asks), keep_partitions=False) == wish


@pytest.mark.parametrize(
    ("asks", "why"),
    [
        ({GPU: "500m"}, "0.5 GPUs, which is not a whole number"),
        ({GPU: "2", PERCENT: "25"}, "parts of 2 devices"),
        ({GPU: "1", PERCENT: "101"}, "more than 100 %"),
        ({GPU: "1", PERCENT: "10", MEMORY: "10"}, "memory in two ways"),
        ({"aliyun.com/gpu-mem": "1500m"}, "1.5 aliyun.com/gpu-mem"),
        ({MIG: "2"}, "2 partitions 1g.5gb"),
        ({MIG: "1", GPU: "1"}, "several ways at once"),
        ({MIG: "1", "nvidia.com/mig-2g.10gb": "1"}, "several ways at once"),
    ],
)
def test_no_wishes(asks: dict[str, str], why: str) -> None:
    """The reason says what is asked for."""
    with pytest.raises(UnclearDemandError, match=why):
        gpu_request_of(pod(asks), keep_partitions=False)


def test_containers_and_partitions_that_are_kept() -> None:
    """Whole GPUs add up, shares do not; partitions that are kept are not of devices."""
    assert gpu_request_of(pod({GPU: "1"}, containers=2), False) == GpuRequest(GPU, DeviceDemand(whole=2))
    with pytest.raises(UnclearDemandError, match="several containers"):
        gpu_request_of(pod({GPU: "1", PERCENT: "10"}, containers=2), False)
    assert gpu_request_of(pod({MIG: "1"}), True) is None
    assert (is_device(MIG, True), is_device(MIG, False), is_device("amd.com/gpu", False)) == (
        False,
        True,
        False,
    )
    assert (asks_for_part(pod({MIG: "1"}), True), asks_for_part(pod({MIG: "1"}), False)) == (False, True)
    assert not asks_for_part(pod({GPU: "1"}), False)


@pytest.mark.parametrize(
    ("text", "share"), [("0.5", 500), (".25", 250), ("0.3333", 334), ("0.9999", 0), ("1", 0), ("1.0", 0)]
)
def test_fractions(text: str, share: int) -> None:
    """Rounded up; a whole device is one."""
    wish = gpu_request_of(pod({}, gpu_fraction=text), False)
    assert wish == GpuRequest(GPU, DeviceDemand(share=share) if share else DeviceDemand(whole=1))
    assert asks_for_part(pod({}, gpu_fraction=text), False)


@pytest.mark.parametrize("text", ["0", "1.5", "-0.5", "1e-1", "half", "", "٠.٥", "0." + "1" * 30])
def test_no_fractions(text: str) -> None:
    """Text that is none is refused, as are parts of several devices and memory."""
    with pytest.raises(UnclearDemandError, match=FRACTION):
        gpu_request_of(pod({}, gpu_fraction=text), False)
    for other in ({"gpu_fraction": "0.5", "gpu_fraction_num_devices": "2"}, {"gpu_memory": "2000"}):
        with pytest.raises(UnclearDemandError, match=r"devices|gpu-memory"):
            gpu_request_of(pod({}, **other), False)


def test_pods_that_reserve() -> None:
    """By their namespace."""
    assert is_reservation(pod({GPU: "1"}, "kai-resource-reservation"))
    assert not is_reservation(pod({GPU: "1"}))


REGISTER = "hami.io/node-nvidia-register"


@pytest.mark.parametrize(
    ("made", "gpus"),
    [
        (node({}), Gpus()),
        (node({GPU: "8"}, gpu_count="8", gpu_memory="40960"), Gpus(8, None, {MEMORY: 40960})),
        # One of eight is not healthy; virtual GPUs are more than the devices.
        (node({GPU: "7"}, gpu_count="8"), Gpus(7)),
        (node({GPU: "80"}, gpu_count="8"), Gpus(8)),
        (node({GPU: "8"}, gpu_count="2", gpu_replicas="4"), Gpus(8)),
        (
            node({GPU: "20"}, {REGISTER: "U,10,100,100,T,0,true:V,10,100,100,T,0,true:"}),
            Gpus(2, None, {MEMORY: 100}, ("U", "V")),
        ),
        (
            node({GPU: "20"}, {REGISTER: "U,10,100,100,T,0,true:V,10,200,100,T,0,true:"}),
            Gpus(2, names=("U", "V")),
        ),
        (
            node({"aliyun.com/gpu-mem": "31", "aliyun.com/gpu-count": "2"}),
            Gpus(2, None, {"aliyun.com/gpu-mem": 15}),
        ),
        (node({GPU: "0", MIG: "7"}), Gpus(1, "a100-40")),
        (node({GPU: "1", MIG: "8"}, gpu_product="A100-PCIE-40GB"), Gpus(3, "a100-40")),
        (
            node({GPU: "2"}, gpu_product="A100-PCIE-40GB", mig_strategy="mixed", gpu_count="2"),
            Gpus(2, "a100-40"),
        ),
    ],
)
def test_gpus_of_nodes(made: Node, gpus: Gpus) -> None:
    """By annotation, by the resources of schemes, by partitions, or by whole GPUs."""
    assert replace(gpus_of(made, keep_partitions=False), offers=None) == gpus


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (node({GPU: "1"}, {REGISTER: "x"}), "lists no devices"),
        (node({GPU: "1"}, {REGISTER: '[{"devmem": 0}]'}), "lists no devices"),
        (node({GPU: "1"}, {REGISTER: '[{"devmem": 1e999}]'}), "lists no devices"),
        (node({GPU: "1"}, {REGISTER: "[" * 100_000}), "lists no devices"),
        (node({"volcano.sh/vgpu-number": "10"}), "no annotation volcano.sh/node-vgpu-register"),
        (node({MIG: "7"}, gpu_product="NVIDIA-H100-80GB-HBM3"), "has 1g.5gb of NVIDIA-H100"),
        (node({GPU: "65"}), "at most 64"),
        (node({MIG: "1e15"}), "more partitions than 64"),
    ],
)
def test_gpus_that_are_not_clear(made: Node, why: str) -> None:
    """The reason says what is lacking."""
    with pytest.raises(UnclearDemandError, match=why):
        gpus_of(made, keep_partitions=False)


def test_what_nodes_offer() -> None:
    """What a pod asks by has to be there; a node without GPUs need not be told apart."""
    shared = gpus_of(node({"aliyun.com/gpu-mem": "30", "aliyun.com/gpu-count": "2", GPU: "0"}), False)
    plain = gpus_of(node({GPU: "1"}, gpu_memory="9"), False)
    memory, whole = GpuRequest("aliyun.com/gpu-mem", memory=3), GpuRequest(GPU, DeviceDemand(whole=1))
    assert shared.may_satisfy(memory)
    assert not replace(shared, sizes={}).may_satisfy(memory)
    assert not shared.may_satisfy(whole)
    assert Gpus().may_satisfy(whole)
    assert plain.may_satisfy(GpuRequest(PERCENT, DeviceDemand(share=3)))
    assert plain.may_satisfy(GpuRequest(MEMORY, memory=3))
    assert not plain.may_satisfy(GpuRequest(MIG, DeviceDemand(profile="1g.5gb")))
    assert gpus_of(node({MIG: "1"}), False).may_satisfy(whole)


def test_time_slicing_and_other_schemes() -> None:
    """They are told apart, to be named."""
    assert is_time_sliced(node({GPU: "8"}, gpu_replicas="4"))
    assert not is_time_sliced(node({GPU: "8"}, gpu_replicas="x"))
    other: Any = pod({"tencent.com/vcuda-core": "20", GPU: "1"})
    assert parts_as_amounts([other, pod({GPU: "1"})]) == {"tencent.com/vcuda-core": [other]}


def test_devices_that_pods_say_they_have() -> None:
    """By the index of a device, or by its name; what is not there is none."""
    memory, whole = GpuRequest("aliyun.com/gpu-mem", memory=3), GpuRequest(GPU, DeviceDemand(whole=2))
    gpus = Gpus(4, names=("U", "V", "W"))

    def has(wish: GpuRequest, annotation: str, text: str) -> tuple[int, ...]:
        metadata = {"name": "p", "annotations": {annotation: text}}
        return devices_of(Pod.model_validate({"metadata": metadata, "spec": {"containers": []}}), wish, gpus)

    assert has(memory, "ALIYUN_COM_GPU_MEM_IDX", "3") == (3,)
    for text in ("4", "-1", "", "x", "0,1"):
        assert has(memory, "ALIYUN_COM_GPU_MEM_IDX", text) == ()
    assert has(whole, "hami.io/vgpu-devices-allocated", "W,NVIDIA,100,0:U,NVIDIA,100,0:;") == (2, 0)
    assert has(whole, "volcano.sh/vgpu-ids-new", "V,NVIDIA,100,0:") == (1,)
    assert has(whole, "hami.io/vgpu-devices-allocated", "W,NVIDIA,100,0:X,NVIDIA,100,0:;") == ()


A100 = "NVIDIA-A100-SXM4-40GB"
HAMI_DEVICE = "GPU-0fc3eda5-{},10,{},100,NVIDIA-Tesla V100-PCIE-32GB,0,{}:"


def a_node(name: str, offers: dict[str, str], annotations: Any = None, **labels: str) -> dict[str, Any]:
    """Return a node that is ready; labels have two underscores for a dot, and are of nvidia.com."""
    allocatable = {"cpu": "32", "memory": "256Gi", "pods": "110", **offers}
    own = {f"nvidia.com/{key.replace('__', '.')}": value for key, value in labels.items()}
    return {
        "kind": "Node",
        "metadata": {"name": name, "labels": own, "annotations": annotations or {}},
        "status": {"allocatable": allocatable, "conditions": [{"type": "Ready", "status": "True"}]},
    }


def a_pod(name: str, asks: dict[str, str], on: str | None = None, **metadata: Any) -> dict[str, Any]:
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
    return a_pod(name, asks | ({"nvidia.com/gpucores": str(cores)} if cores else {}), on)


def hami_node(name: str, devices: int = 2, memory: int = 32768, sick: int = 0) -> dict[str, Any]:
    """Return a node of HAMi, which offers ten virtual GPUs for each device."""
    listed = "".join(HAMI_DEVICE.format(k, memory, "true") for k in range(devices))
    listed += "".join(HAMI_DEVICE.format(f"s{k}", memory, "false") for k in range(sick))
    offers = {"nvidia.com/gpu": str(10 * devices)}
    return a_node(name, offers, {"hami.io/node-nvidia-register": listed}, gpu__product="Tesla-V100")


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
    wants = a_pod("a", {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "8192", "nvidia.com/gpucores": "20"})
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
    return a_node(name, {"aliyun.com/gpu-mem": str(memory), "aliyun.com/gpu-count": str(count)}, **labels)


def test_gpu_memory_of_alibaba(tmp_path: Path) -> None:
    """Of 15 GiB a device three pods of 5 GiB fit on one, as on the cluster."""
    pods = [a_pod(f"p{k}", {"aliyun.com/gpu-mem": "5"}) for k in range(6)]
    instance = imported(tmp_path, [shared_node("n1", 30, 2)], pods)
    assert set(asks(instance).values()) == {333}
    assert "rounded to thousandths" in said(instance)
    solved(instance)


def test_devices_of_several_sizes(tmp_path: Path) -> None:
    """A pod that selects a GPU model asks for a part of that."""
    nodes = [shared_node("t", 32, 2, gpu__product="T4"), shared_node("a", 80, 1, gpu__product="A100")]
    one, both = a_pod("one", {"aliyun.com/gpu-mem": "8"}), a_pod("both", {"aliyun.com/gpu-mem": "8"})
    one["spec"]["nodeSelector"] = {"nvidia.com/gpu.product": "A100"}
    instance = imported(tmp_path, nodes, [one, both])
    assert asks(instance) == {"ml/one": 100}
    assert instance.jobs[0].gpu_model == "A100"
    assert "ml/both (asks for another part" in said(instance)


# Run:ai and KAI


def fraction(name: str, part: str, on: str | None = None, **more: str) -> dict[str, Any]:
    return a_pod(name, {}, on, annotations={"gpu-fraction": part, **more})


# MIG


def mig_node(name: str, product: str = A100, gpus: int = 0, count: int = 0, **mig: int) -> dict[str, Any]:
    """Return a node with partitions, such as ``g1__5=7``."""
    listed = {
        f"nvidia.com/mig-{key[1:].replace('_', 'g.', 1).replace('_', '')}gb": str(n) for key, n in mig.items()
    }
    labels = {"gpu__product": product, "mig__strategy": "mixed", "mig__config": "all-balanced"}
    labels |= {"gpu__count": str(count)} if count else {}
    return a_node(name, {"nvidia.com/gpu": str(gpus), **listed}, **labels)


def test_partitions_of_no_known_geometry(tmp_path: Path) -> None:
    """Then all partitions are kept as resources, and the nodes named; shares are of devices all the same."""
    nodes = [mig_node("n1", "NVIDIA-H200", g1__18=7), mig_node("n2", count=1, g1__5=7)]
    pods = [a_pod("a", {"nvidia.com/mig-1g.5gb": "1"}), a_pod("b", {"nvidia.com/mig-1g.18gb": "1"})]
    instance = imported(tmp_path, nodes, pods)
    assert not instance.has_devices
    assert instance.servers[0].capacity["nvidia.com/mig-1g.18gb"] == 7
    assert "Partitions are not planned anew" in said(instance)
    assert "n1 (has 1g.18gb of NVIDIA-H200)" in said(instance)
    shared = imported(
        tmp_path, [*nodes, a_node("n3", {"nvidia.com/gpu": "2"})], [*pods, fraction("c", "0.5")]
    )
    assert asks(shared)["ml/c"] == 500
    assert devices(shared) == {"n1": None, "n2": None, "n3": {"count": 2}}


def test_a_profile_that_no_node_has(tmp_path: Path) -> None:
    """The pod that asks for it is left out; a node that is not ready is none."""
    pods = [a_pod("a", {"nvidia.com/mig-1g.5gb": "1"}), a_pod("b", {"nvidia.com/mig-1g.18gb": "1"})]
    sick = mig_node("n1", count=1, g2__10=3)
    sick["status"]["conditions"] = [{"type": "Ready", "status": "Unknown"}]
    pods.append(a_pod("c", {"nvidia.com/mig-7g.80gb": "1"}, "n1"))
    instance = imported(tmp_path, [mig_node("n2", count=1, g1__5=7), sick], pods)
    assert asks(instance) == {"ml/a": "1g.5gb"}
    assert "ml/b (asks for a partition 1g.18gb, which the devices of no node have)" in said(instance)


# What is as it was


def test_time_slicing_is_said(tmp_path: Path) -> None:
    """Turns on a device stay amounts; the pods there are named."""
    nodes = [a_node("n1", {"nvidia.com/gpu": "8"}, gpu__count="2", gpu__replicas="4")]
    instance = imported(tmp_path, nodes, [a_pod("a", {"nvidia.com/gpu": "1"}, "n1")])
    assert not instance.has_devices
    assert instance.servers[0].capacity["gpu"] == 8
    assert "1 node offers turns on devices as GPUs (time-slicing)" in said(instance)
    assert "n1; on it are ml/a." in said(instance)


def test_nothing_is_left(tmp_path: Path) -> None:
    """Where all pods are left out, the error says why."""
    with pytest.raises(InstanceError, match=r"has no pod to plan.*ml/a \(asks for a GPU, of which no node"):
        imported(tmp_path, [a_node("n1", {})], [fraction("a", "0.5")])


def test_devices_that_annotations_name(tmp_path: Path) -> None:
    """Planned pods have them now, those of others are taken."""

    def on(name: str, index: int, amount: str, namespace: str = "ml") -> dict[str, Any]:
        listed = a_pod(
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
    half = Pod.model_validate(a_pod("half", {}, on="n", annotations={"gpu-fraction": "0.5"}))
    whole = Pod.model_validate(a_pod("whole", {"nvidia.com/gpu": "1"}, on="n"))
    assert [asks_for_part(each, keep_partitions=False) for each in (whole, half)] == [False, True]
    there = Node.model_validate(a_node("n", {"nvidia.com/gpu": "2"}))
    devices = device_inventory([there], [half, whole], keep_partitions=False)
    here = frozenset("n")
    asks = [devices.demand(each, here, here) for each in devices.tasks.values()]
    assert [ask and ask.thousandths for ask in asks] == [500, 1000]
    assert asks[0] is not None
    assert devices.worth(asks[0]) == 0.5
