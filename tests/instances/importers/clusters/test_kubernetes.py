"""What the Kubernetes importer says of its instance."""

from __future__ import annotations

from pathlib import Path

import pytest
from kubernetes_cluster import cluster, node, pod

from clusterplan.instances.importers.clusters.kubernetes import assumptions, ignored_feature_notes
from clusterplan.instances.importers.clusters.kubernetes_cluster import Cluster
from clusterplan.instances.importers.clusters.kubernetes_objects import MACHINE, KubernetesOptions, Node

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
