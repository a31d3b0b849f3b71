"""Devices for plans that do not name them."""

from __future__ import annotations

import pytest
from device_instances import device_instance

import clusterplan
from clusterplan.formulations.consolidation.devices.formulation import DeviceFormulation
from clusterplan.formulations.consolidation.devices.naming import (
    kept_in_place,
    with_devices,
    without_devices,
)


@pytest.mark.parametrize("seed", range(0, 60, 3))
def test_names_are_found_again(seed: int) -> None:
    """A plan that names devices has some also when the names are forgotten."""
    instance = device_instance(seed)
    formulation = DeviceFormulation(instance)
    plan = clusterplan.solve(instance, solver="best-fit").plan
    if plan is None:
        return
    bare = without_devices(formulation.parse_plan([entry.model_dump() for entry in plan]))
    asking = {job.name for job in instance.jobs if any(group.asks for group in job.task_groups)}
    assert bool(formulation.violations(bare)) == any(e.placed and e.job in asking for e in bare)
    named = with_devices(formulation.jobs, formulation.servers, bare)
    assert named is not None
    assert formulation.violations(named) == []


def test_too_much_for_the_devices_has_no_names() -> None:
    """Two shares of 600 fit one device in neither way; nor does a server without devices hold any."""
    instance = clusterplan.parse_instance(
        {
            "schema_version": 1,
            "kind": "consolidation",
            "name": "one device",
            "servers": [
                {"name": "n", "capacity": {"cpu": 8}, "devices": {"gpu": {"count": 1}}},
                {"name": "m", "capacity": {"cpu": 8}},
            ],
            "jobs": [{"name": "j", "tasks": 2, "task_demand": {}, "share": {"gpu": 600}}],
        }
    )
    formulation = DeviceFormulation(instance)  # type: ignore[arg-type]
    for servers in ({"n": 2}, {"n": 1, "m": 1}):
        plan = formulation.parse_plan([{"job": "j", "servers": servers}])
        assert with_devices(formulation.jobs, formulation.servers, plan) is None


def test_tasks_that_stay_keep_their_devices() -> None:
    """Where the others still fit; else all are packed anew."""
    jobs = [
        {"name": "stays", "tasks": 1, "task_demand": {}, "share": {"gpu": 400}, "current": {"n": 1}},
        {"name": "new", "tasks": 1, "task_demand": {}, "share": {"gpu": 600}},
        {"name": "whole", "tasks": 1, "task_demand": {}, "devices": {"gpu": 1}},
    ]
    jobs[0]["current_devices"] = {"n": [{"gpu": [1]}]}
    server = {"name": "n", "capacity": {"cpu": 8}, "devices": {"gpu": {"count": 2}}}
    document = {
        "schema_version": 1,
        "kind": "consolidation",
        "name": "now",
        "servers": [server],
        "jobs": jobs,
    }
    for current, expected in ((1, [(1,), (1,), (0,)]), (0, [(0,), (0,), (1,)])):
        jobs[0]["current_devices"] = {"n": [{"gpu": [current]}]}
        instance = clusterplan.parse_instance(document)
        for solver in ("exact", "best-fit", "brute-force", "milp:highs"):
            plan = clusterplan.solve(instance, solver=solver).plan
            assert plan is not None
            held = [entry.model_dump()["devices"]["tasks"]["n"][0]["gpu"] for entry in plan]
            assert held == expected, solver


def test_devices_that_others_took_are_not_kept() -> None:
    """What a task is said to hold now is taken: the plan gives it another device."""
    devices = {"gpu": {"count": 2, "taken": [{"device": 1}]}}
    job = {"name": "j", "tasks": 1, "task_demand": {}, "share": {"gpu": 400}, "current": {"n": 1}}
    instance = clusterplan.parse_instance(
        {
            "schema_version": 1,
            "kind": "consolidation",
            "name": "taken",
            "servers": [{"name": "n", "capacity": {"cpu": 8}, "devices": devices}],
            "jobs": [{**job, "current_devices": {"n": [{"gpu": [1]}]}}],
        }
    )
    formulation = DeviceFormulation(instance)  # type: ignore[arg-type]
    plan = formulation.parse_plan([{"job": "j", "servers": {"n": 1}}])
    (named,) = kept_in_place(formulation.jobs, formulation.servers, plan)
    assert named.devices == {"tasks": {"n": ({"gpu": (0,)},)}}
