"""Selection of the operator shapes to time for a model, and the script that times them.

The shapes of each family are chosen one after the other so that the model's own shapes, weighted by their
share of the predicted time, are as near as possible to a chosen one: greedy facility location, within
1 − 1/e of the best choice (Nemhauser, Wolsey & Fisher 1978). The distance of two shapes is that of the
logarithms of their sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy.spatial.distance import cdist

from ..common.arrays import Floats
from ..common.errors import OptionError
from .hardware import Gpu
from .operator_times import (
    COLUMNS,
    FAMILIES,
    FAMILY,
    PLATFORM,
    by_family,
    counts_of,
    logarithms,
    parts,
)
from .operators import Operator

PER_FAMILY = 20
"""Number of chosen shapes of each family."""


def shares(operators: Sequence[Operator], gpu: Gpu) -> Floats:
    """Return each operator's fraction of the total time, all its calls included, by the data sheet."""
    rows = parts(operators, gpu) * np.array([PLATFORM[FAMILY[operator.kind]] for operator in operators])
    seconds = rows.sum(axis=1) * counts_of(operators)
    return np.asarray(seconds / seconds.sum())


def plan_measurements(
    operators: Sequence[Operator], gpu: Gpu, candidates: Sequence[Operator] | None = None
) -> list[Operator]:
    """Return the operator shapes to time, in each family the most informative first.

    Parameters
    ----------
    operators
        Operators of the models, with their counts.
    gpu
        The GPU on which they are timed; their shares of the time are predicted for it.
    candidates
        Shapes that can be timed; by default those of the models themselves, and their halves.
    """
    given = _own_shapes(operators) if candidates is None else candidates
    weights = shares(operators, gpu)
    wanted, offered = by_family(operators), by_family(given)
    chosen = []
    for family in FAMILIES:
        if family in wanted and family in offered:
            targets = [operators[index] for index in wanted[family]]
            pool = [given[index] for index in offered[family]]
            chosen += [pool[i] for i in _nearest(targets, weights[wanted[family]], pool)]
    return chosen


