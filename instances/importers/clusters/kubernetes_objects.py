"""Data model of Kubernetes nodes and pods, with their field names, and the options of the importer.

Objects of the core API, version v1, as ``kubectl get … -o json`` prints them; fields that are not named
here are not used.

The defaults of the options give the labels and resources that count as GPUs.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import BeforeValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from ...common.fields import (
    LARGEST,
    NONE_NAMED,
    Fields,
    Flag,
    Given,
    Listed,
    Many,
    ManyNamed,
    Name,
    Part,
    refuse,
    unfit,
)
from ..importer import ImportOptions, Option
from .device_sharing import Mig
from .snapshot import Drained, Running, Spread, Value

ObjectT = TypeVar("ObjectT")
Requests = dict[str, Fraction]
"""Kubernetes resource → amount in its base unit: cores, bytes or pieces."""

_BINARY = {f"{letter}i": 1024**power for power, letter in enumerate("KMGTPE", 1)}
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_QUANTITY = re.compile(
    r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))(Ki|Mi|Gi|Ti|Pi|Ei|n|u|m|k|M|G|T|P|E|[eE][+-]?[0-9]{1,2})?"
)
ENDED = ("Succeeded", "Failed")
"""Phases of pods that have ended and hold no resources."""
_LONGEST = 60
_LARGEST = 2**63


def parse_quantity(text: str) -> Decimal:
    """Return the exact value of a quantity such as ``3920m``, ``16Gi``, ``1.5e3`` or ``8``, in base units.

    Raises
    ------
    ValueError
        If it is not a quantity, or larger than Kubernetes allows.
    """
    match = _QUANTITY.fullmatch(text) if len(text) <= _LONGEST else None
    if match is None:
        what = "is {given}, not a quantity; write a number with at most one suffix, such as 3920m or 16Gi"
        raise unfit(what, text)
    suffix = match[2] or ""
    with localcontext(prec=200):
        number = Decimal(match[1])
        if suffix in _BINARY:
            number *= _BINARY[suffix]
        else:
            number = number.scaleb(_DECIMAL[suffix] if suffix in _DECIMAL else int(suffix[1:]))
        if abs(number) >= _LARGEST:
            raise PydanticCustomError("quantity", "is too large; a quantity is below 2 to the power of 63")
    return number


def _as_quantity(value: Any) -> Any:
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = repr(value)
    if not isinstance(value, str):
        raise unfit("is {given}, not a quantity; write text such as '3920m' or '16Gi'", value)
    number = parse_quantity(value)
    if number < 0:
        raise unfit("is {given}, which is negative; at least 0 is needed", value)
    return number


Quantity = Annotated[Decimal, BeforeValidator(_as_quantity)]
_Labels = Given[ManyNamed[str, str]]
_ObjectName = Annotated[str, Field(max_length=253, pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")]


class _Resources(Part):
    requests: Given[ManyNamed[Name, Quantity]] = NONE_NAMED
    limits: Given[ManyNamed[Name, Quantity]] = NONE_NAMED

    @model_validator(mode="after")
    def _check(self) -> _Resources:
        refuse(
            (f"{field}.{name}", "is too large; at most 1e15 is planned")
            for field, amounts in (("requests", self.requests), ("limits", self.limits))
            for name, amount in amounts.items()
            if amount > LARGEST and not is_bytes(name)
        )
        return self

    def amounts(self) -> Requests:
        """Return the requested amounts; a resource with only a limit requests that much."""
        return {name: Fraction(amount) for name, amount in {**self.limits, **self.requests}.items()}


class _Port(Part):
    hostPort: int | None = None
    protocol: str | None = None


class _Container(Part):
    resources: Given[_Resources] = _Resources()
    restartPolicy: str | None = None
    ports: Listed[_Port] = ()


class Taint(Part):
    """What keeps pods off a node that do not tolerate it."""

    key: str
    value: str | None = None
    effect: str


class Toleration(Part):
    """What lets a pod onto a node with a taint."""

    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None


class Requirement(Part):
    """A condition on one label, or on one field, of a node."""

    key: str
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]
    values: Listed[str] = ()


class NodeSelectorTerm(Part):
    """Conditions that must all hold."""

    matchExpressions: Listed[Requirement] = ()
    matchFields: Listed[Requirement] = ()


class NodeSelector(Part):
    """Terms of which one must hold."""

    nodeSelectorTerms: Listed[NodeSelectorTerm] = ()


class _NodeAffinity(Part):
    requiredDuringSchedulingIgnoredDuringExecution: NodeSelector | None = None
    preferredDuringSchedulingIgnoredDuringExecution: Listed[Fields] = ()


class LabelSelector(Part):
    """Conditions on the labels of pods; without any it selects all."""

    matchLabels: _Labels = NONE_NAMED
    matchExpressions: Listed[Requirement] = ()


class PodAffinityTerm(Part):
    """Pods, and the label of nodes that says which nodes are near each other."""

    topologyKey: str
    labelSelector: LabelSelector | None = None
    namespaces: Listed[str] = ()
    namespaceSelector: LabelSelector | None = None
    matchLabelKeys: Listed[str] = ()
    mismatchLabelKeys: Listed[str] = ()


class _PodAffinity(Part):
    requiredDuringSchedulingIgnoredDuringExecution: Listed[PodAffinityTerm] = ()
    preferredDuringSchedulingIgnoredDuringExecution: Listed[Fields] = ()


class _Affinity(Part):
    nodeAffinity: Given[_NodeAffinity] = _NodeAffinity()
    podAffinity: Given[_PodAffinity] = _PodAffinity()
    podAntiAffinity: Given[_PodAffinity] = _PodAffinity()


class SpreadConstraint(Part):
    """How far the numbers of some pods may differ between the values of a label of nodes."""

    maxSkew: int = 1
    topologyKey: str = ""
    whenUnsatisfiable: str | None = None
    labelSelector: LabelSelector | None = None
    minDomains: int | None = None
    nodeAffinityPolicy: str | None = None
    matchLabelKeys: Listed[str] = ()


class _NodeMetadata(Part):
    name: _ObjectName
    labels: _Labels = NONE_NAMED
    annotations: _Labels = NONE_NAMED


class _NodeSpec(Part):
    unschedulable: Flag | None = None
    taints: Listed[Taint] = ()


class _Condition(Part):
    type: str
    status: str


class _NodeStatus(Part):
    allocatable: ManyNamed[Name, Quantity]
    conditions: Listed[_Condition] = ()


class Node(Part):
    """A node."""

    kind: Literal["Node"] = "Node"
    metadata: _NodeMetadata
    spec: _NodeSpec = _NodeSpec()
    status: _NodeStatus

    @property
    def name(self) -> str:
        """The node's name."""
        return self.metadata.name

    @property
    def labels(self) -> dict[str, str]:
        """The node's labels."""
        return self.metadata.labels

    @property
    def ready(self) -> bool:
        """Whether the node reports that it is ready, or has no such condition."""
        return all(c.status == "True" for c in self.status.conditions if c.type == "Ready")


