"""What a scenario changes in an instance of staging."""

from __future__ import annotations

from typing import Any

import pytest
from sample_documents import STAGING

import clusterplan
from clusterplan.instances.common.errors import OptionError
from clusterplan.planner.staging.what_if import what_if


def changed(key: str, text: str) -> Any:
    """Return the document after one change."""
    instance = clusterplan.parse_instance(STAGING)
    return instance.replace(**what_if(instance)[key].fields(instance, text)).document()


def test_limits_and_prices_are_of_types() -> None:
    assert [kind.get("limit") for kind in changed("limit", "A:+8")["types"]] == [12, 4]
    assert [kind.get("limit") for kind in changed("limit", "B:none")["types"]] == [4, None]
    assert [kind["price_usd_per_hour"] for kind in changed("price", "*:-50%")["types"]] == [0.5, 1.5]
    with pytest.raises(OptionError, match="there is no type 'C'; there are: A, B"):
        changed("limit", "C:1")


def test_floor_and_budgets_are_of_the_plan() -> None:
    assert changed("floor", "+10%")["throughput_floor_samples_per_s"] == pytest.approx(5.5)
    assert "throughput_floor_samples_per_s" not in changed("floor", "none")
    assert changed("cost", "7")["cost_limit_usd"] == 7
    assert changed("budget", "7")["hourly_budget_usd"] == 7
    with pytest.raises(OptionError, match="there is no limit now"):
        changed("budget", "+7")
