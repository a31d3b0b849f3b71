"""Changes of an allocation: scenario changes of its data, and differences between two plans.

Plans differ in the configurations of jobs, and in the use of resources and budget.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...formulations.allocation.configurations import BUDGET
from ...formulations.allocation.plan import JobAllocation
from ...instances.allocation.instance import AllocationInstance
from ..changes import (
    REMOVE_JOB,
    Amount,
    Changes,
    ScenarioChange,
    changes_of,
    count_and_name,
    fresh_names,
    leading_resource,
    matching,
    of_field,
    of_resource,
    of_rows,
    rows_of,
)
from .plan import Usage


def what_if(instance: AllocationInstance) -> dict[str, ScenarioChange]:
    """Return the types of scenario change by key, such as `budget`; each resource name is a key too."""
    return {
        **{name: of_resource(name, f"{name}=AMOUNT") for name in instance.resources},
        "budget": of_field("budget=USD_PER_HOUR", "budget_usd_per_hour"),
        "remove": REMOVE_JOB,
        "add": ScenarioChange("add=NxJOB", _add),
        "weight": of_rows("weight=JOB:AMOUNT", "jobs", "job", "weight"),
    }


def _add(instance: AllocationInstance, text: str) -> dict[str, Any]:
    """Return the changed list of jobs, with copies of an existing job that do not run yet."""
    count, like = count_and_name(text)
    rows = rows_of(instance, "jobs")
    (name, *_) = sorted(matching(like, rows, "job"))
    kept = {key: value for key, value in rows[name].items() if key != "current"}
    return {"jobs": [*rows.values(), *({**kept, "name": new} for new in fresh_names(count, name, rows))]}


def current_plan(instance: AllocationInstance) -> list[JobAllocation]:
    """Return the current configurations of running jobs as a plan."""
    return [
        JobAllocation(
            job=job.name,
            variant=job.current.variant,
            ps=job.current.ps,
            workers=job.current.workers,
        )
        for job in instance.jobs
        if job.current is not None
    ]


def changes(
    instance: AllocationInstance, before: Sequence[JobAllocation] | None, after: Sequence[JobAllocation]
) -> Changes:
    """Return the differences between two plans; without `before`, from the current configurations."""
    plans = current_plan(instance) if before is None else before, after
    several = {job.name for job in instance.jobs if len(job.variants) > 1}
    old, new = (
        {entry.job: _configuration(entry, entry.job in several) for entry in plan if entry.placed}
        for plan in plans
    )
    usage = Usage(instance)
    used = [usage.of(plan) for plan in plans]
    amounts = [
        Amount(f"{name} in use", used[0][name], used[1][name], total)
        for name, total in usage.amounts.items()
        if name != BUDGET
    ]
    taken = [name for name in instance.resources if used[0][name] or used[1][name]]
    first = leading_resource(taken or instance.resources)
    amounts.sort(key=lambda amount: amount.name != f"{first} in use")
    prices = instance.prices_usd_per_hour
    if any(prices.values()):
        now, then = (sum(price * each[name] for name, price in prices.items()) for each in used)
        amounts.append(Amount("USD per hour", now, then, instance.budget_usd_per_hour))
    return changes_of("job", "change", old, new, amounts, len(instance.jobs))


def _configuration(entry: JobAllocation, several: bool) -> str:
    servers = [f"{entry.ps} ps"] if entry.ps else []
    text = ", ".join([*servers, f"{entry.workers} workers"])
    return f"{entry.variant}: {text}" if several else text
