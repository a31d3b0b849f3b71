"""Which labels name the GPU model, and which running jobs stay on theirs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clusterplan.instances.importers.clusters.kubernetes import assumptions, what_is_ignored
from clusterplan.instances.importers.clusters.kubernetes_cluster import Cluster, ClusterDocument
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
    assert [ClusterDocument(made).server(each)["gpu_model"] for each in made.nodes] == [
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
    """Unless its pods name models themselves; one that waits may use all."""
    either = {"key": GKE, "operator": "In", "values": ["a100", "l4"]}
    required = {"nodeSelectorTerms": [{"matchExpressions": [either]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    made = cluster(
        pod("r", "a1", job="runs"),
        pod("e", "a1", job="either", affinity=affinity),
        pod("w", job="waits"),
        pod("v", job="waits"),
    )
    models = {job.name: job.gpu_model for job in made.jobs}
    assert models == {"t/runs": ["a100"], "t/either": ["a100", "l4"], "t/waits": None}
    said = " ".join(assumptions(ClusterDocument(made)))
    assert f"1 running job stays on its GPU model, as pods name none by {GKE}: t/runs." in said
    assert "1 job of several pods names no GPU model and may be split over several: t/waits." in said


def test_workers_stay_on_their_model_where_a_launcher_has_no_gpu() -> None:
    """The launcher may go anywhere."""
    made = cluster(pod("w", "a1"), pod("l", "c", 0))
    (job,) = made.jobs
    document = ClusterDocument(made).job(job)
    assert document["gpu_model"] is None
    demands = [group["demand"] for group in document["groups"]]
    assert [demand.get("node of a100") for demand in demands if demand.get("gpu")] == [1.0]
    assert [demand.get("node of a100") for demand in demands if not demand.get("gpu")] == [None]
    assert [ClusterDocument(made).server(each)["free"]["node of a100"] > 0 for each in made.nodes] == [
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
    said = list(what_is_ignored(made))
    gates = "kueue.x-k8s.io/admission"
    assert said[0] == f"1 pod is not planned, for scheduling gates are closed ({gates}): t/g."
    assert said[1].startswith("1 planned job has volume claims, whose volumes may be in one zone")
    assert "1 job has a higher priority (PriorityClass) than others" in said[2]
    assert said[3].startswith("For 1 waiting job the scheduler may stop pods of lower priority")
    worth = cluster(*made.present, value="priority").worth
    assert worth["t/high"] > worth["t/low"]
