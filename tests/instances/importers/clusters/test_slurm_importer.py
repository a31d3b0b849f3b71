"""The Slurm importer: lists of nodes, amounts, both layouts of nodes, jobs, and broken documents."""

from __future__ import annotations

import copy
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sample_documents import JUNK, altered, faults, said

from clusterplan.instances.common.errors import InstanceError
from clusterplan.instances.common.hostlist import compress_hostlist, expand_hostlist
from clusterplan.instances.consolidation.instance import ConsolidationInstance, Server
from clusterplan.instances.consolidation.job import PlacementJob
from clusterplan.instances.importers.clusters.slurm import import_slurm
from clusterplan.instances.importers.clusters.slurm_jobs import (
    parse_gres,
    parse_tres,
)
from clusterplan.instances.importers.clusters.slurm_nodes import read_reservations
from clusterplan.planner.api import solve

# Lists of nodes


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", []),
        ("n1", ["n1"]),
        ("n[001-003,7],login", ["n001", "n002", "n003", "n7", "login"]),
        ("n[8-10]", ["n8", "n9", "n10"]),
        ("rack[1-2]-node[0-1].example", [f"rack{r}-node{n}.example" for r in (1, 2) for n in (0, 1)]),
        ("a, b", ["a", "b"]),
    ],
)
def test_published_lists(text: str, names: list[str]) -> None:
    """Ranges keep the width of their lower end; several brackets multiply."""
    assert expand_hostlist(text) == names


@pytest.mark.parametrize(
    "text",
    ["n[1-", "n]", "n[]", "n[a-b]", "n[3-1]", "n[[1]]", "a,,b", "a b", "n[1-99999]", "n[1-300]m[1-300]"],
)
def test_no_lists(text: str) -> None:
    """What is no list, or stands for too many nodes, is refused before it takes memory."""
    with pytest.raises(ValueError, match=r"^(is|has|stands for)"):
        expand_hostlist(text)


names = st.lists(
    st.builds(
        lambda prefix, number, width: f"{prefix}{number:0{width}d}",
        st.sampled_from(["n", "gpu-a", "r1c"]),
        st.integers(0, 1200),
        st.integers(1, 4),
    )
    | st.sampled_from(["login", "x1y"]),
    max_size=60,
)


@given(names)
def test_a_list_put_together_stands_for_the_same_names(names: list[str]) -> None:
    """Putting together and writing out gives each name once."""
    assert sorted(expand_hostlist(compress_hostlist(names))) == sorted(set(names))


def test_short_lists() -> None:
    """Numbers of one width become ranges."""
    assert compress_hostlist(["n3", "n1", "n2", "n10", "n7", "login"]) == "login,n[1-3,7],n10"


@given(st.text(alphabet="n1290-,[] x", max_size=30))
def test_any_text_is_a_list_or_a_value_error(text: str) -> None:
    """Nothing else comes out."""
    with suppress(ValueError):
        assert len(expand_hostlist(text)) <= 65_536


@pytest.mark.parametrize(
    ("text", "gpus"),
    [
        ("", {}),
        ("(null)", {}),
        ("N/A", {}),
        ("gpu", {"": 1}),
        ("gpu:4", {"": 4}),
        ("gpu:a100:4(S:0-1)", {"a100": 4}),
        ("tmpsize:7T,gpu:l40s:4(S:0-1),gpu:l40s:2(S:1),mps:400", {"l40s": 6}),
        ("gpu:a100:2(IDX:0,2-3),gpu:t4:0(IDX:N/A)", {"a100": 2, "t4": 0}),
        ("gres/gpu:a100:2", {"a100": 2}),
        ("gres:gpu:2", {"": 2}),
        ("gres/gpu=8", {"": 8}),
    ],
)
def test_generic_resources(text: str, gpus: dict[str, float]) -> None:
    """GPUs are counted by type; what stands in brackets and other resources are passed over."""
    assert parse_gres(text).gpus == gpus


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("gpu:a100:3(IDX:0,2-3)", (0, 2, 3)),
        ("gpu:a100:1(IDX:1),gpu:t4:2(IDX:4-5)", (1, 4, 5)),
        ("gpu:0(IDX:N/A)", ()),
        ("gpu:4(S:0-1)", ()),
        ("mps:10(IDX:0)", ()),
        ("gpu:1(IDX:-,1-,99999)", ()),
        ("", ()),
    ],
)
def test_numbers_of_gpus(text: str, numbers: tuple[int, ...]) -> None:
    """Ranges are written out; other resources and other brackets have none."""
    assert parse_gres(text).places == numbers


