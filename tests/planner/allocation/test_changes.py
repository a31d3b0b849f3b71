"""What scenarios change in an instance with servers, and what a plan changes there."""

from __future__ import annotations

from typing import Any

import pytest
from allocation_instances import on_servers, planned, tasks

import clusterplan
from clusterplan.instances.common.errors import OptionError
from clusterplan.planner.allocation.changes import changes, what_if
from clusterplan.planner.changes import Amount, Change, changed_instance

SERVERS: list[dict[str, Any]] = [
    {"name": "s", "count": 2, "capacity": {"gpu": 4, "cpu": 4}, "rack": "r"},
    {"name": "big", "capacity": {"gpu": 8, "cpu": 8}, "free": {"gpu": 6, "cpu": 8}, "gpu_model": "H100"},
]
JOBS: dict[str, dict[str, Any]] = {
    "a": {"current": tasks(**{"s-0": 2})},
    "b": {"current": {"variant": "v", "workers": 2}},
    "c": {},
}
INSTANCE = on_servers(SERVERS, JOBS)
NOTHING = {"gpu": 0.0, "cpu": 0.0}


@pytest.mark.parametrize(
    ("scenario", "rows"),
    [
        ("servers=s:5", [("s", 5, 4, None), ("big", None, 8, 6)]),
        ("gpu=s:+2", [("s", 2, 6, None), ("big", None, 8, 6)]),
        ("gpu=b*:2", [("s", 2, 4, None), ("big", None, 2, 2)]),
        ("drain=s-1", [("s-0", None, 4, None), ("s-1", None, 4, 0), ("big", None, 8, 6)]),
        ("drain=r,drain=big", [("s-0", None, 4, 0), ("s-1", None, 4, 0), ("big", None, 8, 0)]),
        ("remove=big", [("s", 2, 4, None)]),
        (
            "add=2xh100",
            [("s", 2, 4, None), ("big", None, 8, 6), *((f"big-added-{k}", None, 8, None) for k in (1, 2))],
        ),
    ],
)
def test_scenarios_change_servers(scenario: str, rows: list[tuple[Any, ...]]) -> None:
    """Name, number, GPUs, and those that are free, of each row."""
    made: Any = changed_instance(INSTANCE, scenario, what_if(INSTANCE))
    found = [(row.name, row.count, row.capacity["gpu"], (row.free or {}).get("gpu")) for row in made.servers]
    assert found == rows
    assert len(made.jobs) == 3


def test_jobs_are_changed_as_without_servers() -> None:
    """A copy runs nowhere yet, and is no object of a cluster manager."""
    workload = {"resource": "pods", "namespace": "t", "name": "a"}
    instance = on_servers(SERVERS, {**JOBS, "a": {**JOBS["a"], "workload": workload}})
    made: Any = changed_instance(instance, "add=2xa,remove=c,weight=b:3", what_if(instance))
    assert [job.name for job in made.jobs] == ["a", "b", "a-added-1", "a-added-2"]
    assert (made.jobs[2].current, made.jobs[2].workload, made.jobs[1].weight) == (None, None, 3)


@pytest.mark.parametrize(
    ("scenario", "said"),
    [
        ("gpu=16", "gpu is what the servers have together; write gpu=SERVER:AMOUNT"),
        ("gpu=s:none", "a server has so much of it; write 8, "),
        ("servers=x:2", "there is no row of servers 'x'; there are: s, big"),
        ("remove=s", "jobs[0].current.placement.s-0: unknown server 's-0'; the servers are: big"),
        ("remove=x", "there is no row of servers or job 'x'"),
        ("drain=x", "there is no server or rack 'x'"),
        ("add=x", "no server and no GPU model is called 'x'"),
    ],
)
def test_scenarios_that_make_no_sense_are_refused(scenario: str, said: str) -> None:
    """With what to write instead."""
    with pytest.raises(OptionError) as refused:
        changed_instance(INSTANCE, scenario, what_if(INSTANCE))
    assert said in str(refused.value)


def test_a_plan_changes_configurations_and_servers() -> None:
    """Of a job whose servers are not known, only another configuration counts."""
    plan = planned(
        INSTANCE, a=tasks({"s-1": 1}, **{"s-1": 2}), b=tasks(big=2), c=tasks(**{"s-0": 1, "s-1": 1})
    )
    found = changes(INSTANCE, None, plan)
    assert found.changes == [
        Change("a", "change", "v: 2 workers (s-0: 2 w)", "trained: 1 ps, 2 workers (s-1: 1 ps + 2 w)"),
        Change("c", "start", "", "v: 2 workers (s-0: 1 w, s-1: 1 w)"),
    ]
    assert found.stay == 1
    assert found.place == "gpu on server"
    assert Amount("s-0", 2, 1, 4) in found.places
    assert Amount("servers in use", 1, 3, 3) in found.amounts
    moved = planned(INSTANCE, a=tasks({"s-0": 1}, **{"s-0": 2}), b=tasks(big=2), c=tasks(big=2))
    assert [change.name for change in changes(INSTANCE, plan, moved).changes] == ["a", "c"]


def test_servers_are_no_free_amounts() -> None:
    """A frontier of the mix `any` is refused, with the one that there is."""
    with pytest.raises(OptionError, match=r"take --mix fixed, which scales the number of servers"):
        clusterplan.pareto(INSTANCE, mix="any", prices={"gpu": 1.0})
