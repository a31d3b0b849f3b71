"""Which nodes a pod may use."""

from __future__ import annotations

from typing import Any

import pytest

from clusterplan.instances.importers.kubernetes.affinity import (
    allowed_nodes,
    constraint_of,
    describe,
    names_label,
)
from clusterplan.instances.importers.kubernetes.objects import Node, Pod


def node(name: str, taints: list[dict[str, str]] | None = None, **labels: str) -> Node:
    """Return a node with labels."""
    document = {"metadata": {"name": name, "labels": labels}, "spec": {"taints": taints or []}}
    return Node.model_validate(document | {"status": {"allocatable": {}}})


def pod(**spec: Any) -> Pod:
    """Return a pod with constraints."""
    return Pod.model_validate({"metadata": {"name": "p"}, "spec": {"containers": [], **spec}, "status": {}})


def needs(operator: str, *values: str) -> dict[str, Any]:
    """Return an affinity for the label x."""
    term = {"matchExpressions": [{"key": "x", "operator": operator, "values": list(values)}]}
    rule = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    return {"nodeAffinity": rule}


TAINT = {"key": "t", "value": "1", "effect": "NoSchedule"}
NODES = [node("plain"), node("one", x="1"), node("five", x="5"), node("tainted", [TAINT], x="1")]


@pytest.mark.parametrize(
    ("spec", "names"),
    [
        ({}, {"plain", "one", "five"}),
        ({"nodeSelector": {"x": "1"}}, {"one"}),
        ({"affinity": needs("In", "1", "5")}, {"one", "five"}),
        ({"affinity": needs("NotIn", "1")}, {"plain", "five"}),
        ({"affinity": needs("Exists")}, {"one", "five"}),
        ({"affinity": needs("DoesNotExist")}, {"plain"}),
        ({"affinity": needs("Gt", "1")}, {"five"}),
        ({"affinity": needs("Lt", "5")}, {"one"}),
        ({"tolerations": [{"operator": "Exists"}]}, {"plain", "one", "five", "tainted"}),
        ({"tolerations": [{"key": "t", "value": "1"}], "nodeSelector": {"x": "1"}}, {"one", "tainted"}),
        ({"tolerations": [{"key": "t", "value": "2"}], "nodeSelector": {"x": "1"}}, {"one"}),
    ],
)
def test_allowed_nodes(spec: dict[str, Any], names: set[str]) -> None:
    """Selectors, required affinity, and taints that are not tolerated."""
    assert allowed_nodes(pod(**spec), NODES) == names


def test_a_label_may_be_left_out() -> None:
    """The GPU model is a field of its own in the instance."""
    assert allowed_nodes(pod(nodeSelector={"x": "1"}), NODES, without="x") == {"plain", "one", "five"}


def test_pods_with_equal_constraints_are_judged_once() -> None:
    """The text of a constraint depends on nothing else."""
    same = [pod(nodeSelector={"x": "1", "y": "2"}), pod(nodeSelector={"y": "2", "x": "1"})]
    assert constraint_of(same[0]) == constraint_of(same[1]) != constraint_of(pod())
    assert "x=1" in describe(pod(nodeSelector={"x": "1"}), NODES)


def test_what_keeps_a_pod_off_is_said() -> None:
    """Labels that it asks for, and taints that it does not tolerate."""
    tainted = describe(pod(nodeSelector={"x": "1"}), NODES)
    assert tainted.startswith("node with x=1 and toleration for taint ")
    assert describe(pod(tolerations=[{"operator": "Exists"}]), NODES) == "node"


def test_pods_that_name_values_of_a_label() -> None:
    """By their node selector, or by a required affinity."""
    terms = [{"matchExpressions": [{"key": "y", "operator": "In", "values": ["1"]}]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    both = pod(nodeSelector={"x": "1"}, affinity={"nodeAffinity": required})
    assert [names_label(both, label) for label in "xyz"] == [True, True, False]
    assert not names_label(pod(), "x")
