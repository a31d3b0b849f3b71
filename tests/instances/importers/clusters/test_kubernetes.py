"""What the Kubernetes importer says of its instance, and what a cluster's nodes and pods become."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from kubernetes_cluster import cluster, node, pod

from clusterplan.instances.importers.clusters.kubernetes import assumptions, ignored_feature_notes
from clusterplan.instances.importers.clusters.kubernetes_cluster import Cluster
from clusterplan.instances.importers.clusters.kubernetes_objects import (
    MACHINE,
    KubernetesOptions,
    Node,
    Owner,
    Pod,
)

SOFT = {"key": "t", "effect": "PreferNoSchedule"}


def test_an_empty_cluster() -> None:
    """The options are said, and taints that are only preferences."""
    node = Node.model_validate(
        {
            "metadata": {"name": "a"},
            "spec": {"taints": [SOFT]},
            "status": {"allocatable": {"pods": "1"}, "conditions": [{"type": "Ready", "status": "True"}]},
        }
    )
    options = KubernetesOptions(nodes=Path("n"), pods=Path("p"), namespaces=("x", "y"), running="stay")
    cluster = Cluster((node,), (), options)
    said = list(assumptions(cluster))
    assert said[0].startswith("Planned are jobs that ask for a GPU in x, y: 0 jobs of 0 pods")
    assert not any("A job that runs as a whole must stay placed" in sentence for sentence in said)
    (ignored,) = ignored_feature_notes(cluster)
    assert ignored.startswith("1 taint is only a preference")


MACHINES = {"a": "p5.48xlarge", "b": "g6.4xlarge", "gone": "g5.xlarge"}
"""Of three nodes, of which the last is cordoned."""


@pytest.mark.parametrize(
    ("labelled", "label", "which"),
    [
        ((), "", "nodes"),
        ((), MACHINE, "nodes"),
        (("a",), "", "b"),
        (("a", "b"), "", None),
        (("a", "b", "gone"), "", None),
    ],
)
def test_types_of_machines_stand_for_models_that_no_label_has(
    labelled: tuple[str, ...], label: str, which: str | None
) -> None:
    """Said of the nodes that take pods, and only where it is so."""
    product = {"nvidia.com/gpu.product": "L4"}
    nodes = [
        node(
            name,
            labels={MACHINE: machine} | (product if name in labelled else {}),
            unschedulable=name == "gone",
        )
        for name, machine in MACHINES.items()
    ]
    said = list(assumptions(cluster(nodes=tuple(nodes), gpu_label=label)))
    found = [sentence for sentence in said if sentence.startswith("No label has the GPU models of ")]
    stands = f"{MACHINE} stands for them (--gpu-label names another)"
    expected = [] if which is None else [f"No label has the GPU models of {which}; {stands}."]
    assert found == expected


def test_preferred_affinity_is_named_as_ignored() -> None:
    """Required affinity is looked at, and not named."""
    term = {"matchExpressions": [{"key": "zone", "operator": "Exists"}]}
    soft = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": term}]}
    hard = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    wishes = pod("wishes", 1, affinity={"nodeAffinity": soft})
    needs = pod("needs", 1, affinity={"nodeAffinity": hard})
    near = pod("near", 1, affinity={"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{}]}})
    assert list(ignored_feature_notes(cluster(wishes, needs, near))) == [
        "1 planned job has preferred node affinity, which the plan does not look at: t/wishes.",
        "1 planned job has preferred affinity to other pods, which the plan does not look at: t/near.",
    ]


def test_pods_with_resource_claims_are_named_whether_they_are_planned_or_not() -> None:
    """A GPU that is claimed is asked for in no amount, so that most of these pods are not planned."""
    claims = [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]
    both = pod("both", 1, resourceClaims=claims)
    waits, runs = pod("waits", 0, resourceClaims=claims), pod("runs", 0, "a", resourceClaims=claims)
    made = cluster(both, waits, runs, pod("plain", 1))
    assert [job.name for job in made.jobs] == ["t/plain"]
    assert list(ignored_feature_notes(made)) == [
        "1 job waits and is left out, for Kubernetes might refuse to start what the plan places: t/both "
        "(have resource claims, whose devices are not planned).",
        "2 pods that are not planned have resource claims, whose devices the plan does not look at: "
        "t/waits, t/runs.",
    ]


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({}, ["t/runs", "t/waits"]),
        ({"running": "stay"}, ["t/waits"]),
        ({"choice": "all"}, ["t/runs", "t/waits", "t/small"]),
        ({"namespaces": ("x",)}, []),
    ],
)
def test_which_jobs_are_planned(options: dict[str, Any], names: list[str]) -> None:
    """By GPUs, by state and by namespace."""
    made = cluster(pod("runs", 1, "a"), pod("waits", 1), pod("small", 0), **options)
    assert [job.name for job in made.jobs] == names


def test_pods_on_cordoned_nodes_stay() -> None:
    """They are no jobs of the plan, and the assumptions say so."""
    made = cluster(pod("stays", 1, "b"), pod("waits", 1))
    assert [job.name for job in made.staying] == ["t/stays"]
    said = " ".join(assumptions(made))
    assert "1 node is cordoned or not ready and left out: b." in said
    assert "1 job has pods on cordoned nodes" in said


def test_what_runs_of_a_job_stays_and_the_rest_is_a_job_of_its_own() -> None:
    """Both say which object they are; what waits of it is worth its own GPUs."""
    owner = {"kind": "Job", "name": "j", "apiVersion": "batch/v1", "controller": True}
    pods = [pod("j-0", 2, "a"), pod("j-1", 1), pod("j-2", 1), pod("whole", 1, "a")]
    for each in pods[:3]:
        each.__dict__["metadata"] = each.metadata.model_copy(update={"ownerReferences": (Owner(**owner),)})
    made = cluster(*pods)
    assert [job.name for job in made.jobs] == ["t/j", "t/j (waits)", "t/whole"]
    runs, waits, _ = made.snapshot.jobs()
    assert (runs["current"], runs["movable"], runs["must_place"]) == ({"a": 1}, False, True)
    assert (waits["tasks"], waits["current"], waits["must_place"], waits["value"]) == (2, {}, False, 2.0)
    assert runs["workload"] == waits["workload"]
    said = " ".join(assumptions(made))
    assert "1 job runs in part: the pods that run stay" in said
    assert "their pods run while others of their job wait: t/j." in said


def test_what_is_ignored_is_said() -> None:
    """Only where there is something."""
    plain = cluster(pod("x", 1))
    assert list(ignored_feature_notes(plain)) == []
    soft = {"preferredDuringSchedulingIgnoredDuringExecution": [{}]}
    asks = pod("x", 1, affinity={"podAntiAffinity": soft})
    assert list(ignored_feature_notes(cluster(asks))) == [
        "1 planned job has preferred affinity to other pods, which the plan does not look at: t/x."
    ]


def test_a_node_with_less_than_its_pods_hold_gets_nothing_more() -> None:
    """A device has failed: what runs there stays, and the plan is not infeasible for it."""
    made = cluster(pod("runs", 4, "a"), pod("waits", 1), nodes=(node("a", 3), node("b", 1)))
    assert (made.short, made.out, made.names) == ({"a"}, [], {"b"})
    assert [job.name for job in made.staying] == ["t/runs"]
    assert [job.name for job in made.jobs] == ["t/waits"]
    said = " ".join(assumptions(made))
    assert "1 node has less than pods on it hold, as where a device has failed" in said


def test_what_no_node_lists_is_not_counted() -> None:
    """A scheduler of its own may keep count of it."""
    part = {"resources": {"requests": {"example.com/part": "5"}}}
    assert cluster(pod("runs", 1, "a", containers=[part]), nodes=(node("a"),)).short == frozenset()


@pytest.mark.parametrize(
    ("each", "why"),
    [
        (pod("x", 0), "that no GPU is asked for with"),
        (pod("x", 1, "a", schedulingGates=[{"name": "g"}]), "being deleted"),
        (pod("x", 1, schedulingGates=[{"name": "g"}]), "with closed scheduling gates"),
        (pod("x", 1, "b"), "on nodes that are cordoned or have less than their pods hold"),
    ],
)
def test_why_a_pod_is_not_planned(each: Pod, why: str) -> None:
    """The first of the reasons."""
    if why == "being deleted":
        gone = each.metadata.model_copy(update={"deletionTimestamp": "2026-01-01T00:00:00Z"})
        each.__dict__["metadata"] = gone
    made = cluster(each)
    assert not made.jobs
    assert made.why_unplanned(each) == why


def test_what_is_held_by_others_is_not_free() -> None:
    """A planned pod's own part is free for the plan."""
    made = cluster(pod("mine", 1, "a"), pod("other", 0, "a"), pod("waits", 2))
    assert [job.name for job in made.jobs] == ["t/mine", "t/waits"]
    server = made.snapshot.servers()[0]
    assert server["capacity"] == {"cpu": 8, "memory_gib": 16, "gpu": 4, "pods": 10}
    assert server["free"] == {"cpu": 7.5, "memory_gib": 15, "gpu": 4, "pods": 9}
    assert (made.out, made.names) == (["b"], {"a"})


def test_a_job_is_worth_its_gpus_and_stays_placed_where_it_runs() -> None:
    """One that waits may be left out."""
    made = cluster(pod("mine", 2, "a"), pod("waits", 1))
    mine, waits = made.snapshot.jobs()
    assert (mine["value"], mine["must_place"], mine["current"]) == (2.0, True, {"a": 1})
    assert (waits["value"], waits["must_place"], waits["spread"]) == (1.0, False, "free")
    assert waits["task_demand"] == {"cpu": 0.5, "memory_gib": 1, "gpu": 1, "pods": 1}


def test_more_than_there_is() -> None:
    """Requests of planned and other pods together."""
    other = pod("y", 2, "a")
    other.__dict__["metadata"] = other.metadata.model_copy(update={"namespace": "kube-system"})
    made = cluster(pod("x", 3, "a"), other)
    assert made.overcommitted == ["a"]
    assert list(made.kept) == ["t/x"]
    assert cluster(pod("x", 4, "a")).overcommitted == []
