"""Generated staging instances at the edge of what memory allows."""

from __future__ import annotations

import pytest

from clusterplan.instances.staging.generate import generate_staging


@pytest.mark.parametrize("seed", [5, 15, 25, 35])
def test_a_single_type_with_memory_holds_all_layers(seed: int) -> None:
    """Whatever the order in which memory is added up; a unit that is too small would search for ever."""
    instance = generate_staging(7, 1, "tight", memory=True, seed=seed)
    held = sum(layer.memory_gib for layer in instance.layers)
    assert held == pytest.approx(instance.types[0].memory_gib)
