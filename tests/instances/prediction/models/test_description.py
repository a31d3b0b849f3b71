"""Layers: forward and backward operators, and equal ones counted together."""

from __future__ import annotations

import pytest

from clusterplan.instances.common.errors import OptionError
from clusterplan.instances.prediction.models.description import Layer, Setting, merged
from clusterplan.instances.prediction.operators import Operator, linear


def test_equal_operators_become_one_with_their_count() -> None:
    one, other = linear(2, 3, 4), Operator("relu", (2, 4), count=2)
    found = merged([one, other, linear(2, 3, 4, bias=False), other])
    assert [(op.kind, op.count) for op in found] == [("linear", 2), ("relu", 4)]


def test_a_layer_trains_with_both_passes() -> None:
    layer = Layer("one", (linear(2, 3, 4), Operator("relu", (2, 4))), 8)
    assert [op.kind for op in layer.passes(training=False)] == ["linear", "relu"]
    assert [op.kind for op in layer.backward] == ["linear", "linear", "sum", "mul"]
    assert layer.parameters == 16
    assert layer.activations == 16


def test_settings_are_checked() -> None:
    with pytest.raises(OptionError, match="precision 'half': unknown"):
        Setting(precision="half")
    with pytest.raises(OptionError, match="tensor_parallel 0: must be from 1"):
        Setting(tensor_parallel=0)
