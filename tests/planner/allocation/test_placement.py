"""Plans on servers as a table, on a page, and what is assumed of the time that they save."""

from __future__ import annotations

from typing import Any

import pytest
from allocation_instances import on_servers, planned, ring, tasks

import clusterplan
from clusterplan.instances.allocation.generate import generate_allocation
from clusterplan.planner.allocation.placement import placement_text, remarks, servers_in_use
from clusterplan.planner.allocation.plan import allocation_parts, as_data, columns
from clusterplan.planner.reports.result_page import plan_page
from clusterplan.planner.reports.text import cells_of
from clusterplan.solvers.common.result import Result

SERVERS: list[dict[str, Any]] = [
    {"name": "s", "count": 2, "capacity": {"gpu": 4, "cpu": 4}, "rack": "r"},
    {"name": "big", "capacity": {"gpu": 8, "cpu": 8}, "free": {"gpu": 6, "cpu": 8}},
]
INSTANCE = on_servers(SERVERS, {"a": {}, "b": {}, "c": {"optional": True, "unplaced_s": 99}})
PLAN = planned(INSTANCE, a=tasks({"s-0": 1}, **{"s-0": 2, "s-1": 1}), b=tasks(big=6), c=None)


def result_of(plan: tuple[Any, ...]) -> Result:
    """Return a result with a plan that no solver has found."""
    other = clusterplan.solve(generate_allocation(2, 1, seed=1))
    return other.model_copy(update={"plan": plan, "instance_sha256": INSTANCE.sha256(), "prices": None})


def test_the_last_column_says_where_tasks_are() -> None:
    """Only of plans that say so; of many servers only the first are named, and plain data has them all."""
    assert [row[-1] for row in cells_of(columns(None, PLAN), PLAN)] == [
        "s-0: 1 ps + 2 w, s-1: 1 w",
        "big: 6 w",
        "–",
    ]
    bare = [entry.model_copy(update={"placement": None}) for entry in PLAN]
    assert len(columns(None, bare)) == len(columns(None, PLAN)) - 1
    many = PLAN[1].model_copy(update={"placement": {f"n{k}": PLAN[1].placement["big"] for k in range(6)}})
    assert placement_text(many, 2) == "n0: 6 w, n1: 6 w and 4 more"
    assert placement_text(many).count("6 w") == 6
    assert as_data(INSTANCE, PLAN)["jobs"]["b"]["placement"] == {"big": {"ps": 0, "workers": 6}}


def test_a_server_holds_tasks_and_what_others_have_taken() -> None:
    """Parameter servers that take no GPU are named, and take no part of its bar."""
    drawn = servers_in_use(INSTANCE, PLAN)
    assert (drawn.resource, drawn.busy) == ("gpu", 3)
    assert drawn.rows["s-0"].allocations == [("a", 2.0, "1 ps + 2 w")]
    assert [part.words for part in drawn.segments(drawn.rows["big"])] == [
        "b: 6 w, 6 gpu",
        "taken by others: 2 gpu",
    ]


def test_servers_without_the_resource_that_leads_are_drawn_by_their_own() -> None:
    """As where each model of GPU is a resource."""
    rows = [{"name": name, "capacity": {f"gpu {name}": 2, "cpu": 2}} for name in ("l4", "t4")]
    variants = [ring({f"gpu {name}": 1}, [1, 0, 0, 0], 2, name=name) for name in ("l4", "t4")]
    instance = on_servers(rows, {"a": {"variants": variants}})
    plan = planned(instance, a=tasks(t4=2) | {"variant": "t4"})
    drawn = servers_in_use(instance, plan)
    assert drawn.resource == "gpu l4 or gpu t4"
    assert [(row.capacity, row.used) for row in drawn.rows.values()] == [(2, 0), (2, 2)]
    assert drawn.title("r", [drawn.rows["t4"]]) == "rack r: 1 server, 2 of 2 gpu t4 in use"


@pytest.mark.parametrize(
    ("share", "said"),
    [
        (None, "save all of the time per worker and parameter server (network_share is not given)"),
        (0.25, "save 25 % of the time per worker and parameter server (network_share is given)"),
    ],
)
def test_what_tasks_on_one_server_save_is_an_assumption(share: float | None, said: str) -> None:
    """Where a speed depends on it; nothing is said where none does, or there are no servers."""
    (line,) = remarks(INSTANCE.replace(network_share=share), PLAN)
    assert line == f"assumed: tasks on one server {said}"
    measured = {
        "name": "v",
        "worker_demand": {"gpu": 1},
        "speed": {"model": "table", "rows": [{"workers": 1, "steps_per_s": 1}]},
    }
    assert list(remarks(on_servers(SERVERS, {"a": {"variants": [measured]}}))) == []
    assert list(remarks(generate_allocation(2, 1, seed=1))) == []


def test_the_page_draws_servers_and_says_what_is_assumed() -> None:
    """Jobs have the colours of their tasks; a page without servers has no such section."""
    parts = allocation_parts(INSTANCE, result_of(PLAN))
    facts = dict(parts["summary"])
    assert (facts["servers used by the plan"], facts["jobs on one server"]) == ("3 of 3", "1 of 2")
    assert [row[0].swatch for row in parts["jobs"].rows] == [0, 1, None]
    page = plan_page(INSTANCE, result_of(PLAN))
    assert "Assumed: tasks on one server save all of the time" in page
    assert "a: 1 ps + 2 w, 2 gpu" in page
    pooled = generate_allocation(2, 1, seed=1)
    assert 'id="servers"' not in plan_page(pooled, clusterplan.solve(pooled))
