"""Models of layers: everything grows with the batch but the weights."""

from __future__ import annotations

from clusterplan.instances.prediction.models.description import Layer, Setting
from clusterplan.instances.prediction.models.layer_model import GROWS, LayerModel
from clusterplan.instances.prediction.operators import SHAPES, Operator, linear


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
    assert all(GROWS[kind] in SHAPES[kind] for kind in SHAPES)
