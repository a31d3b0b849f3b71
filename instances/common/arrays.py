"""Type aliases of NumPy arrays."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]


def narrow(column: Ints) -> Ints:
    """Return an array of integers as 32-bit integers, which halves its memory traffic."""
    return column.astype(np.int32)