@pytest.mark.parametrize(
    ("text", "shards"),
    [
        ("gpu:a100:4,shard:a100:40(10/10,0/10)", 40),
        ("gres/shard:2", 2),
        ("gres:shard:2", 2),
        ("shard", 1),
        ("gpu:4", 0),
        ("(null)", 0),
    ],
)
def test_shards(text: str, shards: float) -> None:
    """Whatever type of GPU they are of."""
    assert parse_gres(text).shards == shards


def test_trackable_resources() -> None:
    """Memory is in MiB, whatever its unit."""
    text = "cpu=4,mem=16G,node=1,billing=4,gres/gpu=2,gres/gpu:a100=2,license/x=1"
    assert parse_tres(text) == {"cpu": 4, "mem": 16384, "node": 1, "gres/gpu": 2, "gres/gpu:a100": 2}
    assert parse_tres("mem=512") == {"mem": 512}
    assert parse_tres("mem=1.5T")["mem"] == 1.5 * 1024 * 1024
    with pytest.raises(ValueError, match="has the amount 'many'"):
        parse_tres("cpu=many")


# Documents, as the commands print them


def number(value: float) -> dict[str, Any]:
    return {"set": True, "infinite": False, "number": value}


UNSET = {"set": False, "infinite": False, "number": 0}


def node(name: str, states: Any = ("IDLE",), **over: Any) -> dict[str, Any]:
    return {
        "name": name,
        "hostname": name,
        "state": list(states),
        "partitions": ["gpu"],
        "cpus": 34,
        "effective_cpus": 32,
        "real_memory": 131072,
        "specialized_memory": 0,
        "alloc_cpus": 0,
        "alloc_memory": 0,
        "gres": "gpu:a100:4(S:0-1)",
        "gres_used": "gpu:a100:0(IDX:N/A)",
        "free_mem": number(120000),
        **over,
    }


def row(names: list[str], states: Any = ("IDLE",), partition: str = "gpu", **over: Any) -> dict[str, Any]:
    cpus = {"allocated": 0, "idle": 32, "total": 32 * len(names), "minimum": 32, "maximum": 32}
    return {
        "node": {"state": list(states)},
        "nodes": {"total": len(names), "hostnames": [], "nodes": names},
        "cpus": {**cpus, **over.pop("cpus", {})},
        "memory": {"minimum": 131072, "maximum": 131072, "allocated": over.pop("memory", 0)},
        "gres": {"total": "gpu:a100:4(S:0-1)", "used": "gpu:a100:0(IDX:N/A)", **over.pop("gres", {})},
        "partition": {"name": partition},
        **over,
    }


def job(identity: int, tres: str = "cpu=8,mem=64G,node=1,gres/gpu=2", **over: Any) -> dict[str, Any]:
    return {
        "job_id": identity,
        "name": f"train{identity}",
        "job_state": ["PENDING"],
        "state_reason": "Resources",
        "partition": "gpu",
        "nodes": "",
        "node_count": number(1),
        "tasks": number(1),
        "cpus": number(8),
        "tres_req_str": tres,
        "tres_alloc_str": "",
        "tres_per_node": "",
        "array_job_id": number(0),
        "array_task_id": UNSET,
        "array_task_string": "",
        "het_job_id": number(0),
        "gres_detail": [],
        "required_switches": 0,
        **over,
    }


def running(identity: int, nodes: str, tres: str, **over: Any) -> dict[str, Any]:
    state = {"job_state": ["RUNNING"], "nodes": nodes, "state_reason": "None"}
    return job(identity, tres, **{**state, "tres_alloc_str": tres, **over})


NODES = (node("n1"), node("n2"), node("n3"))


def imported(folder: Path, jobs: Any, nodes: Any = NODES, **options: Any) -> ConsolidationInstance:
    def written(name: str, key: str, data: Any) -> Path:
        document = {"meta": {}, key: list(data), "errors": []} if isinstance(data, tuple) else data
        text = document if isinstance(document, str) else json.dumps(document)
        (folder / name).write_text(text, encoding="utf-8")
        return folder / name

    key = "sinfo" if isinstance(nodes, tuple) and nodes and "node" in nodes[0] else "nodes"
    return import_slurm(written("nodes.json", key, nodes), written("queue.json", "jobs", jobs), **options)


