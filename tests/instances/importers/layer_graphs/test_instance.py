"""A chain of layers as a staging instance."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clusterplan.instances.common.errors import InstanceError
from clusterplan.instances.importers.layer_graphs.graph import LayerGraph, Node, chain_of
from clusterplan.instances.importers.layer_graphs.instance import staging_instance
from clusterplan.instances.importers.layer_graphs.pipedream import PipedreamOptions

NODES = {key: Node(key, {"gpu": 2.0}, output_bytes=10, weight_bytes=5e8) for key in "ab"}
OPTIONS = PipedreamOptions(graph_file=Path("g"), types={"fast": 3.0, "slow": 1.0}, limit={"x": 1})


def made(devices: dict[str, tuple[str, float]]) -> Any:
    """Return the instance of two layers."""
    return staging_instance(
        chain_of(LayerGraph("g", NODES, [("a", "b")])),
        OPTIONS.model_copy(update={"link_gbit_per_s": 8.0, "limit": {"fast": 2}}),
        devices,
        name="n",
        source="s",
        assumptions=[],
        batch=4,
        memory_gib={},
        all_reduce=True,
    )


def test_a_type_is_as_fast_as_is_said() -> None:
    """Times are divided by the speed; the all-reduce takes twice the weights over the link."""
    instance = made({"fast": ("gpu", 2.0), "slow": ("gpu", 1.0)})
    assert instance.layers[0].compute_s == {"fast": 1.0, "slow": 2.0}
    assert instance.layers[0].communication_s["fast"] == pytest.approx(2 * 5e8 * 8 / 8e9)
    assert [kind.limit for kind in instance.types] == [2, None]


def test_a_layer_that_no_type_can_run() -> None:
    """It is named."""
    with pytest.raises(InstanceError, match="none of fast can run"):
        made({"fast": ("cpu", 1.0)})


def test_options_for_types_that_are_not_chosen() -> None:
    """One fault each."""
    with pytest.raises(InstanceError, match=r"options: limit.x: unknown type 'x'"):
        OPTIONS.refuse_unknown("limit", "speeds")
    OPTIONS.refuse_unknown("speeds")
