"""What the page of a placement shows.

Servers as bars of what each job takes.
"""

from __future__ import annotations

import pytest
from placements import job, placement, server

import clusterplan
from clusterplan.formulations.consolidation.plan import JobPlacement
from clusterplan.planner.consolidation.page import Servers, consolidation_parts

INSTANCE = placement(["value"], [{**server(gpu=2), "count": 2}], [job("a", 2), job("b", 2), job("c", 3)])


def test_the_parts_of_a_page() -> None:
    """Servers in use, who waits and why, every job."""
    parts = consolidation_parts(INSTANCE, clusterplan.solve(INSTANCE))
    assert dict(parts["summary"]) == {"jobs placed": "2 of 3", "servers used by the plan": "2 of 2"}
    assert parts["bars"] == [("gpu", 1.0, "4 of the 4 that were free")]
    assert parts["detailed"] == 2
    assert parts["states"] is None
    assert len(parts["jobs"].rows) == 3
    assert parts["waiting"] is not None
    assert ("waiting", "Who waits, and why") in parts["sections"]


def test_without_a_plan_there_is_little_to_show() -> None:
    """Only what was asked."""
    jobs = [{**job("a", 9), "must_place": True}]
    instance = placement(["value"], [server(gpu=2)], jobs)
    parts = consolidation_parts(instance, clusterplan.solve(instance))
    assert parts["sections"] == []
    assert ("servers", "1") in parts["about"]


SERVERS_INSTANCE = placement(
    ["value"],
    [{**server("n", gpu=4, cpu=8), "free": {"gpu": 3, "cpu": 8}, "rack": "r1"}, server("m", gpu=4)],
    [job("a", 2, {"gpu": 1, "cpu": 2})],
)
SERVERS = Servers(SERVERS_INSTANCE, [JobPlacement(job="a", servers={"n": 2})])


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
    shown = Servers(placement(["value"], [server(name, gpu=1) for name in names], [job("a", 1)]), [])
    assert [shown.label(name) for name in names] == labels
