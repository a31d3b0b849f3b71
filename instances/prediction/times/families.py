"""Families of operators whose times have the same three parts, and what those parts are.

PALEO (Qi, Sparks & Talwalkar 2017): a time is what the arithmetic takes at a share of the peak, what the
memory takes at a share of its bandwidth, and a constant for the call. Here it is their sum,

    t = θ₀·flops/peak + θ₁·bytes/bandwidth + θ₂,

so that 1/θ₀ and 1/θ₁ are PALEO's platform percentages and θ₂ the seconds of a call.

A call that is timed alone waits until the host has launched it. In a model the host launches while the GPU
still works on what came before, so that a step takes the larger of the work and the launches of all calls.
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
    "bmm": "bmm",
    "conv": "conv",
    "layer_norm": "norm",
    "rms_norm": "norm",
    "batch_norm": "norm",
    "softmax": "softmax",
}
"""Kind of operator → the family with whose measurements it is predicted."""
FAMILIES = tuple(dict.fromkeys(FAMILY.values()))
ARITHMETIC = ("linear", "bmm", "conv")
"""Families whose arithmetic is worth a term; the others wait for the memory."""


def parts(operators: Sequence[Operator], gpu: Gpu) -> Floats:
    """Return the three parts of one call of each operator; shape (operators, 3), in seconds and calls.

    Raises
    ------
    OptionError
        If the GPU has no peak for a precision.
    """
    rows = np.empty((len(operators), 3))
    for row, operator in zip(rows, operators, strict=True):
        arithmetic = FAMILY[operator.kind] in ARITHMETIC
        row[0] = operator.flops / gpu.peak(operator.precision) if arithmetic else 0.0
        row[1] = operator.bytes / gpu.bytes_per_s
        row[2] = 1.0
    return rows


def queued(design: Floats, thetas: Floats, counts: Floats) -> float:
    """Return the seconds of calls one after the other: their work, or their launches if those take longer.

    Parameters
    ----------
    design, thetas
        The parts of one call of each operator and its coefficients; shape (operators, 3).
    counts
        Calls of each operator; shape (operators,).
    """
    work, launches = (design * thetas)[:, :2].sum(axis=1), (design * thetas)[:, 2]
    return max(float(work @ counts), float(launches @ counts))


def sizes(operator: Operator) -> Floats:
    """Return the floating-point operations and bytes of a call, which say whether it lies inside a range."""
    return np.array([operator.flops, operator.bytes])