def server(instance: ConsolidationInstance, name: str) -> Server:
    return next(server for server in instance.servers if server.name == name)


def only(instance: ConsolidationInstance) -> PlacementJob:
    (found,) = instance.jobs
    return found


# Nodes


@pytest.mark.parametrize(
    "states",
    [
        ["DOWN"],
        ["DOWN", "DRAIN"],
        ["DOWN", "NOT_RESPONDING"],
        ["IDLE", "RESERVED"],
        ["MIXED", "MAINTENANCE"],
        ["FAIL"],
        ["IDLE", "FAILED"],
    ],
)
def test_unusable_nodes_are_left_out(tmp_path: Path, states: list[str]) -> None:
    """A node that takes no jobs is left out and named; a running job on it stays."""
    nodes = (NODES[0], node("n2", states, alloc_cpus=8, gres_used="gpu:a100:2(IDX:0-1)"))
    instance = imported(tmp_path, (job(1), running(2, "n2", "cpu=8,node=1,gres/gpu=2")), nodes)
    assert [server.name for server in instance.servers] == ["n1"]
    assert [job.name for job in instance.jobs] == ["1 train1"]
    assert "1 node takes no jobs (state, or no partition) and is left out: n2." in said(instance)
    assert "1 running job holds a node that is left out; it stays where it is: 2 train2." in said(instance)


def test_drained_nodes_are_planned_empty_or_left_as_they_are(tmp_path: Path) -> None:
    """What cannot move holds what it has, and is named."""
    nodes = (NODES[0], node("n2", ["MIXED", "DRAIN"], alloc_cpus=16, gres_used="gpu:a100:3(IDX:0-2)"))
    stays = running(3, "n2", "cpu=8,node=1,gres/gpu=1") | {"requeue": False}
    jobs = (running(2, "n2", "cpu=8,node=1,gres/gpu=2"), stays, job(1))
    instance = imported(tmp_path, jobs, nodes)
    assert set(server(instance, "n2").available.values()) == {0}
    assert [(job.name, job.current) for job in instance.jobs] == [("2 train2", {"n2": 2}), ("1 train1", {})]
    assert "To be empty: 1 drained node (else --drained stay): n2." in said(instance)
    assert "a node that is left out or to be empty; it stays where it is: 3 train3." in said(instance)
    plan = {entry.job: entry for entry in solve(instance).plan or ()}
    assert plan["2 train2"].servers == {"n1": 2}
    left = imported(tmp_path, jobs, nodes, drained="stay")
    assert [job.name for job in left.jobs] == ["1 train1"]


@pytest.mark.parametrize(
    "states", [["IDLE", "CLOUD", "POWERED_DOWN"], ["MIXED", "PLANNED"], ["ALLOCATED", "COMPLETING"]]
)
def test_usable_nodes(tmp_path: Path, states: list[str]) -> None:
    """Nodes that can be powered up, are planned for, or have a job that ends, take jobs."""
    assert len(imported(tmp_path, (job(1),), (node("n1", states),)).servers) == 1


# Jobs


@pytest.mark.parametrize(
    ("given", "tasks", "demand"),
    [
        # By node: a share for each of two nodes.
        (
            {
                "tres": "cpu=16,mem=64G,node=2,gres/gpu=8",
                "tres_per_node": "gres/gpu:4",
                "node_count": number(2),
            },
            2,
            {"cpu": 8, "memory_gib": 32, "gpu": 4},
        ),
        # By task.
        (
            {"tres": "cpu=8,mem=8G,node=1,gres/gpu=8", "tres_per_task": "gres/gpu:2", "tasks": number(4)},
            4,
            {"cpu": 2, "memory_gib": 2, "gpu": 2},
        ),
        # For the whole job: a share for each GPU.
        ({"tres": "cpu=16,mem=64G,node=1,gres/gpu=4"}, 4, {"cpu": 4, "memory_gib": 16, "gpu": 1}),
        # Shares that do not come out even become single GPUs.
        (
            {"tres": "cpu=6,node=2,gres/gpu=3", "tres_per_node": "gres/gpu:2"},
            3,
            {"cpu": 2, "gpu": 1},
        ),
        # Only the type is counted.
        ({"tres": "cpu=2,node=1,gres/gpu:a100=2"}, 2, {"cpu": 1, "gpu": 1}),
        # Memory that only older fields name.
        (
            {"tres": "cpu=2,node=1,gres/gpu=1", "memory_per_cpu": number(1024)},
            1,
            {"cpu": 2, "memory_gib": 2, "gpu": 1},
        ),
        # No GPU: the job's own tasks.
        ({"tres": "cpu=8,mem=8G,node=1", "tasks": number(4)}, 4, {"cpu": 2, "memory_gib": 2}),
    ],
)
def test_shares_of_a_job(tmp_path: Path, given: dict[str, Any], tasks: int, demand: dict[str, float]) -> None:
    """Equal shares that together demand what the job requests."""
    found = only(imported(tmp_path, (job(1, **given),), choice="all"))
    assert (found.tasks, found.task_demand) == (tasks, demand)
    assert found.worth == max(1, tasks * demand.get("gpu", 0))
    assert (found.must_place, found.current) == (False, {})


