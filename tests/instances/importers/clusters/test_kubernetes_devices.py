"""What single pods ask for of GPUs, and what single nodes have."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from clusterplan.instances.consolidation.devices import DeviceDemand
from clusterplan.instances.importers.clusters.device_sharing import GpuRequest, Gpus, UnclearDemandError
from clusterplan.instances.importers.clusters.kubernetes_devices import (
    FRACTION,
    asks_for_part,
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
