"""GPUs of Kubernetes as single devices: devices of nodes, and demands of pods by schemes of sharing.

A part of one device is demanded in these ways, according to the documentation of each scheme:

* HAMi, and the vGPU plug-in of Volcano: percent of the memory and of the cores, or memory in MiB, of each
  of so many devices; without memory all of it. Nodes list their devices in an annotation.
* The GPU share scheduler of Alibaba, and the older one of Volcano: memory of one device; nodes have as
  much of it as all their devices, and the number of these.
* KAI and Run:ai: an annotation with the fraction. Reservation pods hold the shared devices.
* MIG, strategy mixed: one resource for each profile.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import NamedTuple

from ...consolidation.devices import WHOLE, DeviceDemand
from .device_inventory import DeviceInventory, TaskSet, gpus_of_nodes
from .device_sharing import GpuRequest, Gpus, UnclearDemandError, check_count, fewest_devices, geometry_of
from .kubernetes_objects import Node, Pod, Requests

GPU = "nvidia.com/gpu"
PRODUCT = "nvidia.com/gpu.product"
MIG = re.compile(r"nvidia\.com/mig-(.+)")
FRACTION, FRACTION_MEMORY, FRACTION_DEVICES = "gpu-fraction", "gpu-memory", "gpu-fraction-num-devices"
"""Pod annotations of KAI and Run:ai."""
RESERVATIONS = ("runai-reservation", "kai-resource-reservation")
"""Namespaces of the pods that reserve devices for the pods which share them."""
PERCENT = 100


class _Virtual(NamedTuple):
    """Names of the resources and annotations of a scheduler extension for virtual GPUs."""

    number: str
    memory: str
    percent: str
    cores: str
    register: str
    allocated: str

    def asked(self, requests: Requests) -> Requests:
        """Return those of a pod's requests that this scheduler extension for virtual GPUs defines."""
        return {name: requests[name] for name in self[:4] if requests.get(name)}


HAMI = _Virtual(
    GPU,
    "nvidia.com/gpumem",
    "nvidia.com/gpumem-percentage",
    "nvidia.com/gpucores",
    "hami.io/node-nvidia-register",
    "hami.io/vgpu-devices-allocated",
)
VOLCANO = _Virtual(
    "volcano.sh/vgpu-number",
    "volcano.sh/vgpu-memory",
    "volcano.sh/vgpu-memory-percentage",
    "volcano.sh/vgpu-cores",
    "volcano.sh/node-vgpu-register",
    "volcano.sh/vgpu-ids-new",
)
VIRTUAL = (HAMI, VOLCANO)
OF_HAMI = frozenset((HAMI.memory, HAMI.percent))
"""Resources that HAMi places only on nodes that list devices, if any node does."""
MEMORY_OF_ONE = {
    "aliyun.com/gpu-mem": ("aliyun.com/gpu-count", "ALIYUN_COM_GPU_MEM_IDX"),
    "volcano.sh/gpu-memory": ("volcano.sh/gpu-number", "volcano.sh/gpu-index"),
}
"""Resource for memory of one device → resource that counts devices, and annotation with a pod's device."""
OTHER_SCHEMES = re.compile(r"tencent\.com/vcuda-.+|elasticgpu\.io/.+|alibabacloud\.com/gpu-.+")
"""Parts of GPUs that may belong to several devices; they are planned as amounts."""
_PARTS_OF_VIRTUAL = {name for scheme in VIRTUAL for name in scheme[1:4]}
_PARTS = {*MEMORY_OF_ONE, *_PARTS_OF_VIRTUAL}
_CONSUMED = {
    *_PARTS,
    *(counts for counts, _ in MEMORY_OF_ONE.values()),
    *(scheme.number for scheme in VIRTUAL),
}


def is_device(resource: str, keep_partitions: bool) -> bool:
    """Return whether a resource stands for GPUs that are planned as single devices."""
    return resource in _CONSUMED or (not keep_partitions and MIG.fullmatch(resource) is not None)


