"""Which nodes a pod may use: its node selector, its required node affinity, and the taints it tolerates."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .objects import Node, NodeSelectorTerm, Pod, Requirement, Taint, Toleration

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


def names_label(pod: Pod, label: str) -> bool:
    """Return whether a pod says itself which values of a label its node may have."""
    conditions = (c for term in _terms(pod) or () for c in term.matchExpressions or ())
    return label in (pod.spec.nodeSelector or {}) or any(c.key == label for c in conditions)


def constraint_of(pod: Pod) -> str:
    """Return a text that two pods share only if they may use the same nodes."""
    selector = sorted((pod.spec.nodeSelector or {}).items())
    return repr((selector, _terms(pod), pod.spec.tolerations))


def is_preferred(pod: Pod) -> bool:
    """Return whether a pod prefers some of the nodes that it may use."""
    affinity = pod.spec.affinity.nodeAffinity if pod.spec.affinity else None
    return bool(affinity and affinity.preferredDuringSchedulingIgnoredDuringExecution)


def describe(pod: Pod, nodes: Sequence[Node], without: str | None = None) -> str:
    """Say in a few words which of the nodes the pod may use; the parameters are those of `allowed_nodes`."""
    selector = pod.spec.nodeSelector or {}
    wanted = [
        f"{key}={value}"
        for key, value in selector.items()
        if key != without and any(node.labels.get(key) != value for node in nodes)
    ]
    terms = _terms(pod)
    if terms is not None and not all(any(matches(term, node) for term in terms) for node in nodes):
        wanted.append(" or ".join(_said(term) for term in terms) or "no terms")
    taints = dict.fromkeys(f"{t.key}:{t.effect}" for node in nodes for t in _untolerated(pod, node))
    parts = [
        f"node with {', '.join(wanted)}" if wanted else "",
        f"toleration for taint {', '.join(taints)}" if taints else "",
    ]
    return " and ".join(filter(None, parts)) or "node"


def _said(term: NodeSelectorTerm) -> str:
    found = []
    for requirement in (*(term.matchExpressions or ()), *(term.matchFields or ())):
        key, values = requirement.key, "|".join(requirement.values or ())
        forms = {
            "In": f"{key}={values}",
            "NotIn": f"{key} not {values}",
            "Exists": key,
            "DoesNotExist": f"no {key}",
            "Gt": f"{key}>{values}",
            "Lt": f"{key}<{values}",
        }
        found.append(forms[requirement.operator])
    return " and ".join(found) or "nothing"


def _terms(pod: Pod) -> Sequence[NodeSelectorTerm] | None:
    """Return the alternatives of the required node affinity, if there is one."""
    affinity = pod.spec.affinity.nodeAffinity if pod.spec.affinity else None
    required = affinity.requiredDuringSchedulingIgnoredDuringExecution if affinity else None
    return None if required is None else required.nodeSelectorTerms or ()


def _untolerated(pod: Pod, node: Node) -> list[Taint]:
    tolerations = pod.spec.tolerations or ()
    return [
        taint
        for taint in node.spec.taints or ()
        if taint.effect in HARD and not any(_tolerates(toleration, taint) for toleration in tolerations)
    ]


def _allows(pod: Pod, node: Node, without: str | None) -> bool:
    selector = pod.spec.nodeSelector or {}
    if any(node.labels.get(key) != value for key, value in selector.items() if key != without):
        return False
    if _untolerated(pod, node):
        return False
    terms = _terms(pod)
    return terms is None or any(matches(term, node) for term in terms)


def _tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    operator = toleration.operator or "Equal"
    if operator == "Exists":
        return True
    return operator == "Equal" and bool(toleration.key) and (toleration.value or "") == (taint.value or "")


def matches(term: NodeSelectorTerm, node: Node) -> bool:
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
