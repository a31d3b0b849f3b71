"""Which nodes a pod may use: its node selector, its required node affinity, and the taints it tolerates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .kubernetes_objects import Node, NodeSelectorTerm, Pod, Requirement, Taint, Toleration

HARD = ("NoSchedule", "NoExecute")
"""The effects of taints that keep a pod off; PreferNoSchedule does not."""


def allowed_nodes(pod: Pod, nodes: Sequence[Node], without: str | None = None) -> frozenset[str]:
    """Return the names of the nodes that the pod may use.

    Parameters
    ----------
    pod, nodes
        The pod, and the nodes in question.
    without
        A label that the pod's node selector asks for and that is looked after elsewhere.
    """
    return frozenset(node.name for node in nodes if _allows(pod, node, without))


def constraint_of(pod: Pod) -> str:
    """Return a text that two pods share only if they may use the same nodes."""
    spec = pod.spec
    parts: list[Any] = [
        sorted((spec.nodeSelector or {}).items()),
        spec.affinity.nodeAffinity if spec.affinity else None,
        spec.tolerations,
    ]
    return repr(parts)


def _allows(pod: Pod, node: Node, without: str | None) -> bool:
    selector = pod.spec.nodeSelector or {}
    if any(node.labels.get(key) != value for key, value in selector.items() if key != without):
        return False
    tolerations = pod.spec.tolerations or ()
    for taint in node.spec.taints or ():
        if taint.effect in HARD and not any(_tolerates(toleration, taint) for toleration in tolerations):
            return False
    affinity = pod.spec.affinity.nodeAffinity if pod.spec.affinity else None
    required = affinity.requiredDuringSchedulingIgnoredDuringExecution if affinity else None
    return required is None or any(_matches(term, node) for term in required.nodeSelectorTerms or ())


def _tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    operator = toleration.operator or "Equal"
    if operator == "Exists":
        return True
    return operator == "Equal" and bool(toleration.key) and (toleration.value or "") == (taint.value or "")


def _matches(term: NodeSelectorTerm, node: Node) -> bool:
    """Return whether a node meets a term; a term without conditions is met by none."""
    labels, fields = term.matchExpressions or (), term.matchFields or ()
    return (
        bool(labels or fields)
        and all(_meets(requirement, node.labels.get(requirement.key)) for requirement in labels)
        and all(
            _meets(requirement, {"metadata.name": node.name}.get(requirement.key)) for requirement in fields
        )
    )


def _meets(requirement: Requirement, value: str | None) -> bool:
    values = requirement.values or ()
    tests: dict[str, Callable[[], bool]] = {
        "In": lambda: value in values,
        "NotIn": lambda: value not in values,
        "Exists": lambda: value is not None,
        "DoesNotExist": lambda: value is None,
        "Gt": lambda: _above(value, values),
        "Lt": lambda: _above(values[0] if values else None, (value,)),
    }
    return tests[requirement.operator]()


def _above(value: str | None, limits: Sequence[str | None]) -> bool:
    try:
        return int(value or "") > int(limits[0] or "")
    except (ValueError, IndexError):
        return False
