"""ONNX files: graphs become operators; without the library one line says what to install."""

from __future__ import annotations

import importlib.util
from math import prod
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from clusterplan.instances.common.errors import InstanceError, UnavailableError
from clusterplan.instances.prediction.models.description import Setting
from clusterplan.instances.prediction.models.onnx_file import graph_model, onnx_model
from clusterplan.instances.prediction.operators import Operator


def test_without_the_library_one_line_says_so(tmp_path: Path) -> None:
    if importlib.util.find_spec("onnx"):
        pytest.skip("onnx is installed")
    file = tmp_path / "mine.onnx"
    file.write_bytes(b"x")
    with pytest.raises(UnavailableError, match=r"pip install clusterplan\[onnx\]"):
        onnx_model(file, str(file))


def test_a_graph_becomes_operators(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], name="first", pads=[1, 1, 1, 1], strides=[2, 2]),
        helper.make_node("Relu", ["c"], ["r"], name="active"),
        helper.make_node("Flatten", ["r"], ["f"]),
        helper.make_node("Gemm", ["f", "m", "b"], ["y"], name="last"),
    ]
    weights = [
        onnx.TensorProto(name=name, dims=dims, data_type=kind, raw_data=bytes(4 * size))
        for name, dims, size in (("w", [4, 3, 3, 3], 108), ("m", [64, 10], 640), ("b", [10], 10))
    ]
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", kind, [1, 3, 8, 8])],
        [helper.make_tensor_value_info("y", kind, [1, 10])], weights,
    )  # fmt: skip
    file = tmp_path / "mine.onnx"
    onnx.save(helper.make_model(graph), str(file))
    model = onnx_model(file, str(file))
    layers = model.layers(Setting(5))
    assert [layer.operators[0].kind for layer in layers] == ["conv", "relu", "linear"]
    assert model.parameters() == 108 + 640 + 10
    assert layers[2].operators[0].shape == (5, 64, 10)


def test_a_node_that_is_not_known_is_one_line(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        [helper.make_node("Det", ["x"], ["y"], name="odd")], "g",
        [helper.make_tensor_value_info("x", kind, [1, 2, 2])],
        [helper.make_tensor_value_info("y", kind, [1])],
    )  # fmt: skip
    file = tmp_path / "mine.onnx"
    onnx.save(helper.make_model(graph), str(file))
    with pytest.raises(InstanceError, match="odd: is Det, which is not known in this form; known are Abs"):
        onnx_model(file, str(file))
    file.write_bytes(b"\xff\xff")
    with pytest.raises(InstanceError, match="is no ONNX file"):
        onnx_model(file, str(file))


def _value(name: str, shape: tuple[int, ...]) -> SimpleNamespace:
    dims = SimpleNamespace(dim=[SimpleNamespace(dim_value=size) for size in shape])
    return SimpleNamespace(name=name, type=SimpleNamespace(tensor_type=SimpleNamespace(shape=dims)))


def _node(kind: str, inputs: str, output: str, **attributes: Any) -> SimpleNamespace:
    fields = []
    for name, value in attributes.items():
        given: dict[str, Any] = {"ints": [], "i": 0, "s": b""}
        key = "ints" if isinstance(value, list) else "s" if isinstance(value, bytes) else "i"
        fields.append(SimpleNamespace(name=name, **{**given, key: value}))
    return SimpleNamespace(op_type=kind, name="", input=inputs.split(), output=[output], attribute=fields)


def _graph(
    nodes: list[SimpleNamespace], weights: dict[str, tuple[int, ...]], **tensors: tuple[int, ...]
) -> SimpleNamespace:
    """Return a graph as ONNX has it, with weights of single precision, and `x` as its input."""
    values = [_value(name, shape) for name, shape in tensors.items()]
    stored = [SimpleNamespace(name=name, dims=dims, data_type=1) for name, dims in weights.items()]
    return SimpleNamespace(node=nodes, initializer=stored, input=values[:1], value_info=values[1:], output=[])


