"""What a plan of consolidation changes for jobs, servers and money."""

from __future__ import annotations

from typing import Any

from clusterplan.formulations.consolidation.plan import entry_of
from clusterplan.instances.consolidation.instance import ConsolidationInstance
from clusterplan.planner.changes import Amount, Change
from clusterplan.planner.consolidation.changes import changes, runs_now_as_plan


def cluster(**changed: Any) -> ConsolidationInstance:
    """Return two servers of 4 GPUs and three jobs, two of which run."""
    document = {
        "name": "x",
        "servers": [{"name": "s", "count": 2, "capacity": {"gpu": 4}}],
        "jobs": [
            {"name": "split", "tasks": 2, "task_demand": {"gpu": 1}, "current": {"s-0": 1, "s-1": 1}},
            {"name": "still", "tasks": 1, "task_demand": {"gpu": 1}, "current": {"s-0": 1}},
            {"name": "new", "tasks": 1, "task_demand": {"gpu": 4}},
        ],
    }
    return ConsolidationInstance.model_validate(document | changed)


def test_against_what_runs_now() -> None:
    instance = cluster()
    split, still, new = instance.jobs
    plan = [
        entry_of(split, {"tasks": {"s-0": 2}}).model_copy(update={"action": "move"}),
        entry_of(still, {"tasks": {"s-0": 1}}).model_copy(update={"action": "keep"}),
        entry_of(new, {"tasks": {"s-1": 1}}).model_copy(update={"action": "start"}),
    ]
    found = changes(instance, None, plan)
    assert found.changes == [
        Change("split", "move", "1×s-0, 1×s-1", "2×s-0"),
        Change("new", "start", "", "1×s-1"),
    ]
    assert (found.stay, found.wait) == (1, 0)
    assert found.amounts == [Amount("gpu in use", 3, 7, 8), Amount("servers in use", 2, 2, 2)]
    assert found.places == [Amount("s-0", 2, 3, 4), Amount("s-1", 1, 4, 4)]


def test_money_of_servers_in_use() -> None:
    """Where prices are known; how many servers have none is said."""
    gpu = {"capacity": {"gpu": 4}}
    servers = [{"name": "s", "count": 2, **gpu, "price_usd_per_hour": 3}, {"name": "t", **gpu}]
    instance = cluster(servers=servers)
    split, still, new = instance.jobs
    plan = [
        entry_of(split, {"tasks": {"s-0": 2}}).model_copy(update={"action": "move"}),
        entry_of(still, {"tasks": {"s-0": 1}}).model_copy(update={"action": "keep"}),
        entry_of(new, {"tasks": {"t": 1}}).model_copy(update={"action": "start"}),
    ]
    name = "USD per hour of servers in use (1 of 3 servers have no price)"
    assert changes(instance, None, plan).amounts[-1] == Amount(name, 6, 3, 6)


def test_a_job_that_keeps_running_need_not_say_on_which_devices() -> None:
    devices = {"gpu": {"count": 4}}
    instance = cluster(
        servers=[{"name": "s", "count": 2, "capacity": {"cpu": 1}, "devices": devices}],
        jobs=[{"name": "j", "tasks": 1, "task_demand": {}, "devices": {"gpu": 1}, "current": {"s-0": 1}}],
    )
    now = runs_now_as_plan(instance)
    named = now[0].model_copy(update={"devices": {"tasks": {"s-0": ({"gpu": ("2",)},)}}, "action": "keep"})
    assert changes(instance, None, [named]).stay == 1
