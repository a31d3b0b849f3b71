"""Times of consecutive layers on units of a type."""

from __future__ import annotations

import numpy as np
import pytest
from staging_instances import half_serial, two_layers

from clusterplan.formulations.staging.formulation import StagingFormulation
from clusterplan.formulations.staging.stages import min_units, parts_time_s


def test_segments_stand_by_last_layer_type_and_first_layer() -> None:
    """`index` is the position of each."""
    table = StagingFormulation(two_layers()).table
    found = list(zip(table.last.tolist(), table.first.tolist(), table.type.tolist(), strict=True))
    assert found == [(0, 0, 0), (0, 0, 1), (1, 0, 0), (1, 1, 0), (1, 0, 1), (1, 1, 1)]
    assert [table.index(first, last, t) for last, first, t in found] == list(range(6))
    assert table.index(1, 0, 0) == -1


def test_parts_by_hand() -> None:
    """Sums over the layers, and the transfer of half a second where a stage begins at the second."""
    table = StagingFormulation(two_layers()).table
    assert table.parts(0, 1, 0) == (2.0, 10.0, 1.5, 0.5)
    assert table.parts(1, 1, 0) == (0.0, 8.0, 1.5, 1.0)
    assert parts_time_s(table.parts(1, 1, 0), 2) == 4.0
    assert np.isclose(table.time_s(2)[table.index(0, 1, 0)], 7.0)


@pytest.mark.parametrize(("time", "units"), [(1.0, 1), (0.99, 2), (0.75, 2), (0.5, 0), (0.51, 50)])
def test_fewest_units_by_hand(time: float, units: int) -> None:
    """(1 + 1/k)/2 s on k units: never half a second."""
    assert min_units(StagingFormulation(half_serial(100)).table.parts(0, 0, 0), time, 100) == units


def test_fewest_units_keep_the_limit() -> None:
    """0 where there are not enough."""
    assert min_units(StagingFormulation(half_serial(49)).table.parts(0, 0, 0), 0.51, 49) == 0
