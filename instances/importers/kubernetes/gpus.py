"""GPUs as devices: what pods ask for by the schemes that share or partition GPUs, and what nodes have.

A part of one device is asked for in these ways, as the documentation of each says:

* HAMi, and the vGPU plug-in of Volcano: percent of the memory and of the cores, or memory in MiB, of each of
  so many devices; without memory all of it. Nodes list their devices in an annotation.
* The GPU share scheduler of Alibaba, and the older one of Volcano: memory of one device; nodes have as much
  of it as all their devices, and the number of these.
* KAI and Run:ai: an annotation with the fraction. Pods of their own hold the devices that are shared.
* MIG, strategy mixed: one resource for each profile.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import NamedTuple

from ...consolidation.devices import WHOLE, Ask
from ..device_parts import Gpus, Unclear, check_count, fewest_devices, geometry_of
from .objects import Node, Pod, Requests

GPU = "nvidia.com/gpu"
PRODUCT = "nvidia.com/gpu.product"
MIG = re.compile(r"nvidia\.com/mig-(.+)")
FRACTION, FRACTION_MEMORY, FRACTION_DEVICES = "gpu-fraction", "gpu-memory", "gpu-fraction-num-devices"
"""Annotations of pods by KAI and Run:ai."""
RESERVATIONS = ("runai-reservation", "kai-resource-reservation")
"""Namespaces of the pods that hold devices for others which share them."""
PERCENT = 100


class _Virtual(NamedTuple):
    """Resources of a scheme with virtual GPUs; annotations in which nodes list devices, and pods theirs."""

    number: str
    memory: str
    percent: str
    cores: str
    register: str
    allocated: str

    def asked(self, requests: Requests) -> Requests:
        """Return what is asked for of the scheme."""
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
MEMORY_OF_ONE = {
    "aliyun.com/gpu-mem": ("aliyun.com/gpu-count", "ALIYUN_COM_GPU_MEM_IDX"),
    "volcano.sh/gpu-memory": ("volcano.sh/gpu-number", "volcano.sh/gpu-index"),
}
"""Memory of one device → the resource of nodes that counts these, and the annotation with a pod's device."""
OTHER_SCHEMES = re.compile(r"tencent\.com/vcuda-.+|elasticgpu\.io/.+|alibabacloud\.com/gpu-.+")
"""Parts of GPUs of which it is not clear that they are of one device; they are planned as amounts."""
_PARTS = {*MEMORY_OF_ONE, *(name for scheme in VIRTUAL for name in scheme[1:4])}
_CONSUMED = {
    *_PARTS,
    *(counts for counts, _ in MEMORY_OF_ONE.values()),
    *(scheme.number for scheme in VIRTUAL),
}


class Wish(NamedTuple):
    """What a pod asks for of GPUs.

    Attributes
    ----------
    through
        The resource by which nodes offer it.
    ask
        What it is, but for memory.
    memory, cores
        Amount of the memory of one device in the unit of the scheme, and thousandths of its cores.
    """

    through: str
    ask: Ask = Ask()
    memory: int = 0
    cores: int = 0


def is_device(resource: str, keep_partitions: bool) -> bool:
    """Return whether a resource is one of GPUs that are planned as devices."""
    return resource in _CONSUMED or (not keep_partitions and MIG.fullmatch(resource) is not None)


def asks_for_part(pod: Pod, keep_partitions: bool) -> bool:
    """Return whether a pod asks for a share or a partition of a GPU."""
    if {FRACTION, FRACTION_MEMORY} & (pod.metadata.annotations or {}).keys():
        return True
    return any(
        amount and (name in _PARTS or (not keep_partitions and MIG.fullmatch(name)))
        for name, amount in pod.requests.items()
    )


def reserves(pod: Pod) -> bool:
    """Return whether a pod only holds a device for those that share it."""
    return pod.metadata.namespace in RESERVATIONS


def wish_of(pod: Pod, keep_partitions: bool) -> Wish | None:
    """Return what a pod asks for of GPUs; None if it asks for none.

    Raises
    ------
    Unclear
        If this is not whole devices, one share, or one partition.
    """
    requests = pod.requests
    wishes = [
        _of_fraction(pod.metadata.annotations or {}),
        *(_of_virtual(pod, requests, scheme) for scheme in VIRTUAL),
        *(_of_memory(requests, memory) for memory in MEMORY_OF_ONE),
        *([] if keep_partitions else _of_partitions(requests)),
    ]
    found = [wish for wish in wishes if wish is not None]
    if len(found) > 1:
        raise Unclear("asks for GPUs in several ways at once")
    return found[0] if found else None


