"""Devices for plans that do not name them."""

from __future__ import annotations

import pytest
from device_instances import device_instance

import clusterplan
from clusterplan.formulations.consolidation.devices.formulation import DeviceFormulation
from clusterplan.formulations.consolidation.devices.naming import with_devices, without_devices


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
