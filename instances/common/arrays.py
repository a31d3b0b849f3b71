"""Names of the types of arrays."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]


def narrow(column: Ints) -> Ints:
    """Return a column of numbers in 32 bits, half of the memory to be read."""
    return column.astype(np.int32)
