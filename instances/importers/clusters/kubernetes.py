"""Importer of Kubernetes: nodes and pods of a cluster in use as a consolidation instance.

The file is what ``kubectl get nodes,pods --all-namespaces -o json`` prints, or two files have nodes and pods.
They may list more: ``pv,pvc`` keep pods near their volumes, ``podgroups`` say how large gangs are, and
``pdb`` are named with the jobs that they concern.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from ...common.errors import one_line, some
from ...common.faults import validated
from ...consolidation.instance import ON_TIES, ConsolidationInstance
from ...files.reading import fail
from ..importer import Importer
from ..node_restrictions import counted, gpu_model_note
from .device_sharing import unknown_geometry_note
from .job_values import job_value_note, move_cost, move_cost_note
from .kubernetes_affinity import HARD, is_near_by_preference, is_preferred
from .kubernetes_cluster import Cluster, ClusterDocument
from .kubernetes_devices import is_time_sliced, parts_as_amounts
from .kubernetes_files import ObjectLists, node_of
from .kubernetes_jobs import is_queued
from .kubernetes_objects import MACHINE, KubernetesOptions, Pod

NAMED = 3
"""Number of pods, jobs or nodes that a note names."""


def assumptions(document: ClusterDocument) -> Iterator[str]:
    """Yield the assumptions under which the instance describes the cluster."""
    cluster, options = document.cluster, document.cluster.options
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
        parts = [job.name for job in cluster.jobs if job.part == "runs"]
        if parts:
            run = counted(len(parts), "job runs", "jobs run")
            yield (
                f"{run} in part: the pods that run stay, and those that wait are a job of their own, "
                f"NAME (waits): {some(parts, NAMED)}."
            )
        for why in dict.fromkeys(cluster.kept.values()):
            kept = [name for name, its in cluster.kept.items() if its == why]
            jobs = counted(len(kept), "job")
            yield f"Not moved ({jobs}, movable: false), for their pods {why}: {some(kept, NAMED)}."
    yield "What pods hold that are not planned is not free; a pod holds what it requests, whatever it uses."
    yield (
        "The pods of one owner, or of one job by the labels of the training operators, are placed together "
        "or not at all; the pods of a ReplicaSet and pods without an owner are jobs of their own."
    )
    listed, priorities = [job.name for job in cluster.jobs], [job.priority for job in cluster.jobs]
    yield job_value_note(options.value, listed, priorities)
    yield f"Spread is not in the source: {options.spread} for every job of several pods."
    if cluster.out:
        out = counted(len(cluster.out), "node is", "nodes are")
        yield f"{out} cordoned or not ready and left out: {some(cluster.out)}."
    if cluster.emptied:
        nodes = counted(len(cluster.emptied), "cordoned node")
        yield f"To be empty: {nodes} (else --drained stay): {some(sorted(cluster.emptied))}."
    if cluster.short:
        have = counted(len(cluster.short), "node has", "nodes have")
        yield (
            f"{have} less than pods on {'it' if len(cluster.short) == 1 else 'them'} hold, as where a device "
            f"has failed: what runs there stays, and nothing is added: {some(sorted(cluster.short), NAMED)}."
        )
    if cluster.staying:
        have = counted(len(cluster.staying), "job has", "jobs have")
        names = some(job.name for job in cluster.staying)
        yield f"{have} pods on cordoned nodes; what runs of them stays and is not planned: {names}."
    lost = [pod for pod in cluster.moving if pod.node not in cluster.names]
    if lost:
        names = some(f"{pod.metadata.namespace}/{pod.metadata.name}" for pod in lost)
        are = counted(len(lost), "planned pod is", "planned pods are")
        yield f"{are} on nodes not ready or not listed, to be placed anew: {names}."
    if cluster.overcommitted:
        over, names = counted(len(cluster.overcommitted), "node"), some(cluster.overcommitted)
        yield f"More is requested than there is on {over}, to which nothing is added: {names}."
    yield from document.restrictions.sentences("node selector, affinity, taints", "pod", "node")
    yield from _gpu_model_notes(cluster)
    chosen = (job for job in cluster.jobs if isinstance(job.gpu_model, list))
    yield from gpu_model_note([job.name for job in chosen if not any(group.models for group in job.groups)])
    yield from gpu_assumptions(cluster)


def _gpu_model_notes(cluster: Cluster) -> Iterator[str]:
    """Yield notes on the labels that give GPU models, and the running jobs that keep their model."""
    by_type = cluster.models.by_type & cluster.names
    if by_type:
        which = "nodes" if cluster.models.label == MACHINE else some(sorted(by_type), NAMED)
        how = f"{MACHINE} stands for them (--gpu-label names another)"
        yield f"No label has the GPU models of {which}; {how}."
    stay = [job.name for job in cluster.jobs if any(group.models for group in job.groups)]
    if stay:
        what = counted(
            len(stay), "running job stays on its GPU model", "running jobs stay on their GPU models"
        )
        yield (
            f"{what}, as pods name none by {cluster.models.label}: {some(stay, NAMED)}. "
            "To let a job move to others, list them in its gpu_model."
        )
    chosen = [job.name for job in cluster.jobs if job.model_chosen]
    if chosen:
        wait = counted(len(chosen), "waiting job of several pods names", "waiting jobs of several pods name")
        yield (
            f"{wait} no single GPU model, and all their pods get the one of which most are free (else "
            f"--gpu-models any): {some(chosen, NAMED)}."
        )
    models = set(filter(None, map(cluster.models.of, cluster.nodes)))
    mixed = [job.name for job in cluster.jobs if job.gpu_model is None and len(job.pods) > 1]
    mixed = [name for name in mixed if name not in stay]
    if mixed and len(models) > 1:
        may = counted(len(mixed), "job of several pods names", "jobs of several pods name")
        yield f"{may} no GPU model and may be split over several: {some(mixed, NAMED)}."


def gpu_assumptions(cluster: Cluster) -> Iterator[str]:
    """Yield the assumptions on GPUs that pods share or demand in parts."""
    yield from unknown_geometry_note(cluster.unknown_partitions)
    if cluster.devices is not None:
        groups = [group for job in cluster.jobs for group in job.groups]
        asks = [group.ask for group in groups if group.ask is not None]
        yield from cluster.devices.sentences(asks)
    sliced = {node.name for node in cluster.nodes if is_time_sliced(node)}
    if sliced:
        offer = counted(len(sliced), "node offers", "nodes offer")
        present = [f"{p.metadata.namespace}/{p.name}" for p in cluster.present if p.node in sliced]
        on = f"; on {'it' if len(sliced) == 1 else 'them'} are {some(present, NAMED)}" if present else ""
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


def ignored_feature_notes(cluster: Cluster) -> Iterator[str]:
    """Yield notes on the Kubernetes features that the plan ignores, with the affected jobs."""
    gates = sorted(
        {_text(gate.get("name")) for pod in cluster.gated for gate in pod.spec.schedulingGates or ()}
    )
    if gates:
        wait = counted(len(cluster.gated), "pod is", "pods are")
        names = some((f"{pod.metadata.namespace}/{pod.name}" for pod in cluster.gated), NAMED)
        yield f"{wait} not planned, for scheduling gates are closed ({some(gates, NAMED)}): {names}."
    if cluster.left_out:
        listed = some((f"{name} ({why})" for name, why in cluster.left_out.items()), NAMED)
        are = counted(len(cluster.left_out), "job waits and is", "jobs wait and are")
        yield f"{are} left out, for Kubernetes might refuse to start what the plan places: {listed}."
    yield from _rule_notes(cluster)
    yield from _volume_note(cluster)
    if cluster.claiming:
        pods = counted(len(cluster.claiming), "pod that is not planned has", "pods that are not planned have")
        names = some((f"{pod.metadata.namespace}/{pod.name}" for pod in cluster.claiming), NAMED)
        yield f"{pods} resource claims, whose devices the plan does not look at: {names}."
    for what, concerns in IGNORED.items():
        jobs = [job.name for job in cluster.jobs if any(map(concerns, job.pods))]
        if jobs:
            have = counted(len(jobs), "planned job has", "planned jobs have")
            yield f"{have} {what}, which the plan does not look at: {some(jobs, NAMED)}."
    for name, jobs in cluster.budgeted.items():
        stops = f"which does not keep a script from stopping {some(jobs, NAMED)}"
        yield f"The PodDisruptionBudget {name} allows no eviction, {stops}."
    yield from _priority_notes(cluster)
    soft = sum(taint.effect not in HARD for node in cluster.nodes for taint in node.spec.taints or ())
    if soft:
        are = counted(soft, "taint is only a preference", "taints are only preferences")
        yield f"{are}, which the plan does not look at."


def _rule_notes(cluster: Cluster) -> Iterator[str]:
    """Yield a note on the resources that stand for rules of pods on other pods."""
    limits = [] if cluster.rules is None else cluster.rules.limits
    if limits:
        stand = counted(len(limits), "resource stands", "resources stand")
        yield (
            f"{stand} for anti-affinity, host ports and spread on nodes, perhaps more strictly than "
            f"Kubernetes does: {some((limit.name for limit in limits), NAMED)}."
        )


def _volume_note(cluster: Cluster) -> Iterator[str]:
    """Yield a note on the jobs with volumes that may be bound to an unknown zone."""
    volumes = cluster.volumes
    jobs = [job.name for job in cluster.jobs if any(map(cluster.has_unknown_volumes, job.pods))]
    if jobs:
        have = counted(len(jobs), "planned job has", "planned jobs have")
        how = "the file of volumes does not list them" if volumes else "--volumes has them read"
        yield (
            f"{have} volume claims, whose volumes may be in one zone, which the plan does not look at "
            f"({how}): {some(jobs, NAMED)}."
        )


def _priority_notes(cluster: Cluster) -> Iterator[str]:
    """Yield notes on effects of pod priorities that the plan ignores."""
    lowest = min((job.priority or 0 for job in cluster.jobs), default=0)
    above = [job for job in cluster.jobs if (job.priority or 0) > lowest]
    if above and cluster.options.value == "gpus":
        have = counted(len(above), "job has", "jobs have")
        yield (
            f"{have} a higher priority (PriorityClass) than others, which counts only with --value "
            f"priority or priority-then-gpus: {some((job.name for job in above), NAMED)}."
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


def job_notes(cluster: Cluster) -> dict[str, list[str]]:
    """Return name of a planned job → what is assumed about it, one sentence each."""
    notes: dict[str, list[str]] = {}
    for job in cluster.jobs:
        pods = job.pods
        own = [f"It is not moved, for its pods {cluster.kept[job.name]}."] if job.name in cluster.kept else []
        if any(group.models for group in job.groups):
            own.append("It stays on its GPU model, for its pods name none.")
        if job.model_chosen:
            own.append(f"Of several GPU models all its pods get {job.gpu_model}, of which most are free.")
        if any(group.rules for group in job.groups):
            own.append("It is kept apart from other pods, perhaps more strictly than Kubernetes does.")
        if any(map(cluster.has_unknown_volumes, pods)):
            own.append("Its volumes may be in one zone, which the plan does not look at.")
        budgets = [name for name, concerned in cluster.budgeted.items() if job.name in concerned]
        own += [f"Its PodDisruptionBudget {some(budgets)} allows no eviction."] if budgets else []
        ignored = [what for what, concerns in IGNORED.items() if any(map(concerns, pods))]
        own += [f"The plan does not look at its {some(ignored, len(IGNORED))}."] if ignored else []
        if own:
            notes[job.name] = own
    return notes


def _text(value: object) -> str:
    return value if isinstance(value, str) else "unnamed"


IGNORED: dict[str, Callable[[Pod], bool]] = {
    "preferred node affinity": is_preferred,
    "preferred affinity to other pods": is_near_by_preference,
    "topology spread constraints that are only preferred": lambda pod: (
        len(pod.spec.topologySpreadConstraints or ()) > len(pod.spread)
    ),
    "quotas of Kueue": lambda pod: is_queued([pod]),
}
"""Features of pods that the plan ignores, each with a test of whether a pod uses it."""


@Importer
def import_kubernetes(options: KubernetesOptions) -> ConsolidationInstance:
    """Return the consolidation instance of a Kubernetes cluster."""
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
    cluster = Cluster(nodes, present, options, unread, lists.read_volumes(), lists.gangs(), lists.budgets())
    source = options.pods or options.nodes
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
        raise fail(str(options.nodes), "; ".join([what, *left_out]))
    if not cluster.jobs:
        what = "has no pod to plan: no " + _requested_pods(options)
        raise fail(str(source), "; ".join([what, *_unplanned_counts(cluster), *left_out]))
    written, notes = ClusterDocument(cluster), job_notes(cluster)
    document = {
        "name": f"kubernetes-{source.stem}",
        "source": f"{' and '.join(path.name for path in lists.paths)}, as kubectl prints them",
        "assumptions": [*assumptions(written), *ignored_feature_notes(cluster), *left_out],
        "objectives": ["value", *(ON_TIES if cluster.moving else ()), "spread", "servers"],
        **move_cost(bool(cluster.moving)),
        "servers": [written.server(node) for node in cluster.nodes],
        "restrictions": written.made_up or None,
        "jobs": [{**written.job(job), "assumed": notes.get(job.name)} for job in cluster.jobs],
    }
    return validated(ConsolidationInstance, document, str(source))


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
