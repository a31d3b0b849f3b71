"""Which tasks stay where they are."""

from __future__ import annotations

from typing import Any

import pytest

from clusterplan.formulations.consolidation.devices.staying import holding, staying
from clusterplan.formulations.consolidation.plan import JobPlacement
from clusterplan.instances.consolidation.job import Group


def _group(**fields: Any) -> Group:
    return Group.model_validate({"tasks": 3, "demand": {}, **fields})


def _entry(servers: dict[str, int], devices: dict[str, list[dict[str, Any]]] | None) -> JobPlacement:
    named = None if devices is None else {"tasks": devices}
    return JobPlacement.model_validate({"job": "j", "servers": servers, "devices": named})


def test_the_order_of_devices_and_names_does_not_matter() -> None:
    """Whole devices are a set; a partition is a device and a slot."""
    assert holding({"gpu": (1, 0), "nic": (2,)}) == holding({"nic": (2,), "gpu": (0, 1)})
    assert holding({"gpu": (0,)}) != holding({"gpu": (1,)})


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
    assert staying(group, _entry(servers, held), None) == on_server
    assert staying(group, _entry(servers, held), True) == on_devices


def test_tasks_that_ask_for_no_devices_stay_on_their_server() -> None:
    """Even if it is said that they hold none."""
    group = _group(current={"n": 2}, current_devices={"n": [{}, {}]})
    assert staying(group, _entry({"n": 3}, None), True) == 2