@pytest.mark.parametrize("field", ["tres_per_node", "tres_per_job", "tres_per_task", "tres_per_socket"])
def test_the_type_of_gpu_may_stand_beside_the_request(tmp_path: Path, field: str) -> None:
    """Where the request counts GPUs without a type, what they are asked by has it; two are not planned."""
    jobs = (
        job(1, "cpu=4,node=1,gres/gpu=1", **{field: "gres/gpu:h100:1"}),
        job(2, "cpu=4,node=1,gres/gpu=2", **{field: "gres:gpu:h100:1,gres:gpu:a100:1"}),
        job(3, "cpu=4,node=1,gres/gpu=1", **{field: "gres/gpu:1"}),
        job(4, "cpu=4,node=1,gres/gpu=1,gres/gpu:a100=1", **{field: "gres/gpu:1"}),
    )
    found = imported(tmp_path, jobs)
    assert [job.gpu_model for job in found.jobs] == ["h100", None, "a100"]
    assert solve(found).plan[0].reason is not None


def test_running_jobs(tmp_path: Path) -> None:
    """A running job has its shares where it runs, must stay placed, and what it holds counts as free."""
    jobs = (
        running(
            7,
            "n[1-2]",
            "cpu=8,mem=16G,node=2,gres/gpu=4",
            gres_detail=["gpu:a100:3(IDX:0-2)", "gpu:a100:1(IDX:0)"],
        ),
        job(8, "cpu=4,mem=4G,node=1,gres/gpu:a100=3", tres_per_node="gres/gpu:a100:3"),
    )
    nodes = (
        node("n1", ["MIXED"], alloc_cpus=6, alloc_memory=12288, gres_used="gpu:a100:3(IDX:0-2)"),
        node("n2", ["MIXED"], alloc_cpus=6, alloc_memory=8192, gres_used="gpu:a100:2(IDX:0-1)"),
    )
    instance = imported(tmp_path, jobs, nodes)
    first, second = instance.jobs
    assert (first.current, first.must_place, first.gpu_model) == ({"n1": 3, "n2": 1}, True, "a100")
    assert (second.current, second.must_place, second.gpu_model) == ({}, False, "a100")
    assert server(instance, "n1").free == {"cpu": 32, "memory_gib": 128, "gpu": 4}
    assert server(instance, "n2").free == {"cpu": 28, "memory_gib": 124, "gpu": 3}
    assert instance.objectives == ("value", "stops", "migrations", "spread", "servers")
    result = solve(instance)
    # Job 7 moves a share, which costs a quarter of an hour of its 4 GPUs.
    assert [record.value for record in result.objectives[:3]] == [6, 0, 1]


def test_a_job_that_needs_nodes_of_its_own_shares_none(tmp_path: Path) -> None:
    """It waits while anything runs on each node, planned or not; what else starts goes elsewhere."""
    alone = job(1, "cpu=4,node=1,gres/gpu=2", tres_per_node="gres/gpu:2", exclusive=["true"])
    nodes = (node("n1"), node("n2", alloc_cpus=8, gres_used="gpu:a100:1(IDX:0)"))
    jobs = (alone, job(2), running(3, "n2", "cpu=8,node=1,gres/gpu=1") | {"requeue": False})
    plan = {entry.job: entry.servers for entry in solve(imported(tmp_path, jobs, nodes)).plan or ()}
    assert plan == {"1 train1": {"n1": 1}, "2 train2": {"n2": 2}, "3 train3": {"n2": 1}}
    other = (alone, running(3, "n1", "cpu=8,node=1,gres/gpu=1") | {"requeue": False}, jobs[2] | {"job_id": 4})
    plan = {entry.job: entry.placed for entry in solve(imported(tmp_path, other, nodes)).plan or ()}
    assert plan["1 train1"] is False


