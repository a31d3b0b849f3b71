"""The Kubernetes importer: quantities, requests, jobs, nodes that may be used, and broken documents."""

from __future__ import annotations

import copy
import json
from contextlib import suppress
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sample_documents import JUNK, altered, faults, is_kept, said

from clusterplan.instances.common.errors import InstanceError
from clusterplan.instances.consolidation.instance import ConsolidationInstance, Server
from clusterplan.instances.consolidation.job import PlacementJob
from clusterplan.instances.importers.clusters.kubernetes import import_kubernetes
from clusterplan.instances.importers.clusters.kubernetes_objects import Pod, parse_quantity
from clusterplan.planner.api import solve

ZONE, PRODUCT = "topology.kubernetes.io/zone", "nvidia.com/gpu.product"


def node(name: str, gpus: int = 4, labels: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {ZONE: "z1", PRODUCT: "A100", **(labels or {})}},
        "spec": {"podCIDR": "10.0.0.0/24", **spec},
        "status": {
            "allocatable": {
                "cpu": "7910m",
                "memory": "32Gi",
                "pods": "110",
                "nvidia.com/gpu": str(gpus),
                "ephemeral-storage": "95551679124",
            },
            "capacity": {"cpu": "8"},
            "conditions": [
                {"type": "MemoryPressure", "status": "False"},
                {"type": "Ready", "status": "True"},
            ],
        },
    }


def pod(
    name: str,
    gpus: int = 1,
    on: str | None = None,
    labels: dict[str, str] | None = None,
    owner: tuple[str, str] | None = None,
    namespace: str = "team",
    cpu: str = "500m",
    **spec: Any,
) -> dict[str, Any]:
    requests = {"cpu": cpu, "memory": "1Gi", **({"nvidia.com/gpu": str(gpus)} if gpus else {})}
    references = [{"kind": owner[0], "name": owner[1], "controller": True}] if owner else []
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": labels or {},
            "ownerReferences": references,
        },
        "spec": {
            "containers": [{"name": "main", "resources": {"requests": requests}}],
            **({"nodeName": on} if on else {}),
            **spec,
        },
        "status": {"phase": "Running" if on else "Pending"},
    }


NODES = (node("n1"), node("n2"), node("n3", labels={ZONE: "z2", PRODUCT: "T4"}))


def imported(folder: Path, pods: Any, nodes: Any = NODES, **options: Any) -> ConsolidationInstance:
    for name, items in (("nodes", nodes), ("pods", pods)):
        document = {"apiVersion": "v1", "kind": "List", "items": items} if isinstance(items, tuple) else items
        text = document if isinstance(document, str) else json.dumps(document)
        (folder / f"{name}.json").write_text(text, encoding="utf-8")
    return import_kubernetes(folder / "nodes.json", folder / "pods.json", **options)


def job(instance: ConsolidationInstance, name: str) -> PlacementJob:
    return next(job for job in instance.jobs if job.name == name)


def server(instance: ConsolidationInstance, name: str) -> Server:
    return next(server for server in instance.servers if server.name == name)


# Quantities

SUFFIXES: dict[str, Fraction] = {
    **{f"{letter}i": Fraction(1024**power) for power, letter in enumerate("KMGTPE", 1)},
    **{letter: Fraction(1000**power) for power, letter in enumerate("kMGTPE", 1)},
    **{"": Fraction(1), "m": Fraction(1, 10**3), "u": Fraction(1, 10**6), "n": Fraction(1, 10**9)},
    **{f"{e}{sign}{power}": Fraction(10) ** power for e in "eE" for sign in ("", "+") for power in (0, 3)},
    "e-3": Fraction(1, 1000),
    "E-12": Fraction(1, 10**12),
}


