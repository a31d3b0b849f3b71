"""Consolidation: fewest servers, every objective by hand, reasons, and the skew rule.

Each objective by itself.
"""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from placements import job, placement, server

import clusterplan
from clusterplan.formulations.consolidation.cluster_data import OBJECTIVES, ClusterData
from clusterplan.formulations.consolidation.fewest_servers import Shapes, fewest_servers, shape_of
from clusterplan.formulations.consolidation.formulation import VALUE_OF, ConsolidationFormulation
from clusterplan.formulations.consolidation.plan import JobPlacement
from clusterplan.instances.consolidation.instance import ConsolidationInstance, Server
from clusterplan.instances.consolidation.job import Group

AMOUNTS = st.fixed_dictionaries({"gpu": st.integers(0, 4), "cpu": st.integers(0, 4)})


@settings(max_examples=200, deadline=None)
@given(
    capacities=st.lists(AMOUNTS, min_size=1, max_size=4),
    groups=st.lists(st.tuples(st.integers(1, 3), AMOUNTS), min_size=1, max_size=2),
)
def test_fewest_servers_is_the_smallest_set_that_holds_the_job(
    capacities: list[dict[str, int]], groups: list[tuple[int, dict[str, int]]]
) -> None:
    """The dynamic programme agrees with trying every set of servers and every way to fill it."""
    servers = [Server(name=f"n{i}", capacity=capacity) for i, capacity in enumerate(capacities)]
    made = [Group(name=f"g{i}", tasks=tasks, demand=demand) for i, (tasks, demand) in enumerate(groups)]

    def holds(chosen: tuple[Server, ...]) -> bool:
        tasks = [group.demand for group in made for _ in range(group.tasks)]
        for places in itertools.product(range(len(chosen)), repeat=len(tasks)):
            if all(
                sum(d[r] for d, place in zip(tasks, places, strict=True) if place == i) <= server.capacity[r]
                for i, server in enumerate(chosen)
                for r in ("gpu", "cpu")
            ):
                return True
        return False

    sizes = [n for n in range(1, len(servers) + 1) if any(map(holds, itertools.combinations(servers, n)))]
    assert fewest_servers(made, Shapes(shape_of(server.capacity) for server in servers)) == (
        sizes[0] if sizes else None
    )


def instance(jobs: list[dict[str, Any]], objectives: list[str], **fields: Any) -> ConsolidationInstance:
    """Return jobs on four servers of two GPUs in two racks."""
    made = clusterplan.parse_instance(
        {
            "schema_version": 1,
            "kind": "consolidation",
            "name": "four",
            "objectives": objectives,
            "servers": [
                {"name": "a", "count": 2, "capacity": {"gpu": 2}, "rack": "r0", "traffic_gbit_per_s": 1},
                {"name": "b", "count": 2, "capacity": {"gpu": 2}, "rack": "r1"},
            ],
            "jobs": jobs,
            **fields,
        }
    )
    assert isinstance(made, ConsolidationInstance)
    return made


def test_every_objective_by_hand() -> None:
    """One plan, seven values."""
    names = ["value", "spread", "servers", "racks", "migrations", "slowdown", "traffic"]
    made = instance(
        [
            {
                "name": "j",
                "tasks": 3,
                "task_demand": {"gpu": 1},
                "spread": "preferred",
                "traffic_gbit_per_s": 0.5,
                "current": {"a-0": 2, "b-1": 1},
                "speed_by_servers": {2: 1.0, 3: 0.6},
            },
            {"name": "out", "tasks": 1, "task_demand": {"gpu": 1}, "value": 7},
        ],
        names,
    )
    plan = [
        JobPlacement(job="j", servers={"a-0": 1, "a-1": 1, "b-1": 1}),
        JobPlacement(job="out", placed=False),
    ]
    formulation = ConsolidationFormulation(made)
    assert not formulation.violations(plan)
    values = dict(zip(names, formulation.evaluate(plan), strict=True))
    assert values == pytest.approx(
        {
            "value": 3,
            "spread": 1,
            "servers": 3,
            "racks": 1,
            "migrations": 1,
            "slowdown": 3 * 0.4,
            "traffic": 1.5,
        }
    )


