"""What a scenario may change in an instance of staging: units, prices, and what every plan must keep."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...instances.staging.instance import StagingInstance
from ..scenarios import ScenarioChange, amount, matching, named_amount, rows_of


def what_if(instance: StagingInstance) -> dict[str, ScenarioChange]:
    """Return the changes that a scenario may make."""
    del instance
    return {
        "limit": ScenarioChange("limit=TYPE:UNITS", _of_types("limit")),
        "price": ScenarioChange("price=TYPE:USD_PER_HOUR", _of_types("price_usd_per_hour")),
        "floor": ScenarioChange("floor=SAMPLES_PER_S", _of_plan("throughput_floor_samples_per_s")),
        "cost": ScenarioChange("cost=USD", _of_plan("cost_limit_usd")),
        "budget": ScenarioChange("budget=USD_PER_HOUR", _of_plan("hourly_budget_usd")),
    }


def _of_plan(field: str) -> Callable[[StagingInstance, str], dict[str, Any]]:
    return lambda instance, text: {field: amount(text, getattr(instance, field))}


def _of_types(field: str) -> Callable[[StagingInstance, str], dict[str, Any]]:
    def fields(instance: StagingInstance, text: str) -> dict[str, Any]:
        pattern, value = named_amount(text)
        rows = rows_of(instance, "types")
        chosen = matching(pattern, [row["name"] for row in rows], "type")
        return {
            "types": [
                {**row, field: amount(value, row.get(field))} if row["name"] in chosen else row
                for row in rows
            ]
        }

    return fields
