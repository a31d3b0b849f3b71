"""Functions that are compiled at their first call."""

from __future__ import annotations

import numpy as np

from clusterplan.formulations.common.compiled import compiled


@compiled
def _twice(number: float) -> float:
    return 2 * number


@compiled
def _sum_of_doubles(numbers: np.ndarray) -> float:
    total = 0.0
    for number in numbers:
        total += _twice(number)
    return total


def test_compiled_functions_call_each_other() -> None:
    """And give what they would give uncompiled."""
    assert _sum_of_doubles.__name__ == "_sum_of_doubles"
    assert _sum_of_doubles(np.array([1.0, 2.5])) == 7.0
