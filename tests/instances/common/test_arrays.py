"""Names of array types."""

from __future__ import annotations

import numpy as np

from clusterplan.instances.common import arrays


def test_each_name_is_an_array_of_its_numbers() -> None:
    """Doubles, 64-bit integers and truth values."""
    kinds = {name: getattr(arrays, name).__args__[1].__args__[0] for name in ("Floats", "Ints", "Flags")}
    assert kinds == {"Floats": np.float64, "Ints": np.int64, "Flags": np.bool_}
