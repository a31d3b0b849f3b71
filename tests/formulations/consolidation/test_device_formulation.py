"""The formulation of instances with single devices."""

from __future__ import annotations

from typing import Any

import pytest
from device_instances import device_instance
from placements import job, placement, server

import clusterplan
from clusterplan.formulations.consolidation.certificate import DeviceCertificate
from clusterplan.formulations.consolidation.explain import APART
from clusterplan.formulations.consolidation.formulation import (
    ConsolidationFormulation,
    DeviceFormulation,
    formulation_of,
)
from clusterplan.formulations.consolidation.plan import JobPlacement
from clusterplan.formulations.registry import formulate
from clusterplan.instances.common.errors import OptionError
from clusterplan.instances.consolidation.instance import ConsolidationInstance


def _instance(jobs: list[dict[str, Any]], count: int = 2, **fields: Any) -> ConsolidationInstance:
    found = clusterplan.parse_instance(
        {
            "schema_version": 1,
            "kind": "consolidation",
            "name": "devices",
            "servers": [
                {"name": "n", "count": 2, "capacity": {"cpu": 8}, "devices": {"gpu": {"count": count}}}
            ],
            "jobs": [{"tasks": 1, "task_demand": {"cpu": 1}, **job} for job in jobs],
            **fields,
        }
    )
    assert isinstance(found, ConsolidationInstance)
    return found


def test_only_instances_with_devices_have_it() -> None:
    """Others are formulated as before."""
    assert type(formulate(device_instance(0))) is DeviceFormulation
    plain = placement(["value"], [server(gpu=1)], [job("a")])
    assert type(formulation_of(plain)) is ConsolidationFormulation


def test_classes_of_amounts_are_refused() -> None:
    """A method that knows no devices says so, rather than plan without them."""
    with pytest.raises(OptionError, match="does not place single devices"):
        _ = DeviceFormulation(device_instance(0)).classes


def test_fewest_servers_count_devices() -> None:
    """Three shares of 600 need three devices, so two servers; the relaxation forbids no such plan."""
    wanted = [
        {"name": "j", "tasks": 3, "share": {"gpu": 600}, "spread": rule} for rule in ("required", "free")
    ]
    instance = _instance([{**job, "name": f"j{n}"} for n, job in enumerate(wanted)])
    formulation = DeviceFormulation(instance)
    assert formulation.fewest(instance.jobs[0]) == 2
    assert formulation.pooled.fewest(formulation.pooled.instance.jobs[0]) == 1
    assert [job.spread for job in formulation.pooled.instance.jobs] == ["free", "free"]
    held = {"tasks": {"n-0": [{"gpu": [0]}, {"gpu": [1]}], "n-1": [{"gpu": [0]}]}}
    plan = [{"job": "j0", "servers": {"n-0": 2, "n-1": 1}, "devices": held}, {"job": "j1", "placed": False}]
    assert formulation.violations(formulation.parse_plan(plan)) == []


def test_reasons_speak_of_single_devices() -> None:
    """The sum of what is left would do for a share of 500, but no device has it."""
    instance = _instance(
        [{"name": f"j{n}", "share": {"gpu": 600}} for n in range(4)] + [{"name": "x", "share": {"gpu": 500}}]
    )
    result = clusterplan.solve(instance, solver="exact")
    assert result.plan is not None
    assert [entry.model_dump()["reason"] for entry in result.plan] == [None] * 4 + [APART]
    never = clusterplan.solve(_instance([{"name": "x", "devices": {"gpu": 3}}]), solver="best-fit").plan
    assert never is not None
    words = "never fits: a task of 'tasks' needs 3 gpu; the largest server has 2 (8 cpu, 2 gpu)"
    assert never[0].model_dump()["reason"] == words


def test_room_that_single_devices_have_is_no_reason() -> None:
    """A method that stopped early is not excused by devices."""
    formulation = DeviceFormulation(_instance([{"name": "x", "share": {"gpu": 500}}]))
    (entry,) = formulation.finish([JobPlacement(job="x", placed=False)])
    assert str(entry.reason).startswith("left out although there is room")


def test_wrong_certificates_are_named() -> None:
    """By their form, by the number of shapes, and in what is pooled."""
    formulation = DeviceFormulation(_instance([{"name": "x", "share": {"gpu": 500}}]))
    goal = {"objective": "value", "shapes": []}
    assert formulation.certificate_fault({"devices": [goal]}) == (
        "the prices of value are of 0 shapes of servers, not 1"
    )
    assert "devices.0.shapes" in str(formulation.certificate_fault({"devices": [{"objective": "value"}]}))
    assert formulation.certificate_fault({"pooled": {"goals": 1}}) is not None
    assert formulation.certificate_fault({"devices": [{**goal, "shapes": [{}]}]}) is None
    assert formulation.certified_bounds({"devices": 3})[0] == 0.5
    assert DeviceCertificate().devices == ()


def test_plans_without_devices_keep_their_form() -> None:
    """Their JSON, and so their hash, has no new key."""
    entry = JobPlacement(job="a", servers={"n": 1})
    assert list(entry.model_dump()) == ["job", "placed", "servers", "groups", "reason", "action"]
    named = JobPlacement.model_validate(
        {"job": "a", "servers": {"n": 1}, "devices": {"tasks": {"n": [{"gpu": {"device": 1, "slot": 4}}]}}}
    )
    assert JobPlacement.model_validate_json(named.model_dump_json()) == named
