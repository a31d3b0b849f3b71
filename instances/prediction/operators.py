"""Operators of layers, with their floating-point operations, bytes and parameters.

An operator has a kind and a shape. Its training step is its forward pass and the operators of its backward
pass, which are of the same kinds, so that the same measurements predict both.

A node of a computation graph is a call of PyTorch's library ATen, with shapes in place of tensors, or an
operator of ONNX; `calls.yaml` says which kind each is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import prod
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import BeforeValidator

from ..common.errors import OptionError
from ..files.reading import parse_yaml, read_text

PRECISION_BYTES: Mapping[str, int] = {"fp64": 8, "fp32": 4, "tf32": 4, "bf16": 2, "fp16": 2, "fp8": 1}
"""Bytes of an element; TF32 is a way to multiply elements of four bytes."""


def check_precision(name: str) -> None:
    """Refuse an unknown precision.

    Raises
    ------
    OptionError
        If it is one.
    """
    if name not in PRECISION_BYTES:
        raise OptionError(f"precision {name!r:.60}: unknown; there are {', '.join(PRECISION_BYTES)}")


_ROWS = ("rows", "width")
SHAPES: Mapping[str, tuple[str, ...]] = {
    "linear": ("rows", "inputs", "outputs"),
    "bmm": ("batch", "rows", "inner", "columns"),
    "attention": ("batch", "rows", "inner", "columns"),
    "conv": (
        *("batch", "channels", "filters", "kernel_height", "kernel_width", "height", "width"),
        *("stride", "padding_height", "padding_width", "groups"),
    ),
    "pool": ("batch", "channels", "height", "width", "kernel", "stride", "padding"),
    "embedding": ("rows", "width", "entries"),
    **dict.fromkeys(("layer_norm", "rms_norm", "batch_norm", "softmax"), _ROWS),
    **dict.fromkeys(("add", "mul", "div"), _ROWS),
    **dict.fromkeys(("gelu", "relu", "silu", "tanh", "scale", "copy", "dropout", "sum"), _ROWS),
}
"""Kinds of operators, and the names of the sizes of their shapes.

