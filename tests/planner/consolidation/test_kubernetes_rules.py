"""Plans for random Kubernetes clusters, carried out step by step against the rules of Kubernetes.

The rules stand in `kubernetes_rules`, and know nothing of how clusters are imported or planned.
"""

from __future__ import annotations

import json
import re
import shlex
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from kubernetes_random import HOST, ZONE, near, random_cluster
from kubernetes_rules import (
    REQUIRED,
    RULES,
    Cluster,
    Key,
    Object,
    bind_all,
    group_of,
    is_terminating,
    key_of,
    labels_of,
    requests_of,
    selector_of,
    selects,
    spreads_of,
    terms_of,
)
from step_replay import steps

from clusterplan.formulations.consolidation.plan import JobPlacement
from clusterplan.instances.common.errors import InstanceError
from clusterplan.instances.consolidation.instance import ConsolidationInstance
from clusterplan.instances.importers.clusters.kubernetes import import_kubernetes
from clusterplan.planner.api import solve
from clusterplan.planner.consolidation.kubernetes import script_lines
from clusterplan.planner.consolidation.migration_steps import action_in
from clusterplan.planner.migration.steps import Step

QUICK, ALL = 25, 200
PARTS = ("nodes", "pods", "volumes", "podgroups")
NOTHING_TO_PLAN = r"has no pod to plan|has no node that takes pods"
ROLE = "training.kubeflow.org/replica-type"
TEMPLATES = {"master": "Master", "worker": "Worker"}
Managed = tuple[str, str, str]
"""Resource, namespace and name of the object that pods belong to."""
Kind = tuple[str, float, float]
"""Role, cores, and GiB of memory of a pod: in what the pods of a job differ to a plan."""


def managed_by(pod: Object) -> Managed:
    """Return the object that starts and ends a pod."""
    owner = pod["metadata"]["ownerReferences"][0]
    kind, name = owner["kind"], owner["name"]
    if kind == "ReplicaSet":
        kind, name = "Deployment", name.rpartition("-")[0]
    group = owner["apiVersion"].partition("/")[0]
    return f"{kind.lower()}s.{group}", key_of(pod)[0], name


def role_of(pod: Object) -> str:
    """Return the role of a pod in its job, with a template of its own."""
    return labels_of(pod).get(ROLE, "pods")


def kind_of(pod: Object) -> Kind:
    """Return the kind of a pod."""
    requests = requests_of(pod)
    return role_of(pod), float(requests["cpu"]), float(requests["memory"] / 2**30)


def listed_cluster(listed: Mapping[str, Any]) -> Cluster:
    """Return the rules for a random cluster."""
    return Cluster.listed(*(listed[part] for part in PARTS))


def imported(folder: Path, listed: Mapping[str, Any], choice: str, drained: str) -> ConsolidationInstance:
    """Return the instance of a cluster, all of whose objects stand in one file."""
    items = [each for part in PARTS for each in listed[part]]
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
    (folder / "cluster.json").write_text(text, encoding="utf-8")
    return import_kubernetes(folder / "cluster.json", choice=choice, drained=drained)


@dataclass
class Planned:
    """A cluster, and a plan for it.

    Attributes
    ----------
    script
        The lines of the script that carries the plan out.
    """

    listed: Mapping[str, Any]
    instance: ConsolidationInstance
    entries: list[JobPlacement]
    script: list[str]

    @classmethod
    def of(cls, seed: int, folder: Path) -> Planned | None:
        """Return the plan for a random cluster; None if it has nothing to plan.

        Where the jobs of a cordoned node do not fit elsewhere, they stay.
        """
        listed = random_cluster(seed)
        for drained in ("empty", "stay"):
            try:
                instance = imported(folder, listed, "all" if seed % 3 == 0 else "gpu", drained)
            except InstanceError as error:
                if re.search(NOTHING_TO_PLAN, str(error)):
                    return None
                raise
            plan = solve(instance, time_limit_s=5).plan
            if plan is not None:
                entries = [entry for entry in plan if isinstance(entry, JobPlacement)]
                return cls(listed, instance, entries, list(script_lines(instance, entries)))
        raise AssertionError("even if all may stay, there is no plan")

    def calls(self, function: str) -> list[list[str]]:
        """Return the words of each line of a function of the script."""
        first = self.script.index(f"{function}() {{") + 1
        return [shlex.split(line) for line in self.script[first : self.script.index("}", first)]]

    def is_left(self, job: str) -> bool:
        """Return whether the script leaves a job to the scheduler."""
        return any(line.startswith(f"# LEFT TO THE SCHEDULER: {job}: ") for line in self.script)


