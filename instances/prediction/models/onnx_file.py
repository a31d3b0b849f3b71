"""ONNX files: the operators of a graph whose shapes are known; needs the library `onnx`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any

from ...common.errors import UnavailableError
from ...files.reading import checked_file, fail
from ..operators import Operator
from .description import Layer
from .layer_model import LayerModel

ELEMENTWISE: Mapping[str, str] = {
    **{"Relu": "relu", "Gelu": "gelu", "Tanh": "tanh", "Sigmoid": "tanh", "Erf": "tanh", "Sqrt": "scale"},
    **{"Pow": "scale", "Neg": "scale", "Exp": "scale", "Clip": "relu", "LeakyRelu": "relu", "Where": "scale"},
    **{"Add": "add", "Sub": "add", "Mul": "mul", "Div": "div"},
    **{"Transpose": "copy", "Concat": "copy", "Slice": "copy", "Split": "copy", "Pad": "copy"},
    "Expand": "copy",
}
NORMS: Mapping[str, str] = {
    **{"LayerNormalization": "layer_norm", "SimplifiedLayerNormalization": "rms_norm", "Softmax": "softmax"},
    **{"BatchNormalization": "batch_norm", "LogSoftmax": "softmax", "InstanceNormalization": "batch_norm"},
}
FREE = frozenset(
    [
        *("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity", "Constant", "ConstantOfShape"),
        *("Shape", "Cast", "Dropout", "Range"),
    ]
)
"""Nodes that move no data worth a kernel in inference."""
POOLS = ("MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool")


def onnx_model(path: Path, source: str) -> LayerModel:
    """Return the model of an ONNX file whose shapes are those of one sample.

    Raises
    ------
    UnavailableError
        If `onnx` is not installed.
    InstanceError
        If the file is no ONNX file, has shapes that are not known, or a node that is not.
    """
    checked_file(path, source)
    try:
        import onnx
    except ImportError:
        raise UnavailableError(
            "reading ONNX files needs the library onnx: pip install clusterplan[onnx]"
        ) from None
    try:
        model = onnx.shape_inference.infer_shapes(onnx.load(str(path), load_external_data=False))
    except Exception as error:  # noqa: BLE001 - whatever the parser of an untrusted file raises
        raise fail(source, f"is no ONNX file that can be read: {str(error).splitlines()[0][:200]}") from None
    return graph_model(model.graph, path.stem, source)


def graph_model(graph: Any, name: str, source: str) -> LayerModel:
    """Return the model of an ONNX graph."""
    shapes = _shapes(graph)
    weights = {tensor.name: prod(tensor.dims) for tensor in graph.initializer}
    layers = []
    for index, node in enumerate(graph.node):
        if node.op_type in FREE or not node.output:
            continue
        label = node.name or f"{node.op_type} {index}"
        known = [shapes.get(tensor) for tensor in (*node.input, node.output[0])]
        output = known[-1]
        if output is None or any(size < 1 for size in output):
            raise fail(source, "has no shape; export it with a fixed batch of 1", label)
        operator = _operator(node, known[:-1], output)
        if operator is None:
            known_types = ", ".join(
                sorted({*ELEMENTWISE, *NORMS, *POOLS, "Conv", "Gemm", "MatMul", "Gather"})
            )
            raise fail(source, f"is {node.op_type}, which is not known; known are {known_types}", label)
        own = sum(weights.get(tensor, 0) for tensor in node.input)
        kind, shape = operator
        layers.append(Layer(label, (Operator(kind, shape, parameters=own),), prod(output)))
    if not layers:
        raise fail(source, "has no layers")
    return LayerModel(name, source, one_sample=tuple(layers))


def _shapes(graph: Any) -> dict[str, tuple[int, ...]]:
    found = {tensor.name: tuple(tensor.dims) for tensor in graph.initializer}
    for value in (*graph.input, *graph.value_info, *graph.output):
        found[value.name] = tuple(size.dim_value for size in value.type.tensor_type.shape.dim)
    return found


def _attribute(node: Any, name: str, default: Sequence[int]) -> list[int]:
    for attribute in node.attribute:
        if attribute.name == name:
            return list(attribute.ints) or [attribute.i]
    return list(default)


def _operator(
    node: Any, inputs: Sequence[tuple[int, ...] | None], output: tuple[int, ...]
) -> tuple[str, tuple[int, ...]] | None:
    """Return the kind and shape of a node; None if it is not known."""
    first, second = (inputs[0] if inputs else None), (inputs[1] if len(inputs) > 1 else None)
    rows, width = max(prod(output) // output[-1], 1) if output else 1, output[-1] if output else 1
    if node.op_type in ELEMENTWISE:
        kind = ELEMENTWISE[node.op_type]
        alike = len(inputs) > 1 and inputs[0] == inputs[1]
        return ("scale" if kind in ("add", "mul", "div") and not alike else kind), (rows, width)
    if node.op_type in NORMS:
        return NORMS[node.op_type], (rows, width)
    if first is None:
        return None
    match node.op_type:
        case "Conv" if second is not None and len(output) == 4:
            stride, pads = _attribute(node, "strides", (1, 1))[0], _attribute(node, "pads", (0, 0, 0, 0))
            group = _attribute(node, "group", (1,))[0]
            high, wide = second[2:]
            sizes = (first[0], first[1], output[1], high, wide, *first[2:], stride, *pads[:2], group)
            return "conv", sizes
        case "Gemm" if second is not None:
            inner = first[0] if _attribute(node, "transA", (0,))[0] else first[-1]
            return "linear", (output[0], inner, output[-1])
        case "MatMul" if second is not None:
            if len(second) <= 2:
                return "linear", (rows, first[-1], width)
            return "bmm", (max(prod(output[:-2]), 1), output[-2], first[-1], width)
        case "Gather" if len(first) == 2:
            return "embedding", (rows, width, first[0])
        case "Gather":
            return "copy", (rows, width)
        case kind if kind in POOLS and len(first) == 4:
            kernel = _attribute(node, "kernel_shape", first[2:])[0]
            stride = _attribute(node, "strides", (kernel,))[0]
            padding = _attribute(node, "pads", (0,))[0]
            return "pool", (*first, kernel, stride, padding)
    return None