@given(
    st.integers(0, 10**6),
    st.integers(0, 12),
    st.sampled_from(sorted(SUFFIXES)),
    st.sampled_from(["", "+", "-"]),
)
def test_a_quantity_is_read_exactly(digits: int, places: int, suffix: str, sign: str) -> None:
    """Number and suffix multiply without rounding, whatever their length."""
    text = f"{digits:0{places + 1}d}"
    text = f"{text[: len(text) - places]}.{text[len(text) - places :]}"
    expected = Fraction(digits, 10**places) * SUFFIXES[suffix] * (-1 if sign == "-" else 1)
    if abs(expected) >= 2**63:
        with pytest.raises(ValueError, match="too large"):
            parse_quantity(sign + text + suffix)
    else:
        assert Fraction(parse_quantity(sign + text + suffix)) == expected


@given(st.text(alphabet="0123456789.+-eEKMGTPikmun xX_٣", max_size=70))
def test_any_text_is_a_quantity_or_a_value_error(text: str) -> None:
    """Nothing but a number or a ValueError comes out, and a number is finite."""
    with suppress(ValueError):
        assert parse_quantity(text).is_finite()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3920m", "3.92"),
        ("16Gi", str(16 * 2**30)),
        ("123456Ki", str(123456 * 1024)),
        (".5", "0.5"),
        ("5.", "5"),
        ("1E", str(10**18)),
        ("1E3", "1000"),
        ("100n", "1E-7"),
    ],
)
def test_published_quantities(text: str, value: str) -> None:
    """Forms that clusters print."""
    assert parse_quantity(text) == Decimal(value)


@pytest.mark.parametrize(
    "text", ["", "m", "1 Gi", "1gi", "1KB", "0x10", "1e", "1e1.5", "NaN", "Infinity", "٣", "1_0"]
)
def test_no_quantities(text: str) -> None:
    """Other text is refused."""
    with pytest.raises(ValueError, match="not a quantity"):
        parse_quantity(text)


# Requests of a pod


def requests(**spec: Any) -> dict[str, float]:
    found = Pod.model_validate({"metadata": {"name": "p"}, "spec": spec}).requests
    return {name: float(amount) for name, amount in found.items()}


def container(cpu: str, **more: Any) -> dict[str, Any]:
    return {"resources": {"requests": {"cpu": cpu}}, **more}


def test_containers_add_up_and_init_containers_count_one_at_a_time() -> None:
    """The larger of all containers together and of the largest init container is reserved."""
    assert requests(containers=[container("1"), container("500m")]) == {"cpu": 1.5}
    assert requests(containers=[container("1")], initContainers=[container("2"), container("3")]) == {
        "cpu": 3
    }


def test_sidecars_stay_and_overhead_is_added() -> None:
    """An init container that restarts always counts beside those after it and beside the containers."""
    sidecar = container("1", restartPolicy="Always")
    assert requests(containers=[container("1")], initContainers=[container("2"), sidecar]) == {"cpu": 2}
    assert requests(containers=[container("1")], initContainers=[sidecar, container("2")]) == {"cpu": 3}
    assert requests(containers=[container("1")], overhead={"cpu": "250m", "memory": "1"}) == {
        "cpu": 1.25,
        "memory": 1,
    }


def test_limits_stand_in_for_requests_and_a_pod_may_ask_as_a_whole() -> None:
    """A resource with only a limit requests that much; what the whole pod requests replaces the sum."""
    limited = {"resources": {"limits": {"cpu": "2", "nvidia.com/gpu": "1"}, "requests": {"cpu": "1"}}}
    assert requests(containers=[limited]) == {"cpu": 1, "nvidia.com/gpu": 1}
    whole = {"requests": {"cpu": "4"}}
    assert requests(containers=[limited], resources=whole) == {"cpu": 4, "nvidia.com/gpu": 1}


# Jobs


