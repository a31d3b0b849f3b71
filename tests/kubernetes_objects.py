"""A small cluster as the Kubernetes importer reads it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from clusterplan.instances.importers.clusters.kubernetes_cluster import Cluster
from clusterplan.instances.importers.clusters.kubernetes_objects import KubernetesOptions, Node, Pod


def node(name: str, gpus: int = 4, labels: dict[str, str] | None = None, **spec: Any) -> Node:
    """Return a node that is ready."""
    status = {"allocatable": {"cpu": "8", "memory": "16Gi", "pods": "10", "nvidia.com/gpu": str(gpus)}}
    status |= {"conditions": [{"type": "Ready", "status": "True"}]}
    return Node.model_validate({"metadata": {"name": name, "labels": labels}, "spec": spec, "status": status})


def pod(name: str, gpus: int, on: str | None = None, **spec: Any) -> Pod:
    """Return a pod that waits, or runs on a node."""
    requests = {"cpu": "500m", "memory": "1Gi"} | ({"nvidia.com/gpu": str(gpus)} if gpus else {})
    spec = {"containers": [{"resources": {"requests": requests}}], "nodeName": on, **spec}
    status = {"phase": "Running" if on else "Pending"}
    return Pod.model_validate({"metadata": {"name": name, "namespace": "t"}, "spec": spec, "status": status})


def cluster(*pods: Pod, nodes: tuple[Node, ...] = (), **options: Any) -> Cluster:
    """Return a cluster of two nodes, one of them cordoned."""
    files = {"nodes": Path("n"), "pods": Path("p")}
    listed = nodes or (node("a"), node("b", unschedulable=True))
    return Cluster(listed, pods, KubernetesOptions(**files, **options))