def asks_for_part(pod: Pod, keep_partitions: bool) -> bool:
    """Return whether a pod requests a share or a partition of a GPU."""
    if {FRACTION, FRACTION_MEMORY} & pod.metadata.annotations.keys():
        return True
    return any(
        amount and (name in _PARTS or (not keep_partitions and MIG.fullmatch(name)))
        for name, amount in pod.requests.items()
    )


def is_reservation(pod: Pod) -> bool:
    """Return whether a pod only reserves a device for the pods that share it."""
    return pod.metadata.namespace in RESERVATIONS


def gpu_request_of(pod: Pod, keep_partitions: bool) -> GpuRequest | None:
    """Return the GPU request of a pod; None if it has none.

    Raises
    ------
    Unclear
        If this is neither whole devices, nor one share, nor one partition.
    """
    requests = pod.requests
    wishes = [
        _of_fraction(pod.metadata.annotations),
        *(_of_virtual(pod, requests, scheme) for scheme in VIRTUAL),
        *(_of_memory(requests, memory) for memory in MEMORY_OF_ONE),
        *([] if keep_partitions else _of_partitions(requests)),
    ]
    requested = [wish for wish in wishes if wish is not None]
    if len(requested) > 1:
        raise UnclearDemandError("asks for GPUs in several ways at once")
    return requested[0] if requested else None


def _whole(amount: Fraction, what: str) -> int:
    if amount.denominator != 1:
        raise UnclearDemandError(f"asks for {float(amount):g} {what}, which is not a whole number")
    return int(amount)


