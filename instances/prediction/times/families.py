"""Families of operators whose times have the same parts, and what those parts are.

PALEO (Qi, Sparks & Talwalkar 2017): a time is what the arithmetic takes at a share of the peak, what the
memory takes at a share of its bandwidth, and a constant for the call. Here it is their sum, t = Σ θ_k·x_k
with θ ≥ 0, where the parts x are those of `PARTS`. Matrix products are computed in tiles: rows are rounded
up to whole tiles, and every tile has a beginning and an end beside its inner loop, which is a time for each
element of the result (CUTLASS, "Efficient GEMM in CUDA"). What fits into the second-level cache is not read
from memory again when a call is repeated.

A call that is timed alone waits until the host has launched it. In a model the host launches while the GPU
still works on what came before, so that a step takes the larger of the work and the launches of all calls
(`HOST`); of each launch a part (`EXPOSED`) stays visible between two kernels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ...common.arrays import Floats
from ..hardware import Gpu
from ..operators import SHAPES, Operator

FAMILY: Mapping[str, str] = {
    **dict.fromkeys(SHAPES, "elementwise"),
    "linear": "linear",
    **dict.fromkeys(("bmm", "attention"), "bmm"),
    "conv": "conv",
    "layer_norm": "norm",
    "rms_norm": "norm",
    "batch_norm": "norm",
    "softmax": "softmax",
}
"""Kind of operator → the family with whose measurements it is predicted."""
FAMILIES = tuple(dict.fromkeys(FAMILY.values()))
PARTS = ("flops", "flops, tiles of 128 rows", "flops, tiles of 64 rows", "tiles", "bytes", "uncached", "call")
"""What the columns of `parts` are."""
ARITHMETIC = ("linear", "bmm", "conv")
"""Families whose arithmetic takes time; the others wait for the memory."""
MEMORY = (4, 5)
"""Columns of the memory."""
GROUPS = ((0, 1, 2, 3), MEMORY)
"""Columns that are large or small together on a GPU: arithmetic, and memory."""
_OF_PRODUCTS: Mapping[str, tuple[int, ...]] = {"linear": (0, 1, 3, 4, 6), "bmm": (0, 1, 2, 3, 4, 6)}
USED: Mapping[str, tuple[int, ...]] = {
    **dict.fromkeys(FAMILIES, (4, 5, 6)),
    **_OF_PRODUCTS,
    "conv": _OF_PRODUCTS["linear"],
}
"""Family → the columns that its times have."""
INNER = 64
"""Length of the inner loop whose time the beginning and the end of a tile are measured in."""
SHORT = 0.52
"""Share of the arithmetic of a convolution that is left where the library multiplies less.

For kernels of 3 × 3 in steps of one, Winograd's F(2×2, 3×3) multiplies 16 times where 36 are counted, a share
of 0.44, and transforms pictures before and after (Lavin & Gray 2016). cuDNN does so for some shapes;
NeuSight's, all of this kind, take 0.52 of the time that linear layers take for as much arithmetic."""
EXPOSED = 0.2
"""Part of a launch that does not hide behind the work before it.

Of 0, 0.1, 0.2, 0.3 and 0.4 that with the least mean error of whole models on P100, T4, V100 and A100."""

HOST = 1.6
"""Launches of a model over those that were timed alone: Python and automatic differentiation take longer.

With it, steps of vTrain on A100 that wait for the host, such as of one sample, are as long as they were
measured; without it they are a quarter shorter, and those of Sailor on GH200 a tenth."""


def parts(operators: Sequence[Operator], gpu: Gpu) -> Floats:
    """Return the parts of one call of each operator; shape (operators, parts), in seconds and calls.

    Raises
    ------
    OptionError
        If the GPU has no peak for a precision.
    """
    rows = np.zeros((len(operators), len(PARTS)))
    for row, operator in zip(rows, operators, strict=True):
        family = FAMILY[operator.kind]
        moved = operator.bytes
        row[4:] = moved / gpu.bytes_per_s, max(moved - gpu.cache_bytes, 0.0) / gpu.bytes_per_s, 1.0
        if family in ARITHMETIC:
            peak = gpu.peak(operator.precision)
            flops, height = operator.flops / peak, _rows(operator)
            row[:3] = flops, flops * _tiled(height, 128), flops * _tiled(height, 64)
            row[3] = 2.0 * INNER * operator.outputs / peak
            if _multiplies_less(operator):
                row[:4] *= SHORT
        row[[column for column in range(len(PARTS)) if column not in USED[family]]] = 0.0
    return rows


def _multiplies_less(operator: Operator) -> bool:
    """Return whether Winograd's algorithm serves a convolution, in single precision."""
    if operator.kind != "conv" or operator.precision != "fp32":
        return False
    kernel = operator["kernel_height"], operator["kernel_width"]
    return kernel == (3, 3) and operator["stride"] == 1 and operator["groups"] == 1


def _rows(operator: Operator) -> int:
    """Return the rows of the matrix product that an operator is, or is computed as."""
    if operator.kind == "conv":
        return operator.outputs // operator["filters"]
    return operator["rows"]


def _tiled(rows: int, tile: int) -> float:
    """Return by what rounding up to whole tiles multiplies the rows."""
    return -(-rows // tile) * tile / rows


def queued(each: Floats, counts: Floats) -> float:
    """Return the seconds of calls one after the other: their work, or their launches if those take longer."""
    return max(work_and_launches(each, counts))


def work_and_launches(each: Floats, counts: Floats) -> tuple[float, float]:
    """Return the seconds that the GPU works, and those in which the host launches the calls.

    Parameters
    ----------
    each
        Seconds of each part of one call of each operator; shape (operators, parts).
    counts
        Calls of each operator; shape (operators,).
    """
    work, launches = each[:, :-1].sum(axis=1), each[:, -1]
    return float((work + EXPOSED * launches) @ counts), HOST * float(launches @ counts)


def sizes(operator: Operator) -> Floats:
    """Return the floating-point operations and bytes of a call, which say whether it lies inside a range."""
    return np.array([operator.flops, operator.bytes])


def logarithms(operator: Operator) -> tuple[float, ...]:
    """Return the logarithms of what the time of an operator depends on, to the base 2.

    The sizes of a matrix product; the rows and width of a norm; the bytes of an elementwise operator.
    """
    family = FAMILY[operator.kind]
    if family == "elementwise":
        return (float(np.log2(operator.bytes)),)
    return tuple(float(np.log2(max(size, 1))) for size in operator.shape)
