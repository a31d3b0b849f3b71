"""Widths: around the prediction, wider outside what was measured and where measurements disagree."""

from __future__ import annotations

import re
from math import exp, hypot, log
from pathlib import Path

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


def test_outside_the_measured_range_ends_are_half_as_far_again() -> None:
    """Of operators and of totals; what was never measured has no range, and one width."""
    pairs = [
        (spread("measured", "bmm", True, 0.2), spread("measured", "bmm", False, 0.2), 1.5),
        (spread_of_total("measured", True), spread_of_total("measured", False), 1.5),
        (spread_of_total("data sheet", True), spread_of_total("data sheet", False), 1.0),
        (spread("data sheet", "bmm", True), spread("data sheet", "bmm", False), 1.0),
    ]
    for inside, outside, factor in pairs:
        for end in (0, 1):
            assert log(outside[end]) == pytest.approx(factor * log(inside[end]))


def test_measurements_that_agree_by_chance_leave_a_tenth() -> None:
    low, high = SPREADS["measured", "linear"]
    assert spread("measured", "linear", True, 0.0) == pytest.approx((exp(0.1 * low), exp(0.1 * high)))
    assert log(spread("measured", "linear", True, 0.1)[1]) == pytest.approx(hypot(0.1, 0.1) * high)


def test_the_ends_are_those_that_the_benchmark_printed() -> None:
    """`benchmarks/results/prediction.md`, which `make bench-prediction` writes."""
    page = (Path(__file__).parents[4] / "benchmarks" / "results" / "prediction.md").read_text()
    row = re.compile(r"^\| ([a-z ]+), (measured|data sheet) \| ([-+][\d.]+) ([-+][\d.]+) \|", re.M)
    printed = {(basis, what): (float(low), float(high)) for what, basis, low, high in row.findall(page)}
    totals = {(basis, "whole models"): ends for basis, ends in TOTALS.items()}
    assert printed == {**SPREADS, **totals}
