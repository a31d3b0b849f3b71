"""Objects of Kubernetes as nodes and jobs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clusterplan.instances.importers.clusters.kubernetes import assumptions, ignored_feature_notes
from clusterplan.instances.importers.clusters.kubernetes_cluster import Cluster
from clusterplan.instances.importers.clusters.kubernetes_jobs import (
    LONGEST_NAME,
    PodJob,
    is_unplanned,
    jobs_of,
    key_of,
    why_it_stays,
    workload_of,
)
from clusterplan.instances.importers.clusters.kubernetes_objects import (
    GPU,
    MACHINE,
    MODEL_LABELS,
    KubernetesOptions,
    Node,
    Pod,
)

GKE = "cloud.google.com/gke-accelerator"
MODELS = {"a1": "a100", "a2": "a100", "l1": "l4", "c": ""}


def node(name: str, labels: dict[str, str], gpus: int) -> Node:
    """Return a node that is ready."""
    status = {"allocatable": {"cpu": "8", "memory": "16Gi", "pods": "9"}}
    status["allocatable"] |= {"nvidia.com/gpu": str(gpus)} if gpus else {}
    return Node.model_validate({"metadata": {"name": name, "labels": labels}, "spec": {}, "status": status})


def pod(name: str, on: str | None = None, gpus: int = 1, job: str = "j", **spec: Any) -> Pod:
    """Return a pod of a Job."""
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": job, "controller": True}
    container = {"resources": {"requests": {"cpu": "1", **({"nvidia.com/gpu": str(gpus)} if gpus else {})}}}
    document = {
        "metadata": {"name": name, "namespace": "t", "ownerReferences": [owner]},
        "spec": {"containers": [container], "nodeName": on, **spec},
        "status": {"phase": "Running" if on else "Pending"},
    }
    return Pod.model_validate(document)


def cluster(*pods: Pod, label: str = GKE, **options: Any) -> Cluster:
    """Return two nodes with an A100, one with an L4, and one without GPUs."""
    nodes = [node(n, {label: model} if model else {}, 4 if model else 0) for n, model in MODELS.items()]
    return Cluster(tuple(nodes), pods, KubernetesOptions(nodes=Path("n"), pods=Path("p"), **options))


@pytest.mark.parametrize("label", [*MODEL_LABELS, MACHINE])
def test_labels_with_the_model(label: str) -> None:
    """Those of makers and clouds are known; else the type of a machine with GPUs stands for it."""
    made = cluster(pod("p"), label=label)
    assert made.models.label == label
    assert [each["gpu_model"] for each in made.snapshot.servers()] == [
        "a100",
        "a100",
        "l4",
        None,
    ]


@pytest.mark.parametrize(
    ("resource", "is_gpu"),
    [
        ("nvidia.com/gpu", True),
        ("amd.com/gpu", True),
        ("nvidia.com/mig-1g.5gb", True),
        ("gpu.intel.com/i915", True),
        ("google.com/tpu", True),
        ("aws.amazon.com/neuron", True),
        ("aws.amazon.com/neuroncore", True),
        ("habana.ai/gaudi", True),
        ("vpc.amazonaws.com/efa", False),
        ("mellanox.com/shared_hca_rdma", False),
        ("cpu", False),
        ("nvidia.com/gpumem", False),
    ],
)
def test_resources_that_are_gpus(resource: str, is_gpu: bool) -> None:
    """By the names that makers give them."""
    assert (GPU.fullmatch(resource) is not None) == is_gpu


def test_a_running_job_stays_on_its_model() -> None:
    """Unless its pods name models themselves; one that waits gets one for all its pods, or any."""
    either = {"key": GKE, "operator": "In", "values": ["a100", "l4"]}
    required = {"nodeSelectorTerms": [{"matchExpressions": [either]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    pods = (
        pod("r", "a1", job="runs"),
        pod("e", "a1", job="either", affinity=affinity),
        pod("w", job="waits"),
        pod("v", job="waits"),
    )
    free = {job.name: job.gpu_model for job in cluster(*pods).jobs}
    assert free["t/waits"] == "a100"
    said = " ".join(assumptions(cluster(*pods)))
    assert "of which most are free (else --gpu-models any): t/waits." in said
    made = cluster(*pods, gpu_models="any")
    models = {job.name: job.gpu_model for job in made.jobs}
    assert models == {"t/runs": ["a100"], "t/either": ["a100", "l4"], "t/waits": None}
    said = " ".join(assumptions(made))
    assert f"1 running job stays on its GPU model, as pods name none by {GKE}: t/runs." in said
    assert "1 job of several pods names no GPU model and may be split over several: t/waits." in said


def test_workers_stay_on_their_model_where_a_launcher_has_no_gpu() -> None:
    """The launcher may go anywhere."""
    made = cluster(pod("w", "a1"), pod("l", "c", 0))
    (document,) = made.snapshot.jobs()
    assert document["gpu_model"] is None
    demands = [group["demand"] for group in document["groups"]]
    assert [demand.get("node of a100") for demand in demands if demand.get("gpu")] == [1.0]
    assert [demand.get("node of a100") for demand in demands if not demand.get("gpu")] == [None]
    assert [each["free"]["node of a100"] > 0 for each in made.snapshot.servers()] == [
        True,
        True,
        False,
        False,
    ]


def test_gated_pods_are_not_planned_and_priorities_are_named() -> None:
    """What Kubernetes looks at and the plan does not is said with the jobs."""
    made = cluster(
        pod("g", job="gated", schedulingGates=[{"name": "kueue.x-k8s.io/admission"}]),
        pod("h", job="high", priority=1000),
        pod("r", "a1", job="low", priority=0, volumes=[{"persistentVolumeClaim": {"claimName": "c"}}]),
    )
    assert [job.name for job in made.jobs] == ["t/high", "t/low"]
    said = list(ignored_feature_notes(made))
    gates = "kueue.x-k8s.io/admission"
    assert said[0] == f"1 pod is not planned, for scheduling gates are closed ({gates}): t/g."
    assert said[1].startswith("1 planned job has volume claims, whose volumes may be in one zone")
    assert "1 job has a higher priority (PriorityClass) than others" in said[2]
    assert said[3].startswith("For 1 waiting job the scheduler may stop pods of lower priority")
    jobs = cluster(*made.present, value="priority").snapshot.jobs()
    worth = {job["name"]: job["value"] for job in jobs}
    assert worth["t/high"] > worth["t/low"]


def job_pod(name: str, owner: tuple[str, str] | None = None, gpus: int = 1, **labels: str) -> Pod:
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
    pods = [
        job_pod("a-1", ("Job", "a")),
        job_pod("a-2", ("Job", "a")),
        job_pod("b-1", ("ReplicaSet", "b")),
        job_pod("c"),
    ]
    jobs = jobs_of(pods, "gpu", {}, lambda pod, without: frozenset(), {}, {}, {})
    assert [(job.name, len(job.pods)) for job in jobs] == [("t/a", 2), ("t/b-1", 1), ("t/c", 1)]


def test_pods_that_ask_for_different_things_are_groups() -> None:
    """Each group has one demand."""
    pods = [job_pod(f"a-{n}", ("Job", "a"), gpus) for n, gpus in enumerate((1, 2, 1))]
    (job,) = jobs_of(pods, "gpu", {}, lambda pod, without: frozenset(), {}, {}, {})
    assert sorted(len(group.pods) for group in job.groups) == [1, 2]


def test_pods_that_are_not_planned() -> None:
    """Those of DaemonSets, and static ones."""
    assert [
        is_unplanned(job_pod("x", owner)) for owner in (("DaemonSet", "d"), ("Node", "n"), ("Job", "j"), None)
    ] == [
        True,
        True,
        False,
        False,
    ]


def test_long_names_are_cut_and_stay_different() -> None:
    """Names of two jobs differ only at their ends."""
    pods = [job_pod("x" * 240 + end) for end in "ab"]
    names = [job.name for job in jobs_of(pods, "gpu", {}, lambda pod, without: frozenset(), {}, {}, {})]
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
    (made,) = jobs_of(pods, "gpu", {}, lambda pod, without: frozenset(), {}, {}, {})
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
