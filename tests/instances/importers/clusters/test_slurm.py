"""Listings of Slurm: jobs, nodes, and a real cluster's.

Nodes as scontrol and sinfo print them, and dumps of clusters with shards and partitions.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sample_documents import said, solved

from clusterplan.instances.common.errors import InstanceError
from clusterplan.instances.consolidation.instance import ConsolidationInstance
from clusterplan.instances.importers.clusters import slurm_cluster
from clusterplan.instances.importers.clusters.slurm import (
    assumptions,
    ignored_feature_notes,
    import_slurm,
    left_out_notes,
    partitions_phrase,
    reasons_for_no_jobs,
)
from clusterplan.instances.importers.clusters.slurm_cluster import Cluster, SlurmOptions
from clusterplan.instances.importers.clusters.slurm_jobs import JobRecord, jobs_of, why_it_stays
from clusterplan.instances.importers.clusters.slurm_nodes import (
    SlurmNode,
    gpu_model_of,
    partition_of,
    read_nodes,
)
from clusterplan.planner.api import solve


def cluster(**more: Any) -> Cluster:
    """Return a cluster of one node, one that is down, and a job that waits."""
    nodes = [
        SlurmNode(n, frozenset({s}), 8.0, 1024.0, {}, None, 0.0) for n, s in (("a", "IDLE"), ("b", "DOWN"))
    ]
    document = {
        "job_id": 1,
        "name": "j",
        "job_state": ["PENDING"],
        "state_reason": "Resources",
        "tres_req_str": "cpu=1",
    }
    record = JobRecord.model_validate(document | more)
    return Cluster(tuple(nodes), (record,), SlurmOptions(nodes=Path("n"), queue=Path("q"), choice="all"))


def test_what_is_planned_and_what_is_left_out() -> None:
    """Nodes that take no jobs, and jobs that wait for other things."""
    made = cluster()
    said = list(assumptions(made))
    assert said[0] == "Planned are all jobs: 1 job, of which 0 run."
    assert any("not listed for 1 node" in sentence for sentence in said)
    assert list(left_out_notes(made)) == ["1 node takes no jobs (state, or no partition) and is left out: b."]
    (_, waits) = left_out_notes(cluster(state_reason="Dependency"))
    assert waits == "1 job is left out that waits for other things than resources: Dependency 1 (1 j)."
    assert (partitions_phrase(()), partitions_phrase(("p", "q"))) == ("", " in partition p, q")


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"licenses": "matlab:1"}, "needs licences"),
        ({"resv_name": "r"}, "needs a reservation"),
        ({"dependency": "singleton"}, "starts after others"),
        ({"required_switches": 1}, "needs switches"),
        ({"het_job_id": 7}, "part of a heterogeneous job"),
        ({"features": "[a|b]"}, "needs features that are no plain list"),
        ({"exclusive": True, "tasks": 4}, "needs nodes of its own, and does not say how many"),
        ({"required_nodes": "a", "tres_req_str": "cpu=2,node=2"}, "needs certain nodes and others"),
    ],
)
def test_what_slurm_might_refuse_to_start_is_left_out_and_named(fields: dict[str, Any], why: str) -> None:
    """What runs of it stays where it is."""
    made = cluster(**fields)
    assert (made.unmodelled, made.jobs) == ({"1 j": why}, [])
    assert any(
        line.startswith("1 job waits and is left out") and why in line for line in left_out_notes(made)
    )
    (record,) = cluster(**fields, job_state=["RUNNING"], nodes="a").records
    assert why_it_stays(record) == ("" if "dependency" in fields else why)


def test_why_nothing_is_left_to_plan() -> None:
    """Each job of the queue counts for the first reason that keeps it out."""
    states: list[dict[str, Any]] = [
        {"job_state": ["COMPLETED"]},
        {"job_state": ["COMPLETED"]},
        {"state_reason": "Dependency"},
        {"state_reason": "ReqNodeNotAvail, UnavailableNodes:a"},
        {"job_state": ["RUNNING"], "nodes": "b"},
        {"partition": "other", "state_reason": "Dependency"},
    ]
    found = [cluster(**{"partition": "p", **state}) for state in states]
    options = SlurmOptions(nodes=Path("n"), queue=Path("q"), partitions=("p",))
    nodes = tuple(replace(node, partitions={"p"}) for node in found[0].listed)
    made = Cluster(nodes, tuple(one.records[0] for one in found), options)
    assert reasons_for_no_jobs(made) == (
        "of 6 jobs: COMPLETED 2, waiting for Dependency 1, asking for no GPU 1, "
        "running on a node that is left out or not listed 1, in another partition 1"
    )
    stay = options.model_copy(update={"running": "stay"})
    assert reasons_for_no_jobs(Cluster(nodes, (made.records[4],), stay)) == "of 1 job: running and to stay 1"
    assert reasons_for_no_jobs(Cluster(nodes, (), options)) == "the queue is empty"


def test_rules_that_are_not_in_the_files_are_named() -> None:
    """The QOS, with the jobs."""
    said = list(ignored_feature_notes(cluster(qos="high")))
    assert said == [
        "Whether nodes are reserved for later is not in the source; --reservations has it read.",
        "Limits and preemption of a QOS are not in the source (high: 1 j).",
    ]


def test_who_stays_is_named_with_the_reason() -> None:
    """As a line of what is assumed."""
    made = cluster(job_state=["RUNNING"], nodes="a", requeue=False)
    assert "1 running job stays where it is: 1 j (Requeue=0)." in list(assumptions(made))


def gpus(**more: Any) -> float:
    """Return the GPUs of the only job of a record in the layout of Slurm 21.08, over all its tasks."""
    document = {
        "job_id": 1,
        "job_state": "PENDING",
        "state_reason": "Resources",
        "node_count": 2,
        "tasks": 4,
        "nodes": None,
        "array_job_id": 0,
        "array_task_id": None,
        "gres_detail": [],
        "tres_req_str": "cpu=8,mem=16G,node=2,billing=8",
    }
    (job,) = jobs_of(JobRecord.model_validate(document | more))
    return job.gpus * job.tasks


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({}, 0),
        ({"tres_req_str": "node=2,gres/gpu=6", "tres_per_node": "gres:gpu:1"}, 6),
        ({"tres_per_node": "gres:gpu:a100:2"}, 4),
        ({"tres_per_job": "gres:gpu:6"}, 6),
        ({"tres_per_task": "gres:gpu:1"}, 4),
        ({"tres_per_socket": "gres:gpu:1", "sockets_per_node": 2}, 4),
        ({"tres_per_socket": "gres:gpu:1", "sockets_per_node": None}, 2),
        # A job that runs holds what the detail says of each of its nodes.
        ({"job_state": "RUNNING", "nodes": "n[1-2]", "gres_detail": ["gpu:a100:4(IDX:0-3)", "gpu:1"]}, 5),
        ({"job_state": "RUNNING", "nodes": "n[1-2]", "tres_per_node": "gpu:2"}, 4),
    ],
)
def test_gpus_that_slurm_does_not_track(asked: dict[str, Any], expected: float) -> None:
    """Where the trackable resources list no GPUs, the options of the job say how many it asks for."""
    assert gpus(**asked) == expected


def node(name: str, partition: str = "p", state: str = "IDLE", used: float = 0.0) -> SlurmNode:
    """Return a node of four GPUs, some of its CPUs in use."""
    return SlurmNode(name, frozenset({state}), 8.0, 2048.0, {"a100": 4.0}, used, 0.0, {}, {partition})


def record(identity: int, gpus: int = 1, on: str = "", **more: Any) -> JobRecord:
    """Return a job that waits, or runs on a node."""
    tres = f"cpu=2,mem=512M,node=1,gres/gpu={gpus}" if gpus else "cpu=2,mem=512M,node=1"
    state = (
        {"job_state": ["RUNNING"], "nodes": on, "tres_alloc_str": tres} if on else {"job_state": ["PENDING"]}
    )
    document = {
        "job_id": identity,
        "name": "j",
        "partition": "p",
        "tres_req_str": tres,
        "state_reason": "Resources",
    }
    return JobRecord.model_validate({**document, **state, **more})


NODES = (node("a", used=3.0), node("b"), node("c", "q"), node("d", state="DOWN"))


def listed_cluster(*records: JobRecord, **options: Any) -> Cluster:
    """Return a cluster of three nodes in two partitions, and one that is down."""
    return Cluster(NODES, records, SlurmOptions(nodes=Path("n"), queue=Path("q"), **options))


def test_nodes_that_take_jobs() -> None:
    """By state, and by partition where one is asked for."""
    assert (listed_cluster().names, listed_cluster().out) == ({"a", "b", "c"}, ["d"])
    assert listed_cluster(partitions=("q",)).names == {"c"}


def test_what_planned_jobs_hold_is_free_for_the_plan() -> None:
    """Of three CPUs in use, two are held by a planned job."""
    made = listed_cluster(record(1, on="a"))
    server = made.snapshot.servers()[0]
    assert server["capacity"]["cpu"] == 8
    assert server["free"]["cpu"] == 7
    assert (server["free"]["gpu"], server["gpu_model"]) == (4, "a100")


@pytest.mark.parametrize(
    ("options", "count"),
    [({}, 2), ({"running": "stay"}, 1), ({"choice": "all"}, 3), ({"partitions": ("q",)}, 0)],
)
def test_which_jobs_are_planned(options: dict[str, Any], count: int) -> None:
    """By GPUs, by state and by partition."""
    assert len(listed_cluster(record(1), record(2, on="a"), record(3, gpus=0), **options).jobs) == count


def test_jobs_that_are_left_out() -> None:
    """Those that wait for something else, and those on a node that is down."""
    made = listed_cluster(record(1, state_reason="Dependency"), record(2, on="d"))
    assert made.jobs == []
    assert [r.job_id for r in made.unready] == [1]
    assert [r.job_id for r in made.stranded] == [2]


def test_a_job_may_use_the_nodes_of_its_partition() -> None:
    """Those that it excludes are left out; a node that it needs is the only one."""
    made = listed_cluster(record(1, excluded_nodes="a"), record(2, required_nodes="b", node_count=1))
    assert [made.allowed(job) for job in made.jobs] == [{"b"}, {"b"}]
    first = made.snapshot.jobs()[0]
    assert made.by_models == []
    assert {name for name in first["task_demand"] if "other than a" in name}
    assert made.snapshot.jobs()[1]["name"] != first["name"]


def test_a_partition_that_is_all_nodes_of_a_model() -> None:
    """It stands in gpu_model, and becomes no resource; a job that runs stays on the model it has."""
    nodes = (
        node("a"),
        node("b"),
        SlurmNode("t", NODES[0].states, 8.0, 2048.0, {"t4": 2.0}, 0.0, 0.0, {}, {"q"}),
    )
    options = SlurmOptions(nodes=Path("n"), queue=Path("q"))
    records = (record(1), record(2, partition="q"), record(3, partition="p,q"), record(4, on="t"))
    made = Cluster(nodes, records, options)
    documents = made.snapshot.jobs()
    assert [document["gpu_model"] for document in documents] == [["a100"], ["t4"], None, "t4"]
    assert made.by_models == ["1 j", "2 j"]
    assert [name for name in made.snapshot.servers()[0]["capacity"] if name.startswith("node")] == [
        "node in partition p"
    ]


def test_features_that_are_gpu_models() -> None:
    """They stand in gpu_model; others stand for a choice of nodes."""
    features = ({"a100", "nvlink"}, {"a100"}, {"h100", "nvlink"}, {"t4"})
    nodes = tuple(
        SlurmNode(
            name,
            frozenset({"IDLE"}),
            8.0,
            2048.0,
            {model: 4.0},
            0.0,
            0.0,
            partitions={"p"},
            features=frozenset(own),
        )
        for name, model, own in zip("abht", ("a100", "a100", "h100", "t4"), features, strict=True)
    )
    wishes = ("a100|h100", "h100&nvlink", "nvlink", "[a100|h100]", "(a100|h100)&nvlink", None, "none")
    records = [record(k, features=wish) for k, wish in enumerate(wishes)]
    records += [record(7, on="t", features="a100")]
    made = Cluster(nodes, tuple(records), SlurmOptions(nodes=Path("n"), queue=Path("q")))
    found = [job["gpu_model"] for job in made.snapshot.jobs()]
    assert found == [["a100", "h100"], ["h100"], None, None, None, "t4"]
    assert list(made.unmodelled) == ["3 j", "4 j"]
    assert [server["capacity"]["node with nvlink"] > 0 for server in made.snapshot.servers()] == [
        True,
        False,
        True,
        False,
    ]


def test_who_cannot_be_requeued_does_not_move() -> None:
    """Interactive jobs, those with --no-requeue, and tasks of an array with a limit; none of who waits."""
    fields: list[dict[str, Any]] = [
        {},
        {"batch_flag": True, "requeue": True, "array_max_tasks": 0},
        {"batch_flag": False},
        {"requeue": False},
        {"array_max_tasks": {"set": True, "infinite": False, "number": 2}},
        {"het_job_id": {"set": True, "infinite": False, "number": 7}},
    ]
    running = [record(k, on="a", **more) for k, more in enumerate(fields)]
    made = listed_cluster(*running, record(9, requeue=False))
    found = [job.get("movable") for job in made.snapshot.jobs()]
    assert found == [None, None, False, False, False, False, None]


def test_shares_by_node_are_on_nodes_of_their_own() -> None:
    """Where a node could hold two; not where GPUs are asked for in all, nor where a share fills a node."""
    by_node = {"tres_per_node": "gres:gpu:2", "node_count": 2}
    records = [
        record(1, tres_req_str="cpu=2,node=2", **by_node),
        record(2, tres_req_str="cpu=2,node=2,gres/gpu=4", tres_per_job="gres:gpu:4", node_count=2),
        record(3, tres_req_str="cpu=2,node=2", **{**by_node, "tres_per_node": "gres:gpu:4"}),
    ]
    made = listed_cluster(*records)
    first, *others = made.snapshot.jobs()
    assert first["tasks"] == 2
    assert first["max_per_server"] == 1
    assert [job["max_per_server"] for job in others] == [None, None]


def test_beyond_the_limit_of_jobs_that_are_kept_apart_they_are_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Slurm would refuse two shares on one node; what runs of them stays."""
    monkeypatch.setattr(slurm_cluster, "MAX_SEPARATED", 1)
    by_node = {"tres_per_node": "gres:gpu:1", "node_count": 2, "tres_req_str": "cpu=2,node=2"}
    running = {**by_node, "job_state": ["RUNNING"], "nodes": "a,b"}
    made = listed_cluster(record(1, **by_node), record(2, **by_node), record(3, **running))
    rows = {job["name"].split()[0]: job for job in made.snapshot.jobs()}
    assert list(rows) == ["1", "3"]
    assert (rows["1"]["max_per_server"], rows["3"]["max_per_server"]) == (1, None)
    assert rows["3"]["movable"] is False


