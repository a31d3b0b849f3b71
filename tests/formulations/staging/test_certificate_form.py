"""The form of a certificate: what is read, what is refused, and the prices that are written and looked up."""

from __future__ import annotations

import math

import numpy as np
import pytest
from staging_instances import two_layers

from clusterplan.formulations.staging.certificate import (
    BUDGET,
    LARGEST,
    StagingCertificate,
    limited_types,
    named_prices,
    prices_at,
    read_certificate,
)


def test_only_types_with_a_limit_have_prices() -> None:
    """In the order of the instance."""
    instance = two_layers()
    assert limited_types(instance) == ["slow", "fast"]
    free = instance.types[0].model_copy(update={"limit": None})
    assert limited_types(instance.model_copy(update={"types": (free, instance.types[1])})) == ["fast"]


def test_a_certificate_is_read_or_its_fault_named() -> None:
    """Intervals have to rise, and prices to be of limited types."""
    given = read_certificate(
        two_layers(), {"cutoff": 3.0, "intervals": [{"until_s": 1, "prices": {"fast": 2}}]}
    )
    assert isinstance(given, StagingCertificate)
    assert given.intervals[0].prices == {"fast": 2.0}
    falling = {"intervals": [{"until_s": 2}, {"until_s": 2}]}
    assert read_certificate(two_layers(), falling) == (
        "intervals: until_s has to rise from one interval to the next"
    )
    stranger = {"intervals": [{"until_s": 2, "prices": {"else": 1}}]}
    assert "intervals.0.prices.else" in str(read_certificate(two_layers(), stranger))


def test_prices_are_written_by_name_within_what_the_form_holds() -> None:
    """Zero and negative ones are left out; infinite ones become the largest; the budget's stands apart."""
    assert named_prices(two_layers(), np.array([-1.0, 2.5])) == ({"fast": 2.5}, 0.0)
    assert named_prices(two_layers(), np.array([math.inf, math.nan])) == ({"slow": LARGEST}, 0.0)
    budget = two_layers(hourly_budget_usd=9)
    assert named_prices(budget, np.array([1.0, 0.0, 0.25])) == ({"slow": 1.0}, 0.25)


@pytest.mark.parametrize(
    ("time", "prices"),
    [
        (0.5, None),  # there units do not suffice, which says nothing about money
        (2.0, {"slow": 0.0, "fast": 3.0, BUDGET: 0.5}),
        (9.0, None),  # beyond the last interval
    ],
)
def test_prices_are_those_of_the_interval_of_the_stage_time(time: float, prices: dict[str, float]) -> None:
    """Both ends of an interval belong to it."""
    data = {
        "intervals": [
            {"until_s": 1.0, "counts_cost": False},
            {"until_s": 2.0, "prices": {"fast": 3.0}, "budget_price": 0.5},
        ]
    }
    assert prices_at(two_layers(hourly_budget_usd=9), data, time) == prices
