"""The check of device certificates: later bounds count only where earlier objectives are proven."""

from __future__ import annotations

import pytest

import clusterplan
from clusterplan.formulations.consolidation.check.device_certificate import (
    read_device_certificate,
    shape_bounds,
)
from clusterplan.formulations.consolidation.devices.device_prices import DeviceCertificate
from clusterplan.formulations.consolidation.devices.formulation import DeviceFormulation
from clusterplan.instances.consolidation.instance import ConsolidationInstance

INSTANCE = clusterplan.parse_instance(
    {
        "schema_version": 1,
        "kind": "consolidation",
        "name": "levels",
        "objectives": ["value", "servers"],
        "servers": [{"name": "n", "count": 4, "capacity": {"cpu": 8}, "devices": {"gpu": {"count": 1}}}],
        "jobs": [
            {"name": f"j{n}", "tasks": 1, "task_demand": {"cpu": 1}, "share": {"gpu": 600}, "value": 1}
            for n in range(3)
        ],
    }
)
GOALS = {
    "devices": [
        {"objective": "value", "shapes": [{}]},
        {
            "objective": "servers",
            "shapes": [{"devices": {"gpu": {"shares": {600: 1.0}}}}],
            "multipliers": {"value": 1.0},
        },
    ]
}


def test_fewest_servers_at_the_best_value() -> None:
    """Three shares of 600 need three devices, where their sum would fit on two."""
    assert isinstance(INSTANCE, ConsolidationInstance)
    certificate = read_device_certificate(INSTANCE, GOALS)
    assert isinstance(certificate, DeviceCertificate)
    objectives = DeviceFormulation(INSTANCE).objectives
    assert shape_bounds(INSTANCE, objectives, certificate.devices, (3.0, 3.0), (3.0, 0.0)) == [3.0, 3.0]
    worse = shape_bounds(INSTANCE, objectives, certificate.devices, (2.0, 2.0), (3.0, 0.0))
    assert worse == [3.0, 2.0]
    assert shape_bounds(INSTANCE, objectives, certificate.devices, None, (3.0, 0.0)) == [3.0, None]


def test_exact_finds_such_prices() -> None:
    """And the stored result proves them again."""
    result = clusterplan.solve(INSTANCE, solver="exact")
    assert [(o.value, o.certified_bound) for o in result.objectives] == [(3.0, 3.0), (3.0, 3.0)]
    verification = clusterplan.verify(INSTANCE, type(result).model_validate_json(result.to_json()))
    assert verification.ok
    assert result.status == "optimal"


@pytest.mark.parametrize("price", [-1.0, 1e13, float("nan")])
def test_prices_out_of_range_are_refused(price: float) -> None:
    """In words that name the field."""
    assert isinstance(INSTANCE, ConsolidationInstance)
    goal = {"objective": "value", "shapes": [{"resources": {"cpu": price}}]}
    assert str(read_device_certificate(INSTANCE, {"devices": [goal]})).startswith(
        "devices.0.shapes.0.resources"
    )


def test_prices_of_another_number_of_shapes_are_refused() -> None:
    """Fewer, or more."""
    assert isinstance(INSTANCE, ConsolidationInstance)
    for shapes in ([], [{}, {}]):
        fault = read_device_certificate(INSTANCE, {"devices": [{"objective": "value", "shapes": shapes}]})
        assert fault == f"the prices of value are of {len(shapes)} shapes of servers, not 1"
