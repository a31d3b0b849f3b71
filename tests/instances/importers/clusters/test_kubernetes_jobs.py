"""Which pods are placed together.

Which object pods belong to, and which running jobs stay where they are.
"""

from __future__ import annotations

from typing import Any

import pytest

from clusterplan.instances.importers.clusters.kubernetes_jobs import (
    LONGEST_NAME,
    PodJob,
    is_unplanned,
    jobs_of,
    key_of,
    why_it_stays,
    workload_of,
)
from clusterplan.instances.importers.clusters.kubernetes_objects import Pod


def pod(name: str, owner: tuple[str, str] | None = None, gpus: int = 1, **labels: str) -> Pod:
    """Return a pod that waits."""
    references = [{"kind": owner[0], "name": owner[1], "controller": True}] if owner else []
    container = {"resources": {"requests": {"nvidia.com/gpu": str(gpus)}}}
    document: dict[str, Any] = {
        "metadata": {"name": name, "namespace": "t", "labels": labels, "ownerReferences": references},
        "spec": {"containers": [container]},
        "status": {"phase": "Pending"},
    }
    return Pod.model_validate(document)


def test_pods_of_one_owner_are_a_job() -> None:
    """Those of a ReplicaSet and those without an owner are jobs of their own."""
    pods = [pod("a-1", ("Job", "a")), pod("a-2", ("Job", "a")), pod("b-1", ("ReplicaSet", "b")), pod("c")]
    jobs = jobs_of(pods, "gpu", {}, lambda pod, without: frozenset(), {})
    assert [(job.name, len(job.pods)) for job in jobs] == [("t/a", 2), ("t/b-1", 1), ("t/c", 1)]


def test_pods_that_ask_for_different_things_are_groups() -> None:
    """Each group has one demand."""
    pods = [pod(f"a-{n}", ("Job", "a"), gpus) for n, gpus in enumerate((1, 2, 1))]
    (job,) = jobs_of(pods, "gpu", {}, lambda pod, without: frozenset(), {})
    assert sorted(len(group.pods) for group in job.groups) == [1, 2]


def test_pods_that_are_not_planned() -> None:
    """Those of DaemonSets, and static ones."""
    assert [
        is_unplanned(pod("x", owner)) for owner in (("DaemonSet", "d"), ("Node", "n"), ("Job", "j"), None)
    ] == [
        True,
        True,
        False,
        False,
    ]


def test_long_names_are_cut_and_stay_different() -> None:
    """Names of two jobs differ only at their ends."""
    pods = [pod("x" * 240 + end) for end in "ab"]
    names = [job.name for job in jobs_of(pods, "gpu", {}, lambda pod, without: frozenset(), {})]
    assert len(set(names)) == 2
    assert all(len(name) <= LONGEST_NAME for name in names)
    assert key_of(pods[0]) != key_of(pods[1])


OPERATOR, SET = "training.kubeflow.org/", "jobset.sigs.k8s.io/"


def workloads_pod(
    name: str,
    owner: tuple[str, str, str] | None = None,
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    gpus: int = 1,
) -> Pod:
    """Return a pod; its owner is the version of an API, a kind and a name."""
    references = []
    if owner:
        references = [{"apiVersion": owner[0], "kind": owner[1], "name": owner[2], "controller": True}]
    container = {"resources": {"requests": {"nvidia.com/gpu": str(gpus)}}}
    document: dict[str, Any] = {
        "metadata": {
            "name": name,
            "namespace": "t",
            "labels": labels or {},
            "annotations": annotations or {},
            "ownerReferences": references,
        },
        "spec": {"containers": [container]},
        "status": {"phase": "Pending"},
    }
    return Pod.model_validate(document)


def job(*pods: Pod) -> PodJob:
    """Return the job that these pods make."""
    (made,) = jobs_of(pods, "gpu", {}, lambda pod, without: frozenset(), {})
    return made


