"""Consolidation plans as people read them, in tables and on a page."""

from __future__ import annotations

import pytest
from device_instances import gpus, job, placement, server, sharing

import clusterplan
from clusterplan.formulations.consolidation.fewest_servers import pooled_relaxation
from clusterplan.formulations.consolidation.plan import JobPlacement
from clusterplan.instances.consolidation.devices import DeviceDemand, DeviceSlot
from clusterplan.planner.changes import leading_resource
from clusterplan.planner.consolidation.kind import CONSOLIDATION
from clusterplan.planner.consolidation.page import ClusterUsage, consolidation_parts
from clusterplan.planner.consolidation.plan import (
    actions,
    as_data,
    bracketed_devices,
    columns,
    devices_text,
    notes,
    partitions,
)
from clusterplan.planner.registry import KINDS
from clusterplan.planner.reports.result_page import plan_page
from clusterplan.planner.reports.text import cells_of

INSTANCE = placement(
    ["value"], [server("n", gpu=2)], [job("a", 2, value=1, current={"n": 2}), job("b", 1), job("c", 1)]
)

PLAN = (
    JobPlacement(job="a", servers={"n": 2}, action="keep"),
    JobPlacement(job="b", placed=False, reason="waits: full", action="wait"),
    JobPlacement(job="c", placed=False, reason="waits: full", action="wait"),
)


def test_the_table_says_where_or_why_not() -> None:
    """With a column of actions where jobs run now."""
    assert [title for title, *_ in columns(None, PLAN)] == ["job", "action", "where, or why not"]
    assert cells_of(columns(None, PLAN), PLAN)[0] == ["a", "keep", "2×n"]
    assert cells_of(columns(None, PLAN), PLAN)[1] == ["b", "wait", "waits: full"]
    assert columns(None, [JobPlacement(job="a", servers={"n": 2})])[1][:2] == ("placed", False)
    groups = JobPlacement(job="a", groups={"ps": {"n": 1}, "worker": {"n": 1}})
    assert cells_of(columns(None, [groups]), [groups]) == [["a", "yes", "ps: 1×n; worker: 1×n"]]


def test_notes_count_actions_and_reasons() -> None:
    """The reasons only where the table does not show every job."""
    result = clusterplan.solve(INSTANCE)
    assert list(notes(result, 3)) == ["jobs: 2 to start, 1 to stop"]
    few = list(notes(result, 1))
    assert few[1] == "1 of 3 jobs are not placed"
    assert few[2].startswith("  1 × would be stopped where it runs now (n)")


ACTIONS_INSTANCE = placement(
    ["migrations"],
    [server("n", gpu=4), server("m", gpu=4)],
    [job("stays", 1, current={"n": 1}), job("moves", 2, current={"n": 2}), job("ends", 1, current={"m": 1})],
)
ACTIONS_PLAN = [
    JobPlacement(job="stays", servers={"n": 1}, action="keep"),
    JobPlacement(job="moves", servers={"n": 1, "m": 1}, action="move"),
    JobPlacement(job="ends", placed=False, action="stop"),
]


def test_moves_between_devices_name_the_server() -> None:
    """Where they count; nothing leaves it."""
    entry = JobPlacement(job="moves", servers={"n": 2}, action="move")
    assert list(actions(ACTIONS_INSTANCE, [entry])) == ["to move: moves: to other devices of n"]


DEVICES = placement(
    ["value"],
    [gpus("n", 4, geometry="a100-40")],
    [
        job("w", 1, {"cpu": 1}, devices={"gpu": 2}),
        job("p", 1, {"cpu": 1}, profile={"gpu": "4g.20gb"}, value=1),
        sharing("s", 455, 1, tasks=2),
    ],
)
DEVICES_PLAN = (
    JobPlacement.model_validate(
        {"job": "w", "servers": {"n": 1}, "devices": {"tasks": {"n": [{"gpu": [0, 1]}]}}}
    ),
    JobPlacement.model_validate(
        {"job": "p", "servers": {"n": 1}, "devices": {"tasks": {"n": [{"gpu": {"device": 2, "slot": 0}}]}}}
    ),
)
SHARED = JobPlacement.model_validate(
    {"job": "s", "servers": {"n": 2}, "devices": {"tasks": {"n": [{"gpu": [3]}, {"gpu": [3]}]}}}
)


