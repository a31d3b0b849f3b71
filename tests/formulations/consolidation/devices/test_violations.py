"""What a plan on devices may not do."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

import clusterplan
from clusterplan.formulations.consolidation.devices.formulation import DeviceFormulation
from clusterplan.formulations.consolidation.devices.violations import device_violations
from clusterplan.instances.consolidation.instance import ConsolidationInstance

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
        {"name": "c", "capacity": {"cpu": 9}},
    ],
    "jobs": [
        {"name": "w", "tasks": 1, "task_demand": {"cpu": 1}, "devices": {"gpu": 2}},
        {"name": "s", "tasks": 2, "task_demand": {"cpu": 1}, "share": {"gpu": 460}},
        {"name": "p", "tasks": 2, "task_demand": {"cpu": 1}, "profile": {"gpu": "2g.10gb"}, "value": 1},
        {"name": "none", "tasks": 1, "task_demand": {"cpu": 1}},
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