class Owner(Part):
    """What manages a pod."""

    kind: str
    name: str
    apiVersion: str | None = None
    controller: Flag | None = None

    @property
    def group(self) -> str:
        """The API group of the owner; empty for the core group or if it is not given."""
        return (self.apiVersion or "").rpartition("/")[0]


class _PodMetadata(Part):
    name: _ObjectName
    namespace: _ObjectName = "default"
    labels: _Labels = NONE_NAMED
    annotations: _Labels = NONE_NAMED
    ownerReferences: Listed[Owner] = ()
    deletionTimestamp: str | None = None


class _PodSpec(Part):
    nodeName: str | None = None
    containers: Many[_Container]
    initContainers: Listed[_Container] = ()
    overhead: Given[ManyNamed[Name, Quantity]] = NONE_NAMED
    resources: Given[_Resources] = _Resources()
    nodeSelector: _Labels = NONE_NAMED
    affinity: Given[_Affinity] = _Affinity()
    tolerations: Listed[Toleration] = ()
    topologySpreadConstraints: Listed[SpreadConstraint] = ()
    resourceClaims: Listed[Fields] = ()
    volumes: Listed[Fields] = ()
    schedulingGates: Listed[Fields] = ()
    priority: int | None = None
    preemptionPolicy: str | None = None


