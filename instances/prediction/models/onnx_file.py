"""ONNX files: the operators of a graph with known shapes; needs the library `onnx`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any

from ...common.errors import UnavailableError
from ...files.reading import checked_file, fail
from ..operators import Operator
from .description import Layer, LayerModel
from .torch_module import Sizes, convolution, placed, pooling

ELEMENTWISE: Mapping[str, str] = {
    **{"Relu": "relu", "Gelu": "gelu", "Tanh": "tanh", "Sigmoid": "tanh", "Erf": "tanh", "Mish": "silu"},
    **dict.fromkeys(("Clip", "LeakyRelu", "Elu", "Selu", "Celu", "PRelu", "HardSwish", "Swish"), "relu"),
    **dict.fromkeys(
        ("Sqrt", "Pow", "Neg", "Exp", "Log", "Abs", "Sin", "Cos", "Reciprocal", "Where"), "scale"
    ),
    **dict.fromkeys(("Softplus", "Softsign", "HardSigmoid", "CumSum", "Floor", "Round", "Sign"), "scale"),
    **{"Add": "add", "Sub": "add", "Mul": "mul", "Div": "div"},
    **dict.fromkeys(("Sum", "Max", "Min"), "add"),
    **dict.fromkeys(("Transpose", "Concat", "Slice", "Split", "Pad", "Expand", "Tile", "Resize"), "copy"),
    **dict.fromkeys(("DepthToSpace", "SpaceToDepth", "GatherElements", "GatherND", "TopK"), "copy"),
    **dict.fromkeys(("ScatterElements", "ScatterND"), "copy"),
}
NORMS: Mapping[str, str] = {
    **{"LayerNormalization": "layer_norm", "SimplifiedLayerNormalization": "rms_norm", "Softmax": "softmax"},
    **{"BatchNormalization": "batch_norm", "LogSoftmax": "softmax", "InstanceNormalization": "batch_norm"},
    **{"RMSNormalization": "rms_norm", "GroupNormalization": "layer_norm"},
}
FREE = frozenset(
    [
        *("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity", "Cast", "Dropout", "Not", "And", "Or"),
        *("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual", "IsNaN"),
    ]
)
"""Nodes that need no kernel in inference."""
SHAPES_ONLY = ("Shape", "Size")
"""Nodes that read only shapes."""
POOLS: Mapping[str, str] = {
    **{"MaxPool": "max_pool2d", "AveragePool": "avg_pool2d"},
    **dict.fromkeys(("GlobalAveragePool", "GlobalMaxPool", "ReduceMean", "ReduceSum", "ReduceMax"), "mean"),
    **dict.fromkeys(("ReduceMin", "ReduceL2", "ReduceSumSquare", "ReduceProd", "ArgMax"), "mean"),
}
PRODUCTS = ("Conv", "ConvTranspose", "Gemm", "MatMul", "Einsum", "Gather")
_STATISTICS = slice(3, 5)
"""Inputs of a batch normalisation that are not trained."""
_FLOATS = (1, 10, 11, 16)
"""Types of tensors in ONNX: single, half and double precision, bfloat16."""


def onnx_model(path: Path, source: str) -> LayerModel:
    """Return the model of an ONNX file with the shapes of one sample.

    Raises
    ------
    UnavailableError
        If `onnx` is not installed.
    InstanceError
        If the file is no ONNX file, or has unknown shapes or an unknown node.
    """
    checked_file(path, source)
    try:
        import onnx
    except ImportError:
        raise UnavailableError(
            "reading ONNX files needs the library onnx: pip install clusterplan[onnx]"
        ) from None
    try:
        model = onnx.shape_inference.infer_shapes(
            onnx.load(str(path), load_external_data=False), data_prop=True
        )
    except Exception as error:  # noqa: BLE001 - whatever the parser of an untrusted file raises
        raise fail(source, f"is no ONNX file that can be read: {str(error).splitlines()[0][:200]}") from None
    return graph_model(model.graph, path.stem, source)


def graph_model(graph: Any, name: str, source: str) -> LayerModel:
    """Return the model of an ONNX graph with the shapes of one sample."""
    shapes, record = _shapes(graph), _Record(graph)
    layers = []
    for index, node in enumerate(graph.node):
        label = node.name or f"{node.op_type} {index}"
        if not node.output or not record.computes(node):
            continue
        inputs = [shapes.get(tensor) for tensor in node.input]
        output = shapes.get(node.output[0])
        if output is None or any(size < 1 for size in output):
            raise fail(source, "has no shape; export it with a fixed batch of 1", label)
        operator = _operator(node, inputs, output)
        if operator is None:
            known = ", ".join(sorted({*ELEMENTWISE, *NORMS, *POOLS, *PRODUCTS}))
            raise fail(
                source, f"is {node.op_type}, which is not known in this form; known are {known}", label
            )
        kind, shape = operator
        made = placed(Operator(kind, tuple(shape), parameters=record.new_parameters(node)), Sizes(output))
        layers.append(Layer(label, (made,), prod(output)))
    if not layers:
        raise fail(source, "has no layers")
    return LayerModel(name, source, one_sample=tuple(layers))


class _Record:
    """Tracks which tensors depend on the graph's inputs, and which weights each tensor is made from."""

    def __init__(self, graph: Any) -> None:
        stored = {tensor.name: tensor for tensor in graph.initializer}
        self._numbers = {name: prod(one.dims) for name, one in stored.items() if one.data_type in _FLOATS}
        self._owners = {name: frozenset([name]) for name in self._numbers}
        self._samples = {value.name for value in graph.input if value.name not in stored}
        self._counted: set[str] = set()

    def computes(self, node: Any) -> bool:
        """Return whether a node needs a kernel; if not, its outputs count as its input weights."""
        moves = node.op_type not in SHAPES_ONLY and any(name in self._samples for name in node.input)
        self._samples.update(node.output if moves else ())
        if moves and node.op_type not in FREE:
            return True
        if node.op_type not in SHAPES_ONLY:
            self._owners.update((name, self._of(node)) for name in node.output)
        return False

    def _of(self, node: Any) -> frozenset[str]:
        return frozenset().union(*(self._owners.get(name, frozenset()) for name in node.input))

    def new_parameters(self, node: Any) -> int:
        """Return the number of trained parameters of a node that no earlier node has."""
        untrained = set(node.input[_STATISTICS]) if node.op_type == "BatchNormalization" else set()
        new = self._of(node) - self._counted - untrained
        self._counted |= new
        return sum(self._numbers[name] for name in new)