class Refused(Exception):
    """A step that the rules do not allow; the text begins with the rule."""


@dataclass
class Replay:
    """A cluster on which the steps of a plan are taken."""

    planned: Planned
    cluster: Cluster = field(init=False)

    def __post_init__(self) -> None:
        self.cluster = listed_cluster(self.planned.listed)
        self.owners: dict[str, Managed] = {}
        self.groups = {job.name: job.task_groups for job in self.planned.instance.jobs}
        for job in self.planned.instance.jobs:
            if job.workload is not None:
                self.owners[job.name] = (job.workload.resource, job.workload.namespace, job.workload.name)

    def check(self) -> None:
        """Check that all is where the script supposes before its first step.

        Raises
        ------
        Refused
            Where it is not.
        """
        for words in self.planned.calls("checks"):
            if words[0] == "check":
                supposed, found = words[4], self._counted((words[1], words[2], words[3]))
                if supposed != found:
                    raise Refused(f"check of the script: {words[1:]}, but its pods are on {found!r}")

    def _counted(self, owner: Managed) -> str:
        """Return the number of an object's pods on each node, as the script counts them."""
        places = (self.cluster.places.get(key_of(pod)) for pod in self._owned(owner))
        there = Counter(node for node in places if node is not None)
        return ",".join(f"{node} {count}" for node, count in sorted(there.items()))

    def run(self) -> None:
        """Take all steps in the order of the script.

        An object with several jobs is held with the first of them and placed with the last. Jobs that are
        left to the scheduler start when it is their turn in the plan.

        Raises
        ------
        Refused
            At the first pod that a rule keeps off the node that the plan has for it.
        """
        verbs = ("drain", "hold", "place", "release")
        calls = deque(words for words in self.planned.calls("steps") if words[0] in verbs)
        while calls and calls[0][0] == "drain":
            self._drain(calls.popleft()[1])
        for step in steps(self.planned.instance, self.planned.entries):
            if self.planned.is_left(step.job):
                if step.do == "place":
                    self._start([step.job], {})
                continue
            verb = "hold" if step.do == "stop" else step.do
            if calls and calls[0][:4] == [verb, *self.owners.get(step.job, ())]:
                self._take(step, calls.popleft())
        assert not calls, calls

    def _drain(self, name: str) -> None:
        node = self.cluster.nodes[name]
        self.cluster.nodes[name] = {**node, "spec": {**node["spec"], "unschedulable": True}}

    def _take(self, step: Step, words: Sequence[str]) -> None:
        owner = self.owners[step.job]
        if step.do in ("hold", "stop"):
            for pod in self._owned(owner):
                self._restart(pod)
        if step.do == "place":
            limits = dict(part.split("=") for part in words[5:])
            self._start([entry.job for entry in self.planned.entries if self._is_part(entry, owner)], limits)

    def _restart(self, pod: Object) -> None:
        """End a pod; one that is made like it waits."""
        key, spec = key_of(pod), {name: value for name, value in pod["spec"].items() if name != "nodeName"}
        self.cluster.places.pop(key, None)
        self.cluster.pods[key] = {**pod, "spec": spec}

    def _is_part(self, entry: JobPlacement, owner: Managed) -> bool:
        return self.owners.get(entry.job) == owner and action_in(entry) in ("start", "move")

    def _start(self, jobs: Sequence[str], limits: Mapping[str, str]) -> None:
        """Bind the pods of jobs of one object, in some order.

        Parameters
        ----------
        limits
            Field path of a pod specification → servers, of the affinity that the script sets.
        """
        waiting = self.waiting(jobs)
        slots = self._slots(jobs, {role_of(pod) for pod in waiting})
        pods = []
        for kind, count in Counter(kind for kind, _ in slots.elements()).items():
            own = [pod for pod in waiting if kind_of(pod) == kind][:count]
            if len(own) < count:
                raise Refused(f"number of pods: {jobs} has {len(own)} that wait as {kind}, not {count}")
            pods += own

        def choices(pod: Object, done: Mapping[Key, str]) -> list[str]:
            kind = kind_of(pod)
            taken = Counter((kind_of(self.cluster.pods[key]), node) for key, node in done.items())
            return [node for own, node in slots if own == kind and taken[kind, node] < slots[kind, node]]

        def refusal(pod: Object, node: str) -> str | None:
            rule = self.cluster.refusal(pod, node)
            if rule is None and limits:
                rule = self.cluster.refusal(_limited(pod, limits), node)
                return rule and f"{rule}, beside the affinity of the script"
            return rule

        rule = bind_all(self.cluster, pods, choices, refusal)
        if rule is not None:
            raise Refused(f"{rule}: {', '.join(jobs)} on {dict(slots)}")
        for group in {group_of(pod) for pod in pods} & self.cluster.groups.keys():
            if group is not None and self.cluster.is_partial(group):
                raise Refused(f"gang: {', '.join(jobs)} has too few pods that run")

    def _slots(self, jobs: Iterable[str], roles: Set[str]) -> Counter[tuple[Kind, str]]:
        """Return how many pods of each kind the plan has on each node.

        Groups of one role are numbered, and the only group of a job need not be called as its role.
        """
        slots: Counter[tuple[Kind, str]] = Counter()
        for entry in self.planned.entries:
            for group in self.groups[entry.job] if entry.job in jobs else ():
                plain = group.name if group.name in roles else re.sub(r"-\d+$", "", group.name)
                role = plain if plain in roles or len(roles) != 1 else min(roles)
                kind = role, group.demand.get("cpu", 0.0), group.demand.get("memory_gib", 0.0)
                slots.update({(kind, node): n for node, n in entry.tasks.get(group.name, {}).items()})
        return slots

    def waiting(self, jobs: Iterable[str]) -> list[Object]:
        """Return the pods of jobs that have no node and are not about to end."""
        pods = [pod for job in jobs for pod in self._pods_of(job)]
        return [pod for pod in pods if key_of(pod) not in self.cluster.places and not is_terminating(pod)]

    def _pods_of(self, job: str) -> list[Object]:
        """Return the pods of a job.

        A pod of a Deployment is a job of its own. A job that the script cannot stop names no object; it is
        called as that, or as the PodGroup that has pods of several.
        """
        owner, pods = self.owners.get(job), self.cluster.pods
        if owner is None:
            key = tuple(job.partition(" ")[0].split("/"))
            return [pod for pod in pods.values() if key in (group_of(pod), managed_by(pod)[1:])]
        if owner[0] == "deployments.apps":
            return [pod for key, pod in pods.items() if "/".join(key) == job]
        return self._owned(owner)

    def _owned(self, owner: Managed) -> list[Object]:
        return [pod for pod in self.cluster.pods.values() if managed_by(pod) == owner]


