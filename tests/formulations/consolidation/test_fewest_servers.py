"""The relaxation of single devices to pooled amounts."""

from __future__ import annotations

from typing import Any

import pytest
from device_instances import device_instance, placement

import clusterplan
from clusterplan.formulations.consolidation import fewest_servers
from clusterplan.formulations.consolidation.fewest_servers import (
    fewest_on_devices,
    group_servers,
    pooled_relaxation,
    tasks_on,
    tasks_on_devices,
)
from clusterplan.formulations.consolidation.formulation import DeviceFormulation
from clusterplan.formulations.consolidation.plan import without_devices
from clusterplan.instances.common.errors import TooLargeError
from clusterplan.instances.consolidation.devices import DeviceDemand
from clusterplan.instances.consolidation.instance import Server
from clusterplan.instances.consolidation.job import Group


def test_devices_become_amounts() -> None:
    """A share its thousandths, a partition its slots, and one more resource counts partitions."""
    devices = {"count": 3, "geometry": "a100-40", "taken": [{"device": 0}, {"device": 1, "share": 460}]}
    instance = placement(
        None,
        [{"name": "n", "capacity": {"cpu": 8}, "devices": {"gpu": devices}}],
        [
            {"name": "w", "tasks": 1, "task_demand": {"cpu": 1}, "devices": {"gpu": 2}},
            {"name": "s", "tasks": 1, "task_demand": {}, "share": {"gpu": 540}},
            {"name": "p", "tasks": 1, "task_demand": {}, "profile": {"gpu": "2g.10gb"}, "value": 1},
        ],
    )
    relaxed = pooled_relaxation(instance)
    assert not relaxed.has_devices
    assert relaxed.servers[0].capacity == {"cpu": 8.0, "gpu": 3.0, "2g.10gb of gpu": 9.0}
    assert relaxed.servers[0].available == {"cpu": 8.0, "gpu": 1.54, "2g.10gb of gpu": 3.0}
    assert [job.task_groups[0].demand for job in relaxed.jobs] == [
        {"cpu": 1.0, "gpu": 2.0},
        {"gpu": 0.54},
        {"gpu": 0.25, "2g.10gb of gpu": 1.0},
    ]
    assert [job.worth for job in relaxed.jobs] == [2.0, 0.54, 1.0]


@pytest.mark.parametrize("seed", range(25))
def test_plans_on_devices_are_plans_of_the_relaxation(seed: int) -> None:
    """With values that are no worse in the first objective."""
    instance = device_instance(seed)
    formulation = DeviceFormulation(instance)
    plan = clusterplan.solve(instance, solver="best-fit").plan
    if plan is not None:
        entries = formulation.parse_plan([entry.model_dump() for entry in plan])
        bare = without_devices(entries)
        assert formulation.pooled.violations(bare) == []
        assert formulation.pooled.evaluate(bare)[0] == formulation.evaluate(entries)[0]


def _servers(*counts: int, geometry: str | None = "a100-40", **fields: Any) -> list[Server]:
    devices = [{"count": count, "geometry": geometry} for count in counts]
    rows = [
        {"name": f"n{n}", "capacity": {"cpu": 8}, "devices": {"gpu": d}, **fields}
        for n, d in enumerate(devices)
    ]
    return [Server.model_validate(row) for row in rows]


def _group(tasks: int, cpu: float = 1, **asks: Any) -> Group:
    return Group.model_validate({"tasks": tasks, "demand": {"cpu": cpu}, **asks})


def test_shares_do_not_add_up_across_devices() -> None:
    """Of 600 thousandths a server of two devices holds two, though the sum would be three."""
    (server,) = _servers(2)
    for group, most in (
        (_group(9, share={"gpu": 600}), 2),
        (_group(9, share={"gpu": 500}), 4),
        (_group(9, cpu=3, share={"gpu": 500}), 2),
        (_group(9, devices={"gpu": 2}), 1),
        (_group(9, cpu=0, profile={"gpu": "1g.5gb"}), 9),
        (_group(99, cpu=0, profile={"gpu": "1g.5gb"}), 14),
        (_group(9, devices={"npu": 1}), 0),
    ):
        assert tasks_on(server, group) == most, group


def test_what_is_free_holds_less() -> None:
    """Others hold one device, and a part of the other."""
    (server,) = _servers(2)
    taken = {"count": 2, "geometry": "a100-40", "taken": [{"device": 0}, {"device": 1, "share": 500}]}
    server = Server.model_validate({**server.model_dump(exclude_none=True), "devices": {"gpu": taken}})
    assert tasks_on(server, _group(9, share={"gpu": 400})) == 4
    (devices,), states = (server.devices or {}).values(), server.device_states["gpu"]
    assert tasks_on_devices(DeviceDemand(share=400), devices, states) == 1
    assert tasks_on_devices(DeviceDemand(whole=1), devices, states) == 0
    assert tasks_on_devices(DeviceDemand(profile="1g.5gb"), devices, states) == 0


def test_the_largest_servers_come_first() -> None:
    """Five whole devices on servers of four, two and one."""
    servers = _servers(1, 2, 4)
    assert fewest_on_devices([_group(5, devices={"gpu": 1})], group_servers(servers)) == 2
    assert fewest_on_devices([_group(7, devices={"gpu": 1})], group_servers(servers)) == 3
    assert fewest_on_devices([_group(8, devices={"gpu": 1})], group_servers(servers)) is None


def test_groups_share_the_devices_of_a_server() -> None:
    """A whole device and two shares of 600 need three devices, one more than a server has."""
    groups = [_group(1, devices={"gpu": 1}), _group(2, share={"gpu": 600})]
    assert fewest_on_devices(groups, group_servers(_servers(2, 2))) == 2
    assert fewest_on_devices(groups, group_servers(_servers(3, 2))) == 1
    assert fewest_on_devices(groups, group_servers(_servers(2))) is None
    halves = [_group(1, devices={"gpu": 1}), _group(2, share={"gpu": 500})]
    assert fewest_on_devices(halves, group_servers(_servers(2, 2))) == 1


def test_too_many_ways_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rather than searched for hours."""
    monkeypatch.setattr(fewest_servers, "MAX_PATTERNS", 5)
    with pytest.raises(TooLargeError):
        fewest_on_devices([_group(3, share={"gpu": 500}), _group(3)], group_servers(_servers(2)))