def test_worth_follows_priority() -> None:
    """Whichever way the numbers are written."""
    jobs = [record(1, priority=100), record(2, priority={"set": True, "infinite": False, "number": 200})]
    made = listed_cluster(*jobs, value="priority")
    assert [job["value"] for job in made.snapshot.jobs()] == [1.0, 1000.0]
    made = listed_cluster(*jobs)
    assert [job["value"] for job in made.snapshot.jobs()] == [1.0, 1.0]


def test_nodes_of_an_earlier_plan_are_no_wish() -> None:
    """The script of a plan marks the jobs whose nodes it has chosen."""
    needs = {"required_nodes": "b", "node_count": 1}
    made = listed_cluster(record(1, **needs), record(2, **needs, admin_comment="clusterplan"))
    assert [made.allowed(job) for job in made.jobs] == [{"b"}, {"a", "b"}]


DUMPED = {
    "name": "n1",
    "state": ["IDLE"],
    "cpus": 8,
    "real_memory": 4096,
    "gres": "gpu:a100:4",
    "alloc_cpus": 2,
}


def read(folder: Path, document: Any) -> list[SlurmNode]:
    """Return the nodes of a document."""
    (folder / "n.json").write_text(json.dumps(document))
    return read_nodes(folder / "n.json")


def test_a_node_of_scontrol(tmp_path: Path) -> None:
    """CPUs, memory without what is kept for the system, GPUs by type."""
    (dumped,) = read(tmp_path, {"nodes": [DUMPED | {"specialized_memory": 96}]})
    assert (dumped.cpus, dumped.memory_mib, dumped.gpus, dumped.used_cpus) == (8, 4000, {"a100": 4}, 2)
    assert (dumped.usable, gpu_model_of(dumped, keep_partitions=True)) == (True, "a100")
    (down,) = read(tmp_path, {"nodes": [DUMPED | {"state": ["DOWN*"]}]})
    assert not down.usable


