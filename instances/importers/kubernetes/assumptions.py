"""What the Kubernetes importer says of the instance that it makes."""

from __future__ import annotations

from collections.abc import Iterator

from ...common.printable import some
from ..node_restrictions import counted
from .affinity import HARD
from .cluster import Cluster, KubernetesOptions


def assumptions(cluster: Cluster, options: KubernetesOptions) -> Iterator[str]:
    """Say how the instance is made of the cluster."""
    planned = "jobs that ask for a GPU" if options.choice == "gpu" else "all jobs"
    where = some(options.namespaces) if options.namespaces else "all namespaces but kube-*"
    yield (
        f"Planned are {planned} in {where}: {counted(len(cluster.jobs), 'job')} of "
        f"{counted(sum(len(job.pods) for job in cluster.jobs), 'pod')}, of which "
        f"{counted(len(cluster.moving), 'has', 'have')} a node. "
        "Pods of DaemonSets, static pods and pods that are being deleted are not."
    )
    if options.running == "move":
        yield "A job that runs as a whole must stay placed, but its pods may be moved."
    yield "What pods hold that are not planned is not free; a pod holds what it requests, whatever it uses."
    yield (
        "The pods of one owner, or of one job by the labels of the training operators, are placed together "
        "or not at all; the pods of a ReplicaSet and pods without an owner are jobs of their own."
    )
    yield "A job is worth the GPUs that it asks for, one that asks for none is worth 1."
    yield f"Spread is not in the source: {options.spread} for every job of several pods."
    if cluster.out:
        out = counted(len(cluster.out), "node is", "nodes are")
        yield f"{out} cordoned or not ready and left out: {some(cluster.out)}."
    if cluster.staying:
        have = counted(len(cluster.staying), "job has", "jobs have")
        names = some(job.name for job in cluster.staying)
        yield f"{have} pods on cordoned nodes; what runs of them stays and is not planned: {names}."
    lost = [pod for pod in cluster.moving if pod.node not in cluster.names]
    if lost:
        names = some(f"{pod.metadata.namespace}/{pod.metadata.name}" for pod in lost)
        are = counted(len(lost), "planned pod is", "planned pods are")
        yield f"{are} on nodes not ready or not listed, to be placed anew: {names}."
    overcommitted = cluster.overcommitted()
    if overcommitted:
        over = counted(len(overcommitted), "node")
        yield f"More is requested than there is on {over}: {some(overcommitted)}."
    yield from cluster.restrictions.sentences("node selector, affinity, taints", "pod", "node")


def what_is_ignored(cluster: Cluster) -> Iterator[str]:
    """Say what Kubernetes looks at and the plan does not."""
    pods = [pod for job in cluster.jobs for pod in job.pods]
    ignored = {
        "pod affinity": sum(bool(p.spec.affinity and p.spec.affinity.podAffinity) for p in pods),
        "pod anti-affinity": sum(bool(p.spec.affinity and p.spec.affinity.podAntiAffinity) for p in pods),
        "topology spread constraints": sum(bool(p.spec.topologySpreadConstraints) for p in pods),
        "resource claims": sum(bool(p.spec.resourceClaims) for p in pods),
    }
    for what, count in ignored.items():
        if count:
            have = counted(count, "planned pod has", "planned pods have")
            yield f"{have} {what}, which the plan does not look at."
    soft = sum(taint.effect not in HARD for node in cluster.nodes for taint in node.spec.taints or ())
    if soft:
        are = counted(soft, "taint is only a preference", "taints are only preferences")
        yield f"{are}, which the plan does not look at."
