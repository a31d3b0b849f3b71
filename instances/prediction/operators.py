"""Operators of layers, with their floating-point operations, bytes and parameters.

An operator has a kind and a shape. Its training step is its forward pass and the operators of its backward
pass, which are of the same kinds, so that the same measurements predict both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from math import prod

from ..common.errors import OptionError

PRECISION_BYTES: Mapping[str, int] = {"fp64": 8, "fp32": 4, "tf32": 4, "bf16": 2, "fp16": 2, "fp8": 1}
"""Bytes of an element; TF32 is a way to multiply elements of four bytes."""

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
_KEEPS_INPUT = ("gelu", "relu", "silu", "tanh")
"""Kinds whose backward pass reads a matrix in addition to the gradient."""
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
        if self.precision not in PRECISION_BYTES:
            known = ", ".join(PRECISION_BYTES)
            raise OptionError(f"precision {self.precision!r:.60}: unknown; there are {known}")
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
            case "conv":
                picture = self["batch"] * self["channels"] * self["height"] * self["width"]
                return picture + self._kernel * self["filters"]
            case "pool":
                return self["batch"] * self["channels"] * self["height"] * self["width"]
        return self["rows"] * self["width"] * (2 if self.kind in _BINARY else 1)

    @property
    def _kernel(self) -> int:
        return self["channels"] // self["groups"] * self["kernel_height"] * self["kernel_width"]

    @property
    def flops(self) -> float:
        """Floating-point operations of one call; a multiplication and an addition are two."""
        match self.kind:
            case "linear":
                return 2.0 * prod(self.shape)
            case "bmm":
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
            case "conv":
                # Both gradients are convolutions with as many operations as the forward pass.
                return (plain, plain)
            case "add":
                # A branch is computed from the stream to which it is added, so that two gradients are summed.
                return (plain,)
            case "mul" | "div":
                return (plain, plain)
            case kind if kind in _KEEPS_INPUT or kind == "dropout":
                return (replace(plain, kind="mul"),)
        return (plain,)


def linear(
    rows: int, inputs: int, outputs: int, *, bias: bool = True, shared: bool = False, count: int = 1
) -> Operator:
    """Return a linear layer over `rows` vectors; with `shared` its weights belong to another operator."""
    parameters = 0 if shared else inputs * outputs + (outputs if bias else 0)
    return Operator("linear", (rows, inputs, outputs), count, parameters=parameters)


def flops(operators: Iterable[Operator]) -> float:
    """Return the total floating-point operations of all calls."""
    return sum(operator.flops * operator.count for operator in operators)
