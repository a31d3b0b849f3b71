"""Rules of pods on other pods: what becomes of each in the instance."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from clusterplan.instances.importers.clusters.kubernetes_affinity import VolumeObject, Volumes
from clusterplan.instances.importers.clusters.kubernetes_cluster import CLAIMS, Cluster
from clusterplan.instances.importers.clusters.kubernetes_jobs import keys_with_gangs, workload_of
from clusterplan.instances.importers.clusters.kubernetes_objects import DisruptionBudget, Pod, PodGang
from clusterplan.instances.importers.clusters.kubernetes_pod_rules import ALONE, HOST, NEAR
from clusterplan.tests.kubernetes_cluster import cluster, node, pod

ZONE = "zone"
NODES = tuple(node(name, labels={ZONE: name[0], HOST: name}) for name in ("a1", "a2", "b1", "b2"))


def rule(side: str, topology: str, **labels: str) -> dict[str, Any]:
    """Return a required affinity (`near`) or anti-affinity (`apart`) to pods with these labels."""
    term = {"topologyKey": topology, "labelSelector": {"matchLabels": labels}}
    kind = {"near": "podAffinity", "apart": "podAntiAffinity"}[side]
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def spread(topology: str, skew: int = 1, **labels: str) -> dict[str, Any]:
    """Return a topology spread constraint on pods with these labels."""
    constraint = {"maxSkew": skew, "topologyKey": topology, "whenUnsatisfiable": "DoNotSchedule"}
    return {"topologySpreadConstraints": [{**constraint, "labelSelector": {"matchLabels": labels}}]}


def labelled(made: Pod, job: str = "", **labels: str) -> Pod:
    """Return a pod with labels, of a batch Job if one is named."""
    owners = [{"kind": "Job", "name": job, "apiVersion": "batch/v1", "controller": True}] if job else None
    data = made.model_dump(mode="json")
    data["metadata"] |= {"labels": labels, "ownerReferences": owners}
    return Pod.model_validate(data)


def rows(made: Cluster) -> dict[str, dict[str, Any]]:
    """Return the documents of the jobs by name."""
    return {job["name"].partition("/")[2]: job for job in made.snapshot.jobs()}


def reachable(made: Cluster, job: str) -> set[str]:
    """Return the nodes that the pods of a job may use alone."""
    (found,) = (each for each in made.jobs if each.name == f"t/{job}")
    return set(frozenset.intersection(*(group.nodes for group in found.groups)))


def test_pods_that_must_be_apart_on_nodes_are_at_most_one_on_each() -> None:
    """A job of three pods with anti-affinity to itself: a resource that each node has once."""
    pods = [labelled(pod(f"j-{i}", 1, **rule("apart", HOST, app="j")), "j", app="j") for i in range(3)]
    made = cluster(*pods, nodes=NODES)
    assert rows(made)["j"]["task_demand"]["apart: t/j"] == 1
    assert all(each["capacity"]["apart: t/j"] == 1 for each in made.snapshot.servers())


def test_anti_affinity_to_what_stays_forbids_its_domain_both_ways() -> None:
    """The pod that runs has the rule, or the one that waits has it."""
    for on_runs, on_waits in (({}, rule("apart", ZONE, app="x")), (rule("apart", ZONE, app="y"), {})):
        runs = labelled(pod("x", 1, "a1", **on_runs), app="x")
        waits = labelled(pod("y", 1, **on_waits), app="y")
        assert reachable(cluster(runs, waits, nodes=NODES), "y") == {"b1", "b2"}


@pytest.mark.parametrize(
    ("matching", "asked"),
    [
        # Never two sides on one node.
        (3, {"h0": 3, "h1": 3, "m0": 1, "m1": 1, "m2": 1}),
        # Where no holder matches itself the smaller side is alone: two pods that avoid a third may share.
        (1, {"h0": 1, "h1": 1, "m0": 2}),
    ],
)
def test_a_holder_excludes_all_that_match_on_its_node(matching: int, asked: dict[str, int]) -> None:
    """All of them wait."""
    pods = [labelled(pod(f"h{i}", 1, **rule("apart", HOST, app="m"))) for i in range(2)]
    pods += [labelled(pod(f"m{i}", 1), app="m") for i in range(matching)]
    found = rows(cluster(*pods, nodes=NODES))
    assert {name: row["task_demand"]["apart: t/h0"] for name, row in found.items()} == asked


def test_pods_apart_by_zone_get_a_zone_each_and_those_beyond_are_named() -> None:
    """Domains of several nodes are no resource of a node. In zone a less is free."""
    pods = [labelled(pod(name, 1, **rule("apart", ZONE, app="x")), app="x") for name in ("p", "q", "r")]
    made = cluster(pod("other", 4, "a1"), *pods, nodes=NODES)
    assert reachable(made, "p") == {"b1", "b2"}
    assert reachable(made, "q") == {"a1", "a2"}
    assert made.left_out == {"t/r": NEAR}


def test_a_job_that_holds_a_rule_against_others_that_wait_is_left_out() -> None:
    """One may be planned, where the others would not be near it."""
    holder = labelled(pod("h", 1, **rule("apart", ZONE, app="x")))
    made = cluster(holder, labelled(pod("m", 1), app="x"), nodes=NODES)
    assert made.left_out == {"t/h": NEAR}


def test_pods_that_are_near_each_other_get_the_domain_with_most_room() -> None:
    """Of two such jobs the second is left out, for it would have to be near the first."""
    pods = [labelled(pod(f"j-{i}", 2, **rule("near", ZONE, app="j")), "j", app="j") for i in range(2)]
    second = labelled(pod("k", 1, **rule("near", ZONE, app="j")), "k", app="j")
    made = cluster(pod("other", 1, "a1"), *pods, second, nodes=NODES)
    assert reachable(made, "j") == {"b1", "b2"}
    assert made.left_out == {"t/k": NEAR}


def test_jobs_that_run_and_are_apart_by_zone_stay() -> None:
    """And what waits goes to another zone."""
    runs = labelled(pod("r-0", 1, "a1", **rule("apart", ZONE, app="x")), "r", app="x")
    waits = labelled(pod("w", 1), app="x")
    made = cluster(runs, waits, nodes=NODES)
    assert made.kept == {"t/r": NEAR}
    assert reachable(made, "w") == {"b1", "b2"}


@pytest.mark.parametrize(("topology", "nodes"), [(HOST, {"a1"}), (ZONE, {"a1", "a2"})])
def test_affinity_to_what_runs_leaves_its_domain(topology: str, nodes: set[str]) -> None:
    """The pods that are to be near stay where they are."""
    runs = labelled(pod("x", 1, "a1"), "x", app="x")
    made = cluster(runs, labelled(pod("y", 1, **rule("near", topology, app="x"))), nodes=NODES)
    assert reachable(made, "y") == nodes
    assert made.kept == {"t/x": NEAR}


def test_affinity_to_what_does_not_run_leaves_the_job_out() -> None:
    """Kubernetes would let it wait; the first of pods that are near each other may start."""
    lonely = labelled(pod("y", 1, **rule("near", ZONE, app="x")))
    first = labelled(pod("z", 1, **rule("near", ZONE, app="z")), app="z")
    made = cluster(lonely, first, nodes=NODES)
    assert (list(rows(made)), made.left_out) == (["z"], {"t/y": ALONE})


def test_spread_on_nodes_is_a_limit_from_the_fewest_that_stay() -> None:
    """No node may have more than the skew beyond the node with the fewest."""
    stays = [labelled(pod(f"s{i}", 1, on), app="x") for i, on in enumerate(("a1", "a1", "a2", "b1", "b2"))]
    pods = [labelled(pod(f"j-{i}", 1, **spread(HOST, app="x")), "j", app="x") for i in range(4)]
    made = cluster(*stays, *pods, nodes=NODES)
    server = {each["name"]: each["capacity"]["spread: t/j"] for each in made.snapshot.servers()}
    assert server == {"a1": 0, "a2": 1, "b1": 1, "b2": 1}
    assert reachable(made, "j") == {"a2", "b1", "b2"}


def test_spread_over_zones_is_planned_where_any_place_will_do() -> None:
    """One pod goes to the zone with fewer; of several each gets a zone, so that the numbers stay close.

    What stays may be on nodes that a script closes to the pods, and then does not count.
    """
    stays = labelled(pod("s", 1, "a1"), app="x")
    one = labelled(pod("j", 1, **spread(ZONE, app="x")), app="x")
    assert reachable(cluster(stays, one, nodes=NODES), "j") == {"b1", "b2"}
    three = [labelled(pod(f"j-{i}", 1, **spread(ZONE, app="x")), "j", app="x") for i in range(3)]
    (job,) = cluster(*three, nodes=NODES).jobs
    assert sorted((sorted(group.nodes), len(group.pods)) for group in job.groups) == [
        (["a1", "a2"], 2),
        (["b1", "b2"], 1),
    ]
    assert cluster(stays, *three, nodes=NODES).left_out == {"t/j": NEAR}


def test_of_several_jobs_that_spread_each_has_a_place_whichever_start() -> None:
    """A zone has at most the skew beyond what stays in the emptiest: the third job is left out."""
    pods = [labelled(pod(name, 1, **spread(ZONE, app="x")), app="x") for name in ("p", "q", "r")]
    made = cluster(*pods, nodes=NODES)
    assert {frozenset(reachable(made, name)) for name in ("p", "q")} == {
        frozenset({"a1", "a2"}),
        frozenset({"b1", "b2"}),
    }
    assert made.left_out == {"t/r": NEAR}


def test_a_port_of_the_node_is_there_once() -> None:
    """Pods that take the same one are apart."""
    ports = [{"containerPort": 29500, "hostPort": 29500}]
    pods = []
    for name in ("p", "q"):
        data = pod(name, 1).model_dump(mode="json")
        data["spec"]["containers"][0]["ports"] = ports
        pods.append(Pod.model_validate(data))
    asked = rows(cluster(*pods, nodes=NODES))
    assert [row["task_demand"]["apart: t/p"] for row in asked.values()] == [1, 1]


def test_a_running_job_with_resource_claims_stays() -> None:
    """Which devices it has is not in the files."""
    runs = labelled(pod("r", 1, "a1", resourceClaims=[{"name": "gpu"}]), "r")
    assert cluster(runs, nodes=NODES).kept == {"t/r": CLAIMS}


def ganged(made: Pod, gang: str) -> Pod:
    """Return a pod in the gang of a PodGroup."""
    data = made.model_dump(mode="json")
    data["metadata"]["annotations"] = {"scheduling.k8s.io/group-name": gang}
    return Pod.model_validate(data)


def test_jobs_of_one_gang_start_together() -> None:
    """Two Jobs share a PodGroup; a script leaves them to the scheduler, as they are two objects."""
    pods = [ganged(labelled(pod(f"{job}-0", 1), job), "g") for job in ("x", "y")]
    (job,) = cluster(*pods, pod("z", 1), nodes=NODES).jobs[:1]
    assert (job.name, len(job.pods), workload_of(job)) == ("t/g", 2, None)


def test_gangs_that_share_a_job_are_one() -> None:
    """A job that is in two gangs joins them."""
    gangs = {"x": ["g"], "y": ["g", "h"], "z": ["h"]}
    pods = [ganged(labelled(pod(f"{job}-{g}", 1), job), g) for job, its in gangs.items() for g in its]
    assert set(keys_with_gangs(pods).values()) == {("t", "gang", "g")}


def test_a_gang_with_too_few_pods_is_left_out() -> None:
    """Its PodGroup needs three, and two are there."""
    pods = [ganged(labelled(pod(f"x-{i}", 1), "x"), "g") for i in range(2)]
    for least, names in ((3, ["t/z"]), (2, ["t/x", "t/z"])):
        gang = PodGang.model_validate(
            {"metadata": {"name": "g", "namespace": "t"}, "spec": {"minMember": least}}
        )
        made = replace(cluster(*pods, pod("z", 1), nodes=NODES), gangs=(gang,))
        assert [job.name for job in made.jobs] == names
    assert replace(made, gangs=()).left_out == {}


def test_a_disruption_budget_is_named_with_the_jobs_that_it_concerns() -> None:
    """Only one that allows no eviction, and only for jobs that may be stopped."""
    runs = labelled(pod("r", 1, "a1"), "r", app="x")
    budgets = [
        DisruptionBudget.model_validate(
            {
                "metadata": {"name": name, "namespace": "t"},
                "spec": {"selector": {"matchLabels": {"app": app}}},
                "status": {"disruptionsAllowed": allowed},
            }
        )
        for name, app, allowed in (("strict", "x", 0), ("loose", "x", 1), ("other", "y", 0))
    ]
    assert replace(cluster(runs, nodes=NODES), budgets=tuple(budgets)).budgeted == {"t/strict": ["t/r"]}


def test_a_volume_for_one_pod_alone_is_for_one_pod() -> None:
    """Of two that wait for it one is planned; none, where one runs that has it."""
    claim = {"kind": "PersistentVolumeClaim", "metadata": {"name": "c", "namespace": "t"}}
    alone = {**claim, "spec": {"accessModes": ["ReadWriteOncePod"]}}
    volumes = Volumes((VolumeObject.model_validate(alone),))
    mounted = {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]}
    two = [pod(name, 1, **mounted) for name in ("p", "q")]
    assert list(rows(replace(cluster(*two, nodes=NODES), volumes=volumes))) == ["p"]
    made = replace(cluster(two[0], pod("r", 1, "a1", **mounted), nodes=NODES), volumes=volumes)
    assert reachable(made, "p") == set()


def test_pods_of_which_a_node_has_room_for_one_need_no_resource() -> None:
    """Nodes have four GPUs, and each pod takes three."""
    pods = [labelled(pod(f"j-{i}", 3, **rule("apart", HOST, app="j")), "j", app="j") for i in range(3)]
    assert rows(cluster(*pods, nodes=NODES))["j"]["task_demand"].keys() == {
        "cpu",
        "memory_gib",
        "gpu",
        "pods",
    }


def test_many_domains_of_one_job_are_too_many() -> None:
    """Each is a group of tasks, and there is a limit on the ways to place them."""
    nodes = tuple(node(f"n{i}", labels={ZONE: f"z{i}", HOST: f"n{i}"}) for i in range(40))
    pairs = tuple(node(f"m{i}", labels={ZONE: f"z{i}", HOST: f"m{i}"}) for i in range(40))
    pods = [labelled(pod(f"j-{i}", 1, **spread(ZONE, app="x")), "j", app="x") for i in range(30)]
    assert cluster(*pods, pod("k", 1), nodes=nodes + pairs).left_out == {"t/j": NEAR}


def test_pods_near_some_in_a_namespace_that_is_not_known_are_left_out() -> None:
    """The first pod would be near one that runs in a namespace chosen by its labels."""
    term = {
        "topologyKey": ZONE,
        "labelSelector": {"matchLabels": {"app": "x"}},
        "namespaces": ["t"],
        "namespaceSelector": {"matchLabels": {"team": "a"}},
    }
    near = {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}
    waits = labelled(pod("w", 1, **near), app="x")
    there = labelled(pod("r", 1, "b1"), app="x").model_dump(mode="json")
    there["metadata"]["namespace"] = "other"
    assert list(rows(cluster(waits, nodes=NODES))) == ["w"]
    made = cluster(waits, Pod.model_validate(there), nodes=NODES)
    assert made.left_out == {"t/w": ALONE}


def test_what_runs_of_a_job_whose_waiting_pods_are_left_out_stays() -> None:
    """To move it would mean to stop all of the job."""
    pods = [
        labelled(pod(f"x-{i}", 1, on, **rule("near", ZONE, app="gone")), "x")
        for i, on in ((0, "a1"), (1, None))
    ]
    made = cluster(*pods, nodes=NODES)
    assert made.left_out == {"t/x (waits)": ALONE}
    assert made.kept == {"t/x": "run while others of their job wait"}


def test_a_job_that_stays_on_a_node_to_be_emptied_keeps_what_it_holds() -> None:
    """Another is near it; nothing is added to the cordoned node, and there is a plan."""
    closed = node("c1", labels={ZONE: "c", HOST: "c1"}, unschedulable=True)
    stays = labelled(pod("h", 1, "c1"), "h", app="h")
    moves = labelled(pod("m", 1, "c1"), "m", app="m")
    waits = labelled(pod("w", 1, **rule("near", ZONE, app="h")), "w", app="w")
    made = cluster(stays, moves, waits, nodes=(*NODES, closed))
    free = {each["name"]: each["free"]["gpu"] for each in made.snapshot.servers()}
    assert (made.emptied, free["c1"], free["a1"]) == ({"c1"}, 1, 4)
    assert made.kept == {"t/h": NEAR}


def test_ports_of_sidecars_count() -> None:
    """And the import does not depend on an order of theirs."""
    data = pod("p", 1).model_dump(mode="json")
    ports = [{"hostPort": port} for port in (80, 443, 8080)]
    data["spec"]["initContainers"] = [
        {"restartPolicy": "Always", "ports": ports},
        {"ports": [{"hostPort": 1}]},
    ]
    assert Pod.model_validate(data).host_ports == ["443/TCP", "80/TCP", "8080/TCP"]
