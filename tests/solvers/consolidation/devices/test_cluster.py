"""An instance with devices in integers."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import clusterplan
from clusterplan.formulations.consolidation.formulation import DeviceFormulation
from clusterplan.instances.consolidation.devices import Ask
from clusterplan.instances.consolidation.instance import ConsolidationInstance
from clusterplan.solvers.consolidation.devices.classes import Cluster

DOCUMENT: dict[str, Any] = {
    "schema_version": 1,
    "kind": "consolidation",
    "name": "integers",
    "servers": [
        {"name": "a", "count": 2, "capacity": {"cpu": 8}, "devices": {"gpu": {"count": 2}}},
        {"name": "b", "capacity": {"cpu": 8}, "devices": {"gpu": {"count": 1}}, "gpu_model": "B"},
        {"name": "c", "capacity": {"cpu": 1.2}},
    ],
    "jobs": [
        {"name": "w", "tasks": 1, "task_demand": {"cpu": 1.5}, "devices": {"gpu": 2}},
        {"name": "s", "tasks": 2, "task_demand": {"cpu": 0.25}, "share": {"gpu": 460}},
        {"name": "t", "tasks": 2, "task_demand": {"cpu": 0.25}, "share": {"gpu": 460}},
        {
            "name": "b",
            "tasks": 1,
            "task_demand": {"cpu": 0.25},
            "share": {"gpu": 460},
            "gpu_model": ["B", "C"],
        },
        {"name": "n", "tasks": 1, "task_demand": {}},
    ],
}


def test_kinds_shapes_and_classes() -> None:
    """Amounts are multiples of their common unit; what a server never holds is known from the start."""
    instance = clusterplan.parse_instance(DOCUMENT)
    assert isinstance(instance, ConsolidationInstance)
    cluster = Cluster(DeviceFormulation(instance))
    assert cluster.units == [Fraction(1, 4)]
    assert [(shape.server.name, shape.members, shape.free) for shape in cluster.shapes] == [
        ("a-0", (0, 1), (32,)),
        ("b", (2,), (32,)),
        ("c", (3,), (4,)),
    ]
    assert [(kind.need, kind.asks) for kind in cluster.kinds] == [
        ((6,), ((0, Ask(whole=2)),)),
        ((1,), ((0, Ask(share=460)),)),
        ((1,), ((0, Ask(share=460)),)),
        ((0,), ()),
    ]
    assert cluster.hosts.tolist() == [
        [True, False, False],
        [True, True, False],
        [False, True, False],
        [True, True, True],
    ]
    assert [(alike.members, alike.groups) for alike in cluster.classes] == [
        ((0,), ((0, 1),)),
        ((1, 2), ((1, 2),)),
        ((3,), ((2, 1),)),
        ((4,), ((3, 1),)),
    ]