def found(*pods: Pod) -> tuple[str, str, dict[str, str]]:
    """Return resource, name and parts of their object."""
    workload = workload_of(job(*pods))
    assert workload is not None
    assert workload.namespace == "t"
    return workload.resource, workload.name, workload.parts


@pytest.mark.parametrize(
    ("owner", "labels", "expected"),
    [
        (("batch/v1", "Job", "a"), {}, ("jobs.batch", "a")),
        (("batch.volcano.sh/v1alpha1", "Job", "a"), {}, ("jobs.batch.volcano.sh", "a")),
        (("apps/v1", "StatefulSet", "s"), {}, ("statefulsets.apps", "s")),
        (("apps/v1", "ReplicaSet", "web-7f9"), {"pod-template-hash": "7f9"}, ("deployments.apps", "web")),
        (("apps/v1", "ReplicaSet", "web-7f9"), {}, ("replicasets.apps", "web-7f9")),
        (("ray.io/v1", "RayCluster", "r"), {}, ("rayclusters.ray.io", "r")),
        (None, {}, ("pods", "p")),
    ],
)
def test_objects_by_owner(
    owner: tuple[str, str, str] | None, labels: dict[str, str], expected: tuple[str, str]
) -> None:
    """Group and kind say what kubectl calls it; a Deployment is that of its ReplicaSet."""
    assert found(workloads_pod("p", owner, labels)) == (*expected, {})


def test_objects_of_operators() -> None:
    """Labels name the object and the part; the launcher of an MPIJob belongs to a Job of its own."""

    def member(name: str, owner: tuple[str, str, str], role: str, gpus: int) -> Pod:
        return workloads_pod(
            name, owner, {f"{OPERATOR}job-name": "m", f"{OPERATOR}replica-type": role}, gpus=gpus
        )

    launcher = member("l", ("batch/v1", "Job", "m-launcher"), "launcher", 0)
    worker = member("w", ("kubeflow.org/v2beta1", "MPIJob", "m"), "worker", 4)
    both = {"launcher": "Launcher", "worker": "Worker"}
    assert found(launcher, worker) == ("mpijobs.kubeflow.org", "m", both)
    torch = member("w", ("kubeflow.org/v1", "PyTorchJob", "m"), "worker", 4)
    assert found(torch) == ("pytorchjobs.kubeflow.org", "m", {"tasks": "Worker"})
    labels = {f"{SET}jobset-name": "llm", f"{SET}replicatedjob-name": "workers"}
    child = workloads_pod("c", ("batch/v1", "Job", "llm-workers-0"), labels)
    assert found(child) == ("jobsets.jobset.x-k8s.io", "llm", {"tasks": "workers"})
    trained = workloads_pod(
        "c", ("batch/v1", "Job", "x"), labels | {"trainer.kubeflow.org/trainjob-ancestor": "x"}
    )
    assert found(trained)[0] == "trainjobs.trainer.kubeflow.org"


def test_an_object_without_a_plain_name_is_none() -> None:
    """A name that no object can have does not stop the import."""
    assert workload_of(job(workloads_pod("p", ("batch/v1", "Job", "$(x)")))) is None


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (workloads_pod("p", ("batch/v1", "Job", "a")), None),
        (workloads_pod("p"), "have no owner that starts them again"),
        (
            workloads_pod("p", ("apps/v1", "StatefulSet", "s")),
            "serve, or have an owner that cannot be suspended",
        ),
        (
            workloads_pod("p", ("batch/v1", "Job", "a"), {"kueue.x-k8s.io/queue-name": "q"}),
            "are held and released by Kueue",
        ),
        (
            workloads_pod("p", ("batch/v1", "Job", "a"), annotations={"karpenter.sh/do-not-disrupt": "true"}),
            "ask by an annotation not to be evicted",
        ),
    ],
)
def test_which_running_jobs_stay(made: Pod, why: str | None) -> None:
    """Only what can be suspended moves, unless its pods ask to stay."""
    assert why_it_stays(job(made), workload_of(job(made))) == why
