"""What a plan of consolidation changes: jobs, servers, and what is in use."""

from __future__ import annotations

from collections.abc import Sequence

from ...formulations.consolidation.plan import JobPlacement, entry_of
from ...instances.consolidation.instance import ConsolidationInstance
from ..changes import Amount, Changes, changed, is_choice
from .plan import where
from .servers import Servers


def runs_now_as_plan(instance: ConsolidationInstance) -> list[JobPlacement]:
    """Return where jobs run now, in the form of a plan; of a job that runs in part, that part."""
    found = []
    for job in instance.jobs:
        entry = entry_of(job, {group.name: dict(group.current) for group in job.task_groups})
        held = {g.name: g.current_devices for g in job.task_groups if g.current_devices}
        found.append(entry.model_copy(update={"devices": held}) if held else entry)
    return found


def changes(
    instance: ConsolidationInstance, before: Sequence[JobPlacement] | None, after: Sequence[JobPlacement]
) -> Changes:
    """Return what becomes different; without a plan before, to what runs now."""
    plans = runs_now_as_plan(instance) if before is None else before, after
    old, new = ({entry.job: where(entry) for entry in plan if entry.placed} for plan in plans)
    if before is None:
        # What keeps running need not say on which devices.
        new |= {entry.job: old[entry.job] for entry in after if entry.action == "keep"}
    found, stay = changed(old, new, "move")
    drawn = [Servers(instance, plan) for plan in plans]
    resource, rows = drawn[0].resource, drawn[1].rows
    places = [
        Amount(name, row.used, rows[name].used, row.capacity - row.taken)
        for name, row in drawn[0].rows.items()
    ]
    totals = [
        Amount(f"{name} in use", drawn[0].total[name][2], used, capacity - taken)
        for name, (capacity, taken, used) in drawn[1].total.items()
        if capacity and not is_choice(name)
    ]
    totals.sort(key=lambda amount: amount.name != f"{resource} in use")
    busy, then = (sum(bool(row.held) for row in each.rows.values()) for each in drawn)
    totals.append(Amount("servers in use", busy, then, len(rows)))
    totals += _money(*drawn)
    return Changes(
        "job",
        found,
        stay,
        len(instance.jobs) - len(old.keys() | new.keys()),
        totals,
        [place for place in places if place.differs],
        f"{resource} on server",
    )


def _money(before: Servers, after: Servers) -> list[Amount]:
    """Return what the servers in use cost by the hour, and of how many that is not known."""
    prices = {name: row.server.price_usd_per_hour for name, row in after.rows.items()}
    if not any(price is not None for price in prices.values()):
        return []
    now, then = (
        sum(prices[name] or 0.0 for name, row in each.rows.items() if row.held) for each in (before, after)
    )
    unknown = sum(price is None for price in prices.values())
    name = "USD per hour of servers in use"
    if unknown:
        name += f" ({unknown:,} of {len(prices):,} servers have no price)"
    return [Amount(name, now, then, sum(price or 0.0 for price in prices.values()))]