def _one(kind: str, weight: tuple[int, ...], x: tuple[int, ...], y: tuple[int, ...], **more: Any) -> Operator:
    graph = _graph([_node(kind, "x w", "y", **more)], {"w": weight}, x=x, y=y)
    ((operator,),) = (layer.operators for layer in graph_model(graph, "mine", "here").one_sample)
    return operator


@pytest.mark.parametrize(
    ("more", "y"),
    [
        ({"dilations": [2, 2], "pads": [2, 2, 2, 2]}, (1, 4, 8, 8)),
        ({"dilations": [3, 3]}, (1, 4, 2, 2)),
        ({"strides": [1, 2], "pads": [1, 1, 1, 1]}, (1, 4, 8, 4)),
        ({"pads": [0, 0, 2, 2]}, (1, 4, 8, 8)),
        ({"auto_pad": b"SAME_UPPER"}, (1, 4, 8, 8)),
    ],
)
def test_convolutions_return_as_much_as_the_file_says(more: dict[str, Any], y: tuple[int, ...]) -> None:
    found = _one("Conv", (4, 6, 3, 3), (1, 6, 8, 8), y, **more)
    assert found.outputs == prod(y)
    assert found.flops == 2 * prod(y) * 6 * 9


def test_convolutions_of_sequences_and_transposed_ones() -> None:
    row = _one("Conv", (4, 6, 3), (1, 6, 9), (1, 4, 5), strides=[2], pads=[1, 1])
    assert (row.outputs, row.flops) == (20, 2 * 20 * 18)
    up = _one("ConvTranspose", (6, 4, 2, 2), (1, 6, 8, 8), (1, 4, 16, 16), strides=[2, 2])
    assert (up.flops, up.activations, up.parameters) == (2 * 6 * 64 * 16, 4 * 256, 96)


def test_products_by_their_letters() -> None:
    found = _one("Einsum", (4, 16, 32), (1, 7, 4, 16), (1, 4, 7, 32), equation=b"bthd,hde->bhte")
    assert (found.kind, found.shape, found.parameters) == ("bmm", (4, 7, 16, 32), 2048)


def test_rectangles_are_pooled_as_sums() -> None:
    graph = _graph(
        [_node("MaxPool", "x", "y", kernel_shape=[2, 1], strides=[2, 1])], {}, x=(1, 3, 8, 8), y=(1, 3, 4, 8)
    )
    assert graph_model(graph, "mine", "here").one_sample[0].operators[0].shape == (2, 96)


def test_weights_are_counted_once_and_where_they_are_used() -> None:
    """A table tied to the last layer, a weight that is reshaped, and statistics, which are not trained."""
    nodes = [
        _node("Gather", "w x", "a"),
        _node("Reshape", "g to", "h"),
        _node("Mul", "a h", "b"),
        _node("BatchNormalization", "b s t mean var", "c"),
        _node("Transpose", "w", "v"),
        _node("MatMul", "c v", "y"),
    ]
    weights = {"w": (50, 8), "g": (2, 4), "s": (8,), "t": (8,), "mean": (8,), "var": (8,)}
    shapes = {"a": (1, 5, 8), "h": (8,), "b": (1, 5, 8), "c": (1, 5, 8), "v": (8, 50), "y": (1, 5, 50)}
    model = graph_model(_graph(nodes, weights, x=(1, 5), **shapes), "mine", "here")
    assert [layer.operators[0].parameters for layer in model.one_sample] == [400, 8, 16, 0]


def test_what_depends_on_no_input_is_no_layer() -> None:
    nodes = [_node("Shape", "x", "n"), _node("Mod", "n n", "m"), _node("Relu", "x", "y")]
    model = graph_model(_graph(nodes, {}, x=(1, 5), y=(1, 5)), "mine", "here")
    assert [layer.name for layer in model.one_sample] == ["Relu 2"]