def test_waiting_and_running_jobs(tmp_path: Path) -> None:
    """Pods of one owner are a job; running ones have a current placement, and must stay placed."""
    pods = (
        pod("a-1", on="n1", owner=("Job", "a")),
        pod("a-2", on="n2", owner=("Job", "a")),
        pod("b-1", 2, owner=("Job", "b")),
        pod("b-2", 2, owner=("Job", "b")),
        pod("lonely", 4),
    )
    instance = imported(tmp_path, pods)
    assert [job.name for job in instance.jobs] == ["team/a", "team/b", "team/lonely"]
    a, b, lonely = instance.jobs
    assert (a.tasks, a.current, a.must_place, a.worth) == (2, {"n1": 1, "n2": 1}, True, 2)
    assert a.task_demand == {"cpu": 0.5, "memory_gib": 1, "gpu": 1, "pods": 1}
    assert (b.tasks, b.current, b.must_place, b.worth, b.spread) == (2, {}, False, 4, "preferred")
    assert (lonely.tasks, lonely.spread, lonely.worth) == (1, "free", 4)
    assert instance.objectives == ("value", "stops", "migrations", "spread", "servers")
    assert server(instance, "n1").capacity == {"cpu": 7.91, "memory_gib": 32, "gpu": 4, "pods": 110}
    assert server(instance, "n1").free == server(instance, "n1").capacity
    assert (server(instance, "n3").rack, server(instance, "n3").gpu_model) == ("z2", "T4")
    assert is_kept(instance)
    result = solve(instance)
    assert result.objectives[0].value == 10
    assert result.objectives[1].value == 0


# Nodes that may be used


def cluster_with_outages() -> tuple[dict[str, Any], ...]:
    """Return two nodes that take pods, one that is cordoned, and one that is not ready."""
    sick = node("n4", unschedulable=True)
    sick["status"]["conditions"] = [{"type": "Ready", "status": "Unknown"}]
    return node("n1"), node("n2", unschedulable=True), node("n3"), sick


def test_what_may_move_leaves_a_cordoned_node_unless_it_is_to_stay(tmp_path: Path) -> None:
    """What may not move stays; the node takes nothing else."""
    pods = (pod("a-0", on="n2", owner=("Job", "a")), pod("b", on="n2"), pod("c"))
    instance = imported(tmp_path, pods, cluster_with_outages())
    assert [(job.name, job.current) for job in instance.jobs] == [("team/a", {"n2": 1}), ("team/c", {})]
    assert set(server(instance, "n2").available.values()) == {0}
    assert "To be empty: 1 cordoned node (else --drained stay): n2." in said(instance)
    assert "1 job has pods on cordoned nodes; what runs of them stays and is not planned: team/b." in said(
        instance
    )
    plan = {entry.job: entry for entry in solve(instance).plan or ()}
    assert plan["team/a"].servers.keys() <= {"n1", "n3"}
    left = imported(tmp_path, pods, cluster_with_outages(), drained="stay")
    assert [job.name for job in left.jobs] == ["team/c"]


def test_a_job_that_is_partly_on_a_cordoned_node(tmp_path: Path) -> None:
    """All that runs of it stays and holds what it has; its pods that wait or are lost are planned."""
    pods = tuple(pod(f"a-{k}", on=on, owner=("Job", "a")) for k, on in enumerate(["n1", "n2", "n4", None]))
    instance = imported(tmp_path, pods, cluster_with_outages())
    (only,) = instance.jobs
    assert (only.tasks, only.current, only.must_place) == (2, {}, False)
    assert server(instance, "n1").available["gpu"] == 3
    alone = imported(tmp_path, (pods[3],), cluster_with_outages())
    assert "cordoned nodes;" not in said(alone)


TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}


REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
MODELS = {"key": PRODUCT, "operator": "In", "values": ["L4", "A100"]}
AB = ("A100", "L4")
TERMS = [
    {"matchExpressions": [{"key": "rank", "operator": "Gt", "values": ["1"]}]},
    {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]},
]


