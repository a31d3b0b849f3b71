"""The nodes that a pod may use, by selector, affinity, taints and volumes; and the GPU models of nodes.

The node affinity of a persistent volume lists the nodes that reach it; older cloud volumes have labels, in
which ``a__b`` means zone a or b. GPU models are read from labels of nodes; running pods keep their model,
and a choice of exactly the nodes of some models is expressed by these models.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from ...common.fields import Given, Listed, Part
from .kubernetes_jobs import PodGroup, PodJob
from .kubernetes_objects import (
    MACHINE,
    MODEL_LABELS,
    Node,
    NodeSelector,
    NodeSelectorTerm,
    Pod,
    Requirement,
    Taint,
    Toleration,
)

HARD = ("NoSchedule", "NoExecute")
"""The effects of taints that forbid a node to pods; PreferNoSchedule does not."""


def allowed_nodes(pod: Pod, nodes: Sequence[Node], without: str | None = None) -> frozenset[str]:
    """Return the names of the nodes that the pod may use.

    Parameters
    ----------
    pod, nodes
        The pod, and the nodes in question.
    without
        A label of the pod's node selector that is ignored here, because it is handled elsewhere.
    """
    chosen = (node for node in nodes if in_affinity(pod, node, without))
    return frozenset(node.name for node in chosen if not _untolerated(pod, node))


def names_label(pod: Pod, label: str) -> bool:
    """Return whether a pod restricts a node label in its selector or required affinity."""
    required = _required(pod) or NodeSelector()
    conditions = (c for term in required.nodeSelectorTerms for c in term.matchExpressions)
    return label in pod.spec.nodeSelector or any(c.key == label for c in conditions)


def constraint_of(pod: Pod) -> str:
    """Return a key such that pods with equal keys may use the same nodes."""
    return repr((sorted(pod.spec.nodeSelector.items()), _required(pod), pod.spec.tolerations))


def is_preferred(pod: Pod) -> bool:
    """Return whether a pod has preferred node affinity."""
    return bool(pod.spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution)


def is_near_by_preference(pod: Pod) -> bool:
    """Return whether a pod prefers to be near other pods, or apart from them."""
    affinity = pod.spec.affinity
    sides = affinity.podAffinity, affinity.podAntiAffinity
    return any(side.preferredDuringSchedulingIgnoredDuringExecution for side in sides)


def describe(pod: Pod, nodes: Sequence[Node], without: str | None = None) -> str:
    """Return a few words on the nodes that a pod may use; parameters as in `allowed_nodes`."""
    wanted = [
        f"{key}={value}"
        for key, value in pod.spec.nodeSelector.items()
        if key != without and any(node.labels.get(key) != value for node in nodes)
    ]
    required = _required(pod)
    if required is not None and not all(_selects(required, node) for node in nodes):
        wanted.append(" or ".join(map(_term_text, required.nodeSelectorTerms)) or "no terms")
    taints = dict.fromkeys(f"{t.key}:{t.effect}" for node in nodes for t in _untolerated(pod, node))
    parts = [
        f"node with {', '.join(wanted)}" if wanted else "",
        f"toleration for taint {', '.join(taints)}" if taints else "",
    ]
    return " and ".join(filter(None, parts)) or "node"


def _term_text(term: NodeSelectorTerm) -> str:
    conditions = []
    for requirement in (*term.matchExpressions, *term.matchFields):
        key, values = requirement.key, "|".join(requirement.values)
        forms = {
            "In": f"{key}={values}",
            "NotIn": f"{key} not {values}",
            "Exists": key,
            "DoesNotExist": f"no {key}",
            "Gt": f"{key}>{values}",
            "Lt": f"{key}<{values}",
        }
        conditions.append(forms[requirement.operator])
    return " and ".join(conditions) or "nothing"


def _required(pod: Pod) -> NodeSelector | None:
    """Return the required node affinity of a pod; None if it has none."""
    return pod.spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution


def _selects(required: NodeSelector | None, node: Node) -> bool:
    """Return whether a node satisfies one of the alternative terms; true if nothing is required."""
    return required is None or any(matches(term, node) for term in required.nodeSelectorTerms)


def _untolerated(pod: Pod, node: Node) -> list[Taint]:
    return [
        taint
        for taint in node.spec.taints
        if taint.effect in HARD
        and not any(_tolerates(toleration, taint) for toleration in pod.spec.tolerations)
    ]


def in_affinity(pod: Pod, node: Node, without: str | None = None) -> bool:
    """Return whether a node is one of selector and affinity of a pod; parameters as in `allowed_nodes`."""
    selector = pod.spec.nodeSelector.items()
    if any(node.labels.get(key) != value for key, value in selector if key != without):
        return False
    return _selects(_required(pod), node)


def _tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    operator = toleration.operator or "Equal"
    if operator == "Exists":
        return True
    return operator == "Equal" and bool(toleration.key) and (toleration.value or "") == (taint.value or "")


def matches(term: NodeSelectorTerm, node: Node) -> bool:
    """Return whether a node satisfies a node selector term; a term without conditions matches no node."""
    labels, fields = term.matchExpressions, term.matchFields
    return (
        bool(labels or fields)
        and all(meets(requirement, node.labels.get(requirement.key)) for requirement in labels)
        and all(
            meets(requirement, {"metadata.name": node.name}.get(requirement.key)) for requirement in fields
        )
    )


def meets(requirement: Requirement, value: str | None) -> bool:
    """Return whether the value of a label, None if there is none, satisfies a condition."""
    values, operator = requirement.values, requirement.operator
    if operator in ("In", "NotIn"):
        return (value in values) == (operator == "In")
    if operator in ("Exists", "DoesNotExist"):
        return (value is not None) == (operator == "Exists")
    return _above(value, values) if operator == "Gt" else _above(values[0] if values else None, (value,))


def _above(value: str | None, limits: Sequence[str | None]) -> bool:
    try:
        return int(value or "") > int(limits[0] or "")
    except (ValueError, IndexError):
        return False


TOPOLOGY = {
    f"failure-domain.beta.kubernetes.io/{part}": f"topology.kubernetes.io/{part}"
    for part in ("zone", "region")
}
"""Label of volumes and nodes with a zone or region → its name in newer versions."""
LABELS = {*TOPOLOGY, *TOPOLOGY.values()}


class _Metadata(Part):
    name: str
    namespace: str = "default"
    labels: Given[dict[str, str]] = {}


class _Affinity(Part):
    required: NodeSelector | None = None


class _Spec(Part):
    volumeName: str | None = None
    accessModes: Listed[str] = ()
    nodeAffinity: Given[_Affinity] = _Affinity()


class VolumeObject(Part):
    """A persistent volume, or a claim of one."""

    kind: str
    metadata: _Metadata
    spec: _Spec = _Spec()


@dataclass(frozen=True)
class Volumes:
    """The persistent volumes and claims of a cluster."""

    objects: tuple[VolumeObject, ...]

    @cached_property
    def _claimed(self) -> dict[tuple[str, str], _Spec]:
        """Namespace and name of a claim → its fields."""
        claims = (each for each in self.objects if each.kind == "PersistentVolumeClaim")
        return {(each.metadata.namespace, each.metadata.name): each.spec for each in claims}

    def exclusive(self, pod: Pod) -> list[tuple[str, str]]:
        """Return those claims of a pod that only one pod at a time may use."""
        mounted = zip(claims_of(pod), self._claims(pod), strict=True)
        return [claim for claim, spec in mounted if spec and "ReadWriteOncePod" in spec.accessModes]

    def _claims(self, pod: Pod) -> Iterator[_Spec | None]:
        """Yield the fields of each claim of a pod; None for one that is not listed."""
        return map(self._claimed.get, claims_of(pod))

    @cached_property
    def _volumes(self) -> dict[str, VolumeObject]:
        return {each.metadata.name: each for each in self.objects if each.kind == "PersistentVolume"}

    def of(self, pod: Pod) -> tuple[str, ...]:
        """Return the known volumes that a pod needs."""
        bound = {spec.volumeName for spec in self._claims(pod) if spec is not None}
        return tuple(sorted(self._volumes.keys() & bound))

    def all_known(self, pod: Pod) -> bool:
        """Return whether all claims of a pod, and the volumes to which they are bound, are listed."""
        return all(
            spec is not None and (not spec.volumeName or spec.volumeName in self._volumes)
            for spec in self._claims(pod)
        )

    def reaching(self, names: Sequence[str], nodes: Sequence[Node]) -> frozenset[str]:
        """Return the names of the nodes from which all of these volumes are accessible."""
        return frozenset(
            node.name for node in nodes if all(_reaches(self._volumes[name], node) for name in names)
        )


NO_VOLUMES = Volumes(())


def claims_of(pod: Pod) -> Iterator[tuple[str, str]]:
    """Yield namespace and name of the claims that a pod mounts; an ephemeral one is called POD-VOLUME."""
    for volume in pod.spec.volumes:
        claim = volume.get("persistentVolumeClaim")
        if isinstance(claim, dict) and isinstance(claim.get("claimName"), str):
            yield pod.metadata.namespace, claim["claimName"]
        if "ephemeral" in volume:
            yield pod.metadata.namespace, f"{pod.name}-{volume.get('name')}"


def _reaches(volume: VolumeObject, node: Node) -> bool:
    if not _selects(volume.spec.nodeAffinity.required, node):
        return False
    places = {TOPOLOGY.get(label, label): value for label, value in node.labels.items() if label in LABELS}
    labels = volume.metadata.labels.items()
    wanted = {TOPOLOGY.get(label, label): value for label, value in labels if label in LABELS}
    # A node of no zone and no region is in a cluster that has only one.
    return not places or all(places.get(label) in value.split("__") for label, value in wanted.items())


@dataclass(frozen=True)
class GpuModels:
    """The GPU models of nodes.

    Attributes
    ----------
    labels
        The labels with GPU models, in order of preference: each pool of nodes may have another.
    of_node
        Node → its GPU model, empty if it has none.
    by_type
        Nodes whose machine type stands for the GPU model, because no label gives it.
    """

    labels: tuple[str, ...]
    of_node: Mapping[str, str]
    by_type: frozenset[str] = frozenset()

    @property
    def label(self) -> str:
        """The first of the node labels from which GPU models are read."""
        return self.labels[0]

    @classmethod
    def read(cls, nodes: Sequence[Node], label: str, has_gpus: Callable[[Node], bool]) -> GpuModels:
        """Return the GPU models of nodes, read from their labels.

        Parameters
        ----------
        nodes
            The nodes.
        label
            The label with the model; empty for the first known label of each node.
        has_gpus
            Whether a node has GPUs: machines without them have a type as well.
        """
        if label and label != MACHINE:
            return cls((label,), {node.name: node.labels.get(label, "") for node in nodes})
        labels = (MACHINE,) if label else (*MODEL_LABELS, MACHINE)
        own = {node.name: _first(labels if has_gpus(node) else labels[:-1], node) for node in nodes}
        used = tuple(name for name in labels if name in own.values())
        by_type = frozenset(name for name, its in own.items() if its == MACHINE)
        return cls(
            used or (MACHINE,), {node.name: node.labels.get(own[node.name], "") for node in nodes}, by_type
        )

    def of(self, node: Node) -> str | None:
        """Return the GPU model of a node; None if it is unknown."""
        return self.of_node.get(node.name) or None

    def keep(self, jobs: Iterable[PodJob], holds_gpus: Callable[[PodGroup], bool]) -> None:
        """Restrict pods that hold GPUs to the models on which their job runs, unless they name models."""
        for job in jobs:
            groups = [group for group in job.groups if holds_gpus(group)]
            pods = [pod for group in groups for pod in group.pods]
            models = {self.of_node.get(pod.node or "", "") for pod in pods} - {""}
            if models and not any(names_label(pod, label) for pod in pods for label in self.labels):
                nodes = frozenset(name for name, model in self.of_node.items() if model in models)
                for group in groups:
                    if not group.nodes <= nodes:
                        group.nodes, group.models = group.nodes & nodes, tuple(sorted(models))


def _first(labels: Sequence[str], node: Node) -> str:
    """Return the first of some labels that a node has; empty if it has none."""
    return next((name for name in labels if node.labels.get(name)), "")
