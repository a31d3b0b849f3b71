"""Node affinity for each group of pods."""

from __future__ import annotations

import pytest
import yaml
from placements import job, placement, server

from clusterplan.formulations.consolidation.plan import JobPlacement
from clusterplan.instances.common.errors import InstanceError
from clusterplan.planner.consolidation.kubernetes import kubernetes_lines

INSTANCE = placement(["value"], [server(gpu=4)], [job("a", 2)])


def test_a_document_for_each_group() -> None:
    """It names the job, and each node in a term of its own."""
    entry = JobPlacement(job='Train "B"', groups={"ps": {"n": 1}, "worker": {"n": 1, "m.x": 2}})
    documents = list(yaml.safe_load_all("\n".join(kubernetes_lines(INSTANCE, [entry]))))
    assert [made["metadata"]["name"] for made in documents] == ["train-b-ps", "train-b-worker"]
    assert documents[0]["metadata"]["annotations"] == {
        "clusterplan/job": 'Train "B"',
        "clusterplan/group": "ps",
    }
    affinity = documents[1]["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]
    terms = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert [term["matchFields"][0]["values"] for term in terms] == [["n"], ["m.x"]]


def test_names_are_labels_and_differ() -> None:
    """Two names that become the same label, and one that is too long."""
    entries = [JobPlacement(job=name, servers={"n": 1}) for name in ("a_b", "a b", "x" * 100, "%%")]
    documents = list(yaml.safe_load_all("\n".join(kubernetes_lines(INSTANCE, entries))))
    names = [made["metadata"]["name"] for made in documents]
    assert names[0] == "a-b"
    assert len(set(names)) == 4
    assert all(0 < len(name) <= 63 for name in names)


def test_a_server_that_cannot_be_a_node_is_refused() -> None:
    """With its name and the job's."""
    with pytest.raises(InstanceError, match="Not a node"):
        list(kubernetes_lines(INSTANCE, [JobPlacement(job="a", servers={"Not a node": 1})]))