class _PodStatus(Part):
    phase: Literal["Pending", "Running", "Succeeded", "Failed", "Unknown"] | None = None


class Pod(Part):
    """A pod."""

    kind: Literal["Pod"] = "Pod"
    metadata: _PodMetadata
    spec: _PodSpec
    status: _PodStatus = _PodStatus()

    @property
    def name(self) -> str:
        """The pod's name."""
        return self.metadata.name

    @property
    def full_name(self) -> str:
        """The pod's namespace and name."""
        return f"{self.metadata.namespace}/{self.name}"

    @property
    def labels(self) -> dict[str, str]:
        """The pod's labels."""
        return self.metadata.labels

    @property
    def owner(self) -> Owner | None:
        """The controller that manages the pod, None without one."""
        return next((owner for owner in self.metadata.ownerReferences if owner.controller), None)

    @property
    def node(self) -> str | None:
        """The node whose resources the pod holds, None without one."""
        return (self.spec.nodeName or None) if self.status.phase not in ENDED else None

    @property
    def waits(self) -> bool:
        """Whether the pod is pending without a node."""
        return not self.spec.nodeName and self.status.phase in ("Pending", None)

    @property
    def near(self) -> Sequence[PodAffinityTerm]:
        """The terms of its required affinity to other pods."""
        return self.spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution

    @property
    def apart(self) -> Sequence[PodAffinityTerm]:
        """The terms of its required anti-affinity to other pods."""
        return self.spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution

    @property
    def spread(self) -> list[SpreadConstraint]:
        """The topology spread constraints that forbid nodes, which is the default of Kubernetes."""
        constraints = self.spec.topologySpreadConstraints
        return [c for c in constraints if c.whenUnsatisfiable in (None, "DoNotSchedule") and c.topologyKey]

    @property
    def host_ports(self) -> list[str]:
        """The ports of its node that it takes, with their protocol."""
        sidecars = (c for c in self.spec.initContainers if c.restartPolicy == "Always")
        ports = (port for container in (*self.spec.containers, *sidecars) for port in container.ports)
        return sorted({f"{port.hostPort}/{port.protocol or 'TCP'}" for port in ports if port.hostPort})

    @property
    def is_gated(self) -> bool:
        """Whether the pod waits behind closed scheduling gates, so that the scheduler ignores it."""
        return self.waits and bool(self.spec.schedulingGates)

    @cached_property
    def requests(self) -> Requests:
        """The amounts that the scheduler reserves for the pod.

        The maximum of the sum of its containers and of each init container, in both cases together with the
        sidecars (init containers that always restart) started before; plus the overhead.
        """
        sidecars: Requests = {}
        starting: Requests = {}
        for container in self.spec.initContainers:
            if container.restartPolicy == "Always":
                sidecars = total([sidecars, container.resources.amounts()])
                starting = _largest(starting, sidecars)
            else:
                starting = _largest(starting, total([sidecars, container.resources.amounts()]))
        running = total([sidecars, *(container.resources.amounts() for container in self.spec.containers)])
        overhead = {name: Fraction(amount) for name, amount in self.spec.overhead.items()}
        return total([_largest(starting, running) | self.spec.resources.amounts(), overhead])


class ObjectList(Part, Generic[ObjectT]):
    """Objects as ``kubectl get … -o json`` prints them."""

    items: Many[ObjectT]


class _ObjectMetadata(Part):
    name: str
    namespace: str = "default"


class _GangSpec(Part):
    minMember: int | None = None


class PodGang(Part):
    """A PodGroup of a gang scheduler: so many of its pods start together, or none."""

    metadata: _ObjectMetadata
    spec: _GangSpec = _GangSpec()


class _BudgetSpec(Part):
    selector: LabelSelector | None = None


class _BudgetStatus(Part):
    disruptionsAllowed: int = 0


