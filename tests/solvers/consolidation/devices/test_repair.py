"""From plans of the pooled relaxation to plans on devices."""

from __future__ import annotations

import pytest
from device_instances import device_instance

import clusterplan
from clusterplan.formulations.consolidation.device_formulation import DeviceFormulation
from clusterplan.formulations.consolidation.formulation import ConsolidationFormulation
from clusterplan.instances.consolidation.instance import ConsolidationInstance
from clusterplan.solvers.common.base import Clock
from clusterplan.solvers.common.options import SolveOptions
from clusterplan.solvers.consolidation.devices.repair import repaired
from clusterplan.solvers.consolidation.heuristics.first_fit import FirstFit


@pytest.mark.parametrize("seed", range(40))
def test_what_comes_out_stands_on_devices(seed: int) -> None:
    """Only a job that must be placed may be missing."""
    formulation = DeviceFormulation(device_instance(seed, jobs=6))
    outcome = FirstFit().solve(formulation.pooled, SolveOptions(), Clock())
    if outcome.plan is not None:
        plan = repaired(formulation, outcome.plan)
        broken = [str(fault) for fault in formulation.violations(plan)]
        assert all(fault.startswith("must_place") for fault in broken), broken


def test_what_devices_do_not_hold_goes_elsewhere() -> None:
    """Three shares of 600 on two devices are one too many; a third device has room."""
    instance = clusterplan.parse_instance(
        {
            "schema_version": 1,
            "kind": "consolidation",
            "name": "repair",
            "servers": [
                {"name": "n", "capacity": {"cpu": 8}, "devices": {"gpu": {"count": 2}}},
                {"name": "m", "capacity": {"cpu": 8}, "devices": {"gpu": {"count": 1}}},
            ],
            "jobs": [
                {"name": f"j{n}", "tasks": 1, "task_demand": {}, "share": {"gpu": 600}} for n in range(3)
            ],
        }
    )
    assert isinstance(instance, ConsolidationInstance)
    formulation = DeviceFormulation(instance)
    pooled: ConsolidationFormulation = formulation.pooled
    plan = pooled.parse_plan([{"job": f"j{n}", "servers": {"n": 1}} for n in range(3)])
    assert pooled.violations(plan) == []
    found = repaired(formulation, plan)
    assert formulation.violations(found) == []
    assert sorted(server for entry in found for server in entry.servers) == ["m", "n", "n"]


def test_a_job_that_is_spread_too_far_is_placed_again() -> None:
    """Three shares of 600 fit the sum of one server, so that the relaxation has no rule; devices need two."""
    document = {
        "schema_version": 1,
        "kind": "consolidation",
        "name": "spread",
        "servers": [{"name": "n", "count": 3, "capacity": {"cpu": 8}, "devices": {"gpu": {"count": 2}}}],
        "jobs": [{"name": "j", "tasks": 3, "task_demand": {}, "share": {"gpu": 600}, "spread": "required"}],
    }
    formulation = DeviceFormulation(clusterplan.parse_instance(document))  # type: ignore[arg-type]
    plan = formulation.pooled.parse_plan([{"job": "j", "servers": {"n-0": 1, "n-1": 1, "n-2": 1}}])
    assert formulation.pooled.violations(plan) == []
    (entry,) = repaired(formulation, plan)
    assert len(entry.servers) == 2
    assert formulation.violations([entry]) == []
