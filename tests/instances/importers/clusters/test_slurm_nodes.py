"""Nodes as scontrol and sinfo print them.

Dumps of Slurm clusters with shards and partitions, and the instances that they become.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from sample_documents import said, solved

from clusterplan.instances.common.errors import InstanceError
from clusterplan.instances.consolidation.instance import ConsolidationInstance
from clusterplan.instances.importers.clusters.slurm import import_slurm
from clusterplan.instances.importers.clusters.slurm_nodes import (
    SlurmNode,
    gpu_model_of,
    partition_of,
    read_nodes,
)
from clusterplan.planner.api import solve

NODE = {
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
    (node,) = read(tmp_path, {"nodes": [NODE | {"specialized_memory": 96}]})
    assert (node.cpus, node.memory_mib, node.gpus, node.used_cpus) == (8, 4000, {"a100": 4}, 2)
    assert (node.usable, gpu_model_of(node, keep_partitions=True)) == (True, "a100")
    (down,) = read(tmp_path, {"nodes": [NODE | {"state": ["DOWN*"]}]})
    assert not down.usable


def test_rows_of_sinfo(tmp_path: Path) -> None:
    """What nodes of one row hold is only known where the row has one node, or holds nothing."""
    row = {"node": {"state": ["MIXED"]}, "nodes": {"nodes": ["n[1-2]"]}, "partition": {"name": "p*"}}
    row |= {"cpus": {"minimum": 8, "allocated": 6}, "memory": {"minimum": 100, "allocated": 50}, "gres": {}}
    nodes = read(tmp_path, {"sinfo": [row]})
    assert [(node.name, node.used_cpus, node.partitions) for node in nodes] == [
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
        ({"nodes": [NODE, NODE]}, "'n1' is listed twice"),
    ):
        with pytest.raises(InstanceError, match=words):
            read(tmp_path, document)


def node(name: str, gres: str, used: str = "", **over: Any) -> dict[str, Any]:
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
    nodes = [node("n1", SHARDS), node("odd", "gpu:4,shard:10"), node("new", "gpu:1g.18gb:7")]
    instance = imported(tmp_path, nodes, [job(1, "gres/shard=2")])
    assert devices(instance) == {"n1": (4, None, []), "new": (7, None, [])}
    assert "odd (has 10 shards, which are not the same on each of 4 GPUs)" in said(instance)
    assert "for the geometry of some is not known: new (has 1g.18gb)" in said(instance)


def test_partitions_that_are_kept_are_a_resource_of_their_type(tmp_path: Path) -> None:
    """A job that names no type goes where there is one type only, for Slurm might give it any."""
    nodes = [
        node("n1", "gpu:a100:1,gpu:a100_3g.20gb:2", "gpu:a100_3g.20gb:1"),
        node("n2", "gpu:a100:2"),
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
    instance = imported(tmp_path, [node("n1", SHARDS), node("n2", SHARDS)], jobs)
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
        imported(tmp_path, [node("n1", SHARDS)], jobs)
