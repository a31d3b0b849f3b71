"""The rules by which Kubernetes binds pods to nodes, written from its documentation.

A cluster is what ``kubectl get -o json`` prints. The rules are the filters of kube-scheduler, and gangs as
Volcano and the Coscheduling plug-in know them. Preferences are not looked at, nor are limits on the number of
volumes, resource claims and quotas.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

Object = Mapping[str, Any]
Key = tuple[str, str]
"""Namespace and name of an object."""

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
HARD = ("NoSchedule", "NoExecute")
NAME_LABEL = "kubernetes.io/metadata.name"
"""Label of a namespace with its name, which Kubernetes sets."""
CORDONED = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
ANY_ADDRESS = "0.0.0.0"  # noqa: S104
ZONES = {
    f"{prefix}/{area}": f"topology.kubernetes.io/{area}"
    for prefix in ("topology.kubernetes.io", "failure-domain.beta.kubernetes.io")
    for area in ("zone", "region")
}
"""Label of volumes and nodes with a zone or region → its name since Kubernetes 1.17."""
GROUP_ANNOTATIONS = ("scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name")
GROUP_LABELS = ("scheduling.x-k8s.io/pod-group", "pod-group.scheduling.sigs.k8s.io")
OF_ONE_POD = (
    "apps.kubernetes.io/pod-index",
    "batch.kubernetes.io/job-completion-index",
    "statefulset.kubernetes.io/pod-name",
    "training.kubeflow.org/replica-index",
)
"""Labels in which the pods of one template differ."""
SUFFIXES = {
    **{f"{letter}i": Fraction(1024**power) for power, letter in enumerate("KMGTPE", 1)},
    **{letter: Fraction(1000**power) for power, letter in enumerate("kMGTPE", 1)},
    "m": Fraction(1, 1000),
}


def quantity(text: object) -> Fraction:
    """Return the value of a quantity such as `500m` or `16Gi` in its base unit."""
    number = str(text)
    for suffix, factor in SUFFIXES.items():
        if number.endswith(suffix):
            return Fraction(number.removesuffix(suffix)) * factor
    return Fraction(number)


def key_of(thing: Object) -> Key:
    """Return namespace and name of an object; volumes and nodes have no namespace."""
    return thing["metadata"].get("namespace", ""), thing["metadata"]["name"]


def labels_of(thing: Object) -> Mapping[str, str]:
    """Return the labels of an object."""
    return thing["metadata"].get("labels") or {}


def has_ended(pod: Object) -> bool:
    """Return whether a pod has ended, so that it holds nothing."""
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def is_terminating(pod: Object) -> bool:
    """Return whether a pod is being deleted."""
    return pod["metadata"].get("deletionTimestamp") is not None


def requests_of(pod: Object) -> Counter[str]:
    """Return what the scheduler reserves for a pod.

    The containers together, or an init container where that needs more; each beside the sidecars (init
    containers that restart always) that were started before it. The overhead comes on top.
    """
    running, most = Counter[str](), Counter[str]()
    for container in pod["spec"].get("initContainers") or ():
        if container.get("restartPolicy") == "Always":
            running += _amounts(container)
            most |= running
        else:
            most |= running + _amounts(container)
    for container in pod["spec"]["containers"]:
        running += _amounts(container)
    overhead = {name: quantity(amount) for name, amount in (pod["spec"].get("overhead") or {}).items()}
    return (most | running) + Counter(overhead) + Counter(pods=1)


def _amounts(container: Object) -> Counter[str]:
    resources = container.get("resources") or {}
    asked = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return Counter({name: quantity(amount) for name, amount in asked.items()})


def ports_of(pod: Object) -> Iterator[tuple[str, str, int]]:
    """Yield address, protocol and number of the ports of its node that a pod takes."""
    sidecars = (each for each in pod["spec"].get("initContainers") or () if each.get("restartPolicy"))
    for container in (*pod["spec"]["containers"], *sidecars):
        for port in container.get("ports") or ():
            if port.get("hostPort"):
                yield port.get("hostIP") or ANY_ADDRESS, port.get("protocol") or "TCP", port["hostPort"]


def holds(requirement: Object, labels: Mapping[str, str]) -> bool:
    """Return whether labels meet one requirement of a selector; `NotIn` holds of a label that is missing."""
    key, operator, values = requirement["key"], requirement["operator"], requirement.get("values") or ()
    if operator in ("Exists", "DoesNotExist"):
        return (key in labels) == (operator == "Exists")
    if operator in ("In", "NotIn"):
        return (labels.get(key) in values) == (operator == "In")
    try:
        number, limit = int(labels[key]), int(values[0])
    except (KeyError, ValueError):
        return False
    return number > limit if operator == "Gt" else number < limit


def selects(selector: Object | None, labels: Mapping[str, str]) -> bool:
    """Return whether a label selector selects these labels: none selects nothing, an empty one all."""
    if selector is None:
        return False
    equal = all(labels.get(key) == value for key, value in (selector.get("matchLabels") or {}).items())
    return equal and all(holds(each, labels) for each in selector.get("matchExpressions") or ())


def selector_of(rule: Object, pod: Object) -> Object | None:
    """Return the label selector of a pod's rule, narrowed by `matchLabelKeys` and `mismatchLabelKeys`.

    The values of these keys are those of the pod itself; a key that it does not have is passed over.
    """
    selector, labels = rule.get("labelSelector"), labels_of(pod)
    if selector is None:
        return None
    added = [
        {"key": key, "operator": operator, "values": [labels[key]]}
        for keys, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn"))
        for key in rule.get(keys) or ()
        if key in labels
    ]
    return {**selector, "matchExpressions": [*(selector.get("matchExpressions") or ()), *added]}


def meets(node_selector: Object, node: Object) -> bool:
    """Return whether a node meets one term of a node selector; an empty term is met by none."""
    labels, fields = labels_of(node), {"metadata.name": node["metadata"]["name"]}
    for term in node_selector["nodeSelectorTerms"]:
        parts = [(each, labels) for each in term.get("matchExpressions") or ()]
        parts += [(each, fields) for each in term.get("matchFields") or ()]
        if parts and all(holds(*part) for part in parts):
            return True
    return False


def is_eligible(pod: Object, node: Object) -> bool:
    """Return whether a node meets the node selector and the required node affinity of a pod."""
    wanted = pod["spec"].get("nodeSelector") or {}
    affinity = ((pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}).get(REQUIRED)
    return selects({"matchLabels": wanted}, labels_of(node)) and (affinity is None or meets(affinity, node))


def tolerates(pod: Object, taint: Object) -> bool:
    """Return whether one of a pod's tolerations matches a taint."""
    return any(
        toleration.get("effect") in (None, "", taint["effect"])
        and toleration.get("key") in (None, "", taint["key"])
        and (
            toleration.get("operator") == "Exists"
            or (toleration.get("value") or "") == (taint.get("value") or "")
        )
        for toleration in pod["spec"].get("tolerations") or ()
    )


