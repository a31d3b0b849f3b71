"""Devices for plans that do not name them.

What a plan on devices may not do.

Which tasks stay where they are.
"""

from __future__ import annotations

import copy
import itertools
import random
from collections.abc import Callable
from typing import Any

import pytest
from device_instances import device_instance, job, placement, server

import clusterplan
from clusterplan.formulations.consolidation import plan as device_placement
from clusterplan.formulations.consolidation.formulation import DeviceFormulation
from clusterplan.formulations.consolidation.plan import (
    JobPlacement,
    assign_devices,
    canonical_assignment,
    device_violations,
    keep_current_devices,
    staying_tasks,
    without_devices,
)
from clusterplan.instances.consolidation.instance import ConsolidationInstance
from clusterplan.instances.consolidation.job import Group


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
    named = assign_devices(formulation.jobs, formulation.servers, bare)
    assert named is not None
    assert formulation.violations(named) == []


def test_too_much_for_the_devices_has_no_names() -> None:
    """Two shares of 600 fit one device in neither way; nor does a server without devices hold any."""
    instance = placement(
        None,
        [
            {"name": "n", "capacity": {"cpu": 8}, "devices": {"gpu": {"count": 1}}},
            server("m", cpu=8),
        ],
        [{"name": "j", "tasks": 2, "task_demand": {}, "share": {"gpu": 600}}],
    )
    formulation = DeviceFormulation(instance)
    for servers in ({"n": 2}, {"n": 1, "m": 1}):
        plan = formulation.parse_plan([{"job": "j", "servers": servers}])
        assert assign_devices(formulation.jobs, formulation.servers, plan) is None


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
    instance = placement(
        None,
        [{"name": "n", "capacity": {"cpu": 8}, "devices": devices}],
        [{**job, "current_devices": {"n": [{"gpu": [1]}]}}],
    )
    formulation = DeviceFormulation(instance)
    plan = formulation.parse_plan([{"job": "j", "servers": {"n": 1}}])
    (named,) = keep_current_devices(formulation.jobs, formulation.servers, plan)
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
    named = assign_devices(formulation.jobs, formulation.servers, plan)
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
    named = assign_devices(formulation.jobs, formulation.servers, plan)
    assert named is not None
    assert [(e.devices or {})["tasks"]["n"][0]["gpu"] for e in named] == [(1,), (0,), (0,)]