def test_names_of_jobs(tmp_path: Path) -> None:
    """A name that cannot be printed, or is missing, is left away; each name stands once."""
    jobs = (job(1, name="a\x07"), job(2, name=None), job(3, name="x" * 300), job(3))
    names = [job.name for job in imported(tmp_path, jobs).jobs]
    assert names[:2] == ["1", "2"]
    assert len(names[2]) == 150
    same = [job.name for job in imported(tmp_path, (job(3), job(3))).jobs]
    assert same == ["3 train3", "3 train3 (2)"]


# Broken documents


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"nodes": "{"}, "nodes.json: line 1, column 2: is not valid JSON"),
        ({"nodes": {"nodes": {}}}, "nodes.json: nodes: is {}, which is not a list"),
        ({"nodes": {"sinfo": [{}]}}, "nodes.json: sinfo[0].node: is missing"),
        ({"nodes": ()}, "nodes.json: has no node that takes jobs; 0 are left out for their state"),
        (
            {"nodes": (node("n1"), node("n1"))},
            "nodes[1].name: 'n1' is listed twice; each node may stand once",
        ),
        ({"nodes": (node("n1", cpus="many"),)}, "nodes[0].cpus: is 'many', not a number from 0 to 1e15"),
        ({"nodes": (node("n1", cpus=-1),)}, "nodes[0].cpus: is -1, not a number from 0 to 1e15"),
        ({"nodes": (node("n1", gres="gpu:a100:x"),)}, "nodes[0].gres: has the amount 'x'"),
        ({"nodes": (row(["n[1-"]),)}, "sinfo[0].nodes.nodes: is not a list of nodes"),
        (
            {"nodes": {"jobs": [job(1)]}, "jobs": {"nodes": []}},
            "nodes.json: the first file lists jobs; nodes are wanted",
        ),
        ({"jobs": {"nodes": []}}, "queue.json: the second file lists nodes; jobs are wanted"),
        ({"jobs": "[]"}, "queue.json: has no 'jobs'; give what squeue --json prints"),
        (
            {"jobs": (job(1, "cpu=8"),)},
            "and asks for a GPU (--plan all plans the others); of 1 job: asking for no GPU 1",
        ),
        ({"jobs": (job(1, tres="cpu=x"),)}, "jobs[0].tres_req_str: has the amount 'x'"),
        ({"jobs": (job(1, nodes="n[1"),)}, "jobs[0].nodes: is not a list of nodes"),
        ({"jobs": (job(1, job_state=5),)}, "jobs[0].job_state: is 5, which is not a list"),
        ({"choice": "some"}, "options: choice: is 'some'; allowed: 'gpu' or 'all'"),
        (
            {"partitions": ["no"], "nodes": (node("n1"), node("n2", partitions=["long", "gpu"]))},
            "has no node that takes jobs in partition no; 0 are left out for their state; there are the "
            "partitions gpu, long",
        ),
        (
            {"partitions": ["long"], "nodes": (node("n1", partitions=["long"]),)},
            "runs and asks for a GPU in partition long; of 1 job: in another partition 1; there are the "
            "partitions gpu",
        ),
    ],
)
def test_bad_documents_and_options(tmp_path: Path, options: dict[str, Any], expected: str) -> None:
    """A fault names the file, the place, what is wrong and what is allowed."""
    found = faults(lambda: imported(tmp_path, **{"jobs": (job(1),), **options}))
    assert any(expected in fault for fault in found), found


DOCUMENTS = {
    "nodes": {"nodes": [node("n1"), node("n2", ["MIXED"], partitions=["long"])]},
    "sinfo": {"sinfo": [row(["n1"]), row(["n[2-3]"], partition="long")]},
    "jobs": {
        "jobs": [
            job(1, array_job_id=number(1), array_task_string="1-3", excluded_nodes="n1"),
            running(2, "n[1-2]", "cpu=8,mem=16G,node=2,gres/gpu:a100=4", gres_detail=["gpu:2", "gpu:2"]),
        ]
    },
}
junk = st.sampled_from(
    [
        *JUNK,
        "n[1-9",
        "gpu:9",
        "cpu=0,gres/gpu=7",
        "gpu:1g.5gb:999999999999999999",
        "gpu:2,shard:999999999999999999",
        "cpu=0,gres/shard=7",
        UNSET,
    ]
)


