"""What the Kubernetes importer says of the instance that it makes."""

from __future__ import annotations

from collections.abc import Iterator

from ...common.printable import some
from ..device_parts import about_unknown
from ..node_restrictions import about_models, counted
from .affinity import HARD
from .cluster import Cluster, KubernetesOptions
from .gpus import is_time_sliced, parts_as_amounts

NAMED = 3
"""So many pods, jobs or nodes are named."""


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
    yield from about_models([job.name for job in cluster.jobs if isinstance(job.gpu_model, list)])
    yield from about_gpus(cluster)


def about_gpus(cluster: Cluster) -> Iterator[str]:
    """Say how GPUs are planned that pods share, or of which they ask for parts."""
    yield from about_unknown(cluster.unknown_partitions)
    if cluster.devices is not None:
        groups = [group for job in cluster.jobs for group in job.groups]
        asks = [group.ask for group in groups if group.ask is not None]
        yield from cluster.devices.sentences(asks)
    sliced = {node.name for node in cluster.nodes if is_time_sliced(node)}
    if sliced:
        offer = counted(len(sliced), "node offers", "nodes offer")
        there = [f"{p.metadata.namespace}/{p.name}" for p in cluster.present if p.node in sliced]
        on = f"; on {'it' if len(sliced) == 1 else 'them'} are {some(there, NAMED)}" if there else ""
        yield (
            f"{offer} turns on devices as GPUs (time-slicing), which are no certain part of a device. Each "
            f"counts as a GPU: {some(sorted(sliced), NAMED)}{on}."
        )
    other = {
        name: [f"{pod.metadata.namespace}/{pod.name}" for pod in pods]
        for name, pods in parts_as_amounts(cluster.present).items()
    }
    for name, pods in other.items():
        ask = counted(len(pods), "pod asks", "pods ask")
        yield (
            f"{ask} for {name}. It is not clear that this is of one device, so it is an amount, if anything: "
            f"{some(pods, NAMED)}."
        )


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