def test_rows_of_sinfo(tmp_path: Path) -> None:
    """What nodes of one row hold is only known where the row has one node, or holds nothing."""
    row = {"node": {"state": ["MIXED"]}, "nodes": {"nodes": ["n[1-2]"]}, "partition": {"name": "p*"}}
    row |= {"cpus": {"minimum": 8, "allocated": 6}, "memory": {"minimum": 100, "allocated": 50}, "gres": {}}
    nodes = read(tmp_path, {"sinfo": [row]})
    assert [(dumped.name, dumped.used_cpus, dumped.partitions) for dumped in nodes] == [
        ("n1", None, {"p"}),
        ("n2", None, {"p"}),
    ]
    (alone,) = read(tmp_path, {"sinfo": [row | {"nodes": {"nodes": ["n1"]}}]})
    assert (alone.used_cpus, alone.used_memory_mib) == (6, 50)


def test_what_is_no_list_of_nodes(tmp_path: Path) -> None:
    """Files given in the wrong order, nodes that stand twice."""
    for document, words in (
        ({"jobs": []}, "the first file lists jobs"),
        ({}, "neither 'nodes' nor 'sinfo'"),
        ({"nodes": [DUMPED, DUMPED]}, "'n1' is listed twice"),
    ):
        with pytest.raises(InstanceError, match=words):
            read(tmp_path, document)


