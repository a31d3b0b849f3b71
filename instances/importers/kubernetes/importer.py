"""Kubernetes: the nodes and pods of a cluster as it is, for consolidation.

The two files are what ``kubectl get nodes -o json`` and ``kubectl get pods --all-namespaces -o json`` print.
"""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

from ...common.errors import refuse_faults
from ...common.faults import validated
from ...common.fields import Model, repeated
from ...consolidation.instance import ConsolidationInstance
from ...files.reading import fail, parse_document, read_text
from ..importer import Importer
from ..node_restrictions import counted
from .assumptions import assumptions, what_is_ignored
from .cluster import Cluster, KubernetesOptions
from .objects import NodeList, PodList

ListT = TypeVar("ListT", bound=Model)


@Importer
def import_kubernetes(options: KubernetesOptions) -> ConsolidationInstance:
    """Return the consolidation instance of a Kubernetes cluster."""
    nodes, pods = options.nodes, options.pods
    listed = _read(nodes, NodeList, "the first file lists {}; nodes are wanted", "Pod")
    present = _read(pods, PodList, "the second file lists {}; pods are wanted", "Node")
    nodes_named = (node.name for node in listed.items)
    pods_named = ((pod.metadata.namespace, pod.metadata.name) for pod in present.items)
    refuse_faults(str(nodes), repeated(nodes_named, "items", "metadata.name"))
    refuse_faults(str(pods), repeated(pods_named, "items", "metadata.name"))
    cluster = Cluster(listed.items, present.items, options)
    if not cluster.nodes:
        out = counted(len(cluster.out), "is", "are")
        raise fail(str(nodes), f"has no node that takes pods; {out} cordoned or not ready")
    if not cluster.jobs:
        raise fail(str(pods), "has no pod to plan: no " + _what_was_asked(options))
    document = {
        "name": f"kubernetes-{pods.stem}",
        "source": f"{nodes.name} and {pods.name}, as kubectl prints them",
        "assumptions": [*assumptions(cluster, options), *what_is_ignored(cluster)],
        "objectives": ["value", *(["migrations"] if cluster.moving else []), "spread", "servers"],
        "servers": [cluster.server(node) for node in cluster.nodes],
        "jobs": [cluster.job(job) for job in cluster.jobs],
    }
    return validated(ConsolidationInstance, document, str(pods))


def _read(path: Path, model: type[ListT], swapped: str, other: str) -> ListT:
    source = str(path)
    data = parse_document(read_text(path), source, ".json")
    items = data.get("items") if isinstance(data, dict) else None
    first = items[0] if isinstance(items, list) and items else None
    if isinstance(first, dict) and first.get("kind") == other:
        raise fail(source, swapped.format(f"{other.lower()}s"))
    return validated(model, data, source)


def _what_was_asked(options: KubernetesOptions) -> str:
    which = "pod that waits" if options.running == "stay" else "pod that waits or runs"
    gpu = " and whose job asks for a GPU" if options.choice == "gpu" else ""
    where = f" in {', '.join(options.namespaces)}" if options.namespaces else " outside kube-*"
    return which + gpu + where
