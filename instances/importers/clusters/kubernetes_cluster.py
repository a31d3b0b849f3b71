"""The nodes and pods of a Kubernetes cluster, which of them are planned, and their snapshot."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cached_property, partial

from ...common.fields import NONE_NAMED
from ...common.hardware import GIB
from ..node_restrictions import name_by_models
from .device_inventory import NO_DEVICES, Demands, DeviceInventory, Sharing
from .kubernetes_affinity import (
    NO_VOLUMES,
    GpuModels,
    Volumes,
    allowed_nodes,
    claims_of,
    constraint_of,
    describe,
)
from .kubernetes_devices import asks_for_part, device_inventory, is_device, is_reservation, unknown_partitions
from .kubernetes_jobs import (
    GANG_SIZE,
    JobKey,
    PodGroup,
    PodJob,
    gang_of,
    in_parts,
    is_unplanned,
    jobs_of,
    key_of,
    keys_with_gangs,
    why_it_stays,
    workload_of,
)
from .kubernetes_objects import (
    GPU,
    DisruptionBudget,
    KubernetesOptions,
    Node,
    Pod,
    PodGang,
    is_bytes,
    requests_by_node,
    total,
)
from .kubernetes_pod_rules import PodRules, is_selected
from .snapshot import ClusterSnapshot, SnapshotNode, TaskGroup, Workload

CLAIMS = "have resource claims, whose devices are not planned"
"""Why running jobs stay, or waiting ones are left out."""
OUTSIDE = "could not start again where they run"
"""Why running jobs stay."""
OVERCOMMITTED = "run where pods request more than there is"


@dataclass(frozen=True)
class Cluster:
    """The nodes and pods of a cluster, and which of them are planned."""

    listed: tuple[Node, ...]
    present: tuple[Pod, ...]
    options: KubernetesOptions
    unread: frozenset[str] = frozenset()
    volumes: Volumes = NO_VOLUMES
    gangs: tuple[PodGang, ...] = ()
    budgets: tuple[DisruptionBudget, ...] = ()

    @cached_property
    def _alive(self) -> list[Pod]:
        """The pods that have not ended."""
        return [pod for pod in self.present if pod.node is not None or pod.waits]

    @cached_property
    def sharing(self) -> Sharing[Node, Pod]:
        """Whether GPUs are single devices, and whether their partitions are resources as they are now."""
        return Sharing(self.listed, self.options.mig, self._alive, asks_for_part, unknown_partitions)

    @cached_property
    def devices(self) -> DeviceInventory:
        """The GPUs as single devices, if any pod demands a part of one; else none."""
        keep = self.sharing.keep_partitions
        return device_inventory(self.listed, self._alive, keep) if self.sharing.by_device else NO_DEVICES

    @cached_property
    def nodes(self) -> list[Node]:
        """The nodes that accept pods: ready and not cordoned."""
        return [node for node in self.listed if node.ready and not self.is_cordoned(node)]

    def is_cordoned(self, node: Node) -> bool:
        """Return whether a node is treated as cordoned: unschedulable, overcommitted, or with unknown use.

        Nodes that are emptied are not.
        """
        unread = node.name in self.unread or node.name in self.devices.out
        cordoned = bool(node.spec.unschedulable) and node.name not in self.emptied
        return cordoned or unread or node.name in self.short

    @cached_property
    def emptied(self) -> frozenset[str]:
        """The names of the cordoned nodes on which pods run that the options let move."""
        pods = (pod for job in self._leaving for pod in job.pods)
        return frozenset(pod.node for pod in pods if pod.node and pod.node in self._unschedulable)

    @cached_property
    def _unschedulable(self) -> frozenset[str | None]:
        """The names of the nodes that are ready and marked as unschedulable."""
        return frozenset(node.name for node in self.listed if node.ready and node.spec.unschedulable)

    @cached_property
    def _leaving(self) -> list[PodJob]:
        """The running jobs with pods on unschedulable nodes that may move, if the options let them."""
        if self.options.drained == "stay" or self.options.running == "stay":
            return []
        keys = {self._key(pod) for pod in self._found if pod.node in self._unschedulable}
        pods = [pod for pod in self._found if self._key(pod) in keys]
        models = self.models
        jobs = jobs_of(pods, models.label, models.of_node, lambda *_: frozenset(), {}, {}, self._joined)
        ready = {node.name for node in self.listed if node.ready}
        return [
            job
            for job in jobs
            if all(pod.node in ready for pod in job.pods) and why_it_stays(job, workload_of(job)) is None
        ]

    @cached_property
    def _joined(self) -> dict[JobKey, JobKey]:
        """Key of a job → key of the gang in which it is with other jobs."""
        return keys_with_gangs(self._alive)

    def _key(self, pod: Pod) -> JobKey:
        """Return a key that the pods of one job, or of the jobs of one gang, share."""
        key = key_of(pod)
        return self._joined.get(key, key)

    def has_unknown_volumes(self, pod: Pod) -> bool:
        """Return whether a pod has claims of volumes about which the files do not say where they are."""
        return any(claims_of(pod)) and not self.volumes.all_known(pod)

    @cached_property
    def short(self) -> frozenset[str]:
        """The names of nodes with less capacity than their candidate pods request, as after a device failure.

        A resource that no node lists belongs to a scheme that is accounted elsewhere.
        """
        known = {name for node in self.listed for name in node.status.allocatable}
        on = requests_by_node(self._found)
        return frozenset(
            node.name
            for node in self.listed
            for name, amount in on.get(node.name, {}).items()
            if name in known and not self.is_device(name) and amount > node.status.allocatable.get(name, 0)
        )

    @cached_property
    def overcommitted(self) -> list[str]:
        """The names of the nodes that take pods, on which pods request more than there is."""
        held, pods = requests_by_node(self._alive), Counter(pod.node for pod in self._alive)
        return [
            node.name
            for node in self.nodes
            if any(
                amount > node.status.allocatable.get(name, amount) and not self.is_device(name)
                for name, amount in {**held.get(node.name, {}), "pods": Fraction(pods[node.name])}.items()
            )
        ]

    @cached_property
    def out(self) -> list[str]:
        """The names of the nodes that are not ready or are cordoned, except those in `short`."""
        out = (node for node in self.listed if not node.ready or self.is_cordoned(node))
        return [node.name for node in out if node.name not in self.short]

    @cached_property
    def names(self) -> frozenset[str]:
        """The names of the nodes that accept pods."""
        return frozenset(node.name for node in self.nodes)

    def is_gpu(self, resource: str) -> bool:
        """Return whether a resource counts as a GPU."""
        listed = self.options.gpu_resources
        return resource in listed if listed else GPU.fullmatch(resource) is not None

    @cached_property
    def models(self) -> GpuModels:
        """The GPU models of the nodes."""
        return GpuModels.read(
            self.listed, self.options.gpu_label, lambda node: any(map(self.is_gpu, node.status.allocatable))
        )

    @cached_property
    def _meant(self) -> list[Pod]:
        """The pods that the import options select, without those of nodes and of the cluster system."""
        return [pod for pod in self.present if not is_unplanned(pod) and self._is_chosen(pod)]

    @cached_property
    def _staying_ids(self) -> frozenset[int]:
        """The identities (`id`) of the pods that keep their node and are not planned."""
        return frozenset(id(pod) for pod in self._candidates[1])

    def why_unplanned(self, pod: Pod) -> str:
        """Return in a few words the first reason why a pod is not planned."""
        if pod.metadata.deletionTimestamp is not None:
            return "being deleted"
        if pod.node is None and not pod.waits:
            return "ended"
        if is_unplanned(pod):
            return "of DaemonSets, static or in kube-*"
        if not self._is_chosen(pod):
            return "not chosen by the options"
        if pod.is_gated:
            return "with closed scheduling gates"
        if id(pod) in self._staying_ids:
            return "on nodes that are cordoned or have less than their pods hold"
        if id(pod) in self.unmodelled:
            return f"left out, for they {self.unmodelled[id(pod)]}"
        return "that no GPU is asked for with" if self.options.choice == "gpu" else "left out"

    @property
    def gated(self) -> list[Pod]:
        """The selected pods with closed scheduling gates."""
        return [pod for pod in self._meant if pod.is_gated]

    @cached_property
    def _found(self) -> list[Pod]:
        """The selected pods that may be planned: not gated, and not reservations of shared devices."""
        by_device = self.sharing.by_device
        return [pod for pod in self._meant if not (pod.is_gated or (by_device and is_reservation(pod)))]

    @cached_property
    def _asks(self) -> Demands:
        """The demands of the candidate pods for single devices."""
        if not self.sharing.by_device:
            return Demands()
        return self.devices.demands(((id(pod), self._allowed(pod, None)) for pod in self._found), self.names)

    @property
    def unclear(self) -> dict[str, str]:
        """Name of each pod with an unclear demand for devices → the reason."""
        reasons = self._asks.unclear
        return {pod.full_name: reasons[id(pod)] for pod in self._found if id(pod) in reasons}

    @cached_property
    def _candidates(self) -> tuple[list[Pod], list[Pod]]:
        """The candidate pods: those that are planned, and those that keep their node and are not.

        Pods on nodes that are cordoned but ready stay, and so do running pods of the same jobs; of nodes that
        are emptied only those that cannot move. A job with an unclear demand for devices is not planned.
        """
        cordoned = {
            n.name for n in self.listed if n.ready and (self.is_cordoned(n) or n.name in self.emptied)
        }
        unclear = {self._key(pod) for pod in self._found if id(pod) in self._asks.unclear}
        leaving = {self._key(pod) for job in self._leaving for pod in job.pods}
        tied = {self._key(pod) for pod in self._found if pod.node in cordoned} - leaving
        both: tuple[list[Pod], list[Pod]] = ([], [])
        for pod in self._found:
            key = self._key(pod)
            stays = key in tied and pod.node in cordoned | self.names
            if key not in unclear:
                both[stays].append(pod)
        return both

    @cached_property
    def _without_rules(self) -> list[PodJob]:
        """The jobs that would be planned if pods had no rules on other pods."""
        return in_parts(self._jobs_of(self._candidates[0]), self.names)

    @cached_property
    def rules(self) -> PodRules:
        """What rules of pods on other pods mean for the jobs."""
        jobs = self._without_rules
        return PodRules(self.listed, self.names, self._alive, jobs, self._staying_of(jobs), self.volumes)

    @cached_property
    def unmodelled(self) -> dict[int, str]:
        """Identity of each pod of a waiting job that is left out → why Kubernetes might refuse it."""
        claiming = (job for job in self._without_rules if any(pod.spec.resourceClaims for pod in job.pods))
        claims = {id(pod): CLAIMS for job in claiming if not self.all_run(job) for pod in job.pods}
        return self.rules.left_out | claims | self._too_few

    @cached_property
    def _too_few(self) -> dict[int, str]:
        """Identity of each waiting pod whose gang has fewer pods than it starts with → a few words on it."""
        least = {(g.metadata.namespace, g.metadata.name): g.spec.minMember or 0 for g in self.gangs}
        there: dict[tuple[str, str], list[Pod]] = defaultdict(list)
        for pod in self._alive:
            gang = gang_of(pod)
            if gang is not None and not pod.is_gated and pod.metadata.deletionTimestamp is None:
                there[gang].append(pod)
                size = pod.metadata.annotations.get(GANG_SIZE, "")
                least[gang] = max(least.get(gang, 0), int(size) if re.fullmatch("[0-9]{1,6}", size) else 0)
        few = {gang: pods for gang, pods in there.items() if len(pods) < least.get(gang, 0)}
        waiting = {id(pod): gang for gang, pods in few.items() for pod in pods if pod.node is None}
        return {
            id(pod): f"are {len(few[gang])} of the {least[gang]} with which their gang starts"
            for job in self._without_rules
            for gang in [next((waiting[id(pod)] for pod in job.pods if id(pod) in waiting), None)]
            if gang is not None
            for pod in job.pods
        }

    @cached_property
    def budgeted(self) -> dict[str, list[str]]:
        """Name of a disruption budget that allows no eviction → the running jobs that it concerns."""
        strict = [budget for budget in self.budgets if budget.status.disruptionsAllowed < 1]
        running = (
            [job for job in self.jobs if self.all_run(job) and job.name not in self.kept] if strict else []
        )
        named = {
            f"{budget.metadata.namespace}/{budget.metadata.name}": [
                job.name
                for job in running
                if any(is_selected(pod, budget.spec.selector, budget.metadata.namespace) for pod in job.pods)
            ]
            for budget in strict
        }
        return {name: jobs for name, jobs in named.items() if jobs}

    @cached_property
    def left_out(self) -> dict[str, str]:
        """Name of each waiting job that is left out → why Kubernetes might refuse it."""
        reasons = ((job.name, self.unmodelled.get(id(job.pods[0]))) for job in self._without_rules)
        return {name: why for name, why in reasons if why is not None}

    @cached_property
    def jobs(self) -> list[PodJob]:
        """The jobs that are planned."""
        jobs = self._without_rules
        if self.rules.restrict or self.unmodelled:
            pods = [pod for pod in self._candidates[0] if id(pod) not in self.unmodelled]
            jobs = in_parts(self._jobs_of(pods, self.rules if self.rules.restrict else None), self.names)
        if self.options.gpu_models == "one":
            self._choose_models(jobs)
        left = {self._key(pod) for pod in self._candidates[0] if id(pod) in self.unmodelled}
        for job in jobs:
            # The pods that wait are left out; those that run are a part as before.
            if left and not job.part and self._key(job.pods[0]) in left:
                job.part = "runs"
        return jobs

    def _choose_models(self, jobs: Sequence[PodJob]) -> None:
        """Give each waiting job of several pods, without a GPU model of its own, that with most free GPUs."""
        if len(set(self.models.of_node.values()) - {""}) < 2:
            return
        held: dict[str | None, Fraction] = defaultdict(Fraction)
        for pod in self._alive:
            held[pod.node] += sum((a for name, a in pod.requests.items() if self.is_gpu(name)), Fraction())
        free: dict[str, Fraction] = defaultdict(Fraction)
        for node in self.nodes:
            amounts = (a for name, a in node.status.allocatable.items() if self.is_gpu(name))
            free[self.models.of(node) or ""] += sum(map(Fraction, amounts), -held[node.name])
        several = (job for job in jobs if len(job.pods) > 1 and not isinstance(job.gpu_model, str))
        for job in several:
            if any(pod.node in self.names for pod in job.pods):
                continue
            groups = [group for group in job.groups if self._gpus_of(group)]
            nodes = frozenset.intersection(*(group.nodes for group in groups)) if groups else frozenset()
            models = {self.models.of_node.get(name, "") for name in nodes} - {""}
            if isinstance(job.gpu_model, list):
                models &= set(job.gpu_model)
            if len(models) > 1:
                job.gpu_model = max(sorted(models), key=free.__getitem__)
                job.model_chosen = True
                free[job.gpu_model] -= self.gpus(job)

    @property
    def claiming(self) -> list[Pod]:
        """The unplanned pods with resource claims, which may hold any device, and are not named otherwise."""
        named = self._planned | self.unmodelled.keys()
        return [pod for pod in self._alive if pod.spec.resourceClaims and id(pod) not in named]

    @cached_property
    def _planned(self) -> frozenset[int]:
        """The identities of the pods that are planned."""
        return frozenset(id(pod) for job in self.jobs for pod in job.pods)

    @cached_property
    def partial(self) -> set[JobKey]:
        """The keys of the jobs of which pods run that are not planned: to stop them would stop these, too."""
        running = (pod for pod in self._alive if pod.node is not None)
        return {key_of(pod) for pod in running if id(pod) not in self._planned}

    @cached_property
    def staying(self) -> list[PodJob]:
        """The jobs on cordoned nodes, which keep their place and are not planned."""
        return self._jobs_of(self._candidates[1])

    def _jobs_of(self, pods: Sequence[Pod], rules: PodRules | None = None) -> list[PodJob]:
        def allowed(pod: Pod, without: str | None) -> frozenset[str]:
            nodes = self._allowed(pod, without)
            return nodes if rules is None else nodes & rules.allowed(pod)

        limits = {} if rules is None else {id(pod): rules.demand(pod) for pod in pods}
        models = self.models
        jobs = jobs_of(pods, models.label, models.of_node, allowed, self._asks.clear, limits, self._joined)
        if self.options.choice == "gpu":
            jobs = [job for job in jobs if self.gpus(job)]
        self.models.keep(jobs, lambda group: bool(self._gpus_of(group)))
        name_by_models(jobs, {node.name: self.models.of(node) for node in self.nodes})
        return jobs

    @cached_property
    def _choices(self) -> dict[tuple[object, ...], frozenset[str]]:
        """Cache: key of a pod's constraints → the names of the nodes that such pods may use."""
        return {}

    def _allowed(self, pod: Pod, without: str | None) -> frozenset[str]:
        """Return the names of the nodes that a pod may use; parameters as in `allowed_nodes`."""
        wish = self.devices.request(id(pod))
        bound = self.volumes.of(pod)
        key = (constraint_of(pod), without, wish, bound)
        if key not in self._choices:
            nodes = allowed_nodes(pod, self.nodes, without)
            if bound:
                nodes &= self.volumes.reaching(bound, self.nodes)
            self._choices[key] = self.devices.offering(wish, nodes)
        return self._choices[key]

    def _is_chosen(self, pod: Pod) -> bool:
        if self.options.namespaces and pod.metadata.namespace not in self.options.namespaces:
            return False
        return pod.waits or (self.options.running == "move" and pod.node is not None)

    def gpus(self, job: PodJob) -> Fraction:
        """Return the number of GPUs that all pods of a job demand; shares and partitions as fractions."""
        return sum((self._gpus_of(group) * len(group.pods) for group in job.groups), Fraction())

    def _gpus_of(self, group: PodGroup) -> Fraction:
        """Return the number of GPUs that each pod of a group demands."""
        amounts = (
            amount
            for resource, amount in group.requests.items()
            if self.is_gpu(resource) and not self.is_device(resource)
        )
        return sum(amounts, Fraction(0 if group.ask is None else self.devices.worth(group.ask)))

    @cached_property
    def kept(self) -> dict[str, str]:
        """Name of a running job that may not be moved → the reason."""
        return self._staying_of(self.jobs, self.rules.staying)

    def _staying_of(self, jobs: Iterable[PodJob], ruled: Mapping[int, str] = NONE_NAMED) -> dict[str, str]:
        """Return name → reason of those running jobs that may not be moved.

        Parameters
        ----------
        ruled
            Identity of a pod whose job stays for a rule on other pods → the reason.
        """
        reasons = {}
        open_nodes, overcommitted = self.names - self.emptied, set(self.overcommitted)
        for job in jobs:
            if any(pod.node in self.names for pod in job.pods):
                claims = CLAIMS if any(pod.spec.resourceClaims for pod in job.pods) else None
                places = ((pod.node, group) for group in job.groups for pod in group.pods)
                on = [(node, group) for node, group in places if node in open_nodes]
                outside = any(node not in group.nodes for node, group in on)
                over = any(node in overcommitted for node, _ in on)
                here = (claims, OUTSIDE if outside else None, OVERCOMMITTED if over else None)
                reasons_here = (why_it_stays(job, workload_of(job)), ruled.get(id(job.pods[0])), *here)
                why = next(filter(None, reasons_here), None)
                if why is not None:
                    reasons[job.name] = why
        return reasons

    def is_device(self, resource: str) -> bool:
        """Return whether a resource stands for GPUs that are planned as single devices."""
        return self.sharing.by_device and is_device(resource, self.sharing.keep_partitions)

    def all_run(self, job: PodJob) -> bool:
        """Return whether every pod of a job is on a node that accepts pods."""
        return all(pod.node in self.names for pod in job.pods)

    @cached_property
    def moving(self) -> list[Pod]:
        """The planned pods that have a node now."""
        return [pod for job in self.jobs for pod in job.pods if pod.node is not None]

    @cached_property
    def resources(self) -> dict[str, str]:
        """Name of a resource in Kubernetes → its name in the instance, for all that planned pods demand."""
        asked = dict.fromkeys(
            name
            for job in self.jobs
            for group in job.groups
            for name, amount in group.requests.items()
            if amount and not self.is_device(name)
        )
        names = {name: f"{name}_gib" if is_bytes(name) else name for name in ("cpu", "memory", *asked)}
        if all("pods" in node.status.allocatable for node in self.nodes):
            names["pods"] = "pods"
        gpus = [name for name in asked if self.is_gpu(name)]
        # Single devices have this name already.
        return names | ({gpus[0]: "gpu"} if len(gpus) == 1 and not self.sharing.by_device else {})

    def _amounts(self, requests: Mapping[str, Fraction | Decimal]) -> dict[str, Fraction]:
        """Return amounts by the names of the instance, bytes as GiB."""
        return {
            own: Fraction(requests[name]) / (GIB if is_bytes(name) else 1)
            for name, own in self.resources.items()
            if requests.get(name)
        }

    @cached_property
    def snapshot(self) -> ClusterSnapshot:
        """The nodes that accept pods, and the jobs that are planned."""
        others = defaultdict[str | None, list[Pod]](list)
        for pod in self.present:
            if id(pod) not in self._planned:
                others[pod.node].append(pod)
        nodes = [self._node(node, others.get(node.name, [])) for node in self.nodes]
        workloads, options = list(map(self._workload, self.jobs)), self.options
        return ClusterSnapshot(nodes, workloads, self.devices, options.value, options.spread)

    def _node(self, node: Node, others: Sequence[Pod]) -> SnapshotNode:
        """Return a node, and what pods hold there that are not planned; those of the node are not named."""
        nothing = dict.fromkeys(self.resources.values(), Fraction())
        named = (pod for pod in others if not is_unplanned(pod))
        return SnapshotNode(
            name=node.name,
            capacity=nothing | self._amounts(node.status.allocatable),
            foreign=self._amounts(total({**pod.requests, "pods": Fraction(1)} for pod in others)),
            others=[pod.full_name for pod in named],
            gpu_model=self.models.of(node),
            rack=node.labels.get(self.options.rack_label) or None,
            emptied=node.name in self.emptied,
            limits=self.rules.capacity(node.name),
        )

    def _workload(self, job: PodJob) -> Workload:
        """Return a job of pods; the GPU model that is a field of the job is no restriction, too."""
        without = self.models.label if job.gpu_model else None
        groups = [
            TaskGroup(
                name=group.role,
                demand=self._amounts({**group.requests, "pods": Fraction(1)}),
                nodes=group.nodes,
                current=group.current,
                describe=partial(self._described, group, without),
                ask=group.ask,
                members=self.devices.members(group.pods),
                limits=dict(group.rules),
            )
            for group in job.groups
        ]
        return Workload(
            name=job.name,
            groups=groups,
            gpus=float(self.gpus(job)),
            priority=job.priority,
            must_place=self.all_run(job),
            stays=self.kept.get(job.name, ""),
            gpu_model=job.gpu_model,
            owner=None if key_of(job.pods[0]) in self.partial else workload_of(job),
        )

    def _described(self, group: PodGroup, without: str | None) -> str:
        """Return a few words on the nodes that pods of equal demand may use."""
        pod = group.pods[0]
        names, bound = self.names, self.volumes.of(pod)
        text = describe(pod, self.nodes, without)
        if self.volumes.reaching(bound, self.nodes) != names:
            text += f" that reaches volume {' and '.join(bound)}"
        if group.models:
            text += f" of {' or '.join(group.models)}"
        if self.rules.allowed(pod) != names:
            text += " that rules on other pods permit"
        wish = self.devices.request(id(pod))
        if wish is not None and self.devices.offering(wish, names) != names:
            text += f" that offers {wish.through}"
        return text