def _of_fraction(annotations: Mapping[str, str]) -> GpuRequest | None:
    if FRACTION_MEMORY in annotations:
        raise UnclearDemandError(
            f"asks by {FRACTION_MEMORY}, which its scheduler rounds to a part of each device"
        )
    if FRACTION not in annotations:
        return None
    if annotations.get(FRACTION_DEVICES, "1") != "1":
        raise UnclearDemandError(f"asks for parts of {annotations[FRACTION_DEVICES]} devices")
    text = annotations[FRACTION].strip()
    if not re.fullmatch(r"[01]|[01]?\.[0-9]{1,20}|1\.0*", text) or not 0 < Fraction(text) <= 1:
        raise UnclearDemandError(f"has the {FRACTION} {text!r}, which is not a number above 0 and up to 1")
    return GpuRequest(GPU, _part(-(-Fraction(text) * WHOLE // 1)))


def _part(share: int) -> DeviceDemand:
    return DeviceDemand(share=int(share)) if share < WHOLE else DeviceDemand(whole=1)


def _of_virtual(pod: Pod, requests: Requests, scheme: _Virtual) -> GpuRequest | None:
    """Return a pod's request for virtual GPUs; the larger fraction of memory and cores counts."""
    asked = scheme.asked(requests)
    if not asked:
        return None
    if asked.keys() == {scheme.number}:
        return GpuRequest(scheme.number, DeviceDemand(whole=_whole(asked[scheme.number], "GPUs")))
    containers = [*pod.spec.containers, *pod.spec.initContainers]
    if sum(bool(scheme.asked(container.resources.amounts())) for container in containers) > 1:
        raise UnclearDemandError("asks for parts of GPUs in several containers")
    devices = _whole(asked.get(scheme.number, Fraction(1)), "GPUs")
    memory, percent, cores = (asked.get(name, Fraction()) for name in scheme[1:4])
    if memory and percent:
        raise UnclearDemandError("asks for memory in two ways")
    if max(percent, cores) > PERCENT:
        raise UnclearDemandError(f"asks for more than {PERCENT} % of a device")
    if cores == PERCENT or not (memory or percent) or percent == PERCENT:
        return GpuRequest(scheme.number, DeviceDemand(whole=devices))
    if devices != 1:
        raise UnclearDemandError(f"asks for parts of {devices} devices")
    if memory:
        return GpuRequest(
            scheme.memory, memory=_whole(memory, "MiB of a GPU"), cores=int(-(-cores * 10 // 1))
        )
    return GpuRequest(scheme.percent, _part(-(-max(percent, cores) * 10 // 1)))


def _of_memory(requests: Requests, memory: str) -> GpuRequest | None:
    amount = _whole(requests.get(memory, Fraction()), memory)
    return GpuRequest(memory, memory=amount) if amount else None


def _of_partitions(requests: Requests) -> Iterable[GpuRequest]:
    for name, amount in requests.items():
        match = MIG.fullmatch(name)
        if match and amount:
            if amount != 1:
                raise UnclearDemandError(f"asks for {float(amount):g} partitions {match[1]}; a task has one")
            yield GpuRequest(name, DeviceDemand(profile=match[1]))


def gpus_of(node: Node, keep_partitions: bool) -> Gpus:
    """Return the GPUs of a node, with their geometry and sizes.

    Raises
    ------
    Unclear
        If their number or geometry is unknown.
    """
    allocatable = {name: int(amount) for name, amount in node.status.allocatable.items()}
    count, sizes, names = _by_schemes(node, allocatable)
    partitions = {} if keep_partitions else partitions_of(node)
    parted = partitions or (not keep_partitions and node.labels.get("nvidia.com/mig.strategy") == "mixed")
    geometry = geometry_of(node.labels.get(PRODUCT, ""), partitions.keys()) if parted else None
    if partitions and geometry is None:
        raise UnclearDemandError(unknown_partitions(node))
    listed, whole = _label(node, "nvidia.com/gpu.count"), allocatable.get(GPU, 0)
    if geometry is not None:
        count = count or max(listed, whole + fewest_devices(geometry, partitions))
    elif not count:
        # There are more virtual GPUs than devices; time slices of devices are counted as they are.
        count = whole if is_time_sliced(node) else min(whole, listed or whole)
    check_count(count)
    memory = _label(node, "nvidia.com/gpu.memory")
    sizes = ({HAMI.memory: memory} if memory else {}) | sizes
    return Gpus(count, geometry, sizes, tuple(names), _offers(allocatable, geometry))


def _offers(allocatable: Mapping[str, int], geometry: str | None) -> frozenset[str]:
    """Return the resources by which pods get devices of a node, or parts of them."""
    offered = {name for name, amount in allocatable.items() if amount} - _PARTS_OF_VIRTUAL
    offered |= {GPU} if geometry is not None else set()
    parts = {part for s in VIRTUAL if s.number in offered for part in (s.memory, s.percent)}
    return frozenset(offered | parts)


def partitions_of(node: Node) -> dict[str, int]:
    """Return the number of partitions of each profile on a node."""
    profiles = {MIG.fullmatch(name): int(amount) for name, amount in node.status.allocatable.items()}
    return {match[1]: amount for match, amount in profiles.items() if match is not None and amount}


def unknown_partitions(node: Node) -> str:
    """Return a text with the partitions of a node whose geometry is unknown; empty if it is known."""
    partitions, product = partitions_of(node), node.labels.get(PRODUCT, "")
    if not partitions or geometry_of(product, partitions.keys()) is not None:
        return ""
    return f"has {', '.join(partitions)} of {product or 'an unnamed GPU'}"


def _by_schemes(node: Node, allocatable: Mapping[str, int]) -> tuple[int, dict[str, int], list[str]]:
    """Return number of GPUs, memory of one by unit, and names, as extensions for sharing list them."""
    count, sizes, names = 0, dict[str, int](), list[str]()
    for scheme in VIRTUAL:
        text = node.metadata.annotations.get(scheme.register)
        if text:
            listed = _registered(text, scheme.register)
            memory = {amount for _, amount in listed}
            count += len(listed)
            names += [name for name, _ in listed]
            sizes |= {scheme.memory: memory.pop()} if len(memory) == 1 else {}
        elif scheme is not HAMI and allocatable.get(scheme.number):
            raise UnclearDemandError(
                f"has {scheme.number}, but no annotation {scheme.register} that lists its devices"
            )
    for unit, (counts, _) in MEMORY_OF_ONE.items():
        devices = allocatable.get(counts, 0)
        count += devices
        # As the schedulers do.
        if devices and allocatable.get(unit, 0) >= devices:
            sizes[unit] = allocatable[unit] // devices
    return count, sizes, names


def is_time_sliced(node: Node) -> bool:
    """Return whether the GPUs that a node offers are time slices of devices."""
    return _label(node, "nvidia.com/gpu.replicas") > 1


def _label(node: Node, name: str) -> int:
    text = node.labels.get(name, "")
    return int(text) if re.fullmatch(r"[0-9]{1,9}", text) else 0


def _registered(text: str, annotation: str) -> list[tuple[str, int]]:
    """Return name and memory of each healthy GPU in the annotation of an extension for virtual GPUs.

    Newer versions write JSON; older ones a colon after each device, and its fields between commas: id, number
    of virtual GPUs, memory, then others, one of which is its health.
    """
    try:
        if text.lstrip().startswith("["):
            healthy = [d for d in json.loads(text) if d.get("health", True) is not False]
            devices = [(str(device.get("id", "")), int(device["devmem"])) for device in healthy]
        else:
            rows = [device.split(",") for device in text.split(":") if device.strip()]
            devices = [(row[0], int(row[2])) for row in rows if "false" not in row[3:]]
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError):
        devices = []
    if not devices or min(memory for _, memory in devices) < 1:
        raise UnclearDemandError(f"has an annotation {annotation} that lists no devices")
    return devices


def devices_of(pod: Pod, wish: GpuRequest, gpus: Gpus) -> tuple[int, ...]:
    """Return the GPU indices that a pod's annotations name; empty if they name none or unknown ones."""
    annotations = pod.metadata.annotations
    if wish.through in MEMORY_OF_ONE:
        text = annotations.get(MEMORY_OF_ONE[wish.through][1], "")
        indices = [int(text)] if re.fullmatch(r"[0-9]{1,3}", text) and int(text) < gpus.count else []
    else:
        # A colon follows each device, and a semicolon each container; the first field is the name.
        listed = (part for s in VIRTUAL for part in re.split("[:;]", annotations.get(s.allocated, "")))
        names = [part.partition(",")[0] for part in listed if part.strip()]
        known = {name: index for index, name in enumerate(gpus.names)}
        indices = [known[name] for name in names if name in known]
        indices = indices if len(indices) == len(names) else []
    return tuple(indices)


def parts_as_amounts(pods: Iterable[Pod]) -> dict[str, list[Pod]]:
    """Return the pods that hold or wait for fractions of GPUs planned as plain amounts, by resource."""
    by_resource: dict[str, list[Pod]] = {}
    for pod in pods:
        if pod.node is not None or pod.waits:
            for name, amount in pod.requests.items():
                if amount and OTHER_SCHEMES.fullmatch(name):
                    by_resource.setdefault(name, []).append(pod)
    return by_resource


def device_inventory(nodes: Sequence[Node], pods: Sequence[Pod], keep_partitions: bool) -> DeviceInventory:
    """Return the GPUs of all nodes as single devices, and the pods as their holders.

    Parameters
    ----------
    keep_partitions
        Whether partitions are resources, as they are now.
    """
    gpus, out = gpus_of_nodes(nodes, lambda node: gpus_of(node, keep_partitions))
    if any(devices.names for devices in gpus.values()):
        # HAMi places only on nodes that list their devices.
        gpus = {
            name: devices if devices.names else replace(devices, offers=(devices.offers or OF_HAMI) - OF_HAMI)
            for name, devices in gpus.items()
        }
    tasks = {id(pod): _tasks_of(pod, gpus, keep_partitions) for pod in pods}
    return DeviceInventory(gpus, out, tasks, "pod", _lacking)


def _tasks_of(pod: Pod, gpus: Mapping[str, Gpus], keep_partitions: bool) -> TaskSet:
    """Return a pod as a holder of devices."""
    current = {} if pod.node is None else {pod.node: 1}
    try:
        request = None if is_reservation(pod) else gpu_request_of(pod, keep_partitions)
    except UnclearDemandError as error:
        return TaskSet(pod.name, None, current, unclear=str(error))
    held_on = () if request is None else gpus.keys() & current
    places = {name: devices_of(pod, request, gpus[name]) for name in held_on if request is not None}
    return TaskSet(pod.name, request, current, places)


def _lacking(request: GpuRequest, size: int | None) -> str:
    if size is None:
        return f"asks by {request.through}, of which a node does not say what each device has"
    return f"asks for {request.memory} of {request.through}; a device has {size}"
