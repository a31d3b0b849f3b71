"""Jobs of pods: pods of one owner in groups of equal requests and nodes, and their workloads.

The workload, the object that the pods belong to, decides whether a job that runs may be stopped and
moved.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pydantic import ValidationError

from ...common.workload import Workload
from ...consolidation.devices import DeviceDemand
from ...consolidation.job import ONLY_GROUP
from ..node_restrictions import numbered
from .kubernetes_objects import Pod, Requests

JOB_LABELS = (
    "training.kubeflow.org/job-name",
    "jobset.sigs.k8s.io/jobset-name",
    "leaderworkerset.sigs.k8s.io/name",
    "volcano.sh/job-name",
    "ray.io/cluster",
    "pytorch-job-name",
    "tf-job-name",
    "mpi-job-name",
    "batch.kubernetes.io/job-name",
    "job-name",
)
"""Labels that name the job of a pod, the outermost job first."""
ROLE_LABELS = (
    "training.kubeflow.org/replica-type",
    "jobset.sigs.k8s.io/replicatedjob-name",
    "volcano.sh/task-spec",
    "ray.io/node-type",
    "replica-type",
)
"""Labels that name the role of a pod in its job."""
GANG_LABELS = (
    "scheduling.x-k8s.io/pod-group",
    "pod-group.scheduling.sigs.k8s.io",
    "kueue.x-k8s.io/pod-group-name",
)
"""Labels that name the gang of a pod."""
GANG_NOTES = ("scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name", "pod-group-name")
"""Annotations that do."""
GANG_SIZE = "kueue.x-k8s.io/pod-group-total-count"
"""Annotation with the number of pods of a gang."""
INDEPENDENT = ("ReplicaSet", "ReplicationController")
"""Kinds of owner whose pods need not run at the same time."""
LONGEST_NAME = 150
JobKey = tuple[str, str, str]
"""Namespace, label or kind of owner, and name: what the pods of one job, or of the jobs of a gang, share."""


@dataclass
class PodGroup:
    """Pods of a job with equal demand, which become identical tasks of the planned job.

    Parameters
    ----------
    role
        The name of the group in the job.
    requests
        The requests of each pod.
    nodes
        The nodes that each pod may use.
    ask
        The demand of each pod for single devices.
    pods
        The pods themselves.
    models
        The GPU models to which running pods are restricted, if they name none.
    rules
        The demand of each pod for resources that stand for rules on other pods.
    """

    role: str
    requests: Requests
    nodes: frozenset[str]
    ask: DeviceDemand | None = None
    pods: list[Pod] = field(default_factory=list)
    models: tuple[str, ...] = ()
    rules: tuple[tuple[str, int], ...] = ()

    @property
    def current(self) -> dict[str | None, int]:
        """Node → the number of these pods there; None → those without one."""
        return dict(sorted(Counter(pod.node for pod in self.pods).items(), key=str))


@dataclass
class PodJob:
    """Pods that are placed together or not at all.

    Parameters
    ----------
    name
        Namespace and name, shortened if very long.
    gpu_model
        The model that all pods select by their node selector, or the models of all nodes that they may use.
    groups
        Its groups of pods, with unique names.
    part
        `runs` or `waits` for the running or waiting part of a job that runs in part; else empty.
    model_chosen
        Whether the model was chosen here, for all pods of a waiting job that names none.
    """

    name: str
    gpu_model: str | list[str] | None
    groups: list[PodGroup]
    part: str = ""
    model_chosen: bool = False

    @property
    def pods(self) -> list[Pod]:
        """All pods of the job."""
        return [pod for group in self.groups for pod in group.pods]

    @property
    def places(self) -> set[str | None]:
        """The nodes of its pods, with None if some have none."""
        return {pod.node for pod in self.pods}

    @property
    def keeps_models(self) -> bool:
        """Whether running pods are restricted to GPU models that they do not name."""
        return any(group.models for group in self.groups)

    @property
    def priority(self) -> int | None:
        """The highest priority of its pods, as given by their PriorityClass."""
        return max((pod.spec.priority for pod in self.pods if pod.spec.priority is not None), default=None)


def is_unplanned(pod: Pod) -> bool:
    """Return whether a pod belongs to the node or the cluster system, or is being deleted."""
    owner = pod.owner
    return (
        (owner is not None and owner.kind in ("DaemonSet", "Node"))
        or "kubernetes.io/config.mirror" in pod.metadata.annotations
        or pod.metadata.namespace.startswith("kube-")
        or pod.metadata.deletionTimestamp is not None
    )


def jobs_of(
    pods: Sequence[Pod],
    gpu_label: str,
    gpu_models: Mapping[str, str],
    allowed: Callable[[Pod, str | None], frozenset[str]],
    asks: Mapping[int, DeviceDemand | None],
    rules: Mapping[int, tuple[tuple[str, int], ...]],
    gangs: Mapping[JobKey, JobKey],
) -> list[PodJob]:
    """Return the jobs that pods belong to.

    Parameters
    ----------
    pods
        The pods that are planned.
    gpu_label
        The node label with the GPU model; a job whose pods all select one model by it has that model.
    gpu_models
        Node → its GPU model.
    allowed
        Function of a pod and an ignored label of its node selector that returns the nodes that it may use.
    asks, rules
        Identity of a pod → its demand for single devices, and that for resources that stand for rules.
    gangs
        Key of a job → key of the gang in which it is with other jobs.
    """
    members: dict[JobKey, list[Pod]] = defaultdict(list)
    for pod in pods:
        key = key_of(pod)
        members[gangs.get(key, key)].append(pod)
    jobs = []
    names = numbered((_shortened(f"{key[0]}/{key[-1]}") for key in members), "{} ({})")
    for name, own in zip(names, members.values(), strict=True):
        models = {pod.spec.nodeSelector.get(gpu_label) for pod in own}
        # A pod keeps its node when the node's label changes.
        models |= {gpu_models.get(pod.node) for pod in own if pod.node is not None}
        model = models.pop() if len(models) == 1 else None
        usable = [allowed(pod, gpu_label if model else None) for pod in own]
        jobs.append(PodJob(name, model, _groups(own, usable, asks, rules)))
    return jobs


def in_parts(jobs: Sequence[PodJob], nodes: Collection[str]) -> list[PodJob]:
    """Split each job of which only some pods run into its running and its waiting pods.

    The running pods keep their places independently of the rest; the rest starts together or not at all.
    """
    parts = []
    for job in jobs:
        on_nodes = {id(pod) for pod in job.pods if pod.node in nodes}
        if len(on_nodes) in (0, len(job.pods)):
            parts.append(job)
            continue
        for part, form in (("runs", "{}"), ("waits", "{} (waits)")):
            groups = [
                replace(group, pods=[pod for pod in group.pods if (id(pod) in on_nodes) == (part == "runs")])
                for group in job.groups
            ]
            kept = [group for group in groups if group.pods]
            parts.append(replace(job, name=form.format(job.name), groups=kept, part=part))
    for job, name in zip(parts, list(numbered((job.name for job in parts), "{} ({})")), strict=True):
        job.name = name
    return parts


def key_of(pod: Pod) -> JobKey:
    """Return the key that the pods of one job share."""
    namespace = pod.metadata.namespace
    for label in JOB_LABELS:
        if pod.labels.get(label):
            return namespace, label, pod.labels[label]
    owner = pod.owner
    if owner is not None and owner.kind not in INDEPENDENT:
        return namespace, owner.kind, owner.name
    return namespace, "Pod", pod.metadata.name


def gang_of(pod: Pod) -> tuple[str, str] | None:
    """Return namespace and name of the gang of a pod, None without one."""
    notes = pod.metadata.annotations
    named = [*(pod.labels.get(label) for label in GANG_LABELS), *(notes.get(name) for name in GANG_NOTES)]
    return next(((pod.metadata.namespace, name) for name in named if name), None)


def keys_with_gangs(pods: Iterable[Pod]) -> dict[JobKey, JobKey]:
    """Return key of a job → key of the gang, for jobs that start together as they share a gang."""
    members: dict[tuple[str, str], set[JobKey]] = defaultdict(set)
    for pod in pods:
        gang = gang_of(pod)
        if gang is not None:
            members[gang].add(key_of(pod))
    joined: dict[JobKey, JobKey] = {}
    for (namespace, name), keys in members.items():
        if len(keys) > 1:
            key = next(
                (joined[known] for known in sorted(keys) if known in joined), (namespace, "gang", name)
            )
            old = {joined[known] for known in keys if known in joined}
            joined |= {known: key for known, of in joined.items() if of in old} | dict.fromkeys(keys, key)
    return joined


def _shortened(name: str) -> str:
    if len(name) <= LONGEST_NAME:
        return name
    return f"{name[: LONGEST_NAME - 9]}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def _groups(
    pods: Sequence[Pod],
    nodes: Sequence[frozenset[str]],
    asks: Mapping[int, DeviceDemand | None],
    rules: Mapping[int, tuple[tuple[str, int], ...]],
) -> list[PodGroup]:
    """Return the pods grouped by equal demand and allowed nodes, each group with a unique name."""
    by_demand: dict[tuple[object, ...], PodGroup] = {}
    for pod, usable in zip(pods, nodes, strict=True):
        ask, ruled = asks.get(id(pod)), rules.get(id(pod), ())
        role = next((pod.labels[label] for label in ROLE_LABELS if pod.labels.get(label)), "pods")
        requests = pod.requests
        key = (role, tuple(sorted(requests.items())), usable, ask, ruled)
        group = by_demand.setdefault(key, PodGroup(role, requests, usable, ask, rules=ruled))
        group.pods.append(pod)
    groups = list(by_demand.values())
    for group, role in zip(groups, list(numbered((group.role for group in groups), "{}-{}")), strict=True):
        group.role = role
    return groups


OPERATOR = "training.kubeflow.org/job-name"
OPERATED = ("PyTorchJob", "TFJob", "XGBoostJob", "PaddleJob", "JAXJob", "MPIJob")
REPLICA_TYPES = {"ps": "PS", **{name.lower(): name for name in ("Master", "Worker", "Launcher", "Chief")}}
"""Value of a replica-type label → name of the replica type in the object."""
JOB_SET, PART_OF_SET = "jobset.sigs.k8s.io/jobset-name", "jobset.sigs.k8s.io/replicatedjob-name"
KUEUE = "kueue.x-k8s.io/"
OWNERS = {
    ("batch", "Job"): "jobs.batch",
    ("apps", "StatefulSet"): "statefulsets.apps",
    **{("kubeflow.org", kind): f"{kind.lower()}s.kubeflow.org" for kind in OPERATED},
}
"""API group and kind of an owner → its resource name for kubectl."""
SUSPENDED = ("jobs.batch", "jobsets.jobset.x-k8s.io", *(f"{kind.lower()}s.kubeflow.org" for kind in OPERATED))
"""Resources that can be suspended: their pods end, and others start when they are resumed."""
KEPT = {
    "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
    "karpenter.sh/do-not-disrupt": "true",
    "karpenter.sh/do-not-evict": "true",
}
"""Annotations that forbid the eviction of pods."""


def workload_of(job: PodJob) -> Workload | None:
    """Return the object that the pods of a job belong to; None if its name is not plain, or of several."""
    pod = job.pods[0]
    if len(set(map(key_of, job.pods))) > 1:
        return None
    labels, parts = pod.labels, {}
    if any(label.startswith("trainer.kubeflow.org/") for label in labels):
        resource, name = "trainjobs.trainer.kubeflow.org", labels.get(JOB_SET, pod.name)
    elif labels.get(JOB_SET):
        resource, name = "jobsets.jobset.x-k8s.io", labels[JOB_SET]
        parts = _parts(job, PART_OF_SET)
    elif labels.get(OPERATOR):
        kinds = {other.owner.kind for other in job.pods if other.owner is not None} & set(OPERATED)
        # The launcher of an MPIJob belongs to a Job.
        resource, name = f"{min(kinds or {'MPIJob'}).lower()}s.kubeflow.org", labels[OPERATOR]
        parts = _parts(job, "training.kubeflow.org/replica-type")
    else:
        resource, name = _of_owner(pod)
    try:
        return Workload(resource=resource, namespace=pod.metadata.namespace, name=name, parts=parts)
    except ValidationError:
        return None


def _parts(job: PodJob, label: str) -> dict[str, str]:
    """Return name of a pod group → replica type in the Kubernetes object, such as Worker, from a label."""
    part_of = {}
    for group in job.groups:
        part = group.pods[0].labels.get(label)
        if part:
            part_of[group.role if len(job.groups) > 1 else ONLY_GROUP] = REPLICA_TYPES.get(part.lower(), part)
    return part_of


def _of_owner(pod: Pod) -> tuple[str, str]:
    owner = pod.owner
    if owner is None:
        return "pods", pod.name
    digest = pod.labels.get("pod-template-hash")
    if owner.kind == "ReplicaSet" and digest and owner.name.endswith(f"-{digest}"):
        return "deployments.apps", owner.name.removesuffix(f"-{digest}")
    for (group, kind), resource in OWNERS.items():
        if owner.kind == kind and owner.group in ("", group):
            return resource, owner.name
    return f"{owner.kind.lower()}s.{owner.group}".rstrip("."), owner.name


def why_it_stays(job: PodJob, workload: Workload | None) -> str | None:
    """Return why a running job may not be moved; None if it may."""
    annotations = [pod.metadata.annotations for pod in job.pods]
    if any(notes.get(name) == value for notes in annotations for name, value in KEPT.items()):
        return "ask by an annotation not to be evicted"
    if is_queued(job.pods):
        return "are held and released by Kueue"
    if job.part == "runs":
        return "run while others of their job wait"
    resource = workload.resource if workload else ""
    if resource in SUSPENDED:
        return None
    if resource == "pods":
        return "have no owner that starts them again"
    return "serve, or have an owner that cannot be suspended"


def is_queued(pods: Sequence[Pod]) -> bool:
    """Return whether Kueue decides when these pods run."""
    return any(name.startswith(KUEUE) for pod in pods for name in (*pod.labels, *pod.metadata.annotations))