def _limited(pod: Object, limits: Mapping[str, str]) -> Object:
    """Return a pod with the node affinity that the script sets."""
    template = TEMPLATES.get(role_of(pod))
    (names,) = (
        servers for path, servers in limits.items() if template is None or f".{template}.template" in path
    )
    terms = [
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]}
        for name in names.split(",")
    ]
    affinity = {**pod["spec"].get("affinity", {}), "nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}
    return {**pod, "spec": {**pod["spec"], "affinity": affinity}}


def could_start(cluster: Cluster, pods: Sequence[Object]) -> bool:
    """Return whether pods might start on an empty cluster, were other pods wherever they help.

    An affinity that other pods meet somewhere counts as met, and a spread that counts others as even.
    """
    own = {key_of(pod) for pod in pods}
    others = [pod for key, pod in cluster.pods.items() if key not in own]

    def eased(pod: Object) -> Object:
        affinity, terms = dict(pod["spec"].get("affinity") or {}), terms_of(pod, "podAffinity")
        if any(all(term.means(other, cluster.namespaces) for term in terms) for other in others):
            affinity["podAffinity"] = None
        same = [labels_of(other) for other in others if key_of(other)[0] == key_of(pod)[0]]
        spreads = [
            spread
            for spread in spreads_of(pod)
            if not any(selects(selector_of(spread, pod), labels) for labels in same)
        ]
        spec = {**pod["spec"], "affinity": affinity, "topologySpreadConstraints": spreads}
        return {**pod, "spec": spec}

    empty, made = cluster.emptied(), list(map(eased, pods))
    return bind_all(empty, made, lambda *_: list(empty.nodes)) is None


def check(planned: Planned) -> None:
    """Check a plan, and every step of its script.

    Raises
    ------
    Refused
        At the first pod that may not start where it is to.
    """
    replay = Replay(planned)
    for entry in planned.entries:
        if action_in(entry) == "start":
            pods = replay.waiting([entry.job])
            if pods and not could_start(replay.cluster, pods):
                raise Refused(f"hopeless: {entry.job} can start on no node, and is placed")
    replay.check()
    replay.run()


SEEDS = [*range(QUICK), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(QUICK, ALL))]