def test_a_plan_with_more_tasks_in_place_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Naming devices again never loses any, however few sets of tasks are tried."""
    monkeypatch.setattr(device_placement, "MAX_TRIES", -1)
    for seed in range(40):
        formulation = _running(random.Random(seed))
        plan = clusterplan.solve(formulation.instance, solver="milp:highs").plan
        if plan is None:
            continue
        typed = formulation.parse_plan([entry.model_dump() for entry in plan])
        again = keep_current_devices(formulation.jobs, formulation.servers, typed)
        assert formulation.evaluate(again)[0] <= formulation.evaluate(typed)[0]


DOCUMENT = {
    "schema_version": 1,
    "kind": "consolidation",
    "name": "devices",
    "servers": [
        {"name": "a", "capacity": {"cpu": 9}, "devices": {"gpu": {"count": 2}}},
        {
            "name": "b",
            "capacity": {"cpu": 9},
            "devices": {
                "gpu": {"count": 3, "geometry": "a100-40", "taken": [{"device": 2, "share": 100}]},
            },
        },
        server("c", cpu=9),
    ],
    "jobs": [
        job("w", demand={"cpu": 1}, devices={"gpu": 2}),
        job("s", 2, {"cpu": 1}, share={"gpu": 460}),
        job("p", 2, {"cpu": 1}, profile={"gpu": "2g.10gb"}, value=1),
        job("none", demand={"cpu": 1}),
    ],
}
PLAN: list[dict[str, Any]] = [
    {"job": "w", "servers": {"a": 1}, "devices": {"tasks": {"a": [{"gpu": [0, 1]}]}}},
    {"job": "s", "servers": {"b": 2}, "devices": {"tasks": {"b": [{"gpu": [0]}, {"gpu": [0]}]}}},
    {
        "job": "p",
        "servers": {"b": 2},
        "devices": {
            "tasks": {"b": [{"gpu": {"device": 1, "slot": 0}}, {"gpu": {"device": 1, "slot": 4}}]},
        },
    },
    {"job": "none", "servers": {"c": 1}},
]


def _found(change: Callable[[list[dict[str, Any]]], object]) -> list[str]:
    instance = clusterplan.parse_instance(DOCUMENT)
    assert isinstance(instance, ConsolidationInstance)
    formulation, plan = DeviceFormulation(instance), copy.deepcopy(PLAN)
    change(plan)
    entries = formulation.parse_plan(plan)
    found = list(map(str, formulation.violations(entries)))
    assert found == list(map(str, device_violations(formulation.jobs, formulation.servers, entries)))
    return found


def _put(job: int, server: str, tasks: list[Any]) -> Callable[[list[dict[str, Any]]], None]:
    return lambda plan: plan[job]["devices"]["tasks"].update({server: tasks})


def test_a_good_plan_has_none() -> None:
    """Whole devices, two shares of one, and two partitions of one."""
    assert _found(len) == []


WRONG: list[tuple[Callable[[list[dict[str, Any]]], object], str]] = [
    (lambda plan: plan[0].pop("devices"), "job 'w' names devices of 0 tasks on 'a', not of 1"),
    (_put(1, "b", [{"gpu": [0]}]), "job 's' names devices of 1 tasks on 'b', not of 2"),
    (_put(1, "a", [{"gpu": [0]}]), "job 's' holds devices of 'a', where it has no task"),
    (_put(0, "a", [{"gpu": [0]}]), "gpu of a task on 'a' needs 2 different devices"),
    (_put(0, "a", [{"gpu": [0, 0]}]), "gpu of a task on 'a' needs 2 different devices"),
    (_put(0, "a", [{}]), "a task on 'a' holds no gpu"),
    (_put(0, "a", [{"gpu": [0, 2]}]), "gpu of a task on 'a' is device 2; the server has 2, from 0 on"),
    (_put(0, "a", [{"gpu": [0, 1], "npu": [0]}]), "npu of a task on 'a' is not asked for"),
    (_put(1, "b", [{"gpu": {"device": 0, "slot": 0}}] * 2), "gpu of a task on 'b' needs a list of devices"),
    (_put(2, "b", [{"gpu": [1]}, {"gpu": [1]}]), "gpu of a task on 'b' needs a device and a slot"),
    (_put(1, "b", [{"gpu": [0]}, {"gpu": [1]}]), "gpu 1 of server b: a device is one of whole, shared and"),
    (
        _put(1, "b", [{"gpu": [2]}, {"gpu": [2]}]),
        "shares of 1020 thousandths are more than one device",
    ),
    (
        _put(2, "b", [{"gpu": {"device": 1, "slot": 1}}, {"gpu": {"device": 1, "slot": 4}}]),
        "starts at slot 1, where no 2g.10gb may start",
    ),
    (
        _put(2, "b", [{"gpu": {"device": 1, "slot": 4}}] * 2),
        "gpu 1 of server b: partitions overlap: 'p', 'p'",
    ),
    (
        _put(2, "b", [{"gpu": {"device": 1, "slot": 0}}, {"gpu": {"device": 2, "slot": 4}}]),
        "gpu 2 of server b: a device is one of whole, shared and partitioned, not parted and shared",
    ),
    (
        lambda plan: plan[3].update(devices={"tasks": {"c": [{"gpu": [0]}]}}),
        "job 'none' names devices of 1 tasks on 'c', not of 0",
    ),
    (lambda plan: plan[0]["devices"].update(other={}), "job 'w' has no group 'other'"),
    (
        lambda plan: plan[0].update(servers={"c": 1}, devices={"tasks": {"c": [{"gpu": [0, 1]}]}}),
        "gpu of a task on 'c' is none that the server has",
    ),
    (
        lambda plan: plan[2].update(
            servers={"b": 1, "a": 1},
            devices={
                "tasks": {
                    "b": [{"gpu": {"device": 1, "slot": 0}}],
                    "a": [{"gpu": {"device": 1, "slot": 0}}],
                }
            },
        ),
        "gpu of a task on 'a' is a 2g.10gb, which its devices do not have",
    ),
    (
        lambda plan: plan[0].update(servers={"b": 1}, devices={"tasks": {"b": [{"gpu": [0, 2]}]}}),
        "a device is one of whole, shared and partitioned, not shared and whole",
    ),
]


@pytest.mark.parametrize(("change", "words"), WRONG)
def test_each_rule_can_be_broken(change: Callable[[list[dict[str, Any]]], object], words: str) -> None:
    """And is named with job and server."""
    assert any(words in fault for fault in _found(change)), _found(change)


def test_a_whole_device_has_one_holder() -> None:
    """Also where others hold it."""
    instance = clusterplan.parse_instance(
        {
            **DOCUMENT,
            "servers": [
                {
                    "name": "a",
                    "capacity": {"cpu": 9},
                    "devices": {"gpu": {"count": 2, "taken": [{"device": 1}]}},
                }
            ],
            "jobs": [{"name": n, "tasks": 1, "task_demand": {}, "devices": {"gpu": 1}} for n in "xy"],
        }
    )
    assert isinstance(instance, ConsolidationInstance)
    formulation = DeviceFormulation(instance)
    held = {"tasks": {"a": [{"gpu": [0]}]}}
    twice = [{"job": n, "servers": {"a": 1}, "devices": held} for n in "xy"]
    (found,) = formulation.violations(formulation.parse_plan(twice))
    assert str(found) == "gpu 0 of server a: a whole device is held twice: 'x', 'y'"
    others = [{**twice[0], "devices": {"tasks": {"a": [{"gpu": [1]}]}}}, {"job": "y", "placed": False}]
    (found,) = formulation.violations(formulation.parse_plan(others))
    assert str(found) == "gpu 1 of server a: a whole device is held twice: 'x'"


def _group(**fields: Any) -> Group:
    return Group.model_validate({"tasks": 3, "demand": {}, **fields})


def _entry(servers: dict[str, int], devices: dict[str, list[dict[str, Any]]] | None) -> JobPlacement:
    named = None if devices is None else {"tasks": devices}
    return JobPlacement.model_validate({"job": "j", "servers": servers, "devices": named})


def test_the_order_of_devices_and_names_does_not_matter() -> None:
    """Whole devices are a set; a partition is a device and a slot."""
    assert canonical_assignment({"gpu": (1, 0), "nic": (2,)}) == canonical_assignment(
        {"nic": (2,), "gpu": (0, 1)}
    )
    assert canonical_assignment({"gpu": (0,)}) != canonical_assignment({"gpu": (1,)})


@pytest.mark.parametrize(
    ("servers", "held", "on_server", "on_devices"),
    [
        ({"n": 3}, {"n": [{"gpu": [0]}, {"gpu": [0]}, {"gpu": [1]}]}, 2, 2),
        ({"n": 3}, {"n": [{"gpu": [1]}, {"gpu": [0]}, {"gpu": [1]}]}, 2, 1),
        ({"n": 1, "m": 2}, {"n": [{"gpu": [2]}], "m": [{"gpu": [0]}, {"gpu": [0]}]}, 2, 1),
        ({"m": 3}, {"m": [{"gpu": [0]}] * 3}, 1, 1),
        ({}, None, 0, 0),
    ],
)
def test_tasks_of_a_group_are_interchangeable(
    servers: dict[str, int], held: Any, on_server: int, on_devices: int
) -> None:
    """Two hold device 0 of `n`; which one the task on `m` holds is not said, so its server counts."""
    now = {"n": [{"gpu": [0]}, {"gpu": [0]}]}
    group = _group(share={"gpu": 300}, current={"n": 2, "m": 1}, current_devices=now)
    assert staying_tasks(group, _entry(servers, held), None) == on_server
    assert staying_tasks(group, _entry(servers, held), True) == on_devices


def test_tasks_that_ask_for_no_devices_stay_on_their_server() -> None:
    """Even if it is said that they hold none."""
    group = _group(current={"n": 2}, current_devices={"n": [{}, {}]})
    assert staying_tasks(group, _entry({"n": 3}, None), True) == 2
