"""Models described by tables of layers, and convolutional networks by name."""

from __future__ import annotations

import pytest
from sample_documents import refused

from clusterplan.instances.common.errors import InstanceError, OptionError
from clusterplan.instances.prediction.models import load_model
from clusterplan.instances.prediction.models.convolutional_networks import NETWORKS, Picture, resnet
from clusterplan.instances.prediction.models.description import (
    BATCH_SIZE_OF,
    Layer,
    LayerModel,
    Setting,
    device_memory,
    merged,
    model_of_rows,
)
from clusterplan.instances.prediction.operators import SHAPES, Operator, flops, linear


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


def test_rows_of_one_name_are_one_layer() -> None:
    rows = [
        ("1", {"layer": "a", "kind": "linear", "shape": "1×2×3", "count": "2"}),
        ("2", {"layer": "a", "kind": "relu", "shape": [1, 3], "saved": 0}),
    ]
    (layer,) = model_of_rows(rows, "mine", "here").layers(Setting())
    assert [op.count for op in layer.operators] == [2, 1]
    assert layer.activations == 6


def test_every_fault_is_told() -> None:
    rows = [("layers[0]", "text"), ("layers[1]", {"kind": "relu"}), ("layers[2]", {"layer": "a"})]
    with pytest.raises(InstanceError) as error:
        model_of_rows(rows, "mine", "here")
    assert str(error.value).splitlines() == [
        "here: layers[0]: is no mapping; the fields are layer, kind, shape, count, parameters, saved",
        "here: layers[1]: has no layer and no shape",
        "here: layers[2]: has no kind and no shape",
    ]
    with pytest.raises(InstanceError, match="has 0 layers"):
        model_of_rows([], "mine", "here")


LINEAR = {"layer": "a", "kind": "linear", "shape": [1, 2, 3]}


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"paramters": 6}, "'paramters' means nothing here; the fields are layer, kind"),
        ({"layer": ["a"]}, "layer is a list; it must be a name"),
        ({"shape": [-1, 2, 3]}, "shape is '-1'; it must be made of whole numbers"),
        ({"shape": [float("nan"), 2, 3]}, "shape is 'nan'"),
        ({"shape": [True, 2, 3]}, "shape is 'True'"),
        ({"shape": [10**16, 2, 3]}, "of at most 15 digits"),
        ({"count": "many"}, "count is 'many'"),
        ({"saved": -1}, "saved is '-1'"),
    ],
)
def test_a_wrong_row_is_one_line(wrong: dict[str, object], says: str) -> None:
    with refused(says):
        model_of_rows([("row", {**LINEAR, **wrong})], "mine", "here")


def test_a_layer_does_not_begin_twice() -> None:
    rows = [(str(index), {**LINEAR, "layer": name}) for index, name in enumerate("aaba")]
    with pytest.raises(InstanceError, match="3: layer 'a' began above; its rows must follow one another"):
        model_of_rows(rows, "mine", "here")


def test_null_counts_as_left_out() -> None:
    row = {**LINEAR, "count": None, "parameters": None, "saved": ""}
    assert model_of_rows([("", row)], "mine", "here") == model_of_rows([("", LINEAR)], "mine", "here")


def test_a_table_without_parameters_says_so() -> None:
    assert "no parameters" in model_of_rows([("", LINEAR)], "mine", "here").assumptions[0]
    assert not model_of_rows([("", {**LINEAR, "parameters": 6})], "mine", "here").assumptions


HALF = Setting(1, 128, precision="fp16")


def test_mixed_precision_with_adam_takes_sixteen_bytes_a_parameter() -> None:
    """Rajbhandari et al. 2020, section 3.1."""
    model = load_model("gpt2")
    memory = device_memory(model, HALF)
    assert memory.parameters + memory.gradients + memory.optimiser == 16 * model.parameters()


@pytest.mark.parametrize(("stage", "bytes_each"), [(0, 16), (1, 4 + 12 / 8), (2, 2 + 14 / 8), (3, 16 / 8)])
def test_zero_divides_what_its_stage_says(stage: int, bytes_each: float) -> None:
    """Figure 1 of the same."""
    model = load_model("gpt2")
    memory = device_memory(model, HALF, zero_stage=stage, data_parallel=8)
    assert memory.total - memory.activations == pytest.approx(bytes_each * model.parameters())


def test_recomputation_saves_and_inference_needs_least() -> None:
    model = load_model("gpt2-large")
    full, recomputed = (device_memory(model, Setting(8), recompute=flag) for flag in (False, True))
    inference = device_memory(model, Setting(8, training=False))
    assert inference.total < recomputed.total < 0.4 * full.total


def test_what_is_not_known_is_one_line() -> None:
    for change, says in (
        ({"optimiser": "lamb"}, "optimiser 'lamb': unknown; there are sgd"),
        ({"zero_stage": 4}, "zero_stage 4: must be 0, 1, 2 or 3"),
        ({"data_parallel": 0}, "data_parallel 0: must be at least 1"),
    ):
        with pytest.raises(OptionError, match=says):
            device_memory(load_model("gpt2"), HALF, **change)  # type: ignore[arg-type]


BILLIONS = {
    "alexnet": 0.71,
    "vgg16": 15.5,
    "vgg19": 19.6,
    "resnet50": 4.1,
    "resnet152": 11.5,
    "inception-v3": 5.7,
}
"""Multiplications and additions of a sample, together one, as the papers and torchvision count them."""


@pytest.mark.parametrize("name", BILLIONS)
def test_operations_are_those_of_the_paper(name: str) -> None:
    operators = NETWORKS[name]().operators(Setting(training=False))
    products = flops(op for op in operators if op.kind in ("conv", "linear"))
    assert products / 2e9 == pytest.approx(BILLIONS[name], rel=0.02)


def test_branches_join_their_channels() -> None:
    net = Picture(32).branches(lambda n: n.conv(4, 1), lambda n: n.conv(6, 3, 1, 1))
    assert net.shape == (10, 32, 32)


def test_a_residual_network_ends_at_its_classes() -> None:
    layers = resnet("resnet18").layers(Setting(3))
    assert layers[-1].output == 3000
    assert len(layers) == 10