`linear` multiplies (rows × inputs) by (inputs × outputs); `bmm` (rows × inner) by (inner × columns),
`batch` times; `attention` weighs values of width `columns` by the scores of `rows` queries and keys of
width `inner`, `batch` times, in one kernel that never writes the scores (Dao et al. 2022). The kinds of
`rows` and `width` go over a matrix: `add`, `mul` and `div` over two of them, `scale` is any arithmetic
with one number or a broadcast row, `copy` any change of layout, `sum` adds up rows.
"""
_BINARY = ("add", "mul", "div")
_KEEPS_INPUT = ("gelu", "relu", "silu", "tanh", "dropout")
"""Kinds whose backward pass reads a matrix, the input or a mask, in addition to the gradient."""
_LEAVES_NOTHING = ("scale", "copy", "div")
"""Kinds whose backward pass does not need their output."""
_MAY_BE_ZERO = ("padding_height", "padding_width", "padding")
LARGEST_SIZE = 10**12
"""Upper limit of each size of a shape."""
_FLOPS_PER_ELEMENT = {"layer_norm": 8, "rms_norm": 6, "batch_norm": 4, "softmax": 5, "gelu": 8, "silu": 4}


@dataclass(frozen=True)
class Operator:
    """An operator of a fixed shape that a layer calls `count` times.

    Parameters
    ----------
    kind
        One of `SHAPES`.
    shape
        The sizes that `SHAPES` names for this kind.
    count
        Number of calls; figures below are of one call.
    precision
        One of `PRECISION_BYTES`.
    parameters
        Number of trained parameters that only it holds; 0 if another operator holds them.
    saved
        Elements that are kept for the backward pass; by default the output.

    Raises
    ------
    OptionError
        If kind, shape or precision is unknown or impossible.
    """

    kind: str
    shape: tuple[int, ...]
    count: int = 1
    precision: str = "fp32"
    parameters: int = 0
    saved: int | None = None

    def __post_init__(self) -> None:
        if self.kind not in SHAPES:
            raise OptionError(f"operator {self.kind!r:.60}: unknown; there are {', '.join(SHAPES)}")
        check_precision(self.precision)
        names = SHAPES[self.kind]
        if len(self.shape) != len(names):
            raise OptionError(
                f"{self.kind}: has {len(self.shape)} sizes; it needs {len(names)}: {', '.join(names)}"
            )
        for name, size in zip(names, self.shape, strict=True):
            least = 0 if name in _MAY_BE_ZERO else 1
            if not least <= size <= LARGEST_SIZE:
                raise OptionError(f"{self.kind}: {name} is {size}; it must be from {least} to 10¹²")
        if self.count < 1:
            raise OptionError(f"{self.kind}: count is {self.count}; it must be at least 1")
        if self.kind in ("conv", "pool") and min(self.output_size) < 1:
            raise OptionError(f"{self}: the kernel is larger than the padded picture")
        if self.kind == "conv" and (self["channels"] % self["groups"] or self["filters"] % self["groups"]):
            raise OptionError(f"{self}: channels and filters must be multiples of groups")

    def __getitem__(self, name: str) -> int:
        """Return a size of the shape by its name in `SHAPES`."""
        return self.shape[SHAPES[self.kind].index(name)]

    def __str__(self) -> str:
        return f"{self.kind}({', '.join(map(str, self.shape))})"

    @property
    def output_size(self) -> tuple[int, int]:
        """Height and width of the output of a convolution or pooling."""
        if self.kind == "conv":
            return (
                (self["height"] + 2 * self["padding_height"] - self["kernel_height"]) // self["stride"] + 1,
                (self["width"] + 2 * self["padding_width"] - self["kernel_width"]) // self["stride"] + 1,
            )
        over = 2 * self["padding"] - self["kernel"]
        return (self["height"] + over) // self["stride"] + 1, (self["width"] + over) // self["stride"] + 1

    @property
    def outputs(self) -> int:
        """Number of elements of the output of one call."""
        match self.kind:
            case "linear":
                return self["rows"] * self["outputs"]
            case "bmm" | "attention":
                return self["batch"] * self["rows"] * self["columns"]
            case "conv":
                return self["batch"] * self["filters"] * prod(self.output_size)
            case "pool":
                return self["batch"] * self["channels"] * prod(self.output_size)
        return self["width"] if self.kind == "sum" else self["rows"] * self["width"]

    @property
    def inputs(self) -> int:
        """Number of elements that one call reads, including weights of a matrix product or convolution."""
        match self.kind:
            case "linear":
                return self["rows"] * self["inputs"] + self["inputs"] * self["outputs"]
            case "bmm":
                return self["batch"] * self["inner"] * (self["rows"] + self["columns"])
            case "attention":
                return self["batch"] * self["rows"] * (2 * self["inner"] + self["columns"])
            case "conv" | "pool":
                weights = self._kernel * self["filters"] if self.kind == "conv" else 0
                return self["batch"] * self["channels"] * self["height"] * self["width"] + weights
        return self["rows"] * self["width"] * (2 if self.kind in _BINARY else 1)

    @property
    def _kernel(self) -> int:
        return self["channels"] // self["groups"] * self["kernel_height"] * self["kernel_width"]

    @property
    def tensors(self) -> tuple[int, ...]:
        """Parameters of each tensor that one call holds: a matrix and its bias, or equal vectors.

        Where the parameters are other than a kind has, they count as one tensor.
        """
        first = self.parameters
        if self.kind == "linear":
            first = self["inputs"] * self["outputs"]
        elif self.kind == "conv":
            first = self._kernel * self["filters"]
        elif self.kind in ("batch_norm", "layer_norm"):
            first = self["width"]
        first = min(first, self.parameters)
        return tuple(part for part in (first, self.parameters - first) if part)

    @property
    def flops(self) -> float:
        """Floating-point operations of one call; a multiplication and an addition are two."""
        match self.kind:
            case "linear" | "bmm":
                return 2.0 * prod(self.shape)
            case "attention":
                return 2.0 * self["batch"] * self["rows"] ** 2 * (self["inner"] + self["columns"])
            case "conv":
                return 2.0 * self.outputs * self._kernel
            case "pool":
                return float(self.outputs * self["kernel"] ** 2)
            case "embedding":
                return 0.0
        return float(self.outputs * _FLOPS_PER_ELEMENT.get(self.kind, 1))

    @property
    def bytes(self) -> float:
        """Bytes that one call reads and writes if each element is transferred once."""
        return float((self.inputs + self.outputs) * PRECISION_BYTES[self.precision])

    @property
    def activations(self) -> int:
        """Number of elements that one call keeps for the backward pass."""
        if self.saved is not None:
            return self.saved
        return 0 if self.kind in _LEAVES_NOTHING else self.outputs

    def times(self, count: int) -> Operator:
        """Return the operator with its number of calls multiplied by `count`."""
        return replace(self, count=self.count * count)

    def backward(self) -> tuple[Operator, ...]:
        """Return the operators of one backward pass: gradients of the inputs, and of the weights."""
        plain = replace(self, parameters=0, saved=0)
        match self.kind:
            case "linear":
                rows, inputs, outputs = self.shape
                of_bias = replace(plain, kind="sum", shape=(rows, outputs))
                return (
                    replace(plain, shape=(rows, outputs, inputs)),
                    replace(plain, shape=(inputs, rows, outputs)),
                    *((of_bias,) if self.parameters > inputs * outputs else ()),
                )
            case "bmm":
                batch, rows, inner, columns = self.shape
                return (
                    replace(plain, shape=(batch, rows, columns, inner)),
                    replace(plain, shape=(batch, inner, rows, columns)),
                )
            case "attention":
                # Five products instead of the two of the forward pass: the scores are computed again.
                batch, rows, inner, columns = self.shape
                return (plain, plain, replace(plain, shape=(batch, rows, -(-inner // 2), -(-columns // 2))))
            case "conv" | "mul" | "div":
                # Both gradients of a convolution are convolutions with as many operations.
                return (plain, plain)
            case kind if kind in _KEEPS_INPUT:
                return (replace(plain, kind="mul"),)
        # A branch is computed from the stream to which it is added, so that two gradients are summed.
        return (plain,)


def linear(
    rows: int, inputs: int, outputs: int, *, bias: bool = True, shared: bool = False, count: int = 1
) -> Operator:
    """Return a linear layer over `rows` vectors; with `shared` its weights belong to another operator."""
    parameters = 0 if shared else inputs * outputs + (outputs if bias else 0)
    return Operator("linear", (rows, inputs, outputs), count, parameters=parameters)


def _whole(given: Any) -> int:
    """Return a whole number, which may be given as text."""
    text = str(given).strip()
    if not text.isdecimal() or len(text) > MOST_DIGITS:
        raise ValueError(f"is {text!r:.60}; it must be a whole number, of at most {MOST_DIGITS} digits")
    return int(text)


def _sizes(given: Any) -> Any:
    """Return the sizes of a shape such as ``4096x1024``."""
    return given.replace("×", "x").split("x") if isinstance(given, str) else given


MOST_DIGITS = 15
Whole = Annotated[int, BeforeValidator(_whole)]
Shape = Annotated[tuple[Whole, ...], BeforeValidator(_sizes)]
"""A shape in a file: a list, or text with × or x between the sizes."""
CALLS = Path(__file__).with_name("calls.yaml")
PICTURE = 4
"""Number of dimensions of a batch of pictures: samples, channels, height, width."""


class Sizes(tuple[int, ...]):
    """The shape of a tensor."""

    __slots__ = ()


@cache
def known_calls(library: str) -> Mapping[str, tuple[str, str]]:
    """Return node → group and kind of operator, of the computation graphs of `pytorch` or `onnx`."""
    calls: dict[str, tuple[str, str]] = {}
    for group, kinds in parse_yaml(read_text(CALLS))[library].items():
        assert {*kinds} <= {*SHAPES}, f"{CALLS.name} has an unknown kind of operator"
        for kind, names in kinds.items():
            assert not {*names} & {*calls}, f"{CALLS.name} has a call twice"
            calls |= dict.fromkeys(names, (group, kind))
    return calls


def names_of_kernels(library: str) -> str:
    """Return the names of all nodes with a kernel, as messages list them."""
    calls = known_calls(library).items()
    return ", ".join(sorted(name for name, (group, _) in calls if group not in ("free", "shape")))


def operator_of(call: str, args: Sequence[Any], output: Sizes, parameters: int = 0) -> Operator | None:
    """Return the operator model of a call of ATen (PyTorch's kernels); None if it is unknown.

    Parameters
    ----------
    call
        Such as ``addmm``, without the overload after the point.
    args
        The arguments, with `Sizes` in place of tensors.
    output
        The shape of the first tensor that it returned.
    parameters
        Number of trained parameters that no earlier call has.

    Raises
    ------
    OptionError
        If its shape is impossible.
    """
    modelled = _kind_and_shape(call, args, output)
    return None if modelled is None else placed(*modelled, parameters, output)


def placed(kind: str, shape: Sequence[int], parameters: int, output: Sizes) -> Operator:
    """Return the operator of a kind and shape; what a transposed convolution saves is its true output."""
    operator = Operator(kind, tuple(shape), parameters=parameters)
    backwards = kind == "conv" and operator.outputs != prod(output)
    return replace(operator, saved=prod(output)) if backwards else operator


def _kind_and_shape(call: str, args: Sequence[Any], output: Sizes) -> tuple[str, Sequence[int]] | None:
    group, kind = known_calls("pytorch").get(call, ("", ""))
    inputs = [arg for arg in args if isinstance(arg, Sizes)]
    # Products that add to a matrix have it as first argument.
    first = inputs[int(call in ("addmm", "baddbmm"))] if inputs else Sizes()
    match group, kind:
        case "elementwise", _:
            alike = len(inputs) > 1 and prod(inputs[0]) == prod(inputs[1]) == prod(output)
            return scaled(kind, alike), rows_of(output)
        case "rows", _:
            width = _normalised(kind, args, first)
            return kind, (prod(output) // width, width)
        case "bag", _:
            return kind, (prod(inputs[1]), output[-1], first[0])
        case "window" | "reduction", _:
            return pooling(args if group == "window" else [], first, output)
        case "product", "linear":
            return kind, (prod(first[:-1]), first[-1], output[-1])
        case "product", "bmm":
            return kind, (*first, output[-1])
        case "lookup", _:
            return kind, (prod(output[:-1]), output[-1], first[0])
        case "product", _:
            return convolution(args, output)
    return None


def scaled(kind: str, alike: bool) -> str:
    """Return the kind of an elementwise operator: with a broadcast or single number it scales."""
    return "scale" if kind in ("add", "mul", "div") and not alike else kind


def _normalised(kind: str, args: Sequence[Any], first: Sizes) -> int:
    """Return the number of elements normalised together; of a batch normalisation, of channels."""
    if kind == "batch_norm":
        return first[1]
    if kind == "softmax":
        return first[int(args[1])]
    if isinstance(args[1], list):
        return prod(args[1])
    *_, groups, _ = args  # of a group normalisation: …, samples, channels, pixels, groups, epsilon
    return prod(first[1:]) // int(groups)


def rows_of(sizes: Sizes) -> tuple[int, int]:
    """Return rows and width of a tensor as a matrix; the width of images is their channels."""
    if len(sizes) == PICTURE:
        return prod(sizes) // sizes[1], sizes[1]
    width = sizes[-1] if sizes else 1
    return prod(sizes) // width, width


def convolution(args: Sequence[Any], output: Sizes) -> tuple[str, Sequence[int]] | None:
    """Return kind and shape of a convolution of images, or of sequences as images of height 1.

    A transposed one is the gradient of the convolution from its output to its input, with the same products.
    Strides or dilations that an operator cannot express are replaced by another size of the picture that
    gives the same output.
    """
    first, weight, _, stride, padding, dilation, transposed, _, groups = args[:9]
    axes = len(first) - 2
    if axes > 2 or (transposed and len(set(stride)) > 1):
        return None

    def sides(sizes: Sequence[int], lacking: int) -> Any:
        """Return height and width; a single number holds for all sides."""
        given = list(sizes) * (axes if len(sizes) == 1 else 1)
        return np.array([lacking] * (2 - axes) + given)

    before, after = (output, first) if transposed else (first, output)
    size, kernel, pads = sides(before[2:], 1), sides(weight[2:], 1), sides(padding, 0)
    # A dilated kernel covers more; a plain one with less padding returns as much.
    spread, step = (sides(dilation, 1) - 1) * (kernel - 1), stride[0]
    if len(set(stride)) > 1:
        step, pads, size = 1, 0 * pads, sides(after[2:], 1) + kernel - 1
    elif np.all((spread % 2 == 0) & (spread // 2 <= pads)):
        pads = pads - spread // 2
    else:
        pads, size = 0 * pads, size + 2 * pads - spread
    ends = (part.tolist() for part in (kernel, size, pads))
    return "conv", (first[0], before[1], after[1], *next(ends), *next(ends), step, *next(ends), groups)


def pooling(window: Sequence[Any], first: Sizes, output: Sizes) -> tuple[str, Sequence[int]]:
    """Return kind and shape of a pooling: by a square window, or as sums of as many elements.

    Parameters
    ----------
    window
        The arguments of a call with a window: picture, and sides, strides and paddings of the window; empty:
        the window follows from the output.
    """
    shape = _square(window, first, output) if len(first) == PICTURE else None
    if shape is not None and Operator("pool", shape).outputs == prod(output):
        return "pool", shape
    width = max(prod(output), 1)
    return "sum", (max(prod(first) // width, 1), width)


def _square(window: Sequence[Any], first: Sizes, output: Sizes) -> tuple[int, ...] | None:
    """Return the shape of a pooling by a square window; None if its window is not square."""
    if window:
        _, kernels, strides, pads = (*window, None, None)[:4]
        sides = [set(sizes) for sizes in (kernels, strides or kernels, pads or [0])]
        if any(len(sizes) != 1 for sizes in sides):
            return None
        kernel, stride, pad = (sizes.pop() for sizes in sides)
        return (*first, kernel, stride, pad) if kernel <= min(first[2:]) + 2 * pad else None
    sizes = output[2:] or (1, 1)
    kernel = first[2] // sizes[0]
    even = prod(output) == prod(first[:2]) * prod(sizes) and first[2] * sizes[-1] == first[3] * sizes[0]
    return (*first, kernel, kernel, 0) if even and kernel else None