@pytest.mark.parametrize("seed", SEEDS)
def test_kubernetes_accepts_every_pod_that_a_plan_starts(tmp_path: Path, seed: int) -> None:
    """On the node that the plan has for it, after all earlier steps; and what never starts is not placed."""
    planned = Planned.of(seed, tmp_path)
    if planned is not None:
        check(planned)


@pytest.mark.parametrize("seed", range(QUICK))
def test_jobs_without_hope_never_start(seed: int) -> None:
    """Not even on an empty cluster; the random clusters say which they are."""
    listed = random_cluster(seed)
    cluster = listed_cluster(listed)
    assert listed["hopeless"]
    for name in listed["hopeless"]:
        pods = [pod for pod in cluster.pods.values() if "/".join(managed_by(pod)[1:]) == name]
        assert pods
        assert not could_start(cluster, pods)


def test_every_rule_keeps_some_pod_off_some_node() -> None:
    """Else the random clusters would not try it."""
    found = set()
    for seed in range(QUICK):
        cluster = listed_cluster(random_cluster(seed))
        for pod in cluster.pods.values():
            for node in cluster.nodes.values():
                found |= {rule for rule, refuses in RULES.items() if refuses(cluster, pod, node)}
    assert found == RULES.keys()


def a_node(name: str, *taints: Object) -> Object:
    """Return a node; the first letter of its name is its zone."""
    return {
        "metadata": {"name": name, "labels": {HOST: name, ZONE: name[0]}},
        "spec": {"taints": taints},
        "status": {"allocatable": {"cpu": "4", "pods": "10"}},
    }


def a_pod(name: str, on: str | None = None, app: str = "x", ends: bool = False, **spec: Any) -> Object:
    """Return a pod."""
    metadata = {"name": name, "namespace": "t", "labels": {"app": app}}
    ports = {"ports": spec.pop("ports", ())}
    containers = [{"resources": {"requests": {"cpu": "500m"}}, **ports}]
    details = {"deletionTimestamp": "2025-03-04T09:30:00Z"} if ends else {}
    return {"metadata": {**metadata, **details}, "spec": {"containers": containers, "nodeName": on, **spec}}


def spread(topology: str, app: str = "x", **fields: Any) -> Object:
    """Return a topology spread constraint."""
    selector = {"labelSelector": {"matchLabels": {"app": app}}}
    return {"maxSkew": 1, "topologyKey": topology, "whenUnsatisfiable": "DoNotSchedule", **selector, **fields}


def affinity(kind: str, *terms: Object) -> dict[str, Any]:
    """Return the field of a pod with required terms of `podAffinity` or `podAntiAffinity`."""
    return {"affinity": {kind: {REQUIRED: terms}}}


def spreads(*constraints: Object) -> dict[str, Any]:
    """Return the field of a pod with topology spread constraints."""
    return {"topologySpreadConstraints": constraints}


AWAY = affinity("podAntiAffinity", near(ZONE, {"app": "w"}))
IN_A = {"nodeSelector": {ZONE: "a"}}
EVERYWHERE = {"namespaceSelector": {}}
PORT = {"ports": [{"containerPort": 80, "hostPort": 80}]}


