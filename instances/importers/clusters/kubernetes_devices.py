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
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple

from ...consolidation.devices import WHOLE, DeviceDemand
from ..node_restrictions import counted
from .device_sharing import (
    Gpus,
    Holding,
    UnclearDemandError,
    check_available,
    check_count,
    common_demand,
    device_assumptions,
    fewest_devices,
    geometry_of,
    known_devices_fit,
    list_with_reasons,
    taken,
    thousandths,
    worth,
)
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
OF_HAMI = (HAMI.memory, HAMI.percent)
"""Resources that HAMi places only on nodes that list devices, if any node does."""
MEMORY_OF_ONE = {
    "aliyun.com/gpu-mem": ("aliyun.com/gpu-count", "ALIYUN_COM_GPU_MEM_IDX"),
    "volcano.sh/gpu-memory": ("volcano.sh/gpu-number", "volcano.sh/gpu-index"),
}
"""Resource for memory of one device → resource that counts devices, and annotation with a pod's device."""
OTHER_SCHEMES = re.compile(r"tencent\.com/vcuda-.+|elasticgpu\.io/.+|alibabacloud\.com/gpu-.+")
"""Parts of GPUs that may belong to several devices; they are planned as amounts."""
_PARTS = {*MEMORY_OF_ONE, *(name for scheme in VIRTUAL for name in scheme[1:4])}
_CONSUMED = {
    *_PARTS,
    *(counts for counts, _ in MEMORY_OF_ONE.values()),
    *(scheme.number for scheme in VIRTUAL),
}


class GpuRequest(NamedTuple):
    """The GPU request of a pod, before memory is converted to a share of a device.

    Attributes
    ----------
    through
        The resource with which nodes offer it.
    ask
        The demand, unless it is given as memory.
    memory, cores
        Amount of the memory of one device in the unit of the scheme, and thousandths of its cores.
    """

    through: str
    ask: DeviceDemand = DeviceDemand()
    memory: int = 0
    cores: int = 0


def is_device(resource: str, keep_partitions: bool) -> bool:
    """Return whether a resource stands for GPUs that are planned as single devices."""
    return resource in _CONSUMED or (not keep_partitions and MIG.fullmatch(resource) is not None)


def asks_for_part(pod: Pod, keep_partitions: bool) -> bool:
    """Return whether a pod requests a share or a partition of a GPU."""
    if {FRACTION, FRACTION_MEMORY} & (pod.metadata.annotations or {}).keys():
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
        _of_fraction(pod.metadata.annotations or {}),
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
    containers = [*pod.spec.containers, *(pod.spec.initContainers or ())]
    if sum(bool(scheme.asked(container.amounts())) for container in containers) > 1:
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
    return Gpus(count, geometry, ({HAMI.memory: memory} if memory else {}) | sizes, tuple(names))


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
        text = (node.metadata.annotations or {}).get(scheme.register)
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


def may_satisfy(node: Node, gpus: Gpus, wish: GpuRequest) -> bool:
    """Return whether a node's GPU type and sizes permit a GPU request; true for a node without GPUs."""
    if not gpus.count:
        return True
    if wish.ask.profile:
        return gpus.geometry is not None
    if wish.memory and wish.through not in gpus.sizes:
        return False
    through = next((s.number for s in VIRTUAL if wish.through in (s.memory, s.percent)), wish.through)
    return bool(node.status.allocatable.get(through)) or (through == GPU and gpus.geometry is not None)


def devices_of(pod: Pod, wish: GpuRequest, gpus: Gpus) -> tuple[int, ...]:
    """Return the GPU indices that a pod's annotations name; empty if they name none or unknown ones."""
    annotations = pod.metadata.annotations or {}
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


