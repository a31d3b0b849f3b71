"""Kubernetes: the nodes and pods of a cluster as it is, for consolidation.

The two files are what ``kubectl get nodes -o json`` and ``kubectl get pods --all-namespaces -o json`` print;
a third one may have what ``kubectl get pv,pvc`` does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

from ...common.errors import refuse_faults
from ...common.faults import validated
from ...common.fields import Model, repeated
from ...common.printable import one_line, some
from ...consolidation.instance import ConsolidationInstance
from ...files.reading import fail, parse_document, read_text
from ..importer import Importer
from ..left_out import LeftOut, valid_entries
from ..move_cost import move_cost
from ..node_restrictions import counted
from .assumptions import assumptions, what_is_ignored
from .cluster import Cluster
from .document import ClusterDocument
from .objects import ENDED, NodeList, Pod, PodList
from .options import MACHINE, KubernetesOptions
from .volumes import read_volumes

ListT = TypeVar("ListT", bound=Model)


@Importer
def import_kubernetes(options: KubernetesOptions) -> ConsolidationInstance:
    """Return the consolidation instance of a Kubernetes cluster."""
    nodes, pods = options.nodes, options.pods
    listed = _read(nodes, NodeList, "the first file lists {}; nodes are wanted", "Pod")
    nodes_named = (node.name for node in listed.items)
    refuse_faults(str(nodes), repeated(nodes_named, "items", "metadata.name"))
    label = options.gpu_label
    if label and not any(node.labels.get(label) for node in listed.items):
        known = sorted({name for node in listed.items for name in node.labels if _may_be_model(name)})
        raise fail(
            str(nodes), f"no node has the label {label!r} (--gpu-label); labels are {some(known) or 'none'}"
        )
    present, invalid = _read_pods(pods)
    unread = frozenset(map(_node_of, invalid.data)) - {""}
    cluster = Cluster(listed.items, present, options, unread, read_volumes(options.volumes))
    left_out = list(invalid.sentences())
    if unread:
        names = one_line(some(sorted(unread)))
        left_out.append(f"What they hold is not known: their nodes count as cordoned ({names}).")
    if cluster.devices is not None:
        left_out += cluster.devices.left_out(cluster.unclear)
    if not cluster.nodes:
        out = counted(len(cluster.out), "is", "are")
        what = f"has no node that takes pods; {out} cordoned or not ready"
        if cluster.short:
            what += f"; {len(cluster.short)} have less than their pods hold"
        raise fail(str(nodes), "; ".join([what, *left_out]))
    if not cluster.jobs:
        what = "has no pod to plan: no " + _what_was_asked(options)
        raise fail(str(pods), "; ".join([what, *_what_there_is(cluster), *left_out]))
    written = ClusterDocument(cluster)
    document = {
        "name": f"kubernetes-{pods.stem}",
        "source": f"{nodes.name} and {pods.name}, as kubectl prints them",
        "assumptions": [*assumptions(written), *what_is_ignored(cluster), *left_out],
        "objectives": ["value", *(["migrations"] if cluster.moving else []), "spread", "servers"],
        **move_cost(bool(cluster.moving)),
        "servers": [written.server(node) for node in cluster.nodes],
        "jobs": [written.job(job) for job in cluster.jobs],
    }
    return validated(ConsolidationInstance, document, str(pods))


def _read(path: Path, model: type[ListT], swapped: str, other: str) -> ListT:
    source = str(path)
    data = parse_document(read_text(path), source, ".json")
    items = data.get("items") if isinstance(data, dict) else None
    if not isinstance(items, list):
        wanted = "pods" if other == "Node" else "nodes"
        raise fail(source, f"has no list of items; give what kubectl get {wanted} -o json prints")
    first = items[0] if items else None
    if isinstance(first, dict) and first.get("kind") == other:
        raise fail(source, swapped.format(f"{other.lower()}s"))
    return validated(model, data, source)


def _read_pods(path: Path) -> tuple[tuple[Pod, ...], LeftOut]:
    """Return the valid pods, each name of a namespace once, and the others."""
    items = _read(path, PodList, "the second file lists {}; pods are wanted", "Node").items
    places = (f"items[{index}]" for index in range(len(items)))
    entries = ((place, _name_of(item) or place, item) for place, item in zip(places, items, strict=True))
    left_out = LeftOut("pod")
    pods = valid_entries(Pod, entries, str(path), left_out, lambda pod: (pod.metadata.namespace, pod.name))
    return tuple(pods), left_out


def _may_be_model(label: str) -> bool:
    """Return whether a label may have the GPU model of a node."""
    return label == MACHINE or any(word in label for word in ("gpu", "accelerator"))


def _name_of(pod: Any) -> str:
    """Return the name of what may be a pod; empty if it has none."""
    return "/".join(filter(None, (_text(pod, "metadata", key) for key in ("namespace", "name"))))


def _node_of(pod: Any) -> str:
    """Return the node that what may be a pod runs on; empty if it has none."""
    return "" if _text(pod, "status", "phase") in ENDED else _text(pod, "spec", "nodeName")


def _text(data: Any, *path: str) -> str:
    """Return the text at a path of nested mappings; empty if there is none."""
    for key in path:
        data = data.get(key) if isinstance(data, dict) else None
    return data if isinstance(data, str) else ""


def _what_was_asked(options: KubernetesOptions) -> str:
    which = "pod that waits" if options.running == "stay" else "pod that waits or runs"
    gpu = " and whose job asks for a GPU" if options.choice == "gpu" else ""
    where = f" in {', '.join(options.namespaces)}" if options.namespaces else " outside kube-*"
    hint = " (--pods all plans the others)" if options.choice == "gpu" else ""
    return which + gpu + where + hint


def _what_there_is(cluster: Cluster) -> Iterator[str]:
    """Say what pods the file has instead, the first reason why each is not planned."""
    reasons = Counter(map(cluster.why_unplanned, cluster.present))
    if reasons:
        counts = (f"{count} {why}" for why, count in reasons.most_common())
        yield f"of its {counted(len(cluster.present), 'pod')} there are {', '.join(counts)}"
