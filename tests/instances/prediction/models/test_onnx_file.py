"""ONNX files: graphs become operators; without the library one line says what to install."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from clusterplan.instances.common.errors import InstanceError, UnavailableError
from clusterplan.instances.prediction.models.description import Setting
from clusterplan.instances.prediction.models.onnx_file import onnx_model


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
    with pytest.raises(InstanceError, match="odd: is Det, which is not known; known are Add"):
        onnx_model(file, str(file))
    file.write_bytes(b"\xff\xff")
    with pytest.raises(InstanceError, match="is no ONNX file"):
        onnx_model(file, str(file))
