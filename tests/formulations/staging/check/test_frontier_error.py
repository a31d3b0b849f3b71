"""The error of a frontier that its intervals prove: of one layer on one type, by hand."""

from __future__ import annotations

import math
from typing import Any

import pytest
from staging_instances import half_serial

from clusterplan.formulations.staging.check.frontier_error import certified_error, proves_none
from clusterplan.formulations.staging.plan import Corner

BOTH = [Corner(0.75, 1.5), Corner(1.0, 1.0)]
INTERVALS: list[dict[str, Any]] = [
    {"until_s": math.nextafter(0.75, 0), "prices": {"t": 1.0}, "counts_cost": False},
    {"until_s": math.nextafter(1.0, 0)},
    {"until_s": 1e100},
]


def test_a_complete_frontier_has_the_error_that_is_claimed() -> None:
    """Below 0.75 s no units suffice, and from there on each corner is the cheapest."""
    assert certified_error(half_serial(), BOTH, 0.0, None, INTERVALS) == 0.0
    assert certified_error(half_serial(), BOTH, 0.01, None, INTERVALS) == 0.01


def test_a_corner_left_out_is_an_error_of_its_saving() -> None:
    """Without the cheap corner plans may save a third of the cost of the fast one."""
    found = certified_error(half_serial(), BOTH[:1], 0.0, None, INTERVALS)
    assert found == pytest.approx(1 / 3)


def test_a_fast_corner_left_out_leaves_no_error() -> None:
    """Faster plans than the fastest corner are not ruled out: nothing is proven."""
    assert certified_error(half_serial(), BOTH[1:], 0.0, None, INTERVALS) is None
    assert certified_error(half_serial(), BOTH[1:], 0.0, 1.2, INTERVALS) == 0.0  # it costs more than counts


def test_malformed_intervals_prove_nothing() -> None:
    """Neither an error nor that there is no plan."""
    assert certified_error(half_serial(), BOTH, 0.0, None, [{"until_s": -1}]) is None
    assert not proves_none(half_serial(), 0.5, [{"until_s": -1}])


@pytest.mark.parametrize(("most", "none"), [(0.9, True), (1.1, False)])
def test_no_plan_costs_less_than_one_dollar(most: float, none: bool) -> None:
    """The cheapest plan costs exactly one."""
    assert proves_none(half_serial(), most, [{"until_s": 1e100}]) == none