def is_ready(node: Object) -> bool:
    """Return whether a node says that it is ready, or nothing of that."""
    conditions = node["status"].get("conditions") or ()
    return all(each["status"] == "True" for each in conditions if each["type"] == "Ready")


def is_closed(pod: Object, node: Object) -> bool:
    """Return whether a node is cordoned, and a pod does not tolerate that."""
    return bool(node["spec"].get("unschedulable")) and not tolerates(pod, CORDONED)


def untolerated(pod: Object, node: Object) -> bool:
    """Return whether a taint of a node keeps a pod off it."""
    taints = node["spec"].get("taints") or ()
    return any(taint["effect"] in HARD and not tolerates(pod, taint) for taint in taints)


def group_of(pod: Object) -> Key | None:
    """Return namespace and name of a pod's PodGroup; None if it belongs to none."""
    annotations = pod["metadata"].get("annotations") or {}
    named = [*map(annotations.get, GROUP_ANNOTATIONS), *map(labels_of(pod).get, GROUP_LABELS)]
    return next(((key_of(pod)[0], name) for name in named if name), None)


def shape_of(pod: Object) -> str:
    """Return a text that is the same for pods made from one template."""
    labels = {name: value for name, value in labels_of(pod).items() if name not in OF_ONE_POD}
    spec = {name: value for name, value in pod["spec"].items() if name not in ("nodeName", "hostname")}
    return repr((key_of(pod)[0], sorted(labels.items()), group_of(pod), spec))


