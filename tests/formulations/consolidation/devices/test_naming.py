"""Devices for plans that do not name them."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest
from device_instances import device_instance

import clusterplan
from clusterplan.formulations.consolidation.devices import naming
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


def _running(choose: random.Random) -> DeviceFormulation:
    """Return tasks that run on three devices of one server, some of them where others are, too."""
    jobs = []
    for j in range(choose.randint(2, 4)):
        tasks = choose.randint(1, 2)
        ask, held = {"share": {"gpu": choose.choice((250, 400, 500, 600, 900))}}, 1
        if choose.random() < 0.3:
            ask, held = {"devices": {"gpu": choose.choice((1, 1, 2))}}, 0
        count = held or ask["devices"]["gpu"]
        jobs.append(
            {
                "name": f"j{j}",
                "tasks": tasks,
                "task_demand": {},
                "current": {"n": tasks},
                "current_devices": {"n": [{"gpu": choose.sample(range(3), count)} for _ in range(tasks)]},
                **ask,
            }
        )
    document = {
        "schema_version": 1,
        "kind": "consolidation",
        "name": "running",
        "objectives": ["migrations"],
        "device_moves": True,
        "servers": [{"name": "n", "capacity": {"cpu": 8}, "devices": {"gpu": {"count": 3}}}],
        "jobs": jobs,
    }
    return DeviceFormulation(clusterplan.parse_instance(document))  # type: ignore[arg-type]


def _fewest_moves(formulation: DeviceFormulation, plan: list[Any]) -> float | None:
    """Try all devices of all tasks."""
    tasks = [
        (job.name, choices)
        for job in formulation.instance.jobs
        for group in job.task_groups
        for choices in [list(itertools.combinations(range(3), group.asks["gpu"].whole or 1))] * group.tasks
    ]
    best = None
    for chosen in itertools.product(*(choices for _, choices in tasks)):
        held: dict[str, list[Any]] = {}
        for (name, _), at in zip(tasks, chosen, strict=True):
            held.setdefault(name, []).append({"gpu": at})
        named = [e.model_copy(update={"devices": {"tasks": {"n": tuple(held[e.job])}}}) for e in plan]
        if not formulation.violations(named):
            moves = formulation.evaluate(named)[0]
            best = moves if best is None else min(best, moves)
    return best


@pytest.mark.parametrize("seed", range(40))
def test_as_many_tasks_as_can_keep_their_devices(seed: int) -> None:
    """Compared with all ways to name devices; where tasks stand in each other's way some have to move."""
    formulation = _running(random.Random(seed))
    jobs = formulation.instance.jobs
    plan = list(formulation.parse_plan([{"job": j.name, "servers": {"n": j.tasks}} for j in jobs]))
    named = with_devices(formulation.jobs, formulation.servers, plan)
    best = _fewest_moves(formulation, plan)
    assert (named is None) == (best is None)
    if named is not None:
        assert formulation.evaluate(named)[0] == best


def test_one_large_task_makes_way_for_two() -> None:
    """A share of 900 stands where two of 500 do; it is listed first."""
    jobs = [
        {"name": f"j{n}", "tasks": 1, "task_demand": {}, "share": {"gpu": share}, "current": {"n": 1}}
        | {"current_devices": {"n": [{"gpu": [0]}]}}
        for n, share in enumerate((900, 500, 500))
    ]
    server = {"name": "n", "capacity": {"cpu": 8}, "devices": {"gpu": {"count": 2}}}
    document = {"schema_version": 1, "kind": "consolidation", "name": "n", "servers": [server]}
    formulation = DeviceFormulation(clusterplan.parse_instance({**document, "jobs": jobs}))  # type: ignore[arg-type]
    plan = formulation.parse_plan([{"job": f"j{n}", "servers": {"n": 1}} for n in range(3)])
    named = with_devices(formulation.jobs, formulation.servers, plan)
    assert named is not None
    assert [(e.devices or {})["tasks"]["n"][0]["gpu"] for e in named] == [(1,), (0,), (0,)]


def test_a_plan_with_more_tasks_in_place_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Naming devices again never loses any, however few sets of tasks are tried."""
    monkeypatch.setattr(naming, "MOST_TRIES", -1)
    for seed in range(40):
        formulation = _running(random.Random(seed))
        plan = clusterplan.solve(formulation.instance, solver="milp:highs").plan
        if plan is None:
            continue
        typed = formulation.parse_plan([entry.model_dump() for entry in plan])
        again = kept_in_place(formulation.jobs, formulation.servers, typed)
        assert formulation.evaluate(again)[0] <= formulation.evaluate(typed)[0]
