"""The GPU models of nodes."""

from __future__ import annotations

import pytest
from kubernetes_objects import node, pod

from clusterplan.instances.importers.kubernetes.jobs import PodGroup, PodJob
from clusterplan.instances.importers.kubernetes.models import GpuModels

A100, L4 = (
    node("a", labels={"nvidia.com/gpu.product": "A100"}),
    node("l", labels={"nvidia.com/gpu.product": "L4"}),
)
MODELS = GpuModels.read([A100, L4], "", lambda _: True)


def job(nodes: set[str], on: str | None = None) -> PodJob:
    """Return a job of one pod that may use these nodes."""
    each = pod("p", 1, on)
    return PodJob("p", None, [PodGroup("pods", each.requests, frozenset(nodes), pods=[each])])


@pytest.mark.parametrize(("label", "models"), [("", ["A100", "L4"]), ("other", [None, None])])
def test_models_are_read_from_labels(label: str, models: list[str | None]) -> None:
    """By the label that is asked for, else by the first known one."""
    found = GpuModels.read([A100, L4], label, lambda _: True)
    assert found.label == (label or "nvidia.com/gpu.product")
    assert [found.of(each) for each in (A100, L4)] == models


def test_running_pods_keep_their_model() -> None:
    """One that waits may use any."""
    runs, waits = job({"a", "l"}, "a"), job({"a", "l"})
    MODELS.keep([runs, waits], lambda _: True)
    assert runs.groups[0].nodes == {"a"}
    assert waits.groups[0].nodes == {"a", "l"}


def test_a_choice_of_nodes_that_is_a_model_is_written_so() -> None:
    """Only where the model tells the nodes apart."""
    same = node("b", labels={"nvidia.com/gpu.product": "A100"})
    nodes = [A100, same, L4]
    models = GpuModels.read(nodes, "", lambda _: True)
    whole, part = job({"a", "b"}), job({"a"})
    models.name_choices([whole, part], nodes)
    assert (whole.gpu_model, part.gpu_model) == (["A100"], None)
    assert (whole.groups[0].nodes, part.groups[0].nodes) == ({"a", "b", "l"}, {"a"})


def test_pools_have_labels_of_their_own() -> None:
    """A pool of TPUs beside one of GPUs, and one without a label of models, whose type stands for it."""
    kind = "node.kubernetes.io/instance-type"
    tpu = node("t", labels={"cloud.google.com/gke-tpu-accelerator": "tpu-v5p-slice", kind: "ct5p"})
    typed, plain = node("g", labels={kind: "g5.xlarge"}), node("c", 0, labels={kind: "m5.large"})
    models = GpuModels.read([A100, tpu, typed, plain], "", lambda each: each.name != "c")
    assert [models.of(each) for each in (A100, tpu, typed, plain)] == [
        "A100",
        "tpu-v5p-slice",
        "g5.xlarge",
        None,
    ]
    assert models.labels == ("nvidia.com/gpu.product", "cloud.google.com/gke-tpu-accelerator", kind)
    assert models.by_type == {"g"}
    runs = job({"a", "t", "g"}, "g")
    models.keep([runs], lambda _: True)
    assert runs.groups[0].nodes == {"g"}
