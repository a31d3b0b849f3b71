"""What the nodes and the queue of a Slurm cluster become."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clusterplan.instances.importers.clusters.slurm import ignored
from clusterplan.instances.importers.clusters.slurm_cluster import Cluster, SlurmOptions
from clusterplan.instances.importers.clusters.slurm_jobs import JobRecord
from clusterplan.instances.importers.clusters.slurm_nodes import SlurmNode


def node(name: str, partition: str = "p", state: str = "IDLE", used: float = 0.0) -> SlurmNode:
    """Return a node of four GPUs, some of its CPUs in use."""
    return SlurmNode(name, frozenset({state}), 8.0, 2048.0, {"a100": 4.0}, used, 0.0, 0.0, {partition})


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


def cluster(*records: JobRecord, **options: Any) -> Cluster:
    """Return a cluster of three nodes in two partitions, and one that is down."""
    return Cluster(NODES, records, SlurmOptions(nodes=Path("n"), queue=Path("q"), **options))


def test_nodes_that_take_jobs() -> None:
    """By state, and by partition where one is asked for."""
    assert (cluster().names, cluster().out) == ({"a", "b", "c"}, ["d"])
    assert cluster(partitions=("q",)).names == {"c"}


def test_what_planned_jobs_hold_is_free_for_the_plan() -> None:
    """Of three CPUs in use, two are held by a planned job."""
    made = cluster(record(1, on="a"))
    server = made.server(NODES[0])
    assert server["capacity"]["cpu"] == 8
    assert server["free"]["cpu"] == 7
    assert (server["free"]["gpu"], server["gpu_model"]) == (4, "a100")


@pytest.mark.parametrize(
    ("options", "count"),
    [({}, 2), ({"running": "stay"}, 1), ({"choice": "all"}, 3), ({"partitions": ("q",)}, 0)],
)
def test_which_jobs_are_planned(options: dict[str, Any], count: int) -> None:
    """By GPUs, by state and by partition."""
    assert len(cluster(record(1), record(2, on="a"), record(3, gpus=0), **options).jobs) == count


def test_jobs_that_are_left_out() -> None:
    """Those that wait for something else, and those on a node that is down."""
    made = cluster(record(1, state_reason="Dependency"), record(2, on="d"))
    assert made.jobs == []
    assert [r.job_id for r in made.unready] == [1]
    assert [r.job_id for r in made.stranded] == [2]


def test_a_job_may_use_the_nodes_of_its_partition() -> None:
    """Those that it excludes are left out; a node that it needs is the only one."""
    made = cluster(record(1, excluded_nodes="a"), record(2, required_nodes="b", node_count=1))
    assert [made.allowed(job) for job in made.jobs] == [{"b"}, {"b"}]
    first = made.document_of(made.jobs[0])
    assert made.by_models == []
    assert {name for name in first["task_demand"] if "other than a" in name}
    assert made.document_of(made.jobs[1])["name"] != first["name"]


def test_a_partition_that_is_all_nodes_of_a_model() -> None:
    """It stands in gpu_model, and becomes no resource; a job that runs stays on the model it has."""
    nodes = (
        node("a"),
        node("b"),
        SlurmNode("t", NODES[0].states, 8.0, 2048.0, {"t4": 2.0}, 0.0, 0.0, 0.0, {"q"}),
    )
    options = SlurmOptions(nodes=Path("n"), queue=Path("q"))
    records = (record(1), record(2, partition="q"), record(3, partition="p,q"), record(4, on="t"))
    made = Cluster(nodes, records, options)
    documents = [made.document_of(job) for job in made.jobs]
    assert [document["gpu_model"] for document in documents] == [["a100"], ["t4"], None, "t4"]
    assert made.by_models == ["1 j", "2 j"]
    assert [name for name in made.server(nodes[0])["capacity"] if name.startswith("node")] == [
        "node in partition p"
    ]


def test_features_that_are_gpu_models() -> None:
    """They stand in gpu_model; of other features it is said that the plan does not look at them."""
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
            0.0,
            {"p"},
            features=frozenset(own),
        )
        for name, model, own in zip("abht", ("a100", "a100", "h100", "t4"), features, strict=True)
    )
    wishes = ("a100|h100", "h100&nvlink", "nvlink", "[a100|h100]", "(a100|h100)&nvlink", None, "none")
    records = [record(k, features=wish) for k, wish in enumerate(wishes)]
    records += [record(7, on="t", features="a100")]
    made = Cluster(nodes, tuple(records), SlurmOptions(nodes=Path("n"), queue=Path("q")))
    found = [made.document_of(job)["gpu_model"] for job in made.jobs]
    assert found == [["a100", "h100"], ["h100"], None, None, None, None, None, "t4"]
    (sentence,) = (sentence for sentence in ignored(made) if "features" in sentence)
    assert sentence.startswith("5 jobs ask for features of nodes")
    assert not any(name.startswith("node") for name in made.server(nodes[0])["capacity"])


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
    made = cluster(*running, record(9, requeue=False))
    found = [made.document_of(job).get("movable") for job in made.jobs]
    assert found == [None, None, False, False, False, False, None]


def test_shares_by_node_are_on_nodes_of_their_own() -> None:
    """Where a node could hold two; not where GPUs are asked for in all, nor where a share fills a node."""
    by_node = {"tres_per_node": "gres:gpu:2", "node_count": 2}
    records = [
        record(1, tres_req_str="cpu=2,node=2", **by_node),
        record(2, tres_req_str="cpu=2,node=2,gres/gpu=4", tres_per_job="gres:gpu:4", node_count=2),
        record(3, tres_req_str="cpu=2,node=2", **{**by_node, "tres_per_node": "gres:gpu:4"}),
    ]
    made = cluster(*records)
    first, *others = (made.document_of(job) for job in made.jobs)
    assert first["tasks"] == 2
    assert first["task_demand"]["node of its own: 1 j"] == 1
    assert not [name for job in others for name in job["task_demand"] if "of its own" in name]
    assert made.server(NODES[1])["free"]["node of its own: 1 j"] == 1


def test_worth_follows_priority() -> None:
    """Whichever way the numbers are written."""
    jobs = [record(1, priority=100), record(2, priority={"set": True, "infinite": False, "number": 200})]
    made = cluster(*jobs, value="priority")
    assert [made.document_of(job)["value"] for job in made.jobs] == [1.0, 1000.0]
    made = cluster(*jobs)
    assert [made.document_of(job)["value"] for job in made.jobs] == [1.0, 1.0]


def test_nodes_of_an_earlier_plan_are_no_wish() -> None:
    """The script of a plan marks the jobs whose nodes it has chosen."""
    needs = {"required_nodes": "b", "node_count": 1}
    made = cluster(record(1, **needs), record(2, **needs, admin_comment="clusterplan"))
    assert [made.allowed(job) for job in made.jobs] == [{"b"}, {"a", "b"}]