def test_words() -> None:
    """Several devices of a task, the slot of a partition, and not all of many tasks."""
    assert devices_text([{"gpu": (0, 1), "npu": (3,)}, {"gpu": DeviceSlot(device=2, slot=4)}]) == (
        "gpu 0+1, npu 3; gpu 2 slot 4"
    )
    assert devices_text([{"gpu": (0,)}] * 9) == "gpu 0; gpu 0; gpu 0; gpu 0; 5 more"
    assert bracketed_devices(None, "tasks", "n") == ""
    asks = {"gpu": DeviceDemand(share=455), "npu": DeviceDemand(profile="half"), "tpu": DeviceDemand(whole=1)}
    task = {"gpu": (0,), "npu": DeviceSlot(device=1, slot=4), "tpu": (2,)}
    assert devices_text([task], asks) == "gpu 0 (45.5 %), npu 1 slot 4 (half), tpu 2"


def test_partitions_of_servers() -> None:
    """Those that the entries need; other servers are not named."""
    jobs = {job.name: job for job in DEVICES.jobs}
    assert partitions([*DEVICES_PLAN, SHARED, DEVICES_PLAN[1]], jobs) == {"n": {"4g.20gb": 2}}


def test_the_table_and_the_data_name_devices() -> None:
    """Beside the server; the data has them as the plan has."""
    assert [row[2] for row in cells_of(columns(None, DEVICES_PLAN), DEVICES_PLAN)] == [
        "1×n (gpu 0+1)",
        "1×n (gpu 2 slot 0)",
    ]
    data = as_data(DEVICES, DEVICES_PLAN)
    assert data["devices"]["p"] == {"tasks": {"n": ({"gpu": {"device": 2, "slot": 0}},)}}
    assert "devices" not in as_data(DEVICES, [JobPlacement(job="w", placed=False)])


def test_the_page_shows_devices_as_amounts() -> None:
    """A bar for the GPUs, of which 3.41 are in use, and the devices in the table of jobs."""
    result = clusterplan.solve(DEVICES, solver="exact")
    parts = consolidation_parts(DEVICES, result)
    bars = {name: words for name, _, words in parts["bars"]}
    assert bars["gpu"] == "3.41 of the 4 that were free"
    assert "gpu" in str(parts["jobs"].rows)
    # Ruled slots would be taken for devices.
    assert parts["on_devices"]
    page = plan_page(DEVICES, result)
    assert "--n:1" in page
    assert "--n:4" not in page


def test_gpus_lead_as_devices_and_beside_choices_of_servers() -> None:
    """Words that stand for a choice of servers are no GPUs."""
    devices = {"gpu": {"count": 4}}
    capacity = {"cpu": 8, "toleration for taint nvidia.com/gpu:NoSchedule": 1}
    servers = [{"name": "n", "capacity": capacity, "devices": devices}]
    asking = {"name": "a", "tasks": 1, "task_demand": {"cpu": 1}, "devices": {"gpu": 2}}
    drawn = ClusterUsage(pooled_relaxation(placement(["value"], servers, [asking])), ())
    assert (drawn.resource, drawn.total["gpu"]) == ("gpu", [4.0, 0.0, 0.0])
    # GPUs that no job asks for do not lead.
    without = placement(["value"], servers, [job("a", 1, {"cpu": 1})])
    assert ClusterUsage(pooled_relaxation(without), ()).resource == "cpu"
    # A resource that the document calls a restriction counts for nothing, and others in words do.
    capacity |= {"gpu licence": 2, "gpu disk": 2}
    servers = [{"name": "n", "capacity": capacity}]
    known = placement(["value"], servers, [job("a", 1, capacity)])
    known = known.model_copy(update={"restrictions": tuple([*capacity][1:3])})
    drawn = ClusterUsage(known, [JobPlacement(job="a", servers={"n": 1})])
    assert (drawn.resource, [*drawn.total]) == ("gpu disk", ["cpu", "gpu disk"])
    assert leading_resource(["cpu", "nvidia.com/mig-1g.5gb"]) == "nvidia.com/mig-1g.5gb"