def dumped(name: str, gres: str, used: str = "", **over: Any) -> dict[str, Any]:
    return {
        "name": name,
        "state": ["MIXED" if used else "IDLE"],
        "partitions": ["gpu"],
        "cpus": 32,
        "real_memory": 131072,
        "alloc_cpus": 0,
        "alloc_memory": 0,
        "gres": gres,
        "gres_used": used,
        **over,
    }


def job(identity: int, asks: str, on: str = "", **over: Any) -> dict[str, Any]:
    """Return a job of one node, or of as many as it runs on."""
    tres = f"cpu=4,mem=8G,node=1,{asks}" if asks else "cpu=4,mem=8G,node=1"
    state = {"job_state": ["RUNNING"], "nodes": on, "tres_alloc_str": tres}
    waits = {"job_state": ["PENDING"], "state_reason": "Resources", "nodes": ""}
    common = {"job_id": identity, "name": "j", "partition": "gpu", "tres_req_str": tres, "tasks": 2}
    return common | (state if on else waits) | over


def imported(folder: Path, nodes: list[Any], jobs: list[Any], **options: Any) -> ConsolidationInstance:
    (folder / "nodes.json").write_text(json.dumps({"nodes": nodes}))
    (folder / "queue.json").write_text(json.dumps({"jobs": jobs}))
    return import_slurm(folder / "nodes.json", folder / "queue.json", **{"mig": "new", **options})