@dataclass(frozen=True)
class AffinityTerm:
    """One required term of pod affinity or anti-affinity.

    Attributes
    ----------
    topology
        The label of nodes whose values are the domains.
    selector
        Which pods it means, of these namespaces or those that the other selector selects.
    """

    topology: str
    selector: Object | None
    namespaces: frozenset[str]
    namespace_selector: Object | None

    def means(self, pod: Object, namespaces: Mapping[str, Mapping[str, str]]) -> bool:
        """Return whether a pod is one of those that the term means."""
        name = key_of(pod)[0]
        of_namespace = {NAME_LABEL: name, **namespaces.get(name, {})}
        inside = name in self.namespaces or selects(self.namespace_selector, of_namespace)
        return inside and selects(self.selector, labels_of(pod))


def terms_of(pod: Object, kind: str) -> list[AffinityTerm]:
    """Return the required terms of a pod's `podAffinity` or `podAntiAffinity`."""
    listed = ((pod["spec"].get("affinity") or {}).get(kind) or {}).get(REQUIRED) or ()
    terms = []
    for term in listed:
        names, others = frozenset(term.get("namespaces") or ()), term.get("namespaceSelector")
        if not names and others is None:
            names = frozenset([key_of(pod)[0]])
        terms.append(AffinityTerm(term["topologyKey"], selector_of(term, pod), names, others))
    return terms


def spreads_of(pod: Object) -> list[Object]:
    """Return the topology spread constraints that a pod's node must meet."""
    listed = pod["spec"].get("topologySpreadConstraints") or ()
    return [spread for spread in listed if spread.get("whenUnsatisfiable") != "ScheduleAnyway"]


def claims_of(pod: Object) -> Iterator[Key]:
    """Yield namespace and name of the volume claims of a pod."""
    namespace, name = key_of(pod)
    for volume in pod["spec"].get("volumes") or ():
        if volume.get("persistentVolumeClaim"):
            yield namespace, volume["persistentVolumeClaim"]["claimName"]
        elif volume.get("ephemeral"):
            yield namespace, f"{name}-{volume['name']}"