class ClusterDevices:
    """The GPUs of all nodes as single devices, and the demands of pods for them.

    Parameters
    ----------
    nodes, pods
        All nodes and pods of the cluster.
    keep_partitions
        Whether partitions are resources, as they are now.

    Attributes
    ----------
    unclear
        Identity of a pod → why its demand is not clear.
    out
        Node → why the residual capacity of its devices is not clear.
    gpus
        Node → its devices, without the nodes in `out`.
    """

    def __init__(self, nodes: Sequence[Node], pods: Sequence[Pod], keep_partitions: bool) -> None:
        self.keep_partitions = keep_partitions
        self._nodes = {node.name: node for node in nodes}
        self._wishes: dict[int, GpuRequest] = {}
        self._asked: dict[tuple[GpuRequest, frozenset[str]], frozenset[DeviceDemand]] = {}
        self.unclear: dict[int, str] = {}
        self.gpus: dict[str, Gpus] = {}
        self.out: dict[str, str] = {}
        self._known: set[str] = set()
        self._there: set[str] = set()
        for pod in pods:
            try:
                wish = None if is_reservation(pod) else gpu_request_of(pod, keep_partitions)
            except UnclearDemandError as error:
                self.unclear[id(pod)] = str(error)
                continue
            if wish is not None:
                self._wishes[id(pod)] = wish
        for node in nodes:
            try:
                self.gpus[node.name] = gpus_of(node, keep_partitions)
            except UnclearDemandError as error:
                self.out[node.name] = str(error)
        self._leave_out(pods)

    @staticmethod
    def needed(pods: Iterable[Pod], keep_partitions: bool) -> bool:
        """Return whether any pod requests a share or a partition of a GPU."""
        return any(asks_for_part(pod, keep_partitions) for pod in pods)

    def _leave_out(self, pods: Sequence[Pod]) -> None:
        """Exclude the nodes whose GPUs cannot hold the demands of the pods that run there."""
        pods_on: dict[str, list[Pod]] = defaultdict(list)
        for pod in pods:
            if pod.node in self.gpus:
                pods_on[pod.node].append(pod)
        for name, pods_here in pods_on.items():
            try:
                holdings = self.held_on(name, pods_here)
                if taken(self.gpus[name], holdings, []) is None:
                    raise UnclearDemandError("has devices that do not hold what its pods ask for")
                if known_devices_fit(self.gpus[name], holdings):
                    self._known.add(name)
            except UnclearDemandError as error:
                self.out[name] = str(error)
        for name in self.out:
            self.gpus.pop(name, None)

    def is_device(self, resource: str) -> bool:
        """Return whether a resource stands for GPUs that are planned as devices."""
        return is_device(resource, self.keep_partitions)

    def held_on(self, node: str, pods: Iterable[Pod]) -> list[Holding]:
        """Return the devices that pods hold on a node, one entry for each pod that holds any.

        Raises
        ------
        Unclear
            If this is not clear for one of them.
        """
        holdings = []
        for pod in pods:
            wish = self._wish(pod)
            if wish is not None:
                ask = self._ask(wish, self.gpus[node])
                devices = devices_of(pod, wish, self.gpus[node])
                right = not ask.profile and len(set(devices)) == len(devices) == (ask.whole or 1)
                holdings.append(Holding(ask, devices if right else ()))
        return holdings

    def devices_of(self, pod: Pod) -> tuple[int, ...]:
        """Return the GPU indices that a pod holds on its node; empty if unknown or inconsistent."""
        if pod.node not in self._known or self.wish(pod) is None:
            return ()
        return self.held_on(pod.node, [pod])[0].devices

    def ask_of(self, pod: Pod, nodes: frozenset[str], planned: frozenset[str]) -> DeviceDemand | None:
        """Return a pod's demand for single devices, equal on all its nodes; None if it needs no GPU.

        Parameters
        ----------
        nodes
            The nodes that it may use.
        planned
            All nodes that accept pods.

        Raises
        ------
        Unclear
            If it is not clear, or no node has such devices.
        """
        wish = self._wish(pod)
        if wish is None:
            return None
        if wish.ask.profile not in self._there:
            check_available([self.gpus[name] for name in planned], wish.ask.profile)
            self._there.add(wish.ask.profile)
        if not wish.memory:
            return wish.ask
        # Thousands of pods have the same demand on the same nodes.
        if (wish, nodes) not in self._asked:
            self._asked[wish, nodes] = self._asks_on(wish, nodes)
        return common_demand(self._asked[wish, nodes] | self._asks_on(wish, [pod.node] if pod.node else []))

    def _asks_on(self, wish: GpuRequest, nodes: Iterable[str]) -> frozenset[DeviceDemand]:
        # In sorted order, because the first unclear node is the one that the error names.
        available = (self.gpus[name] for name in sorted(nodes) if name in self.gpus)
        return frozenset(self._ask(wish, gpus) for gpus in available if gpus.count)

    def wish(self, pod: Pod) -> GpuRequest | None:
        """Return the GPU request of a pod before conversion to devices; None without one, or if unclear."""
        return self._wishes.get(id(pod))

    def offering(self, wish: GpuRequest, nodes: frozenset[str]) -> frozenset[str]:
        """Return the names of those nodes whose GPUs may satisfy a GPU request."""
        listing = wish.through in OF_HAMI and any(gpus.names for gpus in self.gpus.values())
        return frozenset(
            name
            for name in nodes
            if name in self.gpus
            and may_satisfy(self._nodes[name], self.gpus[name], wish)
            and (self.gpus[name].names or not (listing and self.gpus[name].count))
        )

    def _wish(self, pod: Pod) -> GpuRequest | None:
        if id(pod) in self.unclear:
            raise UnclearDemandError(f"holds a pod of which it is not clear what it has: {pod.metadata.name}")
        return self._wishes.get(id(pod))

    def _ask(self, wish: GpuRequest, gpus: Gpus) -> DeviceDemand:
        if not wish.memory:
            return wish.ask
        size = gpus.sizes.get(wish.through)
        if size is None:
            raise UnclearDemandError(
                f"asks by {wish.through}, of which a node does not say what each device has"
            )
        if wish.memory > size:
            raise UnclearDemandError(f"asks for {wish.memory} of {wish.through}; a device has {size}")
        share = WHOLE if wish.memory == size else self._shares[wish.through, size][wish.memory]
        share = max(share, wish.cores)
        return DeviceDemand(share=share) if share < WHOLE else DeviceDemand(whole=1)

    @cached_property
    def _shares(self) -> dict[tuple[str, int], dict[int, int]]:
        """(memory unit, memory of a GPU) → requested memory → its thousandths of the GPU."""
        parts: dict[str, set[int]] = defaultdict(set)
        for wish in self._wishes.values():
            if wish.memory:
                parts[wish.through].add(wish.memory)
        sizes = {(unit, size) for gpus in self.gpus.values() for unit, size in gpus.sizes.items()}
        return {
            (unit, size): thousandths([part for part in parts[unit] if part < size], size)
            for unit, size in sizes
        }

    @cached_property
    def geometries(self) -> set[str]:
        """The names of the partition geometries (MIG) of all GPUs."""
        return {gpus.geometry for gpus in self.gpus.values() if gpus.geometry}

    def worth(self, ask: DeviceDemand) -> Fraction:
        """Return a device demand as a number of GPUs; a partition counts as a fraction."""
        return Fraction(worth(ask, self.geometries))

    def document(self, node: str, others: Iterable[Pod], planned: Iterable[Pod]) -> dict[str, Any]:
        """Return the field `devices` of a server, for the GPUs of a node."""
        devices = self.gpus[node].document(self.held_on(node, others), self.held_on(node, planned))
        return {} if devices is None else {"devices": devices}

    def sentences(self, asks: Iterable[DeviceDemand]) -> Iterator[str]:
        """Yield the assumptions on devices for the demands of the planned pods."""
        exact = all(
            WHOLE * part == share * size
            for (_, size), shares in self._shares.items()
            for part, share in shares.items()
        )
        yield from device_assumptions("pod", not exact, any(ask.profile for ask in asks))
        if any(wish.cores or (wish.ask.share and not wish.memory) for wish in self._wishes.values()):
            yield "A share is the part of the memory, or of the cores where a pod asks for more of these."

    def left_out(self, unclear: Mapping[str, str]) -> Iterator[str]:
        """Yield notes on the nodes and pods that are left out because of their GPUs."""
        if unclear:
            are = counted(len(unclear), "pod is", "pods are")
            yield (
                f"{are} left out with the others of their jobs for what they ask for of GPUs, and stay where "
                f"they run: {list_with_reasons(unclear)}."
            )
        if self.out:
            nodes = counted(len(self.out), "node counts", "nodes count")
            yield f"{nodes} as cordoned for the GPUs: {list_with_reasons(self.out)}."
