"""Rules of pods on other pods: required affinity and anti-affinity, topology spread, ports of nodes.

Sets: pods that stay where they are; jobs that run and may move; jobs that wait. A domain is the set of nodes
with one value of a label.

* Near pods that stay, a rule forbids nodes to the pods that it concerns.
* Among pods that move or start, a rule on single nodes becomes a resource: each node has as much of it as
  the rule permits there at any time, whatever the others do.
* Among pods that start, a rule on larger domains is kept by choosing a domain for each, where there is room.
* What neither expresses: jobs that run stay, and jobs that wait are left out.

So a plan may be stricter than the scheduler, and is meant never to be laxer. Source: Kubernetes, "Assigning
Pods to Nodes" and "Pod Topology Spread Constraints".
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

from .kubernetes_affinity import NO_VOLUMES, Volumes, allowed_nodes, in_affinity, meets
from .kubernetes_jobs import PodJob
from .kubernetes_objects import (
    LabelSelector,
    Node,
    Pod,
    PodAffinityTerm,
    Requests,
    Requirement,
    SpreadConstraint,
    requests_by_node,
)

HOST = "kubernetes.io/hostname"
"""Label whose values are the nodes themselves."""
CLUSTER = ""
"""In place of a label: all nodes are one domain."""
MAX_SHARES = 4096
"""Limit of the ways to place the pods of a job that is shared out: each of its domains is a group."""
MAX_RESOURCES = 50
"""Limit of the resources that stand for rules; each is one more for every server."""
NEAR = "have to be near, or apart from, other pods in a way that is not planned"
"""Why jobs with such rules stay, or are left out."""
ALONE = "have to be near pods that do not run"
"""Why jobs that wait are left out."""


class Selection(NamedTuple):
    """Pods by namespace (None: any) and by conditions on their labels, all of which hold."""

    namespaces: frozenset[str] | None
    requirements: tuple[Requirement, ...]

    def has(self, pod: Pod) -> bool:
        """Return whether a pod is one of them."""
        spaces = self.namespaces
        return (spaces is None or pod.metadata.namespace in spaces) and all(
            meets(each, pod.labels.get(each.key)) for each in self.requirements
        )


@dataclass
class Exclusion:
    """A rule that pods, its holders, share no domain of a topology with pods that match."""

    topology: str
    holders: list[Pod] = field(default_factory=list)
    matching: list[Pod] = field(default_factory=list)


class Limit(NamedTuple):
    """A resource that limits pods on a node.

    Attributes
    ----------
    demand
        Identity of a pod → its demand; 0 of others.
    capacity
        Node → its capacity, for pods that may move or start.
    """

    name: str
    demand: Mapping[int, int]
    capacity: Mapping[str, int]


class Verdict(NamedTuple):
    """Jobs for which a rule is not expressed, and why."""

    jobs: list[PodJob]
    why: str


class PodRules:
    """What the rules of pods on other pods mean for the planned jobs.

    Parameters
    ----------
    nodes
        All nodes of the cluster.
    usable
        The names of the nodes that take pods.
    present
        All pods that have not ended.
    jobs
        The jobs that would be planned without rules.
    kept
        The names of those that stay, for other reasons.
    volumes
        The volumes of the cluster that are known.

    Attributes
    ----------
    left_out
        Identity of each waiting pod that must not be planned → why.
    staying
        Identity of each running pod whose job must stay → why.
    limits
        The resources that stand for rules.
    """

    def __init__(
        self,
        nodes: Sequence[Node],
        usable: frozenset[str],
        present: Sequence[Pod],
        jobs: Sequence[PodJob],
        kept: Iterable[str],
        volumes: Volumes = NO_VOLUMES,
    ) -> None:
        self._volumes = volumes
        self._nodes, self._usable = {node.name: node for node in nodes}, usable
        self._job_of = {id(pod): job for job in jobs for pod in job.pods}
        self._pods = [pod for pod in present if pod.node is not None or id(pod) in self._job_of]
        self._order = {id(job): place for place, job in enumerate(jobs)}
        still = set(kept)
        self._fixed = {id(pod) for pod in self._pods if id(pod) not in self._job_of}
        self._fixed |= {id(pod) for job in jobs if job.name in still for pod in job.pods}
        self.left_out: dict[int, str] = {}
        self.staying: dict[int, str] = {}
        self.limits: list[Limit] = []
        self._allowed: dict[int, frozenset[str]] = {}
        self._domains: dict[str, dict[str, str]] = {}
        self._hosts: dict[tuple[tuple[str, Selection | None], ...], list[Pod]] = {}
        self._settle()

    @property
    def restrict(self) -> bool:
        """Whether any rule keeps a planned pod off a node."""
        return bool(self._allowed or self.limits)

    def allowed(self, pod: Pod) -> frozenset[str]:
        """Return the names of the nodes that the rules leave to a planned pod."""
        return self._allowed.get(id(pod), self._usable)

    def demand(self, pod: Pod) -> tuple[tuple[str, int], ...]:
        """Return the demand of a planned pod for the resources that stand for rules."""
        return tuple((rule.name, rule.demand[id(pod)]) for rule in self.limits if rule.demand.get(id(pod)))

    def capacity(self, node: str) -> dict[str, float]:
        """Return a node's capacity of the resources that stand for rules."""
        return {rule.name: float(rule.capacity[node]) for rule in self.limits}

    def _settle(self) -> None:
        """Express every rule; again after jobs were found that must stay, or be left out."""
        while True:
            self._allowed, self.limits = {}, []
            verdicts = list(self._express())
            for jobs, why in verdicts:
                for pod in (pod for job in jobs for pod in job.pods):
                    if self._place(pod) is None:
                        self.left_out[id(pod)] = why
                    else:
                        self.staying[id(pod)] = why
                        self._fixed.add(id(pod))
            if not verdicts:
                return

    def _express(self) -> Iterator[Verdict]:
        """Restrict pods to nodes and make resources; yield the jobs for which that does not do."""
        for exclusion in self._exclusions:
            yield from self._separate(exclusion)
        for pod in self._pods:
            if pod.near and self._is_planned(pod):
                yield from self._gather(pod)
        for constraint, holders in self._constraints.values():
            yield from self._spread(constraint, self._planned(holders))

    def _is_planned(self, pod: Pod) -> bool:
        """Return whether a pod may move, or starts."""
        return id(pod) not in self._fixed and id(pod) not in self.left_out

    def _planned(self, pods: Iterable[Pod]) -> list[Pod]:
        return list(filter(self._is_planned, pods))

    def _place(self, pod: Pod) -> str | None:
        """Return the node that a pod has and keeps until it is moved; None of one that waits."""
        return pod.node if id(pod) not in self._job_of or pod.node in self._usable else None

    def _jobs(self, pods: Iterable[Pod]) -> list[PodJob]:
        jobs = {id(job): job for job in (self._job_of[id(pod)] for pod in pods)}
        return sorted(jobs.values(), key=lambda job: self._order[id(job)])

    # Topologies

    def _domain(self, topology: str, node: str | None) -> str | None:
        """Return the domain of a node; None if it is in none."""
        if topology not in self._domains:
            labels = {name: each.labels.get(topology) for name, each in self._nodes.items()}
            if topology in (HOST, CLUSTER):
                labels = {
                    name: label or (name if topology == HOST else "all") for name, label in labels.items()
                }
            self._domains[topology] = {name: label for name, label in labels.items() if label is not None}
        return None if node is None else self._domains[topology].get(node)

    def _in_domains(self, topology: str, domains: Iterable[str | None]) -> frozenset[str]:
        """Return the nodes that take pods in some domains."""
        chosen = set(domains) - {None}
        return frozenset(name for name in self._usable if self._domain(topology, name) in chosen)

    def _is_of_nodes(self, topology: str) -> bool:
        """Return whether each domain is a single node."""
        self._domain(topology, None)
        domains = self._domains[topology].values()
        return len(set(domains)) == len(domains)

    def _restrict(self, pods: Iterable[Pod], nodes: frozenset[str]) -> None:
        for pod in pods:
            self._allowed[id(pod)] = self.allowed(pod) & nodes

    # Selections

    @cached_property
    def _by_label(self) -> dict[tuple[str, str], list[Pod]]:
        """Label and value → the pods that have them: most selections name one."""
        found: dict[tuple[str, str], list[Pod]] = defaultdict(list)
        for pod in self._pods:
            for label in pod.labels.items():
                found[label].append(pod)
        return found

    def _matching(self, selection: Selection | None) -> list[Pod]:
        """Return the pods of a selection; of None there are none."""
        if selection is None:
            return []
        candidates: Sequence[Pod] = self._pods
        for key, operator, values in ((r.key, r.operator, r.values) for r in selection.requirements):
            if operator == "In":
                of_values = (self._by_label.get((key, value), []) for value in dict.fromkeys(values))
                candidates = min(candidates, [pod for pods in of_values for pod in pods], key=len)
        return list(filter(selection.has, candidates))

    # Anti-affinity

    @cached_property
    def _exclusions(self) -> list[Exclusion]:
        """The rules that keep pods apart: anti-affinity, and ports and volumes that one pod at a time has."""
        found: dict[tuple[object, ...], Exclusion] = {}
        for pod in self._pods:
            for term in pod.apart:
                selection = selected_by(pod, term, everywhere=True)
                key = term.topologyKey, selection
                if key not in found:
                    found[key] = Exclusion(term.topologyKey, [], self._matching(selection))
                found[key].holders.append(pod)
            claims = self._volumes.exclusive(pod)
            for topology, once in (*((HOST, p) for p in pod.host_ports), *((CLUSTER, c) for c in claims)):
                exclusion = found.setdefault((topology, once), Exclusion(topology))
                exclusion.holders.append(pod)
                exclusion.matching.append(pod)
        # Resources are few, and go to the rules for which something waits.
        return sorted(
            found.values(), key=lambda rule: all(pod.node for pod in (*rule.holders, *rule.matching))
        )

    def _separate(self, rule: Exclusion) -> Iterator[Verdict]:
        holders, matching = self._planned(rule.holders), self._planned(rule.matching)
        for concerned, others in ((holders, rule.matching), (matching, rule.holders)):
            near = {self._domain(rule.topology, pod.node) for pod in others if id(pod) in self._fixed}
            if concerned and near - {None}:
                self._restrict(concerned, self._usable - self._in_domains(rule.topology, near))
        members = list({id(pod): pod for pod in (*holders, *matching)}.values())
        if not holders or not matching or len(members) < 2:
            return
        if not self._is_of_nodes(rule.topology):
            running = [pod for pod in members if self._place(pod) is not None]
            if running or len(members) > len(holders):
                yield from self._not_expressed(holders, members, running)
                return
            there = {self._domain(rule.topology, name) for pod in members for name in self.allowed(pod)}
            apart = dict.fromkeys(filter(None, there), 0)
            yield from self._share_out(rule.topology, members, apart, lambda: 1)
            return
        # One that holds the rule needs all of the resource, so that nothing that matches is beside it.
        own, matched = {id(pod) for pod in holders}, {id(pod) for pod in matching}
        # Where no holder matches, the side with fewer pods is the one of which a node has at most one.
        few = matched if own.isdisjoint(matched) and len(matched) < len(own) else own
        most = max(1, len(members) - len(few))
        if most == 1 and self._fit_alone(members):
            return
        demand = {id(pod): most if id(pod) in few else 1 for pod in members}
        yield from self._limited("apart", members, demand, dict.fromkeys(self._usable, most))

    def _fit_alone(self, pods: Sequence[Pod]) -> bool:
        """Return whether no node has room for two of some pods anyway."""
        return any(
            2 * min(pod.requests.get(name, 0) for pod in pods) > amount
            for name, amount in self._largest.items()
        )

    @cached_property
    def _largest(self) -> dict[str, Decimal]:
        """Resource → the most that any node has of it."""
        largest: dict[str, Decimal] = defaultdict(Decimal)
        for node in self._nodes.values():
            for name, amount in node.status.allocatable.items():
                largest[name] = max(largest[name], amount)
        return largest

    def _limited(
        self, words: str, members: Sequence[Pod], demand: Mapping[int, int], capacity: Mapping[str, int]
    ) -> Iterator[Verdict]:
        """Make a resource of a rule; jobs that run where it would not be observed stay."""
        if len(self.limits) >= MAX_RESOURCES:
            yield Verdict(self._jobs(members), NEAR)
            return
        used = Counter[str | None]()
        for pod in members:
            used[self._place(pod)] += demand[id(pod)]
        above = {node for node, amount in used.items() if node is not None and amount > capacity[node]}
        if above:
            yield Verdict(self._jobs(pod for pod in members if self._place(pod) in above), NEAR)
        else:
            name = f"{words}: {self._jobs(members)[0].name}"
            taken = sum(rule.name == name or rule.name.startswith(f"{name} (") for rule in self.limits)
            self.limits.append(Limit(name if not taken else f"{name} ({taken + 1})", demand, capacity))

    def _not_expressed(
        self, holders: Sequence[Pod], members: Sequence[Pod], running: Sequence[Pod]
    ) -> Iterator[Verdict]:
        """Yield what stays or is left out for a rule on domains of several nodes.

        What runs stays. Of what waits at most one pod is planned, whose domains the others do not change.
        """
        if running:
            yield Verdict(self._jobs(running), NEAR)
            return
        jobs = self._jobs(holders)
        concerned = {id(job) for job in jobs}
        others = any(id(self._job_of[id(pod)]) not in concerned for pod in members)
        first = [pod for pod in members if self._job_of[id(pod)] is jobs[0]]
        yield Verdict(jobs[1:] if not others and len(first) == 1 else jobs, NEAR)

    def _share_out(
        self, topology: str, pods: Sequence[Pod], counts: dict[str, int], most: Callable[[], int]
    ) -> Iterator[Verdict]:
        """Choose a domain for each of some waiting pods: one with room, then with the fewest pods.

        Parameters
        ----------
        counts
            Domain → pods that count there, to which the chosen ones are added.
        most
            Returns how many there may be in a domain.
        """
        room = self._room(pods[0], topology)
        chosen_of: dict[int, Counter[str]] = defaultdict(Counter)
        for place, pod in enumerate(pods):
            near = {self._domain(topology, name) for name in self.allowed(pod)}
            fit = [domain for domain in sorted(counts) if domain in near and counts[domain] < most()]
            own = chosen_of[id(self._job_of[id(pod)])]
            if not fit or math.prod(count + 1 for count in own.values()) > MAX_SHARES:
                yield Verdict(self._jobs(pods[place:]), NEAR)
                return
            chosen = min(fit, key=lambda domain: (room[domain] <= 0, counts[domain], -room[domain]))
            counts[chosen] += 1
            room[chosen] -= 1
            own[chosen] += 1
            self._restrict([pod], self._in_domains(topology, [chosen]))

    def _room(self, pod: Pod, topology: str) -> dict[str, int]:
        """Return domain → the number of pods like this one for which there is room now."""
        nodes = [self._nodes[name] for name in self.allowed(pod)]
        room: dict[str, int] = defaultdict(int)
        for name in allowed_nodes(pod, nodes):
            domain, held = self._domain(topology, name), self._held[name]
            has = self._nodes[name].status.allocatable
            asked = ((each, amount) for each, amount in pod.requests.items() if amount)
            left = ((Fraction(has.get(each, 0)) - held.get(each, 0)) // amount for each, amount in asked)
            if domain is not None:
                room[domain] += max(0, min(left, default=0))
        return room

    @cached_property
    def _held(self) -> dict[str | None, Requests]:
        """Node → what all its pods request."""
        return defaultdict(dict, requests_by_node(self._pods))

    # Affinity

    def _matching_all(self, pod: Pod, everywhere: bool) -> list[Pod]:
        """Return the pods that match all terms of a pod's affinity; parameters as in `selected_by`."""
        found = [self._matching(selected_by(pod, term, everywhere)) for term in pod.near]
        common = set[int].intersection(*(set(map(id, hosts)) for hosts in found))
        return [host for host in found[0] if id(host) in common]

    def _gather(self, pod: Pod) -> Iterator[Verdict]:
        """Restrict a pod to nodes near pods that it has to be near, all of which match all of its terms."""
        terms = tuple((term.topologyKey, selected_by(pod, term, everywhere=False)) for term in pod.near)
        if terms not in self._hosts:
            self._hosts[terms] = self._matching_all(pod, everywhere=False)
        hosts = [host for host in self._hosts[terms] if host.metadata.deletionTimestamp is None]
        there = [host for host in hosts if id(host) in self._fixed]
        moving = [host for host in self._planned(hosts) if self._place(host) is not None]
        if there:
            for topology, _ in terms:
                near = {self._domain(topology, host.node) for host in there}
                self._restrict([pod], self._in_domains(topology, near))
        elif moving:
            yield Verdict(self._jobs(moving), NEAR)
        elif not any(host is pod for host in hosts) or any(
            host.node for host in self._matching_all(pod, everywhere=True)
        ):
            yield Verdict(self._jobs([pod]), ALONE)
        else:
            # The first of the pods that have to be near each other may start anywhere, the others near it.
            together = self._planned(hosts)
            jobs = self._jobs(together)
            if len(jobs) > 1:
                yield Verdict(jobs[1:], NEAR)
                return
            for topology, _ in terms:
                room = self._room(together[0], topology)
                most = max(sorted(room), key=room.__getitem__, default=None)
                # A pod alone may be in any domain.
                self._restrict(together, self._in_domains(topology, [most] if len(together) > 1 else room))

    # Spread

    @cached_property
    def _constraints(self) -> dict[tuple[object, ...], tuple[SpreadConstraint, list[Pod]]]:
        """The spread constraints, each with the pods that have it and equal conditions on nodes."""
        found: dict[tuple[object, ...], tuple[SpreadConstraint, list[Pod]]] = {}
        for pod in self._pods:
            for each in pod.spread:
                terms = repr((pod.spec.nodeSelector, pod.spec.affinity.nodeAffinity))
                numbers = each.maxSkew, each.minDomains, each.nodeAffinityPolicy
                key = each.topologyKey, spread_selection(pod, each), numbers, terms
                found.setdefault(key, (each, []))[1].append(pod)
        return found

    def _spread(self, rule: SpreadConstraint, holders: Sequence[Pod]) -> Iterator[Verdict]:
        """Limit the pods of a domain to the fewest that stay in any domain, plus the skew."""
        if not holders:
            return
        topology, pod = rule.topologyKey, holders[0]
        counted = [p for p in self._matching(spread_selection(pod, rule)) if not p.metadata.deletionTimestamp]
        stay = Counter(self._domain(topology, p.node) for p in counted if id(p) in self._fixed)
        nodes = self._nodes.values()
        eligible = [n.name for n in nodes if rule.nodeAffinityPolicy == "Ignore" or in_affinity(pod, n)]
        domains = {self._domain(topology, name) for name in eligible} - {None}
        least = min((stay[domain] for domain in domains), default=0)
        members = self._planned(counted)
        of_nodes = self._is_of_nodes(topology)
        # With fewer domains than minDomains the fewest count as none, and a script's affinity leaves few.
        # In larger domains, what is on nodes that the pods may not use does not count.
        most = rule.maxSkew + least * (of_nodes and rule.minDomains is None)
        running = [p for p in (*members, *holders) if self._place(p) is not None]
        if not of_nodes and running:
            yield Verdict(self._jobs(running), NEAR)
            return
        matched = {id(p) for p in members}
        if not of_nodes and members:
            counts = {domain: stay[domain] for domain in domains if domain is not None}
            # The pods of one job all start, or none: as they come, the fewest of a domain become more.
            alone = len(self._jobs(members)) == 1 and rule.minDomains is None
            before = dict(counts)

            def limit() -> int:
                return rule.maxSkew + alone * min(counts[domain] - before[domain] for domain in counts)

            yield from self._share_out(topology, members, counts, limit)
            stay, most = Counter(counts), max([most, *counts.values()])
        for holder in (holder for holder in holders if of_nodes or id(holder) not in matched):
            fits = {domain for domain in domains if stay[domain] + (id(holder) in matched) <= most}
            self._restrict([holder], self._in_domains(topology, fits))
        if of_nodes:
            room = {name: len(members) for name in self._usable}
            own = {name: domain for name in room if (domain := self._domain(topology, name)) is not None}
            room |= {name: max(0, most - stay[domain]) for name, domain in own.items()}
            if members and min(room.values(), default=0) < len(members):
                yield from self._limited("spread", members, dict.fromkeys(matched, 1), room)


def selected_by(pod: Pod, term: PodAffinityTerm, everywhere: bool) -> Selection | None:
    """Return the pods that a term of affinity of a pod means; None for none.

    Parameters
    ----------
    everywhere
        What is taken of namespaces that are chosen by labels, which no file has: all, or none.
    """
    selector, spaces = term.namespaceSelector, term.namespaces
    named = frozenset(spaces or (() if selector is not None else (pod.metadata.namespace,)))
    every = selector is not None and (everywhere or not (selector.matchLabels or selector.matchExpressions))
    chosen = None if every else named
    return _selection(chosen, pod, term.labelSelector, term.matchLabelKeys, term.mismatchLabelKeys)


def spread_selection(pod: Pod, rule: SpreadConstraint) -> Selection | None:
    """Return the pods, all of the pod's namespace, that a spread constraint counts; None for none."""
    return _selection(frozenset([pod.metadata.namespace]), pod, rule.labelSelector, rule.matchLabelKeys)


def is_selected(pod: Pod, selector: LabelSelector | None, namespace: str) -> bool:
    """Return whether a selector of a namespace selects a pod."""
    selection = _selection(frozenset([namespace]), pod, selector)
    return selection is not None and selection.has(pod)


def _selection(
    namespaces: frozenset[str] | None,
    pod: Pod,
    selector: LabelSelector | None,
    same: Sequence[str] = (),
    different: Sequence[str] = (),
) -> Selection | None:
    """Return what a selector selects, with conditions on labels that shall equal, or not, the pod's."""
    if selector is None:
        return None
    labels = pod.labels
    equal = [*selector.matchLabels.items(), *((k, labels[k]) for k in same if k in labels)]
    unequal = [(key, labels[key]) for key in different if key in labels]
    conditions = (
        *(Requirement(key=key, operator="In", values=(value,)) for key, value in equal),
        *(Requirement(key=key, operator="NotIn", values=(value,)) for key, value in unequal),
        *selector.matchExpressions,
    )
    return Selection(namespaces, conditions)
