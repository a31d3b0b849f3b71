"""Random Kubernetes clusters as kubectl prints them, with every rule that keeps pods off nodes.

What runs was bound in an order that the rules allow; a node may be cordoned since, and jobs may have ended.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from kubernetes_rules import Cluster, bind_all, key_of

Document = dict[str, Any]

HOST, ZONE, REGION = "kubernetes.io/hostname", "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
PRODUCT, GPU, PARTITION = "nvidia.com/gpu.product", "nvidia.com/gpu", "nvidia.com/mig-1g.10gb"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
VOLCANO, COSCHEDULING = "volcano", "scheduler-plugins-scheduler"
NOW = "2025-03-04T09:30:00Z"
DEDICATED = {"key": "dedicated", "value": "research", "effect": "NoSchedule"}
TOLERATION = {"key": "dedicated", "operator": "Equal", "value": "research", "effect": "NoSchedule"}
EVICTION = [
    {
        "key": f"node.kubernetes.io/{what}",
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": 300,
    }
    for what in ("not-ready", "unreachable")
]
"""Tolerations that every pod gets."""
OWNERS = {
    "Job": "batch/v1",
    "StatefulSet": "apps/v1",
    "Deployment": "apps/v1",
    "PyTorchJob": "kubeflow.org/v1",
    "DaemonSet": "apps/v1",
}
BATCH = ("Job", "PyTorchJob")


@dataclass
class Work:
    """An object with its pods: a job, or a service.

    Attributes
    ----------
    gpus
        Of each pod.
    port
        Of its node that each pod takes, if any.
    spec
        What the specification of each pod has besides its containers.
    """

    namespace: str
    name: str
    kind: str
    count: int
    gpus: int
    resource: str = GPU
    port: int = 0
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    spec: Document = field(default_factory=dict)

    @property
    def own(self) -> dict[str, str]:
        """The label that its pods alone have."""
        return {"app": self.name}

    def require(self, kind: str, *terms: Document) -> None:
        """Add required terms of `podAffinity` or `podAntiAffinity`."""
        self.spec.setdefault("affinity", {}).setdefault(kind, {}).setdefault(REQUIRED, []).extend(terms)

    def require_nodes(self, *requirements: Document) -> None:
        """Set the required node affinity, of one term."""
        terms = {"nodeSelectorTerms": [{"matchExpressions": list(requirements)}]}
        self.spec.setdefault("affinity", {})["nodeAffinity"] = {REQUIRED: terms}

    def spread(self, topology: str, labels: dict[str, str] | None = None, **fields: Any) -> None:
        """Add a topology spread constraint."""
        rule = {"maxSkew": 1, "topologyKey": topology, "whenUnsatisfiable": "DoNotSchedule"}
        rule |= {"labelSelector": {"matchLabels": labels or self.own}, **fields}
        self.spec.setdefault("topologySpreadConstraints", []).append(rule)


def near(topology: str, labels: dict[str, str] | None = None, **fields: Any) -> Document:
    """Return a term of pod affinity or anti-affinity."""
    selector = {} if labels is None else {"labelSelector": {"matchLabels": labels}}
    return {**selector, "topologyKey": topology, **fields}


@dataclass
class World:
    """A cluster that is being made."""

    rng: random.Random
    nodes: list[Document] = field(default_factory=list)
    pods: list[Document] = field(default_factory=list)
    volumes: list[Document] = field(default_factory=list)
    groups: list[Document] = field(default_factory=list)
    hopeless: set[str] = field(default_factory=set)
    works: int = 0

    @property
    def zones(self) -> list[str]:
        """The zones of the nodes."""
        labels = (node["metadata"]["labels"] for node in self.nodes)
        return sorted({own[ZONE] for own in labels if ZONE in own})

    def uid(self) -> str:
        """Return a new identity of an object."""
        text = f"{self.rng.getrandbits(128):032x}"
        return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))

    def metadata(self, name: str, namespace: str | None = None, **fields: Any) -> Document:
        """Return the metadata of an object."""
        own = {"name": name, **({"namespace": namespace} if namespace else {}), "uid": self.uid()}
        return {**own, "creationTimestamp": NOW, "resourceVersion": str(self.rng.randrange(10**6)), **fields}

    def add_node(self, zone: str, gpus: int, *taints: Document, ready: bool = True) -> None:
        """Add a node."""
        name = f"gpu-{len(self.nodes) + 1:02d}.cluster.example"
        product = self.rng.choice(["NVIDIA-A100-SXM4-80GB", "NVIDIA-A100-SXM4-80GB", "NVIDIA-L40S"])
        labels = {
            # What the host is called need not be what the node is called.
            HOST: name.partition(".")[0],
            REGION: "eu-1",
            PRODUCT: product,
            "nvidia.com/gpu.count": str(gpus),
            "node.kubernetes.io/instance-type": f"gpu-{gpus}",
            "kubernetes.io/os": "linux",
        }
        if self.rng.random() < 0.95:
            labels[ZONE] = zone
        amounts = {"cpu": f"{16 * gpus}", "memory": f"{64 * gpus}Gi", "pods": "110", GPU: str(gpus)}
        if self.rng.random() < 0.15:
            amounts["pods"] = "5"
        self.nodes.append(
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": self.metadata(name, labels=labels),
                "spec": {"podCIDR": "10.0.0.0/24", **({"taints": list(taints)} if taints else {})},
                "status": {
                    "allocatable": {**amounts, "ephemeral-storage": "95551679124"},
                    "capacity": {**amounts, "ephemeral-storage": "103880232Ki"},
                    "conditions": [
                        {"type": "MemoryPressure", "status": "False"},
                        {"type": "Ready", "status": "True" if ready else "Unknown"},
                    ],
                    "nodeInfo": {"kubeletVersion": "v1.31.4", "operatingSystem": "linux"},
                },
            }
        )

    def work(
        self, kinds: Iterable[str] = BATCH, most: int = 4, gpus: int | None = None, **fields: Any
    ) -> Work:
        """Return a new job without rules."""
        self.works += 1
        rng, kind = self.rng, self.rng.choice(list(kinds))
        stem = rng.choice(["resnet", "bert", "llama", "whisper", "vit"])
        made = Work(rng.choice(["research", "vision"]), f"{stem}-{self.works}", kind, rng.randint(1, most), 1)
        made.gpus = rng.choice([1, 1, 2, 2, 3, 4]) if gpus is None else gpus
        made.labels |= made.own
        for name, value in fields.items():
            setattr(made, name, value)
        return made

    def pods_of(self, work: Work) -> list[Document]:
        """Return the pods of an object; none has a node yet."""
        owner, kind, digest = work.name, work.kind, f"{self.rng.getrandbits(32):08x}"
        if work.kind == "Deployment":
            owner, kind = f"{work.name}-{digest}", "ReplicaSet"
        reference = {"apiVersion": OWNERS[work.kind], "kind": kind, "name": owner, "uid": self.uid()}
        references = [{**reference, "controller": True, "blockOwnerDeletion": True}]
        made = []
        for index in range(work.count):
            name, labels = self._of_kind(work, index, digest, reference["uid"])
            details = {"annotations": dict(work.annotations)} if work.annotations else {}
            details |= {"labels": {**work.labels, **labels}, "ownerReferences": references}
            made.append(
                {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "metadata": self.metadata(name, work.namespace, **details),
                    "spec": self._spec(work),
                    "status": self._waiting(work),
                }
            )
        return made

    def _of_kind(self, work: Work, index: int, digest: str, uid: str) -> tuple[str, dict[str, str]]:
        """Return name and labels that a pod has from the object that owns it."""
        random_part = "".join(self.rng.choices("bcdfghjklmnpqrstvwxz2456789", k=5))
        if work.kind == "Job":
            labels = {"job-name": work.name, "controller-uid": uid}
            labels |= {f"batch.kubernetes.io/{key}": value for key, value in labels.items()}
            return f"{work.name}-{index}-{random_part}", labels
        if work.kind == "StatefulSet":
            name, prefix = f"{work.name}-{index}", "statefulset.kubernetes.io/pod-name"
            return name, {prefix: name, "apps.kubernetes.io/pod-index": str(index)}
        if work.kind == "PyTorchJob":
            role, number = ("master", 0) if index == 0 else ("worker", index - 1)
            labels = {"operator-name": "pytorchjob-controller", "job-name": work.name, "replica-type": role}
            labels["replica-index"] = str(number)
            return f"{work.name}-{role}-{number}", {
                f"training.kubeflow.org/{k}": v for k, v in labels.items()
            }
        return f"{work.name}-{digest}-{random_part}", {"pod-template-hash": digest}

    def _spec(self, work: Work) -> Document:
        amounts = {"cpu": f"{2 * work.gpus or 1}", "memory": f"{8 * work.gpus or 2}Gi"}
        amounts |= {work.resource: str(work.gpus)} if work.gpus else {}
        containers = [{"name": "main", "image": "example/train:1", "resources": {"requests": amounts}}]
        if work.port:
            containers[0]["ports"] = [{"containerPort": work.port, "hostPort": work.port, "protocol": "TCP"}]
        if work.gpus:
            containers[0]["resources"]["limits"] = {work.resource: str(work.gpus)}
        own = {name: value for name, value in work.spec.items() if name != "tolerations"}
        tolerations = [*work.spec.get("tolerations", ()), *EVICTION]
        common = {"restartPolicy": "OnFailure", "schedulerName": "default-scheduler", "priority": 0}
        return {**common, "containers": containers, "tolerations": tolerations, **own}

    def _waiting(self, work: Work) -> Document:
        reason = "SchedulingGated" if work.spec.get("schedulingGates") else "Unschedulable"
        condition = {"type": "PodScheduled", "status": "False", "reason": reason}
        return {"phase": "Pending", "conditions": [condition], "qosClass": "Burstable"}

    def cluster(self, *more: Document) -> Cluster:
        """Return the rules for what is there, and these pods."""
        return Cluster.listed(self.nodes, [*self.pods, *more], self.volumes, self.groups)

    def waits(self, work: Work) -> None:
        """Add an object whose pods wait."""
        self.pods += self.pods_of(work)

    def runs(self, work: Work) -> bool:
        """Add an object, and bind its pods where the rules allow it; if they do not, it waits."""
        pods = self.pods_of(work)
        cluster, names = self.cluster(*pods), [node["metadata"]["name"] for node in self.nodes]

        def shuffled(*_: object) -> list[str]:
            return self.rng.sample(names, len(names))

        bound = bind_all(cluster, pods, shuffled) is None
        for pod in pods if bound else ():
            start(pod, cluster.places[key_of(pod)])
        self.pods += pods
        return bound

    def claim(self, work: Work, zone: str, mode: str = "ReadWriteMany", by_label: bool = False) -> None:
        """Give all pods of a job one volume, which is in a zone."""
        name, volume = f"data-{work.name}", f"pvc-{self.uid()}"
        term = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}
        place: Document = {} if by_label else {"nodeAffinity": {"required": {"nodeSelectorTerms": [term]}}}
        common = {"accessModes": [mode], "storageClassName": "standard", "volumeMode": "Filesystem"}
        self.volumes += [
            {
                "apiVersion": "v1",
                "kind": "PersistentVolume",
                "metadata": self.metadata(volume, labels={ZONE: zone} if by_label else {}),
                "spec": {
                    **common,
                    **place,
                    "capacity": {"storage": "100Gi"},
                    "claimRef": {"kind": "PersistentVolumeClaim", "namespace": work.namespace, "name": name},
                },
                "status": {"phase": "Bound"},
            },
            {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": self.metadata(name, work.namespace),
                "spec": {**common, "resources": {"requests": {"storage": "100Gi"}}, "volumeName": volume},
                "status": {"phase": "Bound", "accessModes": [mode]},
            },
        ]
        work.spec["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]

    def gang(self, work: Work, least: int) -> None:
        """Make the pods of a job a gang, of Volcano or of the Coscheduling plug-in."""
        scheduler = self.rng.choice([VOLCANO, COSCHEDULING])
        work.spec["schedulerName"] = scheduler
        if scheduler == VOLCANO:
            work.annotations["scheduling.k8s.io/group-name"] = work.name
            version, spec = "scheduling.volcano.sh/v1beta1", {"minMember": least, "queue": "default"}
        else:
            work.labels["scheduling.x-k8s.io/pod-group"] = work.name
            version, spec = "scheduling.x-k8s.io/v1alpha1", {"minMember": least, "scheduleTimeoutSeconds": 60}
        self.groups.append(
            {
                "apiVersion": version,
                "kind": "PodGroup",
                "metadata": self.metadata(work.name, work.namespace),
                "spec": spec,
                "status": {"phase": "Pending"},
            }
        )

    def service(self, name: str, count: int, **fields: Any) -> Work:
        """Add a service without GPUs that runs, and return it."""
        made = self.work(["Deployment"], gpus=0, namespace="serving", name=name, count=count)
        made.labels = {**made.own, **fields.pop("labels", {})}
        for kind, terms in fields.items():
            made.require(kind, *terms)
        self.runs(made)
        return made


def start(pod: Document, node: str) -> None:
    """Note in a pod that it runs on a node."""
    pod["spec"]["nodeName"] = node
    pod["status"] = {
        "phase": "Running",
        "conditions": [{"type": kind, "status": "True"} for kind in ("PodScheduled", "Ready")],
        "startTime": NOW,
        "qosClass": "Burstable",
    }


Rule = Callable[[World, Work], None]
"""What gives a job a rule, and the cluster what the rule is about."""


def _apart_by_host(world: World, work: Work) -> None:
    work.require("podAntiAffinity", near(HOST, work.own))


def _apart_by_zone(world: World, work: Work) -> None:
    work.count = min(work.count, len(world.zones))
    work.require("podAntiAffinity", near(ZONE, work.own))


def _apart_from_a_service(world: World, work: Work) -> None:
    service = world.service(f"search-{work.name}", world.rng.randint(1, 2))
    where = [{"namespaces": ["serving", "other"]}, {"namespaceSelector": {}}]
    topology = world.rng.choice([HOST, HOST, ZONE])
    work.require("podAntiAffinity", near(topology, service.own, **world.rng.choice(where)))


def _apart_by_expressions(world: World, work: Work) -> None:
    world.service(f"noise-{work.name}", 2, labels={"tier": "noisy"})
    expressions = [
        {"key": "tier", "operator": "Exists"},
        {"key": "app", "operator": "NotIn", "values": [work.name]},
    ]
    selector = {"matchExpressions": expressions}
    by_name = {"matchLabels": {"kubernetes.io/metadata.name": "serving"}}
    work.require("podAntiAffinity", near(HOST, labelSelector=selector, namespaceSelector=by_name))


def _avoided_by_a_service(world: World, work: Work) -> None:
    work.labels["load"] = f"heavy-{work.name}"
    term = near(world.rng.choice([HOST, ZONE]), {"load": f"heavy-{work.name}"}, namespaceSelector={})
    world.service(f"latency-{work.name}", 1, podAntiAffinity=[term])


def _avoided_by_a_job(world: World, work: Work) -> None:
    work.labels["team"] = work.name
    other = world.work(most=2, namespace=work.namespace)
    other.require("podAntiAffinity", near(HOST, {"team": work.name}))
    world.runs(other)


def _exclusive(world: World, work: Work) -> None:
    """No pods of other tenants on the node; the API server writes these keys into the selector too."""
    work.labels["tenant"] = f"t-{work.name}"
    expressions = [
        {"key": "tenant", "operator": "Exists"},
        {"key": "tenant", "operator": "NotIn", "values": [work.labels["tenant"]]},
    ]
    term = near(HOST, labelSelector={"matchExpressions": expressions}, mismatchLabelKeys=["tenant"])
    work.require("podAntiAffinity", term)
    other = world.work(most=2, namespace=work.namespace)
    other.labels["tenant"] = "another"
    world.runs(other)


def _near_a_service(world: World, work: Work) -> None:
    service = world.service(f"cache-{work.name}", world.rng.randint(1, 2))
    term = near(world.rng.choice([HOST, ZONE, ZONE]), service.own, namespaces=["serving"])
    work.require("podAffinity", term)


def _near_a_job(world: World, work: Work) -> None:
    other = world.work(most=2, namespace=work.namespace)
    world.runs(other)
    work.require("podAffinity", near(world.rng.choice([HOST, ZONE]), other.own))


def _together(world: World, work: Work) -> None:
    work.require("podAffinity", near(world.rng.choice([HOST, ZONE, ZONE]), work.own))


def _together_and_apart(world: World, work: Work) -> None:
    work.require("podAffinity", near(ZONE, work.own))
    work.require("podAntiAffinity", near(HOST, work.own))


def _spread_by_host(world: World, work: Work) -> None:
    work.spread(HOST, maxSkew=world.rng.choice([1, 1, 2]))


def _spread_by_zone(world: World, work: Work) -> None:
    work.spread(ZONE, maxSkew=world.rng.choice([1, 1, 2]))


def _spread_by_both(world: World, work: Work) -> None:
    work.spread(ZONE)
    work.spread(HOST)


def _spread_over_least_domains(world: World, work: Work) -> None:
    work.spread(ZONE, minDomains=world.rng.randint(2, 3))


def _spread_by_taints(world: World, work: Work) -> None:
    work.spread(world.rng.choice([HOST, ZONE]), nodeTaintsPolicy="Honor")


def _spread_beyond_affinity(world: World, work: Work) -> None:
    work.spec["nodeSelector"] = {PRODUCT: "NVIDIA-A100-SXM4-80GB"}
    work.spread(ZONE, maxSkew=2, nodeAffinityPolicy=world.rng.choice(["Ignore", "Honor"]))


def _spread_with_others(world: World, work: Work) -> None:
    tier = {"tier": f"train-{work.name}"}
    other = world.work(most=3, namespace=work.namespace)
    for each in (other, work):
        each.labels |= tier
        each.spread(ZONE, tier)
    other.spec = {} if world.rng.random() < 0.5 else other.spec
    world.runs(other)


def _spread_by_label_keys(world: World, work: Work) -> None:
    tier = {"tier": f"train-{work.name}"}
    other = world.work(most=3, namespace=work.namespace)
    for each in (other, work):
        each.labels |= tier
        each.labels["revision"] = each.name
    world.runs(other)
    work.spread(ZONE, tier, matchLabelKeys=["revision"])


def _gang(world: World, work: Work) -> None:
    world.gang(work, world.rng.randint(1, work.count))


def _gang_of_two_jobs(world: World, work: Work) -> None:
    other = world.work(most=2, namespace=work.namespace)
    world.gang(work, work.count + other.count)
    other.spec["schedulerName"] = work.spec["schedulerName"]
    other.annotations |= work.annotations
    if not work.annotations:
        other.labels["scheduling.x-k8s.io/pod-group"] = work.name
    world.waits(other)


def _volume(world: World, work: Work) -> None:
    world.claim(work, world.rng.choice(world.zones), by_label=world.rng.random() < 0.3)


def _claim_of_one_pod(world: World, work: Work) -> None:
    work.count = 1
    world.claim(work, world.rng.choice(world.zones), "ReadWriteOncePod")
    other = world.work(namespace=work.namespace, count=1, gpus=1)
    other.spec["volumes"] = work.spec["volumes"]
    world.runs(other)


def _gates(world: World, work: Work) -> None:
    work.spec["schedulingGates"] = [{"name": "example.com/quota"}]


def _node_selector(world: World, work: Work) -> None:
    work.spec["nodeSelector"] = {ZONE: world.rng.choice(world.zones)}


def _node_affinity(world: World, work: Work) -> None:
    zone, count = world.rng.choice(world.zones), str(world.rng.randint(1, 3))
    product = {"key": PRODUCT, "operator": "Exists"}
    work.require_nodes(
        *world.rng.choice(
            [
                [{"key": ZONE, "operator": "In", "values": [zone]}],
                [{"key": ZONE, "operator": "NotIn", "values": [zone]}, product],
                [{"key": "nvidia.com/gpu.count", "operator": "Gt", "values": [count]}],
                [{"key": "nvidia.com/gpu.count", "operator": "Lt", "values": ["5"]}, product],
                [{"key": "example.com/broken", "operator": "DoesNotExist"}],
            ]
        )
    )


def _toleration(world: World, work: Work) -> None:
    work.spec["tolerations"] = [world.rng.choice([TOLERATION, {"key": "dedicated", "operator": "Exists"}])]


def _port(world: World, work: Work) -> None:
    work.port = 29500
    other = world.work(most=2, port=29500)
    world.runs(other)


def _partition(world: World, work: Work) -> None:
    work.resource, work.gpus = PARTITION, world.rng.randint(1, 2)


def _preferences(world: World, work: Work) -> None:
    term = {"weight": 50, "podAffinityTerm": near(HOST, work.own)}
    work.spec["affinity"] = {"podAntiAffinity": {PREFERRED: [term]}}
    work.spread(HOST, whenUnsatisfiable="ScheduleAnyway")


def _service_of_gpus(world: World, work: Work) -> None:
    """Its pods are jobs of their own, and apart."""
    work.kind = world.rng.choice(["Deployment", "StatefulSet"])
    work.require("podAntiAffinity", near(HOST, work.own))


RULES: list[Rule] = [
    _apart_by_host,
    _apart_by_zone,
    _apart_from_a_service,
    _apart_by_expressions,
    _avoided_by_a_service,
    _avoided_by_a_job,
    _exclusive,
    _near_a_service,
    _near_a_job,
    _together,
    _together_and_apart,
    _spread_by_host,
    _spread_by_zone,
    _spread_by_both,
    _spread_over_least_domains,
    _spread_by_taints,
    _spread_beyond_affinity,
    _spread_with_others,
    _spread_by_label_keys,
    _gang,
    _gang_of_two_jobs,
    _volume,
    _claim_of_one_pod,
    _gates,
    _node_selector,
    _node_affinity,
    _toleration,
    _port,
    _partition,
    _preferences,
    _service_of_gpus,
]


def _more_than_hosts(world: World, work: Work) -> None:
    work.count = len(world.nodes) + 1
    work.require("podAntiAffinity", near(HOST, work.own))


def _more_than_zones(world: World, work: Work) -> None:
    # A node without a zone is in nobody's way.
    work.count = len(world.zones) + 1
    work.require("podAntiAffinity", near(ZONE, work.own))
    work.require_nodes({"key": ZONE, "operator": "Exists"})


def _more_than_domains(world: World, work: Work) -> None:
    work.count = len(world.zones) + 1
    work.spread(ZONE, minDomains=work.count)


def _near_nobody(world: World, work: Work) -> None:
    work.require("podAffinity", near(ZONE, {"app": "no-such-service"}))


def _near_another_namespace(world: World, work: Work) -> None:
    """Its own is meant where a term names none."""
    service = world.service(f"store-{work.name}", 1)
    work.require("podAffinity", near(ZONE, service.own))


def _together_yet_apart(world: World, work: Work) -> None:
    work.count = 2
    for kind in ("podAffinity", "podAntiAffinity"):
        work.require(kind, near(HOST, work.own))


def _unknown_topology(world: World, work: Work) -> None:
    work.require("podAffinity", near("example.com/room", work.own))


def _spread_over_unknown(world: World, work: Work) -> None:
    work.spread("example.com/room")


def _gang_too_small(world: World, work: Work) -> None:
    world.gang(work, work.count + world.rng.randint(1, 2))


def _volume_elsewhere(world: World, work: Work) -> None:
    world.claim(work, "eu-1-gone")


def _no_such_node(world: World, work: Work) -> None:
    work.spec["nodeSelector"] = {PRODUCT: "NVIDIA-B200"}


def _too_large(world: World, work: Work) -> None:
    work.gpus = 64


HOPELESS: list[Rule] = [
    _more_than_hosts,
    _more_than_zones,
    _more_than_domains,
    _near_nobody,
    _near_another_namespace,
    _together_yet_apart,
    _unknown_topology,
    _spread_over_unknown,
    _gang_too_small,
    _volume_elsewhere,
    _no_such_node,
    _too_large,
]
"""Rules under which a job never starts."""


def random_cluster(seed: int) -> dict[str, Any]:
    """Return a cluster; each seed has other ones of the rules for certain, and perhaps more.

    Returns
    -------
    cluster
        Under `nodes`, `pods`, `volumes` (with their claims) and `podgroups` lists of objects; under
        `hopeless` namespace and name of the jobs that the rules never let start; under `rules` of each
        other job that waits with a rule, which one.
    """
    world = World(random.Random(seed))
    rng = world.rng
    _add_nodes(world)
    count = rng.randint(len(world.nodes), 2 * len(world.nodes))
    idle = [world.work(gpus=rng.choice([1, 1, 2]), count=1) for _ in range(count)]
    for work in idle:
        world.runs(work)
    chosen = [RULES[number % len(RULES)] for number in (2 * seed, 2 * seed + 1)]
    chosen += rng.sample(RULES, rng.randint(0, 2))
    named = {}
    for rule in rng.sample(RULES, 2):
        work = world.work(most=3)
        if rule not in (_gates, _claim_of_one_pod):
            rule(world, work)
        world.runs(work)
    for rule in chosen:
        work = world.work()
        rule(world, work)
        world.waits(work)
        named[f"{work.namespace}/{work.name}"] = rule.__name__.strip("_")
    hopeless = HOPELESS[seed % len(HOPELESS)]
    work = world.work(most=3, gpus=1)
    hopeless(world, work)
    world.waits(work)
    world.hopeless.add(f"{work.namespace}/{work.name}")
    _age(world, idle)
    return {
        "nodes": world.nodes,
        "pods": world.pods,
        "volumes": world.volumes,
        "podgroups": world.groups,
        "hopeless": sorted(world.hopeless),
        "rules": named,
    }


def _add_nodes(world: World) -> None:
    rng = world.rng
    zones = [f"eu-1{letter}" for letter in "abc"[: rng.randint(2, 3)]]
    for number in range(rng.randint(3, 7)):
        taints = [DEDICATED] if rng.random() < 0.2 else []
        world.add_node(zones[number % len(zones)], rng.choice([2, 4, 4, 4, 8]), *taints)
    if rng.random() < 0.5:
        world.add_node(rng.choice(zones), 1)
        world.nodes[-1]["metadata"]["labels"]["nvidia.com/mig.strategy"] = "mixed"
        for name in ("allocatable", "capacity"):
            world.nodes[-1]["status"][name] |= {GPU: "0", PARTITION: "7"}
    if len(world.nodes) > 3 and rng.random() < 0.2:
        effects = ("NoSchedule", "NoExecute")
        gone = [{"key": "node.kubernetes.io/unreachable", "effect": effect} for effect in effects]
        world.add_node(zones[0], 4, *gone, ready=False)

    plugin = world.work(["DaemonSet"], gpus=0, namespace="kube-system", name="device-plugin", count=1)
    plugin.spec["tolerations"] = [{"operator": "Exists"}]
    for node in world.nodes:
        (pod,) = world.pods_of(plugin)
        start(pod, node["metadata"]["name"])
        world.pods.append(pod)


def _age(world: World, idle: list[Work]) -> None:
    """Let some jobs end or lose a pod, and cordon a node."""
    rng = world.rng
    ended = {work.name for work in idle if rng.random() < 0.4}
    for pod in world.pods:
        if pod["metadata"]["labels"].get("app") in ended and pod["spec"].get("nodeName"):
            pod["status"]["phase"] = "Succeeded"
    world.pods = [
        pod
        for pod in world.pods
        if pod["metadata"]["labels"].get("app") not in ended or pod["spec"].get("nodeName")
    ]
    running = [pod for pod in world.pods if pod["status"]["phase"] == "Running"]
    running = [pod for pod in running if pod["metadata"]["namespace"] != "kube-system"]
    owners = Counter(pod["metadata"]["ownerReferences"][0]["name"] for pod in running)
    for pod in rng.sample(running, len(running)):
        count = owners[pod["metadata"]["ownerReferences"][0]["name"]]
        if count == 1 and rng.random() < 0.05:
            pod["metadata"] |= {"deletionTimestamp": NOW, "deletionGracePeriodSeconds": 30}
        elif count > 1 and pod["spec"]["schedulerName"] == "default-scheduler" and rng.random() < 0.05:
            # It was evicted and made again, and waits.
            del pod["spec"]["nodeName"]
            pod["status"] = {"phase": "Pending"}
    for node in rng.sample(world.nodes, rng.choice([0, 0, 0, 1])):
        node["spec"]["unschedulable"] = True
        cordon = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule", "timeAdded": NOW}
        node["spec"].setdefault("taints", []).append(cordon)
    rng.shuffle(world.pods)
