"""Widths: around the prediction, wider outside what was measured and where measurements disagree."""

from __future__ import annotations

import pytest

from clusterplan.instances.prediction.intervals.levels import SPREADS, TOTALS, spread, spread_of_total
from clusterplan.instances.prediction.times.families import FAMILIES


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("basis", ["data sheet", "measured"])
def test_intervals_hold_the_prediction(basis: str, family: str) -> None:
    low, high = spread(basis, family, True, 0.1)
    assert 0 < low <= 1 <= high


def test_outside_and_noisy_is_wider() -> None:
    inside, outside, noisy = (
        spread("measured", "linear", *case) for case in ((True, 0.1), (False, 0.1), (True, 0.3))
    )
    assert outside[0] < inside[0] < inside[1] < outside[1]
    assert noisy[1] > inside[1]


def test_measured_totals_are_narrower_than_the_data_sheet() -> None:
    measured, sheet = spread_of_total("measured", True), spread_of_total("data sheet", False)
    assert sheet[0] < measured[0] < 1 < measured[1] <= sheet[1]


def test_every_calibrated_pair_is_in_order() -> None:
    assert all(low < high for low, high in (*SPREADS.values(), *TOTALS.values()))
