"""What a plan of allocation changes: jobs, and what is in use of each resource and of the budget."""

from __future__ import annotations

from collections.abc import Sequence

from ...formulations.allocation.configurations import BUDGET
from ...formulations.allocation.plan import JobAllocation
from ...instances.allocation.instance import AllocationInstance
from ..changes import Amount, Changes, changed, leading
from .usage import Usage


def runs_now_as_plan(instance: AllocationInstance) -> list[JobAllocation]:
    """Return the current configurations, in the form of a plan."""
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
    """Return what becomes different; without a plan before, to the current configurations."""
    plans = runs_now_as_plan(instance) if before is None else before, after
    several = {job.name for job in instance.jobs if len(job.variants) > 1}
    old, new = (
        {entry.job: _configuration(entry, entry.job in several) for entry in plan if entry.placed}
        for plan in plans
    )
    found, stay = changed(old, new, "change")
    usage = Usage(instance)
    used = [usage.of(plan) for plan in plans]
    amounts = [
        Amount(f"{name} in use", used[0][name], used[1][name], total)
        for name, total in usage.amounts.items()
        if name != BUDGET
    ]
    taken = [name for name in instance.resources if used[0][name] or used[1][name]]
    first = leading(taken or instance.resources)
    amounts.sort(key=lambda amount: amount.name != f"{first} in use")
    prices = instance.prices_usd_per_hour
    if any(prices.values()):
        now, then = (sum(price * each[name] for name, price in prices.items()) for each in used)
        amounts.append(Amount("USD per hour", now, then, instance.budget_usd_per_hour))
    return Changes("job", found, stay, len(instance.jobs) - len(old.keys() | new.keys()), amounts)


def _configuration(entry: JobAllocation, several: bool) -> str:
    servers = [f"{entry.ps} ps"] if entry.ps else []
    text = ", ".join([*servers, f"{entry.workers} workers"])
    return f"{entry.variant}: {text}" if several else text
