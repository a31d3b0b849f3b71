"""A snapshot of a cluster, whatever manages it: what is free, what runs, what a job is worth."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from clusterplan.instances.importers.clusters.device_inventory import NO_DEVICES
from clusterplan.instances.importers.clusters.snapshot import (
    RULES,
    WHOLE_NODE,
    ClusterSnapshot,
    SnapshotNode,
    TaskGroup,
    Workload,
    job_value_note,
    priority_weights,
    worths,
)

NODES = frozenset("abc")


def workload(name: str, on: str | None = None, nodes: frozenset[str] = NODES, **fields: Any) -> Workload:
    """Return a workload of two tasks of one GPU each."""
    group = TaskGroup("tasks", {"gpu": 1.0}, nodes, {on: 2}, lambda: "node with a label")
    return Workload(name, [group], 2.0, None, on is not None, **fields)


def snapshot(*workloads: Workload, **changes: Any) -> ClusterSnapshot:
    """Return three nodes of four GPUs, of which others hold one on a; changes are of that node."""
    first = SnapshotNode("a", {"gpu": 4.0}, {"gpu": 1.0}, **{"others": ["other"], **changes})
    return ClusterSnapshot(
        [first, *(SnapshotNode(name, {"gpu": 4.0}, {}) for name in "bc")],
        workloads,
        NO_DEVICES,
        "gpus",
        "free",
    )


def test_what_runs_keeps_its_place_and_what_others_hold_is_not_free() -> None:
    made = snapshot(workload("runs", "a"), workload("waits"))
    instance = made.instance("x", "a test", ["An assumption."], Path("x"))
    assert [server.free for server in instance.servers] == [{"gpu": 3.0}, {"gpu": 4.0}, {"gpu": 4.0}]
    assert instance.servers[0].others == ("other",)
    assert [(job.name, job.must_place, job.value) for job in instance.jobs] == [
        ("runs", True, 2.0),
        ("waits", False, 2.0),
    ]
    assert instance.restart_cost_h == 0.25
    assert snapshot(workload("waits")).instance("x", "", [], Path("x")).restart_cost_h is None


def test_the_use_that_a_node_lists_counts_but_for_planned_tasks() -> None:
    """It lists three GPUs in use, of which planned tasks hold two; whoever holds the third."""
    servers = snapshot(workload("runs", "a"), used={"gpu": 3.0}).servers()
    assert [server["free"]["gpu"] for server in servers] == [3.0, 4.0, 4.0]
    servers = snapshot(workload("runs", "a"), used={"gpu": 9.0}).servers()
    assert servers[0]["free"] == {"gpu": 2.0}


def test_a_choice_of_nodes_and_nodes_of_a_jobs_own_are_resources() -> None:
    made = snapshot(workload("here", nodes=frozenset("a")), workload("alone", exclusive=True))
    assert made.made_up == ["node with a label", WHOLE_NODE]
    a, b, _ = made.servers()
    assert (a["free"]["node with a label"], b["free"]["node with a label"]) == (2.0, 0.0)
    assert (a["free"][WHOLE_NODE], b["free"][WHOLE_NODE]) == (999.0, 1000.0)
    here, alone = made.jobs()
    assert here["task_demand"] == {"gpu": 1.0, "node with a label": 1.0, WHOLE_NODE: 1.0}
    assert alone["task_demand"] == {"gpu": 1.0, WHOLE_NODE: 1000.0}


def test_a_running_job_keeps_its_whole_node_where_the_node_lists_more_use_than_its_own() -> None:
    made = snapshot(workload("alone", "a", exclusive=True), used={"gpu": 2.5}, others=[])
    made.nodes[0].foreign = {}
    assert made.servers()[0]["free"] == {"gpu": 3.5, WHOLE_NODE: 1000.0}


def test_a_node_to_be_empty_has_what_stays_there() -> None:
    """And nothing where nothing stays."""
    stays = workload("stays", "a", stays="interactive")
    empty = snapshot(workload("moves", "a"), emptied=True).servers()[0]
    assert empty["free"] == {"gpu": 0.0}
    full = snapshot(workload("moves", "a"), stays, emptied=True)
    assert full.servers()[0]["free"] == {"gpu": 2.0}
    assert [job["movable"] for job in full.jobs()] == [None, False]


def test_priorities_are_put_on_one_scale() -> None:
    """Whatever their scale is; who has none counts as the lowest."""
    assert priority_weights([10, 20, 15, None]) == [1.0, 1000.0, 500.5, 1.0]
    assert priority_weights([-100, 2_000_000_000]) == [1.0, 1000.0]
    assert priority_weights([4294901759, 4294901758]) == [1000.0, 1.0]
    assert priority_weights([7, 7]) == [1.0, 1.0]
    assert priority_weights([None]) == [1.0]


def test_worth_by_each_rule() -> None:
    """One that asks for no GPU counts as one GPU."""
    gpus, priorities = [8.0, 0.0, 1.0], [0.0, 5.0, 10.0]
    by = {rule: worths(rule, gpus, priorities) for rule in RULES}
    assert by["gpus"] == [8.0, 1.0, 1.0]
    assert by["priority"] == [1.0, 500.5, 1000.0]
    assert by["priority-then-gpus"] == [8.0, 500.5, 1000.0]


def test_a_gpu_goes_to_the_highest_priority() -> None:
    """One job of 8 GPUs is worth more than 8 of lower priority with one each."""
    big, *small = worths("priority-then-gpus", [8.0] + [1.0] * 8, [1000.0] + [900.0] * 7 + [0.0])
    assert big > sum(small)


def test_the_sentence_says_the_scale_and_who_has_none() -> None:
    """With the figures as the cluster has them."""
    assert job_value_note("gpus", ["a"], [1.0]).startswith("A job is worth the GPUs")
    said = job_value_note("priority", ["a", "b", "c"], [100.0, 2000.0, None])
    assert "the lowest, 100, counts 1, the highest, 2,000, counts 1,000" in said
    assert said.endswith("counted as the lowest: c.")
    assert "for each GPU" in job_value_note("priority-then-gpus", ["a"], [1.0])
    assert "all are the same" in job_value_note("priority", ["a"], [1.0])
