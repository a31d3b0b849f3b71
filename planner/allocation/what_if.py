"""What a scenario may change in an instance of allocation: resources, the budget, and jobs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...instances.allocation.instance import AllocationInstance
from ..scenarios import ScenarioChange, amount, fresh_names, matching, named_amount, rows_of, times


def what_if(instance: AllocationInstance) -> dict[str, ScenarioChange]:
    """Return the changes that a scenario may make; each resource is one."""
    of_resources = {name: ScenarioChange(f"{name}=AMOUNT", _resource(name)) for name in instance.resources}
    return {
        **of_resources,
        "budget": ScenarioChange("budget=USD_PER_HOUR", _budget),
        "remove": ScenarioChange("remove=JOB", _remove),
        "add": ScenarioChange("add=NxJOB", _add),
        "weight": ScenarioChange("weight=JOB:AMOUNT", _weight),
    }


def _resource(name: str) -> Callable[[AllocationInstance, str], dict[str, Any]]:
    def fields(instance: AllocationInstance, text: str) -> dict[str, Any]:
        return {"resources": {**instance.resources, name: amount(text, instance.resources[name])}}

    return fields


def _budget(instance: AllocationInstance, text: str) -> dict[str, Any]:
    return {"budget_usd_per_hour": amount(text, instance.budget_usd_per_hour)}


def _remove(instance: AllocationInstance, pattern: str) -> dict[str, Any]:
    gone = _jobs(instance, pattern)
    return {"jobs": [row for row in rows_of(instance, "jobs") if row["name"] not in gone]}


def _add(instance: AllocationInstance, text: str) -> dict[str, Any]:
    """Add jobs like one that is there; they run nowhere yet."""
    count, like = times(text)
    rows = {row["name"]: row for row in rows_of(instance, "jobs")}
    (name, *_) = sorted(matching(like, rows, "job"))
    kept = {key: value for key, value in rows[name].items() if key != "current"}
    return {"jobs": [*rows.values(), *({**kept, "name": new} for new in fresh_names(count, name, rows))]}


def _weight(instance: AllocationInstance, text: str) -> dict[str, Any]:
    pattern, value = named_amount(text)
    chosen = _jobs(instance, pattern)
    rows = rows_of(instance, "jobs")
    for row in rows:
        if row["name"] in chosen:
            row["weight"] = amount(value, row["weight"])
    return {"jobs": rows}


def _jobs(instance: AllocationInstance, pattern: str) -> set[str]:
    return matching(pattern, instance.table().names, "job")