def test_skew_decides_who_is_consolidated() -> None:
    """Above the threshold a job is required to be consolidated, below it is free."""
    made = instance(
        [
            {"name": n, "tasks": 2, "task_demand": {"gpu": 1}, "spread": "from_skew", "skew": skew}
            for n, skew in (("vgg", 0.7), ("resnet", 0.1))
        ],
        ["value"],
    )
    assert [made.spread_of(job) for job in made.jobs] == ["required", "free"]


def test_who_waits_and_why() -> None:
    """A job that must be consolidated waits for a whole server, one that never fits says what is short."""
    made = instance(
        [
            {"name": "big", "tasks": 1, "task_demand": {"gpu": 3}},
            {"name": "all", "tasks": 9, "task_demand": {"gpu": 1}},
            {"name": "tight", "tasks": 2, "task_demand": {"gpu": 1}, "spread": "required"},
            {"name": "other", "tasks": 1, "task_demand": {"gpu": 1}, "gpu_model": "h100"},
        ],
        ["value"],
        servers=[{"name": f"s{i}", "capacity": {"gpu": 2}, "free": {"gpu": 1}} for i in range(3)],
    )
    result = clusterplan.solve(made)
    assert result.status == "optimal"
    reasons = {entry.model_dump()["job"]: entry.model_dump()["reason"] for entry in result.plan or ()}
    assert "needs 3 gpu; the largest server has 2 (2 gpu)" in reasons["big"]
    assert "hold 6 of its 9 tasks" in reasons["all"]
    assert "must run on a single server" in reasons["tight"]
    assert "GPU model 'h100'" in reasons["other"]


def test_the_order_of_objectives_matters() -> None:
    """Fewest servers first places nobody; value first places everybody."""
    job = {"name": "j", "tasks": 2, "task_demand": {"gpu": 1}}
    assert clusterplan.solve(instance([job], ["servers", "value"])).objectives[1].value == 0
    assert clusterplan.solve(instance([job], ["value", "servers"])).objectives[0].value == 2


DATA = ClusterData(
    placement(
        list(OBJECTIVES),
        [
            {**server("a", gpu=2), "rack": "r", "traffic_gbit_per_s": 1},
            {**server("b", gpu=2), "rack": "r"},
            server("c", gpu=2),
        ],
        [
            job(
                "j",
                3,
                value=4,
                spread="preferred",
                traffic_gbit_per_s=0.5,
                current={"a": 1, "c": 1},
                speed_by_servers={1: 1, 2: 0.75},
            ),
            job("out", value=9),
        ],
    )
)
PLAN = [JobPlacement(job="j", servers={"a": 2, "c": 1}), JobPlacement(job="out", placed=False)]
EXPECTED = {
    "value": 4.0,
    "spread": 0.0,
    "servers": 2.0,
    "racks": 1.0,
    "migrations": 0.0,
    "slowdown": 1.0,
    "traffic": 2.0,
}


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_an_objective_by_hand(objective: str) -> None:
    """Two servers in two racks, nothing moved, a quarter of the speed lost."""
    assert VALUE_OF[objective](DATA, PLAN) == EXPECTED[objective]


def test_gains_and_losses_cancel_exactly() -> None:
    """A tenth won and a tenth lost are nothing."""
    jobs = [job("a", speed_by_servers={1: 1.1}), job("b", speed_by_servers={1: 0.9})]
    data = ClusterData(placement(["slowdown"], [server(gpu=2)], jobs))
    plan = [JobPlacement(job=name, servers={"n": 1}) for name in "ab"]
    assert VALUE_OF["slowdown"](data, plan) == 0.0