def _whole(amount: Fraction, what: str) -> int:
    if amount.denominator != 1:
        raise Unclear(f"asks for {float(amount):g} {what}, which is not a whole number")
    return int(amount)


def _of_fraction(annotations: Mapping[str, str]) -> Wish | None:
    if FRACTION_MEMORY in annotations:
        raise Unclear(f"asks by {FRACTION_MEMORY}, which its scheduler rounds to a part of each device")
    if FRACTION not in annotations:
        return None
    if annotations.get(FRACTION_DEVICES, "1") != "1":
        raise Unclear(f"asks for parts of {annotations[FRACTION_DEVICES]} devices")
    text = annotations[FRACTION].strip()
    if not re.fullmatch(r"[01]|[01]?\.[0-9]{1,20}|1\.0*", text) or not 0 < Fraction(text) <= 1:
        raise Unclear(f"has the {FRACTION} {text!r}, which is not a number above 0 and up to 1")
    return Wish(GPU, _part(-(-Fraction(text) * WHOLE // 1)))


def _part(share: int) -> Ask:
    return Ask(share=int(share)) if share < WHOLE else Ask(whole=1)


def _of_virtual(pod: Pod, requests: Requests, scheme: _Virtual) -> Wish | None:
    """Return what a pod asks for by virtual GPUs; of memory and cores the larger part counts."""
    asked = scheme.asked(requests)
    if not asked:
        return None
    if asked.keys() == {scheme.number}:
        return Wish(scheme.number, Ask(whole=_whole(asked[scheme.number], "GPUs")))
    containers = [*pod.spec.containers, *(pod.spec.initContainers or ())]
    if sum(bool(scheme.asked(container.amounts())) for container in containers) > 1:
        raise Unclear("asks for parts of GPUs in several containers")
    devices = _whole(asked.get(scheme.number, Fraction(1)), "GPUs")
    memory, percent, cores = (asked.get(name, Fraction()) for name in scheme[1:4])
    if memory and percent:
        raise Unclear("asks for memory in two ways")
    if max(percent, cores) > PERCENT:
        raise Unclear(f"asks for more than {PERCENT} % of a device")
    if cores == PERCENT or not (memory or percent) or percent == PERCENT:
        return Wish(scheme.number, Ask(whole=devices))
    if devices != 1:
        raise Unclear(f"asks for parts of {devices} devices")
    if memory:
        return Wish(scheme.memory, memory=_whole(memory, "MiB of a GPU"), cores=int(-(-cores * 10 // 1)))
    return Wish(scheme.number, _part(-(-max(percent, cores) * 10 // 1)))


def _of_memory(requests: Requests, memory: str) -> Wish | None:
    amount = _whole(requests.get(memory, Fraction()), memory)
    return Wish(memory, memory=amount) if amount else None


def _of_partitions(requests: Requests) -> Iterable[Wish]:
    for name, amount in requests.items():
        match = MIG.fullmatch(name)
        if match and amount:
            if amount != 1:
                raise Unclear(f"asks for {float(amount):g} partitions {match[1]}; a task has one")
            yield Wish(name, Ask(profile=match[1]))


def gpus_of(node: Node, keep_partitions: bool) -> Gpus:
    """Return the devices of a node.

    Raises
    ------
    Unclear
        If it does not say how many there are, or how they are partitioned.
    """
    there = {name: int(amount) for name, amount in node.status.allocatable.items()}
    count, sizes, names = _by_schemes(node, there)
    partitions = {} if keep_partitions else partitions_of(node)
    parted = partitions or (not keep_partitions and node.labels.get("nvidia.com/mig.strategy") == "mixed")
    geometry = geometry_of(node.labels.get(PRODUCT, ""), partitions.keys()) if parted else None
    if partitions and geometry is None:
        raise Unclear(unknown_partitions(node))
    listed, whole = _label(node, "nvidia.com/gpu.count"), there.get(GPU, 0)
    if geometry is not None:
        count = count or max(listed, whole + fewest_devices(geometry, partitions))
    elif not count:
        # Virtual GPUs are more than the devices of the node; turns on devices are counted as they are.
        count = whole if is_time_sliced(node) else min(whole, listed or whole)
    check_count(count)
    memory = _label(node, "nvidia.com/gpu.memory")
    return Gpus(count, geometry, ({HAMI.memory: memory} if memory else {}) | sizes, tuple(names))


def partitions_of(node: Node) -> dict[str, int]:
    """Return how many partitions of each profile a node has."""
    found = {MIG.fullmatch(name): int(amount) for name, amount in node.status.allocatable.items()}
    return {match[1]: amount for match, amount in found.items() if match is not None and amount}


def unknown_partitions(node: Node) -> str:
    """Say which partitions a node has whose geometry is not known; nothing where it is."""
    partitions, product = partitions_of(node), node.labels.get(PRODUCT, "")
    if not partitions or geometry_of(product, partitions.keys()) is not None:
        return ""
    return f"has {', '.join(partitions)} of {product or 'an unnamed GPU'}"


def _by_schemes(node: Node, there: Mapping[str, int]) -> tuple[int, dict[str, int], list[str]]:
    """Return how many devices the sharing schemes list, what one has in the unit of each, and their names."""
    count, sizes, names = 0, dict[str, int](), list[str]()
    for scheme in VIRTUAL:
        text = (node.metadata.annotations or {}).get(scheme.register)
        if text:
            listed = _registered(text, scheme.register)
            memory = {amount for _, amount in listed}
            count += len(listed)
            names += [name for name, _ in listed]
            sizes |= {scheme.memory: memory.pop()} if len(memory) == 1 else {}
        elif scheme is not HAMI and there.get(scheme.number):
            raise Unclear(f"has {scheme.number}, but no annotation {scheme.register} that lists its devices")
    for unit, (counts, _) in MEMORY_OF_ONE.items():
        devices = there.get(counts, 0)
        count += devices
        # The schedulers divide so too.
        if devices and there.get(unit, 0) >= devices:
            sizes[unit] = there[unit] // devices
    return count, sizes, names


def is_time_sliced(node: Node) -> bool:
    """Return whether the GPUs that a node offers are turns on devices."""
    return _label(node, "nvidia.com/gpu.replicas") > 1


def _label(node: Node, name: str) -> int:
    text = node.labels.get(name, "")
    return int(text) if re.fullmatch(r"[0-9]{1,9}", text) else 0


def _registered(text: str, annotation: str) -> list[tuple[str, int]]:
    """Return name and memory of each healthy device that an annotation of virtual GPUs lists.

    Newer versions write JSON; older ones a colon after each device, and its fields between commas: id, number
    of virtual GPUs, memory, then others of which one says whether it is healthy.
    """
    try:
        if text.lstrip().startswith("["):
            healthy = [d for d in json.loads(text) if d.get("health", True) is not False]
            found = [(str(device.get("id", "")), int(device["devmem"])) for device in healthy]
        else:
            rows = [device.split(",") for device in text.split(":") if device.strip()]
            found = [(row[0], int(row[2])) for row in rows if "false" not in row[3:]]
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError):
        found = []
    if not found or min(memory for _, memory in found) < 1:
        raise Unclear(f"has an annotation {annotation} that lists no devices")
    return found


def offers(node: Node, gpus: Gpus, wish: Wish) -> bool:
    """Return whether a node may have what a pod asks for; one without GPUs need not be told apart."""
    if not gpus.count:
        return True
    if wish.ask.profile:
        return gpus.geometry is not None
    if wish.memory and wish.through not in gpus.sizes:
        return False
    through = {HAMI.memory: GPU, VOLCANO.memory: VOLCANO.number}.get(wish.through, wish.through)
    return bool(node.status.allocatable.get(through)) or (through == GPU and gpus.geometry is not None)


def devices_of(pod: Pod, wish: Wish, gpus: Gpus) -> tuple[int, ...]:
    """Return the devices of its node that a pod says it has; none if it does not, or they are not there."""
    annotations = pod.metadata.annotations or {}
    if wish.through in MEMORY_OF_ONE:
        text = annotations.get(MEMORY_OF_ONE[wish.through][1], "")
        found = [int(text)] if re.fullmatch(r"[0-9]{1,3}", text) and int(text) < gpus.count else []
    else:
        # A colon follows each device, and a semicolon each container; the first field is the name.
        listed = (part for s in VIRTUAL for part in re.split("[:;]", annotations.get(s.allocated, "")))
        names = [part.partition(",")[0] for part in listed if part.strip()]
        known = {name: index for index, name in enumerate(gpus.names)}
        found = [known[name] for name in names if name in known]
        found = found if len(found) == len(names) else []
    return tuple(found)


def parts_as_amounts(pods: Iterable[Pod]) -> dict[str, list[Pod]]:
    """Return the pods that hold or wait for parts of GPUs which are planned as amounts, by resource."""
    found: dict[str, list[Pod]] = {}
    for pod in pods:
        if pod.node is not None or pod.waits:
            for name, amount in pod.requests.items():
                if amount and OTHER_SCHEMES.fullmatch(name):
                    found.setdefault(name, []).append(pod)
    return found