@dataclass
class Cluster:
    """The objects of a cluster, and which pods are bound to which nodes.

    Attributes
    ----------
    nodes, pods, volumes, claims, groups
        By name, those that have a namespace by namespace and name.
    places
        Pod → name of its node, of pods that have not ended.
    namespaces
        Namespace → its labels, beside the one with its name.
    """

    nodes: dict[str, Object]
    pods: dict[Key, Object]
    volumes: dict[str, Object] = field(default_factory=dict)
    claims: dict[Key, Object] = field(default_factory=dict)
    groups: dict[Key, Object] = field(default_factory=dict)
    places: dict[Key, str] = field(default_factory=dict)
    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @classmethod
    def listed(
        cls,
        nodes: Iterable[Object],
        pods: Iterable[Object],
        volumes: Iterable[Object] = (),
        groups: Iterable[Object] = (),
    ) -> Cluster:
        """Return the cluster of these lists of objects; volumes and their claims stand in one list."""
        by_kind: dict[str, list[Object]] = defaultdict(list)
        for each in volumes:
            by_kind[each["kind"]].append(each)
        alive = {key_of(pod): pod for pod in pods if not has_ended(pod)}
        return cls(
            {node["metadata"]["name"]: node for node in nodes},
            alive,
            {volume["metadata"]["name"]: volume for volume in by_kind["PersistentVolume"]},
            {key_of(claim): claim for claim in by_kind["PersistentVolumeClaim"]},
            {key_of(group): group for group in groups},
            {key: pod["spec"]["nodeName"] for key, pod in alive.items() if pod["spec"].get("nodeName")},
        )

    def emptied(self) -> Cluster:
        """Return the cluster with the same objects, and no pod on any node."""
        return replace(self, places={})

    def bound(self) -> Iterator[tuple[Object, Object]]:
        """Yield the bound pods, each with its node, unless that is not listed."""
        known = ((self.pods[key], name) for key, name in self.places.items() if name in self.nodes)
        return ((pod, self.nodes[name]) for pod, name in known)

    def refusal(self, pod: Object, name: str) -> str | None:
        """Return which rule keeps a pod off a node now; None if it may be bound to it."""
        node = self.nodes[name]
        return next((rule for rule, refuses in RULES.items() if refuses(self, pod, node)), None)

    def used(self, name: str) -> Counter[str]:
        """Return what the pods on a node hold."""
        there = (self.pods[key] for key, at in self.places.items() if at == name)
        return sum(map(requests_of, there), Counter[str]())

    def is_partial(self, group: Key) -> bool:
        """Return whether some pods of a PodGroup are bound, but fewer than it needs."""
        count = sum(group_of(self.pods[key]) == group for key in self.places)
        return 0 < count < self.least(group)

    def least(self, group: Key) -> int:
        """Return how many pods a PodGroup needs at the same time."""
        return int(self.groups[group]["spec"].get("minMember") or 1)

    # The rules: whether one of them keeps a pod off a node.

    def _is_gang_too_small(self, pod: Object, _: Object) -> bool:
        group = group_of(pod)
        if group is None:
            return False
        members = sum(group_of(other) == group and not is_terminating(other) for other in self.pods.values())
        return group not in self.groups or members < self.least(group)

    def _is_full(self, pod: Object, node: Object) -> bool:
        has, used = node["status"]["allocatable"], self.used(node["metadata"]["name"])
        wanted = requests_of(pod).items()
        return any(amount and used[name] + amount > quantity(has.get(name, 0)) for name, amount in wanted)

    def _is_port_taken(self, pod: Object, node: Object) -> bool:
        wanted = list(ports_of(pod))
        return any(
            own[1:] == taken[1:] and (own[0] == taken[0] or ANY_ADDRESS in (own[0], taken[0]))
            for other, at in self.bound()
            if at is node
            for taken in ports_of(other)
            for own in wanted
        )

    def _volumes_are_elsewhere(self, pod: Object, node: Object) -> bool:
        for key in claims_of(pod):
            claim = self.claims.get(key)
            if claim is None or is_terminating(claim) or (claim.get("status") or {}).get("phase") == "Lost":
                return True
            name = claim["spec"].get("volumeName")
            if name and not self._reaches(node, name):
                return True
        return False

    def _reaches(self, node: Object, name: str) -> bool:
        volume = self.volumes.get(name)
        if volume is None:
            return False
        required = (volume["spec"].get("nodeAffinity") or {}).get("required")
        if required is not None and not meets(required, node):
            return False
        zones, there = labels_of(volume), labels_of(node)
        if there.keys().isdisjoint(ZONES):
            return True
        return all(
            there.get(old, there.get(new)) in zones[old].split("__")
            for old, new in ZONES.items()
            if old in zones
        )

    def _claim_is_taken(self, pod: Object, _: Object) -> bool:
        claims = ((key, self.claims[key]) for key in claims_of(pod) if key in self.claims)
        own = {key for key, each in claims if "ReadWriteOncePod" in (each["spec"].get("accessModes") or ())}
        return any(not own.isdisjoint(claims_of(other)) for other, _ in self.bound())

    def _is_too_skewed(self, pod: Object, node: Object) -> bool:
        spreads = spreads_of(pod)
        topologies = {spread["topologyKey"] for spread in spreads}
        return not topologies <= labels_of(node).keys() or any(
            self._skew(spread, topologies, pod, node) > spread["maxSkew"] for spread in spreads
        )

    def _skew(self, spread: Object, topologies: Set[str], pod: Object, node: Object) -> int:
        """Return the skew of the domain of a node once a pod is there."""
        topology, selector = spread["topologyKey"], selector_of(spread, pod)
        counts = Counter(
            {
                labels_of(each)[topology]: 0
                for each in self.nodes.values()
                if topologies <= labels_of(each).keys() and _takes_part(spread, pod, each)
            }
        )
        for other, at in self.bound():
            same = key_of(other)[0] == key_of(pod)[0] and not is_terminating(other)
            takes_part = topologies <= labels_of(at).keys() and _takes_part(spread, pod, at)
            if same and takes_part and selects(selector, labels_of(other)):
                counts[labels_of(at)[topology]] += 1
        enough = len(counts) >= (spread.get("minDomains") or 1)
        least = min(counts.values(), default=0) if enough else 0
        return counts[labels_of(node)[topology]] + selects(selector, labels_of(pod)) - least

    def _lacks_companions(self, pod: Object, node: Object) -> bool:
        terms, here = terms_of(pod, "podAffinity"), labels_of(node)
        if any(term.topology not in here for term in terms):
            return True
        # A pod counts for all terms or for none.
        meant = [
            labels_of(at)
            for other, at in self.bound()
            if all(term.means(other, self.namespaces) for term in terms)
        ]
        topologies = [term.topology for term in terms]
        if all(any(there.get(key) == here[key] for there in meant) for key in topologies):
            return False
        # The first of the pods that are to be near each other may go anywhere.
        is_first = not any(key in there for there in meant for key in topologies)
        return not (is_first and all(term.means(pod, self.namespaces) for term in terms))

    def _avoids_others(self, pod: Object, node: Object) -> bool:
        terms = terms_of(pod, "podAntiAffinity")
        return any(self._applies(term, node, other, at) for term in terms for other, at in self.bound())

    def _is_avoided(self, pod: Object, node: Object) -> bool:
        terms = ((term, at) for other, at in self.bound() for term in terms_of(other, "podAntiAffinity"))
        return any(self._applies(term, node, pod, at) for term, at in terms)

    def _applies(self, term: AffinityTerm, node: Object, pod: Object, other: Object) -> bool:
        """Return whether a term means a pod, and two nodes are in one of its domains."""
        domains = [labels_of(each).get(term.topology) for each in (node, other)]
        return domains[0] is not None and domains[0] == domains[1] and term.means(pod, self.namespaces)


