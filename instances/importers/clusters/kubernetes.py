"""Importer of Kubernetes: nodes and pods of a cluster in use as a consolidation instance.

The file is what ``kubectl get nodes,pods --all-namespaces -o json`` prints, or two files have nodes and pods.
They may list more: ``pv,pvc`` keep pods near their volumes, ``podgroups`` say how large gangs are, and
``pdb`` are named with the jobs that they concern.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

from ...allocation.instance import AllocationInstance
from ...common.errors import one_line, refuse_faults, shown, some
from ...common.faults import validated
from ...common.fields import repeated
from ...consolidation.instance import ConsolidationInstance
from ...files.reading import fail, parse_document, read_text
from ..elastic import Speeds, elastic_instance
from ..importer import Importer, RejectedEntries, at, valid_entries
from ..node_restrictions import NAMED, counted, gpu_model_note, note
from .device_sharing import list_with_reasons, unknown_geometry_note
from .kubernetes_affinity import HARD, VolumeObject, Volumes, is_near_by_preference, is_preferred
from .kubernetes_cluster import Cluster
from .kubernetes_devices import is_time_sliced, parts_as_amounts
from .kubernetes_jobs import PodJob, is_queued
from .kubernetes_objects import (
    ENDED,
    MACHINE,
    DisruptionBudget,
    KubernetesOptions,
    Node,
    ObjectList,
    ObjectT,
    Pod,
    PodGang,
)
from .snapshot import ClusterSnapshot, emptied_note, move_cost_note


def _names(jobs: Iterable[PodJob]) -> list[str]:
    return [job.name for job in jobs]


def _pods(pods: Iterable[Pod]) -> list[str]:
    return [pod.full_name for pod in pods]


def assumptions(cluster: Cluster) -> Iterator[str]:
    """Yield the assumptions under which the instance describes the cluster."""
    options, snapshot = cluster.options, cluster.snapshot
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
        if cluster.moving:
            yield move_cost_note()
        rest = "in part: the pods that run stay, and those that wait are a job of their own, NAME (waits)"
        parts = _names(job for job in cluster.jobs if job.part == "runs")
        yield from note(parts, "job runs", "jobs run", rest)
        for why in dict.fromkeys(cluster.kept.values()):
            kept = [name for name, its in cluster.kept.items() if its == why]
            jobs = counted(len(kept), "job")
            yield f"Not moved ({jobs}, movable: false), for their pods {why}: {some(kept, NAMED)}."
    yield "What pods hold that are not planned is not free; a pod holds what it requests, whatever it uses."
    yield (
        "The pods of one owner, or of one job by the labels of the training operators, are placed together "
        "or not at all; the pods of a ReplicaSet and pods without an owner are jobs of their own."
    )
    yield from snapshot.notes("pods")
    yield from note(cluster.out, "node is", "nodes are", "cordoned or not ready and left out", most=10)
    yield from emptied_note(cluster.emptied, "cordoned")
    it = "it" if len(cluster.short) == 1 else "them"
    rest = (
        f"less than pods on {it} hold, as where a device has failed: what runs there stays, and nothing "
        "is added"
    )
    yield from note(sorted(cluster.short), "node has", "nodes have", rest)
    yield from note(
        _names(cluster.staying),
        "job has",
        "jobs have",
        "pods on cordoned nodes; what runs of them stays and is not planned",
        most=10,
    )
    yield from note(
        _pods(pod for pod in cluster.moving if pod.node not in cluster.names),
        "planned pod is",
        "planned pods are",
        "on nodes not ready or not listed, to be placed anew",
        most=10,
    )
    if cluster.overcommitted:
        over, names = counted(len(cluster.overcommitted), "node"), some(cluster.overcommitted)
        yield f"More is requested than there is on {over}, to which nothing is added: {names}."
    yield from snapshot.restrictions.sentences("node selector, affinity, taints", "pod", "node")
    yield from _gpu_model_notes(cluster)
    chosen = (job for job in cluster.jobs if isinstance(job.gpu_model, list))
    yield from gpu_model_note(_names(job for job in chosen if not job.keeps_models))
    yield from gpu_assumptions(cluster)


def _gpu_model_notes(cluster: Cluster) -> Iterator[str]:
    """Yield notes on the labels that give GPU models, and the running jobs that keep their model."""
    by_type = cluster.models.by_type & cluster.names
    if by_type:
        which = "nodes" if cluster.models.label == MACHINE else some(sorted(by_type), NAMED)
        yield (
            f"No label has the GPU models of {which}; {MACHINE} stands for them (--gpu-label names another)."
        )
    stay = _names(job for job in cluster.jobs if job.keeps_models)
    if stay:
        what = counted(
            len(stay), "running job stays on its GPU model", "running jobs stay on their GPU models"
        )
        yield (
            f"{what}, as pods name none by {cluster.models.label}: {some(stay, NAMED)}. "
            "To let a job move to others, list them in its gpu_model."
        )
    yield from note(
        _names(job for job in cluster.jobs if job.model_chosen),
        "waiting job of several pods names",
        "waiting jobs of several pods name",
        "no single GPU model, and all their pods get the one of which most are free (else --gpu-models any)",
    )
    models = set(filter(None, map(cluster.models.of, cluster.nodes)))
    several = (job for job in cluster.jobs if job.gpu_model is None and len(job.pods) > 1)
    yield from note(
        _names(job for job in several if len(models) > 1 and not job.keeps_models),
        "job of several pods names",
        "jobs of several pods name",
        "no GPU model and may be split over several",
    )


def gpu_assumptions(cluster: Cluster) -> Iterator[str]:
    """Yield the assumptions on GPUs that pods share or demand in parts."""
    yield from unknown_geometry_note(cluster.sharing.unknown_partitions)
    devices = cluster.devices
    if cluster.sharing.by_device:
        groups = [group for job in cluster.jobs for group in job.groups]
        yield from devices.sentences([group.ask for group in groups if group.ask is not None])
        if any(wish.cores or (wish.ask.share and not wish.memory) for wish in devices.requests):
            yield "A share is the part of the memory, or of the cores where a pod asks for more of these."
    sliced = {node.name for node in cluster.nodes if is_time_sliced(node)}
    if sliced:
        offer = counted(len(sliced), "node offers", "nodes offer")
        present = _pods(pod for pod in cluster.present if pod.node in sliced)
        on = f"; on {'it' if len(sliced) == 1 else 'them'} are {some(present, NAMED)}" if present else ""
        yield (
            f"{offer} turns on devices as GPUs (time-slicing), which are no certain part of a device. Each "
            f"counts as a GPU: {some(sorted(sliced), NAMED)}{on}."
        )
    for name, pods in parts_as_amounts(cluster.present).items():
        rest = f"for {name}. It is not clear that this is of one device, so it is an amount, if anything"
        yield from note(_pods(pods), "pod asks", "pods ask", rest)


def ignored_feature_notes(cluster: Cluster) -> Iterator[str]:
    """Yield notes on the Kubernetes features that the plan ignores, with the affected jobs."""
    gates = {_text(gate.get("name")) for pod in cluster.gated for gate in pod.spec.schedulingGates}
    rest = f"not planned, for scheduling gates are closed ({some(sorted(gates), NAMED)})"
    yield from note(_pods(cluster.gated), "pod is", "pods are", rest)
    yield from note(
        [f"{name} ({why})" for name, why in cluster.left_out.items()],
        "job waits and is",
        "jobs wait and are",
        "left out, for Kubernetes might refuse to start what the plan places",
    )
    yield from note(
        [limit.name for limit in cluster.rules.limits],
        "resource stands",
        "resources stand",
        "for anti-affinity, host ports and spread on nodes, perhaps more strictly than Kubernetes does",
    )
    how = "the file of volumes does not list them"
    if not (cluster.options.volumes or cluster.volumes.objects):
        how = "--volumes has them read"
    have = "planned job has", "planned jobs have"
    yield from note(
        _names(job for job in cluster.jobs if any(map(cluster.has_unknown_volumes, job.pods))),
        *have,
        f"volume claims, whose volumes may be in one zone, which the plan does not look at ({how})",
    )
    yield from note(
        _pods(cluster.claiming),
        "pod that is not planned has",
        "pods that are not planned have",
        "resource claims, whose devices the plan does not look at",
    )
    for what, concerns in IGNORED.items():
        jobs = _names(job for job in cluster.jobs if any(map(concerns, job.pods)))
        yield from note(jobs, *have, f"{what}, which the plan does not look at")
    for name, names in cluster.budgeted.items():
        yield (
            f"The PodDisruptionBudget {name} allows no eviction, which does not keep a script from "
            f"stopping {some(names, NAMED)}."
        )
    yield from _priority_notes(cluster)
    soft = sum(taint.effect not in HARD for node in cluster.nodes for taint in node.spec.taints)
    if soft:
        are = counted(soft, "taint is only a preference", "taints are only preferences")
        yield f"{are}, which the plan does not look at."


def _priority_notes(cluster: Cluster) -> Iterator[str]:
    """Yield notes on effects of pod priorities that the plan ignores."""
    lowest = min((job.priority or 0 for job in cluster.jobs), default=0)
    above = [job for job in cluster.jobs if (job.priority or 0) > lowest]
    if cluster.options.value == "gpus":
        kind, value = "a higher priority (PriorityClass) than others", "priority or priority-then-gpus"
        yield from note(
            _names(above), "job has", "jobs have", f"{kind}, which counts only with --value {value}"
        )
    stop = [
        job.name
        for job in above
        if any(pod.waits and pod.spec.preemptionPolicy != "Never" for pod in job.pods)
    ]
    if stop:
        may = counted(len(stop), "waiting job", "waiting jobs")
        yield (
            f"For {may} the scheduler may stop pods of lower priority (preemption), which the plan does not "
            f"look at: {some(stop, NAMED)}."
        )


def job_notes(cluster: Cluster, job: PodJob) -> list[str]:
    """Return what is assumed about a planned job, one sentence each."""
    pods, kept = job.pods, cluster.kept.get(job.name)
    budgets = [name for name, concerned in cluster.budgeted.items() if job.name in concerned]
    ignored = [what for what, concerns in IGNORED.items() if any(map(concerns, pods))]
    notes = {
        f"It is not moved, for its pods {kept}.": kept,
        "It stays on its GPU model, for its pods name none.": job.keeps_models,
        f"Of several GPU models all its pods get {job.gpu_model}, of which most are free.": job.model_chosen,
        "It is kept apart from other pods, perhaps more strictly than Kubernetes does.": any(
            group.rules for group in job.groups
        ),
        "Its volumes may be in one zone, which the plan does not look at.": any(
            map(cluster.has_unknown_volumes, pods)
        ),
        f"Its PodDisruptionBudget {some(budgets)} allows no eviction.": budgets,
        f"The plan does not look at its {some(ignored, len(IGNORED))}.": ignored,
    }
    return [sentence for sentence, holds in notes.items() if holds]


def _text(value: object) -> str:
    return value if isinstance(value, str) else "unnamed"


IGNORED: dict[str, Callable[[Pod], bool]] = {
    "preferred node affinity": is_preferred,
    "preferred affinity to other pods": is_near_by_preference,
    "topology spread constraints that are only preferred": lambda pod: (
        len(pod.spec.topologySpreadConstraints) > len(pod.spread)
    ),
    "quotas of Kueue": lambda pod: is_queued([pod]),
}
"""Features of pods that the plan ignores, each with a test of whether a pod uses it."""


WANTED = "give what kubectl get nodes,pods --all-namespaces -o json prints"
EMPTY = "(empty)"
"""In place of a kind: the files that list nothing."""
VOLUMES = ("PersistentVolumeClaim", "PersistentVolume")


@dataclass(frozen=True)
class ObjectLists:
    """The objects of some files.

    Parameters
    ----------
    paths
        The files; one that stands twice counts once.
    volumes
        One of them that must list volumes; None without one.
    """

    paths: tuple[Path, ...]
    volumes: Path | None = None

    @cached_property
    def source(self) -> str:
        """The files that list nodes and pods, for messages."""
        return " and ".join(str(path) for path in self.paths)

    @cached_property
    def _by_kind(self) -> dict[str, list[tuple[Path, str, Any]]]:
        """Kind → file, path in it, and data of each object."""
        found: dict[str, list[tuple[Path, str, Any]]] = defaultdict(list)
        # Where nodes and pods are apart, an object that does not say its kind is what its file is for.
        roles = zip(self.paths, ("Node", "Pod") if len(self.paths) > 1 else ("",), strict=False)
        for path, role in {**({self.volumes: ""} if self.volumes else {}), **dict(roles)}.items():
            empty = True
            for place, kind, item in _items(path):
                if not (kind or role):
                    raise fail(str(path), f"is {shown(item)}, which does not say its kind", place)
                found[kind or role].append((path, place, item))
                empty = False
            if empty:
                found[EMPTY].append((path, "", None))
        return found

    def objects(self, listed: type[ObjectList[ObjectT]], *kinds: str) -> tuple[ObjectT, ...]:
        """Return the objects of some kinds.

        Raises
        ------
        InstanceError
            If one is wrong.
        """
        objects = list(chain.from_iterable(self._by_kind.get(kind, ()) for kind in kinds))
        source = str(objects[0][0]) if objects else self.source
        return validated(listed, {"items": [item for *_, item in objects]}, source).items

    def _file(self, kind: str) -> str:
        """Return the file with the objects of a kind, for messages.

        Raises
        ------
        InstanceError
            If there is none.
        """
        there = self._by_kind.get(kind) or self._by_kind.get(EMPTY)
        if not there:
            raise fail(self.source, f"no {kind.lower()}s are listed; {WANTED}")
        return str(there[0][0])

    def nodes(self) -> tuple[Node, ...]:
        """Return the nodes.

        Raises
        ------
        InstanceError
            If there are none, or one is wrong.
        """
        source, _ = self._file("Node"), self._file("Pod")
        nodes = self.objects(ObjectList[Node], "Node")
        refuse_faults(source, repeated((node.name for node in nodes), "items", "metadata.name"))
        return nodes

    def pods(self) -> tuple[tuple[Pod, ...], RejectedEntries]:
        """Return the valid pods, without duplicates, and the rejected entries."""
        source, left_out = self._file("Pod"), RejectedEntries("pod")
        entries = ((place, _name_of(item) or place, item) for _, place, item in self._by_kind.get("Pod", ()))
        return tuple(valid_entries(Pod, entries, source, left_out, lambda pod: pod.full_name)), left_out

    def read_volumes(self) -> Volumes:
        """Return the volumes and claims.

        Raises
        ------
        InstanceError
            If a file of volumes was given, and lists none.
        """
        listed = ((kind, path) for kind, objects in self._by_kind.items() for path, *_ in objects)
        kinds = {kind for kind, path in listed if path == self.volumes} - {EMPTY}
        for kind in VOLUMES:
            if kinds and kind not in kinds:
                have = ", ".join(sorted(kinds)[:3])
                raise fail(
                    str(self.volumes),
                    f"lists {have}, and no {kind}; "
                    "give what kubectl get pv,pvc --all-namespaces -o json prints",
                )
        return Volumes(self.objects(ObjectList[VolumeObject], *VOLUMES))


def _items(path: Path) -> Iterator[tuple[str, str, Any]]:
    """Yield path, kind and data of each object that a file lists.

    Raises
    ------
    InstanceError
        If it is no list of kubectl.
    """
    data = parse_document(read_text(path), str(path), ".json")
    items = at(data, "items")
    if not isinstance(items, list):
        raise fail(str(path), f"has no list of items; {WANTED}")
    of_list = data.get("kind", "List")
    if not isinstance(of_list, str) or not of_list.endswith("List"):
        raise fail(str(path), f"is {shown(of_list)}, not a List; {WANTED}", "kind")
    for index, item in enumerate(items):
        kind = at(item, "kind")
        yield f"items[{index}]", kind if isinstance(kind, str) else of_list.removesuffix("List"), item


def _name_of(pod: Any) -> str:
    """Return namespace and name of an unvalidated pod entry; empty if it has none."""
    return "/".join(filter(None, (_text_at(pod, "metadata", key) for key in ("namespace", "name"))))


def node_of(pod: Any) -> str:
    """Return the node of an unvalidated pod entry; empty if it has none."""
    return "" if _text_at(pod, "status", "phase") in ENDED else _text_at(pod, "spec", "nodeName")


def _text_at(data: Any, *path: str) -> str:
    """Return the text at a path of nested mappings; empty if it is absent."""
    found = at(data, *path)
    return found if isinstance(found, str) else ""


class ElasticKubernetesOptions(KubernetesOptions):
    """Elastic jobs on the nodes of a Kubernetes cluster: an allocation instance."""

    ORDER = ("nodes", "speeds")

    speeds: Speeds


@Importer
def import_kubernetes(options: KubernetesOptions) -> ConsolidationInstance:
    """Return the consolidation instance of a Kubernetes cluster."""
    return _planned(options)[0]


@Importer
def import_kubernetes_elastic(options: ElasticKubernetesOptions) -> AllocationInstance:
    """Return the allocation instance of the elastic jobs of a Kubernetes cluster."""
    return elastic_instance(*_planned(options), options.speeds)


def _planned(options: KubernetesOptions) -> tuple[ConsolidationInstance, ClusterSnapshot]:
    """Return the consolidation instance of a Kubernetes cluster, and the snapshot of which it is made.

    Raises
    ------
    InstanceError
        If a file is wrong, or there is nothing to plan.
    """
    lists = ObjectLists(tuple(filter(None, (options.nodes, options.pods))), options.volumes)
    nodes = lists.nodes()
    label = options.gpu_label
    if label and not any(node.labels.get(label) for node in nodes):
        known = sorted({name for node in nodes for name in node.labels if _may_be_model(name)})
        raise fail(
            str(options.nodes),
            f"no node has the label {label!r} (--gpu-label); labels are {some(known) or 'none'}",
        )
    present, invalid = lists.pods()
    unread = frozenset(map(node_of, invalid.data)) - {""}
    gangs = lists.objects(ObjectList[PodGang], "PodGroup")
    budgets = lists.objects(ObjectList[DisruptionBudget], "PodDisruptionBudget")
    cluster = Cluster(nodes, present, options, unread, lists.read_volumes(), gangs, budgets)
    source = options.pods or options.nodes
    left_out = list(invalid.sentences())
    if unread:
        names = one_line(some(sorted(unread)))
        left_out.append(f"What they hold is not known: their nodes count as cordoned ({names}).")
    rest = "left out with the others of their jobs for what they ask for of GPUs, and stay where they run"
    left_out += note(list_with_reasons(cluster.unclear), "pod is", "pods are", rest)
    without = list_with_reasons(cluster.devices.out)
    left_out += note(without, "node counts", "nodes count", "as cordoned for the GPUs")
    if not cluster.nodes:
        out = counted(len(cluster.out), "is", "are")
        what = f"has no node that takes pods; {out} cordoned or not ready"
        if cluster.short:
            what += f"; {len(cluster.short)} have less than their pods hold"
        raise fail(str(options.nodes), "; ".join([what, *left_out]))
    if not cluster.jobs:
        what = "has no pod to plan: no " + _requested_pods(options)
        raise fail(str(source), "; ".join([what, *_unplanned_counts(cluster), *left_out]))
    notes = [*assumptions(cluster), *ignored_feature_notes(cluster), *left_out]
    for workload, job in zip(cluster.snapshot.workloads, cluster.jobs, strict=True):
        workload.assumed = job_notes(cluster, job)
    files = " and ".join(path.name for path in lists.paths)
    made = cluster.snapshot.instance(
        f"kubernetes-{source.stem}", f"{files}, as kubectl prints them", notes, source
    )
    return made, cluster.snapshot


def _may_be_model(label: str) -> bool:
    """Return whether a label may hold the GPU model of a node."""
    return label == MACHINE or any(word in label for word in ("gpu", "accelerator"))


def _requested_pods(options: KubernetesOptions) -> str:
    which = "pod that waits" if options.running == "stay" else "pod that waits or runs"
    gpu = " and whose job asks for a GPU" if options.choice == "gpu" else ""
    where = f" in {', '.join(options.namespaces)}" if options.namespaces else " outside kube-*"
    hint = " (--plan all plans the others)" if options.choice == "gpu" else ""
    return which + gpu + where + hint


def _unplanned_counts(cluster: Cluster) -> Iterator[str]:
    """Yield text on the number of unplanned pods for each first reason why they are not planned."""
    reasons = Counter(map(cluster.why_unplanned, cluster.present))
    if reasons:
        counts = (f"{count} {why}" for why, count in reasons.most_common())
        yield f"of its {counted(len(cluster.present), 'pod')} there are {', '.join(counts)}"
