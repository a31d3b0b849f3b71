"""Persistent volumes: the nodes from which a pod can reach those that its claims are bound to.

A volume says so by its node affinity; older ones of clouds by labels, in which ``a__b`` means zone a or b.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from ...common.faults import validated
from ...common.fields import Many, Part
from ...files.reading import fail, parse_document, read_text
from .affinity import matches
from .objects import Node, NodeSelectorTerm, Pod

ZONES = ("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone")
"""Labels of volumes and nodes with their zone."""
WANTED = "give what kubectl get pv,pvc --all-namespaces -o json prints"


class _Metadata(Part):
    name: str
    namespace: str = "default"
    labels: dict[str, str] | None = None


class _Terms(Part):
    nodeSelectorTerms: Many[NodeSelectorTerm] | None = None


class _Affinity(Part):
    required: _Terms | None = None


class _Spec(Part):
    volumeName: str | None = None
    nodeAffinity: _Affinity | None = None


class _Object(Part):
    kind: str
    metadata: _Metadata
    spec: _Spec = _Spec()


class _List(Part):
    items: Many[_Object]


@dataclass(frozen=True)
class Volumes:
    """What a cluster has of them."""

    objects: tuple[_Object, ...]

    @cached_property
    def _claims(self) -> dict[tuple[str, str], str]:
        """Namespace and name of a claim → the volume that it is bound to; empty if to none yet."""
        claims = (each for each in self.objects if each.kind == "PersistentVolumeClaim")
        return {(c.metadata.namespace, c.metadata.name): c.spec.volumeName or "" for c in claims}

    @cached_property
    def _volumes(self) -> dict[str, _Object]:
        return {each.metadata.name: each for each in self.objects if each.kind == "PersistentVolume"}

    def of(self, pod: Pod) -> tuple[str, ...]:
        """Return the volumes that a pod needs, of those that are known."""
        names = (self._claims.get((pod.metadata.namespace, claim), "") for claim in claims_of(pod))
        return tuple(sorted({name for name in names if name in self._volumes}))

    def all_known(self, pod: Pod) -> bool:
        """Return whether every claim of a pod is listed, and its volume too if it is bound to one."""
        named = (self._claims.get((pod.metadata.namespace, claim)) for claim in claims_of(pod))
        return all(name is not None and (name == "" or name in self._volumes) for name in named)

    def reaching(self, names: Sequence[str], nodes: Sequence[Node]) -> frozenset[str]:
        """Return the names of the nodes that reach all of these volumes."""
        return frozenset(
            node.name for node in nodes if all(_reaches(self._volumes[name], node) for name in names)
        )


def claims_of(pod: Pod) -> Iterator[str]:
    """Yield the names of the claims that a pod mounts; a claim of its own has the pod's name in its own."""
    for volume in pod.spec.volumes or ():
        claim = volume.get("persistentVolumeClaim")
        if isinstance(claim, dict) and isinstance(claim.get("claimName"), str):
            yield claim["claimName"]
        if "ephemeral" in volume:
            yield f"{pod.name}-{volume.get('name')}"


def _reaches(volume: _Object, node: Node) -> bool:
    required = volume.spec.nodeAffinity.required if volume.spec.nodeAffinity else None
    if required is not None and not any(matches(term, node) for term in required.nodeSelectorTerms or ()):
        return False
    labels = volume.metadata.labels or {}
    zones = {zone for label in ZONES if label in labels for zone in labels[label].split("__")}
    there = {node.labels[label] for label in ZONES if label in node.labels}
    # Nodes without zones are not told apart by them.
    return not (zones and there) or bool(zones & there)


def read_volumes(path: Path | None) -> Volumes | None:
    """Return the volumes and claims of a file; None without one.

    Raises
    ------
    InstanceError
        If the file is missing, or lists none.
    """
    if path is None:
        return None
    source = str(path)
    data: Any = parse_document(read_text(path), source, ".json")
    items = data.get("items") if isinstance(data, dict) else None
    if not isinstance(items, list):
        raise fail(source, f"has no list of items; {WANTED}")
    found = Volumes(validated(_List, data, source).items)
    kinds = {each.kind for each in found.objects}
    for kind in ("PersistentVolumeClaim", "PersistentVolume"):
        if found.objects and kind not in kinds:
            have = ", ".join(sorted(kinds)[:3])
            raise fail(source, f"lists {have}, and no {kind}; {WANTED}")
    return found
