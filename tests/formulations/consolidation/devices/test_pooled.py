"""The pooled relaxation: every plan on devices is one of it."""

from __future__ import annotations

import pytest
from device_instances import device_instance

import clusterplan
from clusterplan.formulations.consolidation.devices.formulation import DeviceFormulation
from clusterplan.formulations.consolidation.devices.naming import without_devices
from clusterplan.formulations.consolidation.devices.pooled import pooled
from clusterplan.instances.consolidation.instance import ConsolidationInstance


def test_devices_become_amounts() -> None:
    """A share its thousandths, a partition its slots, and one more resource counts partitions."""
    devices = {"count": 3, "geometry": "a100-40", "taken": [{"device": 0}, {"device": 1, "share": 460}]}
    instance = clusterplan.parse_instance(
        {
            "schema_version": 1,
            "kind": "consolidation",
            "name": "pooled",
            "servers": [{"name": "n", "capacity": {"cpu": 8}, "devices": {"gpu": devices}}],
            "jobs": [
                {"name": "w", "tasks": 1, "task_demand": {"cpu": 1}, "devices": {"gpu": 2}},
                {"name": "s", "tasks": 1, "task_demand": {}, "share": {"gpu": 540}},
                {"name": "p", "tasks": 1, "task_demand": {}, "profile": {"gpu": "2g.10gb"}, "value": 1},
            ],
        }
    )
    assert isinstance(instance, ConsolidationInstance)
    relaxed = pooled(instance)
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