def test_names_of_choices(tmp_path: Path) -> None:
    """A choice of nodes is called by what makes it, each name once, and the assumptions name the jobs."""
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": TERMS}}
    everywhere = [{"operator": "Exists"}]
    pods = (
        *(pod(f"p{k}", nodeSelector={"disktype": "ssd"}, tolerations=everywhere) for k in range(4)),
        pod("q"),
        pod("r", affinity={"nodeAffinity": required}, tolerations=everywhere),
        pod("s", nodeSelector={"x" * 50: "y" * 20}, tolerations=everywhere),
        pod("t", nodeSelector={"x" * 50: "y" * 21}, tolerations=everywhere),
    )
    nodes = (
        node("n1"),
        node("n2", labels={"disktype": "ssd"}, taints=[TAINT]),
        node("n3", labels={"disktype": "ssd", "x" * 50: "y" * 20}),
    )
    instance = imported(tmp_path, pods, nodes)
    found = [name for name in instance.resource_names if name.startswith(("node ", "toleration "))]
    assert found[:3] == [
        "node with disktype=ssd",
        "toleration for taint nvidia.com/gpu:NoSchedule",
        "node with rank>1 or metadata.name=n1",
    ]
    assert found[3:] == [f"node with {'x' * 50}={'y' * 20}", f"node with {'x' * 50}={'y' * 21}"]
    text = said(instance)
    assert "4 pods need it, of team/p0, team/p1, team/p2, …, and 2 of 3 nodes have it." in text
    assert "1 pod needs it, of team/r, and 1 of 3 nodes has it." in text


@pytest.mark.parametrize(
    ("spec", "models"),
    [
        ({"nodeSelector": {ZONE: "z2"}, "tolerations": [{"operator": "Exists"}]}, "T4"),
        (
            {
                "affinity": {
                    "nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [MODELS]}]}}
                }
            },
            AB,
        ),
        ({"tolerations": [{"operator": "Exists"}]}, None),
        ({}, AB),
        ({"nodeSelector": {PRODUCT: "T4"}, "tolerations": [{"operator": "Exists"}]}, "T4"),
        # One of two nodes of a model is no choice of models.
        ({"nodeSelector": {"disk": "ssd"}}, None),
    ],
)
def test_a_choice_of_nodes_that_is_one_of_models(tmp_path: Path, spec: dict[str, Any], models: Any) -> None:
    """It stands in the job's gpu_model, and becomes no resource; whoever runs elsewhere may stay there."""
    nodes = (
        *(node(f"a{k}", labels={"disk": "ssd"} if k else None) for k in range(2)),
        node("b", labels={PRODUCT: "L4"}),
        node("t", labels={ZONE: "z2", PRODUCT: "T4"}, taints=[TAINT]),
    )
    instance = imported(tmp_path, (pod("a", **spec), pod("all", tolerations=[{"operator": "Exists"}])), nodes)
    assert job(instance, "team/a").gpu_model == models
    resources = [name for name in instance.resource_names if name.startswith("node")]
    assert bool(resources) == ("disk" in str(spec))
    asked = (spec.get("nodeSelector") or {}).get(PRODUCT)
    assert ("stand in gpu_model: team/a." in said(instance)) == (models is not None and not asked)
    elsewhere = imported(tmp_path, (pod("a", on="t"),), nodes)
    assert elsewhere.jobs[0].gpu_model is None


def test_a_pod_may_stay_where_it_could_not_go_today(tmp_path: Path) -> None:
    """A taint or label that came later does not move a pod, and does not let others in."""
    nodes = (NODES[0], node("n2", taints=[TAINT]))
    instance = imported(
        tmp_path, (pod("a", on="n2"), pod("b"), pod("c", nodeSelector={PRODUCT: "T4"}, on="n1")), nodes
    )
    result = solve(instance)
    assert result.status == "optimal"
    assert job(instance, "team/c").gpu_model is None
    assert result.objectives[1].value == 0
    assert "The resource 'node with nvidia.com/gpu.product=T4 and toleration" in said(instance)


