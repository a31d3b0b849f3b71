"""What a plan of staging changes against another one.

What a scenario changes in an instance of staging.
"""

from __future__ import annotations

from typing import Any

import pytest
from sample_documents import STAGING

import clusterplan
from clusterplan.formulations.staging.stages import Stage, stage_of
from clusterplan.instances.common.errors import OptionError
from clusterplan.instances.staging.generate import generate_staging
from clusterplan.planner.changes import Amount, Change
from clusterplan.planner.staging.changes import changes, what_if


def test_stages_and_units_of_two_plans_are_compared() -> None:
    instance = generate_staging(4, 2, seed=1)
    one, other = (kind.name for kind in instance.types)
    before = [Stage(first_layer=0, last_layer=3, type=one, units=2)]
    after = [Stage(first_layer=0, last_layer=0, type=one, units=2), stage_of([1, 3], other, 1)]
    found = changes(instance, before, after)
    assert found.changes == [
        Change("stage 0", "change", f"layers 0–3 on 2 × {one}", f"layer 0 on 2 × {one}"),
        Change("stage 1", "start", "", f"2 layers from 1 to 3 on 1 × {other}"),
    ]
    limits = [kind.limit for kind in instance.types]
    assert found.amounts == [
        Amount(f"units of {one}", 2, 2, limits[0]),
        Amount(f"units of {other}", 0, 1, limits[1]),
    ]


def test_nothing_says_what_runs_now() -> None:
    with pytest.raises(OptionError, match="give two results"):
        changes(generate_staging(4, 2, seed=1), None, [])


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