def _own_shapes(operators: Sequence[Operator]) -> list[Operator]:
    """Return the distinct operator shapes, and each with its first size halved, to measure scaling."""
    plain = [replace(op, count=1, parameters=0, saved=0) for op in operators]
    halves = [replace(op, shape=(max(op.shape[0] // 2, 1), *op.shape[1:])) for op in plain if op.shape[0] > 1]
    return list(dict.fromkeys([*plain, *halves]))


def _nearest(targets: Sequence[Operator], weights: Floats, pool: Sequence[Operator]) -> list[int]:
    """Return the indices of at most `PER_FAMILY` pool shapes, chosen greedily to lie near the targets."""
    wanted = np.array([logarithms(op) for op in targets])
    offered = np.array([logarithms(op) for op in pool])
    distances = cdist(offered, wanted)
    near = np.full(len(targets), np.abs(offered).max() + np.abs(wanted).max() + 1.0)
    chosen: list[int] = []
    for _ in range(min(PER_FAMILY, len(pool))):
        gains = np.maximum(near - distances, 0.0) @ weights
        gains[chosen] = -1.0
        chosen.append(int(np.argmax(gains)))
        near = np.minimum(near, distances[chosen[-1]])
    return chosen


_CALLS = {
    "linear": "a, b = new(s[0], s[1]), new(s[2], s[1]); call = lambda: torch.nn.functional.linear(a, b)",
    "bmm": "a, b = new(s[0], s[1], s[2]), new(s[0], s[2], s[3]); call = lambda: torch.bmm(a, b)",
    "attention": (
        "a, b, c = new(s[0], 1, s[1], s[2]), new(s[0], 1, s[1], s[2]), new(s[0], 1, s[1], s[3]); "
        "call = lambda: torch.nn.functional.scaled_dot_product_attention(a, b, c)"
    ),
    "conv": (
        "a, b = new(s[0], s[1], s[5], s[6]), new(s[2], s[1] // s[10], s[3], s[4]); "
        "call = lambda: torch.nn.functional.conv2d(a, b, None, s[7], (s[8], s[9]), 1, s[10])"
    ),
    "pool": "a = new(*s[:4]); call = lambda: torch.nn.functional.max_pool2d(a, s[4], s[5], s[6])",
    "embedding": (
        "a, b = torch.randint(s[2], (s[0],), device='cuda'), new(s[2], s[1]); "
        "call = lambda: torch.nn.functional.embedding(a, b)"
    ),
    "layer_norm": "a = new(*s); call = lambda: torch.nn.functional.layer_norm(a, s[1:])",
    "rms_norm": "a = new(*s); call = lambda: a * torch.rsqrt(a.square().mean(1, keepdim=True))",
    "batch_norm": (
        "a, b = new(*s), new(s[1]); call = lambda: torch.nn.functional.batch_norm(a, b, b * b, training=True)"
    ),
    "softmax": "a = new(*s); call = lambda: torch.softmax(a, 1)",
    "add": "a, b = new(*s), new(*s); call = lambda: a + b",
    "mul": "a, b = new(*s), new(*s); call = lambda: a * b",
    "div": "a, b = new(*s), new(*s); call = lambda: a / b",
    "gelu": "a = new(*s); call = lambda: torch.nn.functional.gelu(a)",
    "relu": "a = new(*s); call = lambda: torch.relu(a)",
    "silu": "a = new(*s); call = lambda: torch.nn.functional.silu(a)",
    "tanh": "a = new(*s); call = lambda: torch.tanh(a)",
    "scale": "a = new(*s); call = lambda: a * 1.5",
    "copy": "a = new(s[1], s[0]).t(); call = lambda: a.contiguous()",
    "sum": "a = new(*s); call = lambda: a.sum(0)",
    "dropout": "a = new(*s); call = lambda: torch.nn.functional.dropout(a, 0.1)",
}
"""Kind of operator → line of the script that makes its tensors and its call."""

_SCRIPT = '''"""Times operators on this machine's first GPU; writes what `clusterplan predict` reads."""

import csv
import sys

import torch

SHAPES = [
{shapes}
]
TYPES = {{"fp64": "float64", "fp32": "float32", "tf32": "float32", "fp16": "float16", "bf16": "bfloat16"}}


def seconds(kind, precision, s):
    """Return the median time of twenty calls, after five that do not count."""
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = precision == "tf32"
    new = lambda *size: torch.randn(*size, device="cuda").to(getattr(torch, TYPES[precision]))
{calls}
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    taken = []
    with torch.no_grad():
        for _ in range(25):
            start.record()
            call()
            end.record()
            torch.cuda.synchronize()
            taken.append(start.elapsed_time(end) / 1e3)
    return sorted(taken[5:])[10]


writer = csv.writer(open(sys.argv[1], "w", newline="") if len(sys.argv) > 1 else sys.stdout)
writer.writerow({columns})
for kind, precision, shape in SHAPES:
    try:
        writer.writerow([kind, precision, "x".join(map(str, shape)), seconds(kind, precision, shape)])
    except torch.cuda.OutOfMemoryError:
        print(f"{{kind}} {{shape}}: does not fit in the memory of this GPU; left out", file=sys.stderr)
        torch.cuda.empty_cache()
'''


def measurement_script(operators: Sequence[Operator]) -> str:
    """Return a Python script that times operators with PyTorch and writes a table of measurements.

    Raises
    ------
    OptionError
        If PyTorch cannot time one in its precision.
    """
    for operator in operators:
        if operator.precision == "fp8":
            raise OptionError(f"{operator}: the script cannot time fp8; give another precision")
    kinds = list(dict.fromkeys(operator.kind for operator in operators))
    calls = "\n".join(f'    if kind == "{kind}":\n        {_CALLS[kind]}' for kind in kinds)
    shapes = "\n".join(f'    ("{op.kind}", "{op.precision}", {op.shape}),' for op in operators)
    return _SCRIPT.format(shapes=shapes, calls=calls, columns=list(COLUMNS))
