"""The document of a cluster: its nodes as servers, and its jobs of pods as jobs of tasks."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

from ...common.hardware import GIB
from ..device_parts import fields_of
from ..node_restrictions import Choice as NodeChoice
from ..node_restrictions import Restrictions
from .affinity import describe
from .cluster import Cluster
from .jobs import PodGroup, PodJob
from .objects import Node, Pod, Requests, is_bytes, total
from .workloads import workload_of


@dataclass(frozen=True)
class ClusterDocument:
    """What the instance says of a cluster."""

    cluster: Cluster

    @cached_property
    def resources(self) -> dict[str, str]:
        """Resource as Kubernetes names it → as the instance does, for all that a planned pod asks for."""
        asked = dict.fromkeys(
            name
            for job in self.cluster.jobs
            for group in job.groups
            for name, amount in group.requests.items()
            if amount and not self.cluster.is_device(name)
        )
        names = {name: f"{name}_gib" if is_bytes(name) else name for name in ("cpu", "memory", *asked)}
        if all("pods" in node.status.allocatable for node in self.cluster.nodes):
            names["pods"] = "pods"
        gpus = [name for name in asked if self.cluster.is_gpu(name)]
        # Single devices are called so already.
        return names | ({gpus[0]: "gpu"} if len(gpus) == 1 and self.cluster.devices is None else {})

    def _amounts(self, requests: Requests) -> dict[str, float]:
        return {
            own: float(requests[name] / (GIB if is_bytes(name) else 1))
            for name, own in self.resources.items()
            if requests.get(name)
        }

    @cached_property
    def _holders(self) -> dict[str, tuple[list[Pod], list[Pod]]]:
        """Node → the planned pods on it, and the others."""
        own = {id(pod) for job in self.cluster.jobs for pod in job.pods}
        found: dict[str, tuple[list[Pod], list[Pod]]] = defaultdict(lambda: ([], []))
        for pod in self.cluster.present:
            if pod.node is not None:
                found[pod.node][id(pod) not in own].append(pod)
        return found

    @cached_property
    def held(self) -> tuple[dict[str, Requests], dict[str, Requests]]:
        """What planned pods hold of each node, and what the others do."""
        both: tuple[dict[str, Requests], dict[str, Requests]] = ({}, {})
        for node, holders in self._holders.items():
            for held, pods in zip(both, holders, strict=True):
                held[node] = total({**pod.requests, "pods": Fraction(1)} for pod in pods)
        return both

    def overcommitted(self) -> list[str]:
        """Return the nodes of which more is held than there is."""
        return [
            node.name
            for node in self.cluster.nodes
            if any(
                amount > node.status.allocatable.get(name, 0)
                for name, amount in total(held.get(node.name, {}) for held in self.held).items()
                if name in self.resources
            )
        ]

    @cached_property
    def restrictions(self) -> Restrictions:
        """The choices of nodes that pods are limited to."""
        groups = ((job, group) for job in self.cluster.jobs for group in job.groups)
        return Restrictions(self.cluster.names, (self._choice(job, group) for job, group in groups))

    def _choice(self, job: PodJob, group: PodGroup) -> NodeChoice:
        now = Counter(pod.node for pod in group.pods)
        # The GPU model is a field of the job already and need not be a restriction too.
        without = self.cluster.models.label if job.gpu_model else None
        return NodeChoice(job.name, group.nodes, now, lambda: self._described(group, without))

    def _described(self, group: PodGroup, without: str | None) -> str:
        """Say in a few words which nodes the pods of a group may use."""
        pod = group.pods[0]
        volumes, devices, names = self.cluster.volumes, self.cluster.devices, self.cluster.names
        text = describe(pod, self.cluster.nodes, without)
        bound = () if volumes is None else volumes.of(pod)
        if volumes is not None and volumes.reaching(bound, self.cluster.nodes) != names:
            text += f" that reaches volume {' and '.join(bound)}"
        if group.models:
            text += f" of {' or '.join(group.models)}"
        wish = None if devices is None else devices.wish(pod)
        if devices is not None and wish is not None:
            text += f" that offers {wish.through}" * (devices.offering(wish, names) != names)
        return text

    def server(self, node: Node) -> dict[str, Any]:
        """Return a node as a server."""
        planned, others = (held.get(node.name, {}) for held in self.held)
        there = {name: Fraction(amount) for name, amount in node.status.allocatable.items()}
        # What planned pods hold stays theirs, even where more is requested than there is.
        left = {
            name: min(amount, max(amount - others.get(name, Fraction()), planned.get(name, Fraction())))
            for name, amount in there.items()
        }
        permits = self.restrictions.permits(node.name)
        nothing = dict.fromkeys(self.resources.values(), 0.0)
        return {
            "name": node.name,
            "capacity": nothing | self._amounts(there) | permits,
            "free": nothing | self._amounts(left) | permits,
            "rack": node.labels.get(self.cluster.options.rack_label) or None,
            "gpu_model": self.cluster.models.of(node),
            **self._devices_of(node),
        }

    def _devices_of(self, node: Node) -> dict[str, Any]:
        if self.cluster.devices is None:
            return {}
        planned, others = self._holders.get(node.name, ([], []))
        return self.cluster.devices.document(node.name, others, planned)

    def job(self, job: PodJob) -> dict[str, Any]:
        """Return a job of pods as a job of tasks."""
        groups = [
            {
                "name": group.role,
                "tasks": len(group.pods),
                "demand": self._amounts({**group.requests, "pods": Fraction(1)})
                | self.restrictions.demand(self._choice(job, group)),
                "current": group.current(self.cluster.names),
                **fields_of(group.ask, self._devices_held(group)),
            }
            for group in job.groups
        ]
        spread = self.cluster.options.spread if len(job.pods) > 1 else "free"
        common = {
            "name": job.name,
            "value": self.cluster.worth[job.name],
            "movable": False if job.name in self.cluster.kept else None,
            "workload": workload_of(job),
            "must_place": self.cluster.all_run(job),
            "spread": spread,
            "gpu_model": job.gpu_model,
        }
        if len(groups) > 1:
            return {**common, "groups": groups}
        only = groups[0]
        return {
            **common,
            "tasks": only["tasks"],
            "task_demand": only["demand"],
            "current": only["current"],
            **fields_of(job.groups[0].ask, self._devices_held(job.groups[0])),
        }

    def _devices_held(self, group: PodGroup) -> dict[str, list[tuple[int, ...]]]:
        """Return server → the devices of each pod of a group there, empty where they are not known."""
        found: dict[str, list[tuple[int, ...]]] = {}
        for pod in group.pods:
            if self.cluster.devices is not None and pod.node in self.cluster.names:
                found.setdefault(pod.node, []).append(self.cluster.devices.devices_of(pod))
        return found