def _shapes(graph: Any) -> dict[str, tuple[int, ...]]:
    shapes = {tensor.name: tuple(tensor.dims) for tensor in graph.initializer}
    for value in (*graph.input, *graph.value_info, *graph.output):
        shapes[value.name] = tuple(size.dim_value for size in value.type.tensor_type.shape.dim)
    return shapes


def _attribute(node: Any, name: str, default: Sequence[int]) -> list[int]:
    for attribute in node.attribute:
        if attribute.name == name:
            return list(attribute.ints) or [attribute.i]
    return list(default)


def _operator(
    node: Any, inputs: Sequence[tuple[int, ...] | None], output: tuple[int, ...]
) -> tuple[str, Sequence[int]] | None:
    """Return the kind and shape of the operator of a node; None if it is unknown."""
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
    if node.op_type in POOLS:
        kernel = _attribute(node, "kernel_shape", ())
        ends = _attribute(node, "pads", (0,) * 2 * len(kernel))
        args = [None, kernel, _attribute(node, "strides", (1,) * len(kernel)), ends[: len(kernel)]]
        return pooling(POOLS[node.op_type], args, Sizes(first), Sizes(output))
    match node.op_type:
        case "Conv" | "ConvTranspose" if second is not None:
            return _convolution(node, first, second, output)
        case "Einsum" if second is not None and len(inputs) == 2:
            return _einsum(node, first, second)
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
    return None


def _convolution(
    node: Any, first: tuple[int, ...], weight: tuple[int, ...], output: tuple[int, ...]
) -> tuple[str, Sequence[int]] | None:
    """Return kind and shape of a convolution; asymmetric padding is added to the input size."""
    axes, transposed = len(first) - 2, node.op_type == "ConvTranspose"
    strides = _attribute(node, "strides", (1,) * axes)
    dilations = _attribute(node, "dilations", (1,) * axes)
    pads = _attribute(node, "pads", (0,) * 2 * axes)
    before, after = pads[:axes], pads[axes:]
    if not transposed:
        covered = [(k - 1) * gap + 1 for k, gap in zip(weight[2:], dilations, strict=True)]
        needed = [(n - 1) * step + c for n, step, c in zip(output[2:], strides, covered, strict=True)]
        padded = [size + 2 * pad for size, pad in zip(first[2:], before, strict=True)]
        if before != after or any(n > size for n, size in zip(needed, padded, strict=True)):
            first, before = (*first[:2], *needed), [0] * axes
    group = _attribute(node, "group", (1,))[0]
    args = [Sizes(first), Sizes(weight), None, strides, before, dilations, transposed, None, group]
    return convolution(args, Sizes(output))


def _einsum(node: Any, first: tuple[int, ...], second: tuple[int, ...]) -> tuple[str, Sequence[int]] | None:
    """Return kind and shape of a two-tensor einsum as a batched matrix product; None if it is not one."""
    equation = next((one.s.decode() for one in node.attribute if one.name == "equation"), "").replace(" ", "")
    given, arrow, result = equation.partition("->")
    left, _, right = given.partition(",")
    if not arrow or len(left) != len(first) or len(right) != len(second):
        return None
    sizes = {**dict(zip(left, first, strict=True)), **dict(zip(right, second, strict=True))}
    batch, rows, inner, columns = (
        prod(
            sizes[letter] for letter in sizes if (letter in left, letter in right, letter in result) == where
        )
        for where in ((True, True, True), (True, False, True), (True, True, False), (False, True, True))
    )
    return "bmm", (batch, rows, inner, columns)