class DisruptionBudget(Part):
    """A PodDisruptionBudget: how many of some pods may be evicted."""

    metadata: _ObjectMetadata
    spec: _BudgetSpec = _BudgetSpec()
    status: _BudgetStatus = _BudgetStatus()


def requests_by_node(pods: Iterable[Pod]) -> dict[str | None, Requests]:
    """Return node → what all its pods request; None → what those without one do."""
    held: dict[str | None, list[Requests]] = defaultdict(list)
    for pod in pods:
        held[pod.node].append(pod.requests)
    return {node: total(requests) for node, requests in held.items()}


def is_bytes(resource: str) -> bool:
    """Return whether the amounts of a resource are bytes."""
    return resource in ("memory", "ephemeral-storage") or resource.startswith("hugepages-")


def total(amounts: Iterable[Mapping[str, Fraction]]) -> Requests:
    """Return the sum of some requests by resource."""
    sums: Requests = defaultdict(Fraction)
    for part in amounts:
        for name, amount in part.items():
            sums[name] += amount
    return dict(sums)


def _largest(first: Requests, second: Requests) -> Requests:
    zero = Fraction()
    return {name: max(first.get(name, zero), second.get(name, zero)) for name in {**first, **second}}


MODEL_LABELS = (
    "nvidia.com/gpu.product",
    "amd.com/gpu.product-name",
    "cloud.google.com/gke-accelerator",
    "k8s.amazonaws.com/accelerator",
    "karpenter.k8s.aws/instance-gpu-name",
    "eks.amazonaws.com/instance-gpu-name",
    "karpenter.azure.com/sku-gpu-name",
    "cloud.google.com/gke-tpu-accelerator",
)
"""Labels with the GPU model, set by vendors' operators and by clouds."""
MACHINE = "node.kubernetes.io/instance-type"
"""Label with the machine type, which stands for the GPU model if no label gives it."""
GPU = re.compile(
    r"(.*/)?(gpu|gpu\.shared|mig-.+)|gpu\.intel\.com/.+|google\.com/tpu|habana\.ai/gaudi"
    r"|aws\.amazon\.com/neuron(core|device)?|huawei\.com/Ascend.+|cambricon\.com/mlu|hygon\.com/dcu"
)
"""Resources that count as GPUs unless an option names them; other accelerators are included."""


class KubernetesOptions(ImportOptions):
    """Nodes and pods of a Kubernetes cluster: a consolidation instance."""

    nodes: Annotated[
        Path,
        Option(
            "What 'kubectl get nodes,pods --all-namespaces -o json' prints; or nodes alone.", argument="nodes"
        ),
    ]
    pods: Annotated[
        Path | None,
        Option(
            "Where these are not in one file: 'kubectl get pods --all-namespaces -o json'.", argument="pods"
        ),
    ] = None
    choice: Annotated[
        Literal["gpu", "all"],
        Option("gpu: jobs that ask for a GPU; all: every job outside namespaces kube-….", option="--plan"),
    ] = "gpu"
    running: Running = "move"
    drained: Drained = "empty"
    namespaces: Annotated[
        tuple[Name, ...], Option("Only the pods of this namespace; repeatable.", option="--namespace")
    ] = ()
    spread: Spread = "preferred"
    rack_label: Annotated[str, Option("Label of a node with its rack.")] = "topology.kubernetes.io/zone"
    gpu_label: Annotated[
        str, Option("Label of a node with its GPU model. [default: the first known one that nodes have]")
    ] = ""
    value: Value = "gpus"
    gpu_resources: Annotated[
        tuple[Name, ...],
        Option("Resource that is a GPU; repeatable. [default: those called so]", option="--gpu-resource"),
    ] = ()
    gpu_models: Annotated[
        Literal["one", "any"],
        Option(
            "Of a waiting job of several pods that names no single GPU model. one: all its pods get that of "
            "which most are free; any: each pod may get another."
        ),
    ] = "one"
    mig: Mig = "keep"
    volumes: Annotated[
        Path | None,
        Option("What 'kubectl get pv,pvc --all-namespaces -o json' prints: pods stay near their volumes."),
    ] = None