def test_a_node_whose_device_failed_keeps_its_pods_and_gets_no_others(tmp_path: Path) -> None:
    """A running job of two pods, one of them on a node that lists a GPU less than it holds."""
    owner = ("Job", "j")
    pods = (pod("j-0", 4, on="n1", owner=owner), pod("j-1", 4, on="n2", owner=owner), pod("b", 1))
    instance = imported(tmp_path, pods, (node("n1", 3), node("n2"), node("n3")))
    assert [server.name for server in instance.servers] == ["n2", "n3"]
    result = solve(instance)
    assert result.status == "optimal"
    assert result.objectives[0].value == 1


def test_what_is_not_looked_at_is_said(tmp_path: Path) -> None:
    """Preferences between pods and on spread, and soft taints, are counted."""
    ignored = pod(
        "a",
        affinity={"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}]}},
        topologySpreadConstraints=[
            {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}
        ],
    )
    text = said(
        imported(tmp_path, (ignored,), (node("n1", taints=[{"key": "k", "effect": "PreferNoSchedule"}]),))
    )
    for what in (
        "preferred affinity to other pods",
        "topology spread constraints that are only preferred",
    ):
        assert f"1 planned job has {what}, which the plan does not look at: team/a." in text
    assert "1 taint is only a preference" in text


# Pods that are wrong


def test_the_nodes_of_invalid_pods_take_no_others(tmp_path: Path) -> None:
    """What they hold is not known; a pod that has ended holds nothing."""
    wrong = pod("b", on="n1", cpu="many")
    ended = pod("c", on="n2", cpu="many") | {"status": {"phase": "Succeeded"}}
    instance = imported(tmp_path, (pod("a"), wrong, ended), (node("n1"), node("n2")))
    assert [server.name for server in instance.servers] == ["n2"]
    assert "What they hold is not known: their nodes count as cordoned (n1)." in instance.assumptions
    clean = imported(tmp_path, (pod("a"), ended), (node("n1"), node("n2")))
    assert len(clean.servers) == 2


# Broken documents


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"nodes": "{"}, "nodes.json: line 1, column 2: is not valid JSON"),
        ({"nodes": {"items": []}}, "nodes.json: has no node that takes pods; 0 are cordoned or not ready"),
        ({"nodes": {"kind": "Status", "items": []}}, "nodes.json: kind: is 'Status', not a List"),
        ({"nodes": ()}, "nodes.json: has no node that takes pods; 0 are cordoned or not ready"),
        ({"nodes": (pod("a"),)}, "pods.json: no nodes are listed; give what kubectl get nodes,pods"),
        ({"nodes": (3,)}, "nodes.json: items[0]: is 3"),
        ({"nodes": (node("n1"), node("n1"))}, "items[1].metadata.name: 'n1' is already used by items[0]"),
        ({"nodes": (node("N 1"),)}, "items[0].metadata.name: "),
        (
            {"nodes": (node("n1"),), "pods": (pod("a"), pod("b", on="n1", cpu="x"))},
            "no node that takes pods; 1 is cordoned or not ready; 1 pod is invalid and left out: team/b (",
        ),
        (
            {"pods": (pod("a", cpu="1 core"),)},
            "requests.cpu: is '1 core', not a quantity; write",
        ),
        ({"pods": (pod("a", cpu="-1"),)}, "requests.cpu: is '-1', which is negative"),
        ({"pods": (pod("a", cpu="9E99"),)}, "requests.cpu: is too large"),
        ({"choice": "some"}, "options: choice: is 'some'; allowed: 'gpu' or 'all'"),
        ({"namespaces": ["no"]}, "no pod that waits or runs and whose job asks for a GPU in no"),
    ],
)
def test_bad_documents_and_options(tmp_path: Path, options: dict[str, Any], expected: str) -> None:
    """A fault names the file, the place, what is wrong and what is allowed."""
    found = faults(lambda: imported(tmp_path, **{"pods": (pod("a"),), **options}))
    assert any(expected in fault for fault in found), found