def _takes_part(spread: Object, pod: Object, node: Object) -> bool:
    """Return whether a node counts for a topology spread constraint of a pod."""
    if spread.get("nodeAffinityPolicy", "Honor") == "Honor" and not is_eligible(pod, node):
        return False
    return spread.get("nodeTaintsPolicy", "Ignore") == "Ignore" or not untolerated(pod, node)


RULES: dict[str, Callable[[Cluster, Object, Object], bool]] = {
    "deletion": lambda _, pod, __: is_terminating(pod),
    "scheduling gate": lambda _, pod, __: bool(pod["spec"].get("schedulingGates")),
    "gang": Cluster._is_gang_too_small,
    "node not ready": lambda _, __, node: not is_ready(node),
    "cordoned node": lambda _, pod, node: is_closed(pod, node),
    "node name": lambda _, pod, node: pod["spec"].get("nodeName") not in (None, "", key_of(node)[1]),
    "node affinity": lambda _, pod, node: not is_eligible(pod, node),
    "taint": lambda _, pod, node: untolerated(pod, node),
    "resources": Cluster._is_full,
    "port": Cluster._is_port_taken,
    "volume": Cluster._volumes_are_elsewhere,
    "claim of one pod": Cluster._claim_is_taken,
    "topology spread": Cluster._is_too_skewed,
    "pod affinity": Cluster._lacks_companions,
    "pod anti-affinity": Cluster._avoids_others,
    "anti-affinity of other pods": Cluster._is_avoided,
}
"""Name of a rule → whether it keeps a pod off a node."""


def bind_all(
    cluster: Cluster,
    pods: Sequence[Object],
    choices: Callable[[Object, Mapping[Key, str]], Iterable[str]],
    refusal: Callable[[Object, str], str | None] | None = None,
) -> str | None:
    """Bind pods one after the other, in whatever order it can be done.

    Parameters
    ----------
    choices
        Pod, and the nodes of the pods that are bound already → the nodes to which it may be bound, in the
        order in which they are tried.
    refusal
        Pod and node → the rule that keeps it off, else None; `Cluster.refusal` if not given.

    Returns
    -------
    rule
        None if all are bound; else none is, and this rule forbids it where most of them are.
    """
    refused = refusal or cluster.refusal
    deepest: tuple[int, str] = (-1, "no node")
    failed: set[frozenset[tuple[tuple[str, str], int]]] = set()
    shapes = {key_of(pod): shape_of(pod) for pod in pods}
    done: dict[Key, str] = {}

    def search(left: list[Object]) -> bool:
        nonlocal deepest
        state = frozenset(Counter((shapes[key], node) for key, node in done.items()).items())
        if not left or state in failed:
            return not left
        for pod in {shapes[key_of(pod)]: pod for pod in reversed(left)}.values():
            for node in list(choices(pod, done)):
                rule = refused(pod, node)
                if rule is not None:
                    deepest = max(deepest, (len(done), rule), key=lambda found: found[0])
                    continue
                done[key_of(pod)] = cluster.places[key_of(pod)] = node
                if search([other for other in left if other is not pod]):
                    return True
                del done[key_of(pod)], cluster.places[key_of(pod)]
        failed.add(state)
        return False

    return None if search(list(pods)) else deepest[1]