def asks(instance: ConsolidationInstance) -> list[Any]:
    """Return tasks of each job and what each of them asks for."""
    kinds = ("devices", "share", "profile")
    asked = [[getattr(job, kind) for kind in kinds if getattr(job, kind)] for job in instance.jobs]
    return [
        (job.tasks, *(found["gpu"] for found in each)) for job, each in zip(instance.jobs, asked, strict=True)
    ]


def devices(instance: ConsolidationInstance) -> dict[str, Any]:
    """Return count, geometry, and what is taken of the devices of each server."""
    found = {}
    for server in instance.servers:
        own = (server.devices or {}).get("gpu")
        rows = [row.model_dump(exclude_none=True) for row in own.taken or ()] if own else []
        found[server.name] = (own.count, own.geometry, rows) if own else None
    return found


SHARDS = "gpu:a100:4(S:0-1),shard:a100:40(S:0-1)"


def test_nodes_that_are_not_clear(tmp_path: Path) -> None:
    """Shards that are not even. Of partitions of no known geometry each is a GPU of its own type."""
    nodes = [dumped("n1", SHARDS), dumped("odd", "gpu:4,shard:10"), dumped("new", "gpu:1g.18gb:7")]
    instance = imported(tmp_path, nodes, [job(1, "gres/shard=2")])
    assert devices(instance) == {"n1": (4, None, []), "new": (7, None, [])}
    assert "odd (has 10 shards, which are not the same on each of 4 GPUs)" in said(instance)
    assert "for the geometry of some is not known: new (has 1g.18gb)" in said(instance)