def with_parts_of_gpus() -> dict[str, Any]:
    """Return a cluster where jobs ask for shards and partitions."""
    documents = copy.deepcopy(DOCUMENTS)
    shards = {"gres": "gpu:a100:2,shard:20", "gres_used": "gpu:a100:0,shard:7(4/10,3/10)"}
    documents["nodes"]["nodes"] += [node("s", **shards), node("m", gres="gpu:1g.5gb:7,gpu:2g.10gb:1")]
    documents["sinfo"]["sinfo"].append(
        row(["s"], gres={"total": shards["gres"], "used": shards["gres_used"]})
    )
    documents["jobs"]["jobs"] += [
        running(3, "s", "cpu=1,node=1,gres/shard=4"),
        job(4, "cpu=1,node=1", tres_per_node="gres/shard:2"),
        job(5, "cpu=1,node=1,gres/gpu:1g.5gb=2"),
    ]
    return documents


CLUSTERS = (DOCUMENTS, with_parts_of_gpus())


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.data(),
    st.sampled_from(CLUSTERS),
    st.sampled_from(["nodes", "sinfo"]),
    st.sampled_from(["gpu", "all"]),
)
def test_whatever_the_documents_hold(
    tmp_path: Path, data: st.DataObject, cluster: Any, layout: str, choice: Any
) -> None:
    """With any fields altered the cluster is imported or refused; nothing else can come out."""
    documents = altered(data, cluster, junk)
    with suppress(InstanceError):
        assert imported(tmp_path, documents["jobs"], documents[layout], choice=choice).jobs


def test_a_cluster_with_parts_of_gpus_is_imported(tmp_path: Path) -> None:
    """The one whose fields are altered; what of shards no job of the queue holds is taken."""
    documents = with_parts_of_gpus()
    instance = imported(tmp_path, documents["jobs"], documents["nodes"])
    assert instance.has_devices
    assert [server.name for server in instance.servers] == ["n1", "n2", "s", "m"]
    assert [job.name.split()[0] for job in instance.jobs] == ["1_1", "1_2", "1_3", "2", "3", "4", "5"]
    shared = server(instance, "s").devices
    assert shared is not None
    assert [row.share for row in shared["gpu"].taken or ()] == [300]


@pytest.mark.parametrize(
    ("text", "nodes"),
    [
        ("No reservations in the system\n", set()),
        ("ReservationName=a StartTime=2026-11-26T20:00:00\n   Nodes=n1 NodeCnt=1 Flags=SPEC_NODES\n", {"n1"}),
        (
            "ReservationName=a\n   Nodes=n[1-2] NodeCnt=2\n\nReservationName=b\n   Nodes=(null)\n",
            {"n1", "n2"},
        ),
        ('{"reservations": [{"name": "a", "node_list": "n[2-3]"}]}', {"n2", "n3"}),
    ],
)
def test_no_job_starts_on_a_reserved_node(tmp_path: Path, text: str, nodes: set[str]) -> None:
    """What runs there may stay."""
    (tmp_path / "reservations.txt").write_text(text)
    assert read_reservations(tmp_path / "reservations.txt") == nodes
    instance = imported(
        tmp_path,
        (job(1), job(2, job_state="RUNNING", nodes="n1", node_count=1)),
        (node("n1"), node("n2"), node("n3")),
        reservations=tmp_path / "reservations.txt",
    )
    waits, runs = instance.jobs
    for place in instance.servers:
        held = runs.task_groups[0].demand if place.name == "n1" else {}
        demand = waits.task_groups[0].demand
        fits = all(place.available[name] - 2 * held.get(name, 0) >= need for name, need in demand.items())
        assert fits == (place.name not in nodes)
    assert runs.current == {"n1": 2}
    assert (runs.movable is False) == ("n1" in nodes)
    assert solve(instance).status == "optimal"


@pytest.mark.parametrize("text", ["", "Nodes=n1", "ReservationName=a Nodes=n[1-"])
def test_other_reservations_are_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "r.txt").write_text(text)
    with pytest.raises(InstanceError, match=r"reservations|Nodes="):
        read_reservations(tmp_path / "r.txt")