@pytest.mark.parametrize(
    ("new", "nodes"),
    [
        # The examples of the documentation: two pods in one zone, one in the other.
        (a_pod("p", **spreads(spread(ZONE))), "b1 b2"),
        (a_pod("p", **spreads(spread(HOST))), "b2"),
        (a_pod("p", **spreads(spread(ZONE), spread(HOST))), "b2"),
        (a_pod("p", **spreads(spread(ZONE, maxSkew=2))), "a1 a2 b1 b2"),
        (a_pod("p", **spreads(spread(ZONE, whenUnsatisfiable="ScheduleAnyway"))), "a1 a2 b1 b2"),
        (a_pod("p", **spreads(spread(ZONE, minDomains=2))), "b1 b2"),
        (a_pod("p", **spreads(spread(ZONE, minDomains=3))), ""),
        (a_pod("p", **spreads(spread(ZONE)), **IN_A), "a1 a2"),
        (a_pod("p", **spreads(spread(ZONE, nodeAffinityPolicy="Ignore")), **IN_A), ""),
        (a_pod("p", **spreads(spread("room"))), ""),
        (a_pod("p", **spreads(spread(ZONE, matchLabelKeys=["app"]))), "b1 b2"),
        # A pod that its own constraint does not count.
        (a_pod("p", app="y", **spreads(spread(ZONE))), "a1 a2 b1 b2"),
        # Pods that end are not counted here, and are there all the same.
        (a_pod("p", app="ends", **spreads(spread(ZONE, app="ends"))), "a1 a2 b1 b2"),
        (a_pod("p", **affinity("podAntiAffinity", near(HOST, {"app": "x"}))), "b2"),
        (a_pod("p", **affinity("podAntiAffinity", near(ZONE, {"app": "x"}))), ""),
        (a_pod("p", **affinity("podAntiAffinity", near(ZONE, {"app": "ends"}))), "a1 a2"),
        (a_pod("p", **affinity("podAntiAffinity", near("room", {"app": "x"}))), "a1 a2 b1 b2"),
        (a_pod("p", **affinity("podAntiAffinity", near(HOST))), "a1 a2 b1 b2"),
        (a_pod("p", **affinity("podAntiAffinity", near(HOST, {}, namespaces=["u"]))), "a1 a2 b1 b2"),
        (a_pod("p", **affinity("podAntiAffinity", near(HOST, {}, **EVERYWHERE))), ""),
        (a_pod("p", **affinity("podAntiAffinity", near(HOST, {}, mismatchLabelKeys=["app"]))), "a1 a2"),
        (a_pod("p", app="w"), "a1 a2"),
        (a_pod("p", **affinity("podAffinity", near(HOST, {"app": "x"}))), "a1 a2 b1"),
        (a_pod("p", **affinity("podAffinity", near(HOST, {"app": "x"}, namespaces=["u"]))), ""),
        # The first of pods that are to be near each other, and one that is not of them.
        (a_pod("p", app="z", **affinity("podAffinity", near(ZONE, {"app": "z"}))), "a1 a2 b1 b2"),
        (a_pod("p", app="y", **affinity("podAffinity", near(ZONE, {"app": "z"}))), ""),
        (a_pod("p", app="z", **affinity("podAffinity", near("room", {"app": "z"}))), ""),
        (a_pod("p", **PORT), "a1 a2 b2"),
        (a_pod("p", schedulingGates=[{"name": "g"}]), ""),
        (a_pod("p", on="a2"), "a2"),
    ],
)
def test_the_rules_of_the_documentation(new: Object, nodes: str) -> None:
    """On two zones of two nodes, with three pods like it and two others."""
    bound = [a_pod("x1", "a1"), a_pod("x2", "a2"), a_pod("x3", "b1", **PORT)]
    bound += [a_pod("v", "b1", app="v", **AWAY), a_pod("e", "b2", app="ends", ends=True)]
    cluster = Cluster.listed(map(a_node, ("a1", "a2", "b1", "b2")), bound)
    assert [name for name in cluster.nodes if cluster.refusal(new, name) is None] == nodes.split()


@pytest.mark.parametrize(
    ("new", "nodes"),
    [
        (a_pod("p"), "a1"),
        (a_pod("p", tolerations=[{"key": "t", "value": "1"}]), "a1 b1"),
        (a_pod("p", tolerations=[{"operator": "Exists"}]), "a1 b1"),
        (a_pod("p", tolerations=[{"key": "t", "value": "2"}]), "a1"),
        (a_pod("p", tolerations=[{"key": "t", "operator": "Exists", "effect": "NoExecute"}]), "a1"),
        (a_pod("p", **spreads(spread(ZONE))), ""),
        (a_pod("p", **spreads(spread(ZONE, nodeTaintsPolicy="Honor"))), "a1"),
    ],
)
def test_the_rules_for_taints(new: Object, nodes: str) -> None:
    """One of two nodes has one; a pod is on the other."""
    tainted = a_node("b1", {"key": "t", "value": "1", "effect": "NoSchedule"})
    cluster = Cluster.listed([a_node("a1"), tainted], [a_pod("x", "a1")])
    assert [name for name in cluster.nodes if cluster.refusal(new, name) is None] == nodes.split()