def test_partitions_that_are_kept_are_a_resource_of_their_type(tmp_path: Path) -> None:
    """A job that names no type goes where there is one type only, for Slurm might give it any."""
    nodes = [
        dumped("n1", "gpu:a100:1,gpu:a100_3g.20gb:2", "gpu:a100_3g.20gb:1"),
        dumped("n2", "gpu:a100:2"),
    ]
    jobs = [
        job(1, "gres/gpu:a100_3g.20gb=1", "n1"),
        job(2, "gres/gpu:a100_3g.20gb=1"),
        job(3, "gres/gpu:a100_3g.20gb=1"),
        job(4, "gres/gpu=1"),
        job(5, "gres/gpu:a100=2"),
    ]
    instance = imported(tmp_path, nodes, jobs, mig="keep")
    assert not instance.has_devices
    assert [server.available["gpu:a100_3g.20gb"] for server in instance.servers] == [2, 0]
    result = solve(instance)
    assert result.plan is not None
    where = {entry.job.split()[0]: set(entry.servers) for entry in result.plan if entry.placed}
    assert where["1"] == {"n1"}
    assert len({"2", "3"} & where.keys()) == 1
    assert (where["4"], where["5"]) == ({"n2"}, {"n1", "n2"})
    assert "A job that names no type of GPU is not planned on 1 node that has several: n1." in said(instance)


def test_names_of_types() -> None:
    """GPU model and profile."""
    assert partition_of("nvidia_a100_3g.20gb") == ("nvidia_a100", "3g.20gb")
    assert partition_of("1g.5gb") == ("", "1g.5gb")
    assert partition_of("a100") is None


def test_devices_that_slurm_lists(tmp_path: Path) -> None:
    """Whole GPUs have numbers, which a task has now; those of shards are not listed for a job."""
    jobs = [
        job(1, "gres/gpu=3", "n1", gres_detail=["gpu:a100:3(IDX:0,2-3)"]),
        job(2, "gres/shard=2", "n1", gres_detail=["shard:a100:2(2/10)"]),
        job(3, "gres/gpu=2", "n2", tres_per_node="gres/gpu:2", gres_detail=["gpu:a100:2(IDX:1-2)"]),
    ]
    instance = imported(tmp_path, [dumped("n1", SHARDS), dumped("n2", SHARDS)], jobs)
    assert [job.current_devices for job in instance.jobs] == [
        {"n1": ({"gpu": (0,)}, {"gpu": (2,)}, {"gpu": (3,)})},
        None,
        {"n2": ({"gpu": (1, 2)},)},
    ]
    solved(instance)


def test_where_no_job_is_left_the_error_says_why(tmp_path: Path) -> None:
    """Of each job the first reason."""
    jobs = [job(1, "gres/shard=2,gres/gpu=1"), job(2, "gres/gpu=1", licenses="matlab:1")]
    with pytest.raises(InstanceError, match="not clear in what it asks for of GPUs 1, needs licences 1"):
        imported(tmp_path, [dumped("n1", SHARDS)], jobs)
