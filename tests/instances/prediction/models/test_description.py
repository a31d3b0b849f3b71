"""Descriptions of models: layers, settings, and the memory of a device."""

from __future__ import annotations

import pytest

from clusterplan.instances.common.errors import OptionError
from clusterplan.instances.prediction.models import load_model
from clusterplan.instances.prediction.models.description import (
    BATCH_SIZE_OF,
    Layer,
    LayerModel,
    Setting,
    device_memory,
    held_bytes,
    merged,
)
from clusterplan.instances.prediction.operators import SHAPES, Operator, linear


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


def test_operations_and_activations_grow_with_the_batch() -> None:
    operators = (linear(1, 3, 4), Operator("conv", (1, 3, 4, 3, 3, 8, 8, 1, 1, 1, 1), parameters=108))
    model = LayerModel("mine", one_sample=(Layer("one", operators, 4),))
    one, five = (model.layers(Setting(batch, precision="fp16"))[0] for batch in (1, 5))
    assert five.activations == 5 * one.activations
    assert five.output == 20
    assert five.parameters == one.parameters
    assert all(op.precision == "fp16" for op in five.operators)
    assert [b.flops / a.flops for a, b in zip(one.operators, five.operators, strict=True)] == [5, 5]


def test_every_kind_can_grow() -> None:
    assert all(BATCH_SIZE_OF[kind] in SHAPES[kind] for kind in SHAPES)


HALF = Setting(1, 128, precision="fp16")


def test_mixed_precision_with_adam_takes_sixteen_bytes_a_parameter() -> None:
    """Rajbhandari et al. 2020, section 3.1."""
    model = load_model("gpt2")
    memory = device_memory(model.layers(HALF), HALF)
    assert memory.parameters + memory.gradients + memory.optimiser == 16 * model.parameters()


@pytest.mark.parametrize(("stage", "bytes_each"), [(0, 16), (1, 4 + 12 / 8), (2, 2 + 14 / 8), (3, 16 / 8)])
def test_zero_divides_what_its_stage_says(stage: int, bytes_each: float) -> None:
    """Figure 1 of the same."""
    model = load_model("gpt2")
    memory = held_bytes(model.parameters(), 2, "adam", stage, 8)
    assert sum(memory) == pytest.approx(bytes_each * model.parameters())


def test_what_is_not_known_is_one_line() -> None:
    with pytest.raises(OptionError, match="optimiser 'lamb': unknown; there are sgd"):
        held_bytes(1, 2, "lamb")
