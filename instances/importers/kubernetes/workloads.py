"""Which object the pods of a job belong to, and whether a job that runs may be stopped and moved."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import ValidationError

from ...consolidation.job import ONLY_GROUP
from ...consolidation.workload import Workload
from .jobs import PodJob
from .objects import Pod

OPERATOR = "training.kubeflow.org/job-name"
OPERATED = ("PyTorchJob", "TFJob", "XGBoostJob", "PaddleJob", "JAXJob", "MPIJob")
REPLICA_TYPES = {"ps": "PS", **{name.lower(): name for name in ("Master", "Worker", "Launcher", "Chief")}}
"""Label of a pod with its part → what the object calls the part."""
JOB_SET, PART_OF_SET = "jobset.sigs.k8s.io/jobset-name", "jobset.sigs.k8s.io/replicatedjob-name"
KUEUE = "kueue.x-k8s.io/"
OWNERS = {
    ("batch", "Job"): "jobs.batch",
    ("apps", "StatefulSet"): "statefulsets.apps",
    **{("kubeflow.org", kind): f"{kind.lower()}s.kubeflow.org" for kind in OPERATED},
}
"""Group and kind of an owner → what kubectl calls it."""
SUSPENDED = ("jobs.batch", "jobsets.jobset.x-k8s.io", *(f"{kind.lower()}s.kubeflow.org" for kind in OPERATED))
"""What can be suspended: its pods end, and others start when it is resumed."""
KEPT = {
    "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
    "karpenter.sh/do-not-disrupt": "true",
    "karpenter.sh/do-not-evict": "true",
}
"""Annotations by which pods ask not to be moved."""


def workload_of(job: PodJob) -> Workload | None:
    """Return the object that the pods of a job belong to, or the pod itself; None if it has no plain name."""
    pod = job.pods[0]
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
    """Return group → its part of the object, of groups that say it."""
    found = {}
    for group in job.groups:
        part = group.pods[0].labels.get(label)
        if part:
            found[group.role if len(job.groups) > 1 else ONLY_GROUP] = REPLICA_TYPES.get(part.lower(), part)
    return found


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
    """Say why a job that runs is not to be moved; None if it may be."""
    annotations = [pod.metadata.annotations or {} for pod in job.pods]
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
    return any(
        name.startswith(KUEUE) for pod in pods for name in (*pod.labels, *(pod.metadata.annotations or {}))
    )
