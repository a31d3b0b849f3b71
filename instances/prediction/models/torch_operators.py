"""Operators of what PyTorch calls: the name of a call of its library ATen, and shapes in place of tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

from ..operators import Operator

PICTURE = 4
"""Sizes of a batch of pictures: samples, channels, height, width."""


class Sizes(tuple[int, ...]):
    """The shape of a tensor."""

    __slots__ = ()


ELEMENTWISE: Mapping[str, str] = {
    **{"relu": "relu", "gelu": "gelu", "silu": "silu", "tanh": "tanh", "sigmoid": "tanh", "erf": "tanh"},
    **dict.fromkeys(("clamp", "clamp_min", "hardtanh", "hardswish", "leaky_relu", "elu"), "relu"),
    **dict.fromkeys(("exp", "log", "sqrt", "rsqrt", "neg", "abs", "sin", "cos", "reciprocal"), "scale"),
    **dict.fromkeys(("celu", "selu", "threshold", "_prelu_kernel", "softshrink", "hardshrink"), "relu"),
    **dict.fromkeys(("mish", "glu"), "silu"),
    **dict.fromkeys(("pow", "where", "masked_fill", "softplus", "hardsigmoid", "rsub"), "scale"),
    **dict.fromkeys(("log1p", "expm1", "atan", "sign", "floor", "round", "cumsum", "cumprod"), "scale"),
    **dict.fromkeys(("log_sigmoid_forward", "_weight_norm_interface"), "scale"),
    **dict.fromkeys(("maximum", "minimum", "addcmul", "addcdiv", "lerp"), "add"),
    **{"add": "add", "sub": "add", "mul": "mul", "div": "div"},
    **dict.fromkeys(("clone", "cat", "stack", "constant_pad_nd", "_to_copy", "copy", "repeat"), "copy"),
    **dict.fromkeys(("roll", "index_select", "gather", "index", "flip", "im2col", "col2im"), "copy"),
    **dict.fromkeys(("index_put", "index_add", "scatter", "scatter_add", "slice_scatter"), "copy"),
    **dict.fromkeys(("reflection_pad1d", "reflection_pad2d", "replication_pad2d"), "copy"),
    **dict.fromkeys(("pixel_shuffle", "pixel_unshuffle", "channel_shuffle"), "copy"),
    **dict.fromkeys((f"upsample_{way}2d" for way in ("nearest", "bilinear", "bicubic")), "copy"),
    **dict.fromkeys(("upsample_nearest1d", "upsample_linear1d", "topk", "sort"), "copy"),
    "native_dropout": "dropout",
}
"""Call → kind of operator over each element; those of two matrices are `scale` where one is broadcast."""
ROWS: Mapping[str, str] = {
    **{"_softmax": "softmax", "_log_softmax": "softmax", "_safe_softmax": "softmax"},
    **{"native_layer_norm": "layer_norm", "native_group_norm": "layer_norm", "_fused_rms_norm": "rms_norm"},
    **dict.fromkeys(("native_batch_norm", "_native_batch_norm_legit", "cudnn_batch_norm"), "batch_norm"),
    **dict.fromkeys(("_native_batch_norm_legit_no_training", "_batch_norm_no_update"), "batch_norm"),
    "_batch_norm_with_update": "batch_norm",
}
PRODUCTS = ("linear", "addmm", "mm", "bmm", "baddbmm", "convolution")
BAGS = ("_embedding_bag", "_embedding_bag_forward_only")
POOLS = (
    *("max_pool2d_with_indices", "max_pool2d", "avg_pool2d", "_adaptive_avg_pool2d", "adaptive_max_pool2d"),
    *("mean", "sum", "amax", "amin", "max", "min", "argmax", "var", "var_mean", "std", "prod", "logsumexp"),
    *("linalg_vector_norm", "avg_pool3d"),
)
_WINDOWS = ("max_pool2d_with_indices", "max_pool2d", "avg_pool2d")
FREE = frozenset(
    [
        *("_unsafe_view", "_reshape_alias", "detach", "lift_fresh", "arange", "ones", "zeros", "full"),
        *("empty", "scalar_tensor", "ones_like", "zeros_like", "full_like", "empty_like", "new_zeros"),
        *(
            "new_ones",
            "triu",
            "tril",
            "eq",
            "ne",
            "lt",
            "le",
            "gt",
            "ge",
            "logical_not",
            "logical_and",
            "any",
        ),
        *("bitwise_not", "bitwise_and", "bitwise_or", "logical_or", "isnan", "isinf", "all"),
        # Views in place.
        *("as_strided", "transpose", "squeeze", "unsqueeze", "t"),
    ]
)
"""Calls that move no data worth a kernel: new constants, masks, other views of the same numbers."""
KNOWN = tuple(sorted({*ELEMENTWISE, *ROWS, *PRODUCTS, "embedding", *POOLS, *BAGS}))


def operator_of(call: str, args: Sequence[Any], output: Sizes, parameters: int = 0) -> Operator | None:
    """Return the operator of a call; None if it is not known.

    Parameters
    ----------
    call
        Such as ``addmm``, without what follows the point.
    args
        As they were given, with `Sizes` in place of tensors.
    output
        The first tensor that came back.
    parameters
        Trained numbers that no call before had.

    Raises
    ------
    OptionError
        If its shape is not possible.
    """
    inputs = [arg for arg in args if isinstance(arg, Sizes)]
    found = _kind_and_shape(call, args, inputs, output)
    if found is None:
        return None
    kind, shape = found
    return placed(Operator(kind, tuple(shape), parameters=parameters), output)


def placed(operator: Operator, output: Sizes) -> Operator:
    """Return an operator that leaves what it returns, also a transposed convolution, told from its end."""
    backwards = operator.kind == "conv" and operator.outputs != prod(output)
    return replace(operator, saved=prod(output)) if backwards else operator


def _kind_and_shape(
    call: str, args: Sequence[Any], inputs: Sequence[Sizes], output: Sizes
) -> tuple[str, Sequence[int]] | None:
    if call in ELEMENTWISE:
        kind = ELEMENTWISE[call]
        alike = len(inputs) > 1 and prod(inputs[0]) == prod(inputs[1]) == prod(output)
        return ("scale" if kind in ("add", "mul", "div") and not alike else kind), rows_of(output)
    if call in ROWS:
        width = _normalised(ROWS[call], args, inputs[0])
        return ROWS[call], (prod(output) // width, width)
    if call in BAGS:
        # Each row that a bag adds up is looked up.
        return "embedding", (prod(inputs[1]), output[-1], inputs[0][0])
    if call in POOLS:
        return pooling(call, args, inputs[0], output)
    match call:
        case "linear" | "mm" | "addmm":
            first = inputs[1] if call == "addmm" else inputs[0]
            return "linear", (prod(first[:-1]), first[-1], output[-1])
        case "bmm" | "baddbmm":
            first = inputs[1] if call == "baddbmm" else inputs[0]
            return "bmm", (*first, output[-1])
        case "embedding":
            return "embedding", (prod(output[:-1]), output[-1], inputs[0][0])
        case "convolution":
            return convolution(args, output)
    return None


def _normalised(kind: str, args: Sequence[Any], first: Sizes) -> int:
    """Return how many elements are normalised together, or the channels of a batch normalisation."""
    if kind == "batch_norm":
        return first[1]
    if kind == "softmax":
        return first[int(args[1])]
    if isinstance(args[1], list):
        return prod(args[1])
    *_, groups, _ = args  # of a group normalisation: …, samples, channels, pixels, groups, epsilon
    return prod(first[1:]) // int(groups)


def rows_of(sizes: Sizes) -> tuple[int, int]:
    """Return rows and width of a matrix with as many elements; the width of pictures are their channels."""
    if len(sizes) == PICTURE:
        return prod(sizes) // sizes[1], sizes[1]
    width = sizes[-1] if sizes else 1
    return prod(sizes) // width, width


def convolution(args: Sequence[Any], output: Sizes) -> tuple[str, Sequence[int]] | None:
    """Return a convolution of pictures, or of sequences as pictures of one row.

    One that is transposed is the gradient of the convolution from its output to its input, and has its
    products. Where an operator has no word for a stride or for holes, the picture has another size, such
    that as much is returned.
    """
    first, weight, _, stride, padding, dilation, transposed, _, groups = args[:9]
    if len(first) > PICTURE or (transposed and len(set(stride)) > 1):
        return None
    lacking = PICTURE - len(first)
    # One number stands for all sides.
    padding, dilation = (
        list(sizes) * (len(first) - 2 if len(sizes) == 1 else 1) for sizes in (padding, dilation)
    )
    before, after = (output, first) if transposed else (first, output)
    size, returned = [*[1] * lacking, *before[2:]], [*[1] * lacking, *after[2:]]
    kernel, pads, step = [*[1] * lacking, *weight[2:]], [*[0] * lacking, *padding], stride[0]
    # A kernel with holes covers more; with less padding, one without them returns as much.
    spread = [*[0] * lacking, *((gap - 1) * (k - 1) for gap, k in zip(dilation, weight[2:], strict=True))]
    if len(set(stride)) > 1:
        step, pads = 1, [0, 0]
        size = [cells + k - 1 for cells, k in zip(returned, kernel, strict=True)]
    elif all(gap % 2 == 0 and gap // 2 <= pad for gap, pad in zip(spread, pads, strict=True)):
        pads = [pad - gap // 2 for pad, gap in zip(pads, spread, strict=True)]
    else:
        size = [cells + 2 * pad - gap for cells, pad, gap in zip(size, pads, spread, strict=True)]
        pads = [0, 0]
    return "conv", (first[0], before[1], after[1], *kernel, *size, step, *pads, groups)


def pooling(call: str, args: Sequence[Any], first: Sizes, output: Sizes) -> tuple[str, Sequence[int]]:
    """Return a pooling of pictures by a square, or else sums of as many elements."""
    found = _square(call, args, first, output)
    if found is not None and Operator(*found).outputs == prod(output):
        return found
    width = max(prod(output), 1)
    return "sum", (max(prod(first) // width, 1), width)


def _square(
    call: str, args: Sequence[Any], first: Sizes, output: Sizes
) -> tuple[str, tuple[int, ...]] | None:
    """Return a pooling by a square; None if it is none."""
    if len(first) != PICTURE:
        return None
    if call in _WINDOWS:
        kernels = list(args[1])
        strides = list(args[2]) if len(args) > 2 and args[2] else kernels
        pads = list(args[3]) if len(args) > 3 and args[3] else [0]
        even = all(len(set(sizes)) == 1 for sizes in (kernels, strides, pads))
        fits = even and kernels[0] <= min(first[2:]) + 2 * pads[0]
        return ("pool", (*first, kernels[0], strides[0], pads[0])) if fits else None
    sizes = output[2:] or (1, 1)
    if prod(output) != prod(first[:2]) * prod(sizes) or first[2] * sizes[-1] != first[3] * sizes[0]:
        return None
    kernel = first[2] // sizes[0]
    return ("pool", (*first, kernel, kernel, 0)) if kernel else None