def test_its_formats() -> None:
    """Plans go to Slurm and Kubernetes; rows of a plan are jobs."""
    assert KINDS["consolidation"] is CONSOLIDATION
    forms = {"slurm", "slurm-options", "kubernetes", "kubernetes-affinity"}
    assert set(CONSOLIDATION.formats) == forms
    assert CONSOLIDATION.rows_of_plan == "jobs"


SERVERS_INSTANCE = placement(
    ["value"],
    [{**server("n", gpu=4, cpu=8), "free": {"gpu": 3, "cpu": 8}, "rack": "r1"}, server("m", gpu=4)],
    [job("a", 2, {"gpu": 1, "cpu": 2})],
)
SERVERS = ClusterUsage(SERVERS_INSTANCE, [JobPlacement(job="a", servers={"n": 2})])


def test_a_row_for_each_server() -> None:
    """Four GPUs: two of the plan, one of others, one free."""
    row = SERVERS.rows["n"]
    assert (row.capacity, row.taken, row.used, row.free) == (4, 1, 2, 1)
    assert row.busy == pytest.approx(0.75)
    assert SERVERS.total == {"gpu": [8, 1, 2], "cpu": [8, 0, 4]}


def test_the_parts_of_a_bar_are_the_whole_bar() -> None:
    """Job, what is free, what others hold."""
    parts = SERVERS.segments(SERVERS.rows["n"])
    assert [part.label for part in parts] == ["a", "", ""]
    assert sum(part.share for part in parts) == pytest.approx(1)
    assert parts[-1].taken


def test_a_server_that_is_to_be_empty_is_not_taken_by_others() -> None:
    """What it has free is said to be none for tasks, and counts as free."""
    drained = SERVERS_INSTANCE.model_copy(update={"drain": ("n",)})
    servers = ClusterUsage(drained, [])
    row = servers.rows["n"]
    assert (row.capacity, row.taken, row.free, row.drained) == (4, 1, 3, True)
    assert [part.words for part in servers.segments(row)] == ["to be empty: 3 gpu", "taken by others: 1 gpu"]
    assert not servers.rows["m"].drained


def test_what_is_assumed_stands_at_the_job_that_is_placed() -> None:
    """On the page; instance-wide assumptions are folded."""
    said = {"assumed": ["Its licence is not planned.", "It is alone."]}
    instance = placement(["value"], [server(gpu=2)], [{**job("a", 2), **said}, {**job("b", 2), **said}])
    instance = instance.model_copy(update={"assumptions": ("One <b>.", "Two.")})
    result = clusterplan.solve(instance)
    found = [row[-1].note for row in consolidation_parts(instance, result)["jobs"].rows]
    assert sorted(found) == ["", "Its licence is not planned. It is alone."]
    page = plan_page(instance, result)
    assert "<small>Its licence is not planned. It is alone.</small>" in page
    assert "<details><summary>2 assumptions</summary>" in page
    assert "<li>One &lt;b&gt;.</li>" in page


def test_racks_and_the_servers_that_are_only_counted() -> None:
    """Servers without a rack stand together; equal ones are one row of the table."""
    assert {name: len(rows) for name, rows in SERVERS.racks().items()} == {"r1": 1, "": 1}
    assert SERVERS.title("r1", [SERVERS.rows["n"]]) == "rack r1: 1 server, 3 of 4 gpu in use"
    table = SERVERS.states_table([SERVERS.rows["m"], SERVERS.rows["m"]])
    assert len(table.rows) == 1


@pytest.mark.parametrize(
    ("names", "labels"),
    [
        (["gpu-001", "gpu-002"], ["gpu-001", "gpu-002"]),
        (
            ["ip-10-0-1-7.us-east-2.compute.internal", "ip-10-0-1-17.us-east-2.compute.internal"],
            ["ip-10-0-1-7", "ip-10-0-1-17"],
        ),
        (
            ["aks-nodepool1-11791983-vmss00000a", "aks-agentpool-20176621-vmss000000"],
            ["aks-nod…vmss00000a", "aks-age…vmss000000"],
        ),
        (["n.of.one.server.alone"], ["n.of.on…rver.alone"]),
    ],
)
def test_long_names_are_cut_where_they_are_alike(names: list[str], labels: list[str]) -> None:
    """Clouds name servers by pool and number, or by address and domain."""
    shown = ClusterUsage(placement(["value"], [server(name, gpu=1) for name in names], [job("a", 1)]), [])
    assert [shown.label(name) for name in names] == labels