def test_many_faults_are_not_a_flood(tmp_path: Path) -> None:
    """Of many faults a hundred are named."""
    found = faults(lambda: imported(tmp_path, tuple(pod(f"p{k}", cpu="x") for k in range(130))))
    assert len(found) == 101
    assert found[-1] == "… and 30 more faults"


def test_nodes_and_pods_may_be_in_one_file_or_in_any_order(tmp_path: Path) -> None:
    """Every object says its kind."""
    apart = imported(tmp_path, (pod("a"),))
    (tmp_path / "all.json").write_text(json.dumps({"kind": "List", "items": [*NODES, pod("a")]}))
    as_one = import_kubernetes(tmp_path / "all.json")
    swapped = import_kubernetes(tmp_path / "pods.json", tmp_path / "nodes.json")
    for each in (as_one, swapped):
        assert (each.servers, each.jobs) == (apart.servers, apart.jobs)


POD = pod(
    "a",
    initContainers=[container("1", restartPolicy="Always")],
    overhead={"cpu": "1"},
    tolerations=[{"key": "k", "operator": "Exists"}],
    nodeSelector={ZONE: "z1"},
    affinity={
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [
                    {"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["z1"]}]}
                ]
            }
        }
    },
    owner=("Job", "a"),
)
DOCUMENTS = {
    "nodes": {"kind": "List", "items": [node("n1", taints=[TAINT]), node("n2")]},
    "pods": {"kind": "List", "items": [POD, pod("b", on="n1")]},
}
junk = st.sampled_from([*JUNK, "-1", "9E9", "x" * 300, {"": 1}, {"a": "b"}])


def with_parts_of_gpus() -> dict[str, Any]:
    """Return a cluster where pods ask for shares and partitions."""
    documents = copy.deepcopy(DOCUMENTS)
    shared, parted = node("s"), node("m", labels={PRODUCT: "A100-SXM4-40GB"})
    register = [{"id": "a", "devmem": 32768, "health": True}]
    shared["metadata"]["annotations"] = {"hami.io/node-nvidia-register": json.dumps(register)}
    parted["status"]["allocatable"]["nvidia.com/mig-1g.5gb"] = "7"
    documents["nodes"]["items"] += [shared, parted]
    asked = [{"nvidia.com/gpumem": "1000", "nvidia.com/gpucores": "10"}, {"nvidia.com/mig-1g.5gb": "1"}]
    for number, asks in enumerate(asked):
        wants = pod(f"w{number}", number ^ 1, on="m" if number else "s")
        wants["spec"]["containers"][0]["resources"]["limits"] = asks
        documents["pods"]["items"].append(wants)
    fraction = pod("f", 0)
    fraction["metadata"]["annotations"] = {"gpu-fraction": "0.5"}
    documents["pods"]["items"].append(fraction)
    return documents


CLUSTERS = (DOCUMENTS, with_parts_of_gpus())


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data(), st.sampled_from(CLUSTERS), st.sampled_from(["gpu", "all"]))
def test_whatever_the_documents_hold(tmp_path: Path, data: st.DataObject, cluster: Any, choice: Any) -> None:
    """With any fields altered the cluster is imported or refused; nothing else can come out."""
    documents = altered(data, cluster, junk)
    with suppress(InstanceError):
        assert imported(tmp_path, documents["pods"], documents["nodes"], choice=choice).jobs


def test_a_cluster_with_parts_of_gpus_is_imported(tmp_path: Path) -> None:
    """The one whose fields are altered."""
    documents = with_parts_of_gpus()
    instance = imported(tmp_path, documents["pods"], documents["nodes"])
    assert instance.has_devices
    assert [server.name for server in instance.servers] == ["n1", "n2", "s", "m"]
    assert {"team/w0", "team/w1", "team/f"} <= {job.name for job in instance.jobs}
