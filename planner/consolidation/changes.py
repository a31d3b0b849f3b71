"""Changes of a consolidation: scenario changes of its data, and differences between two plans."""

from __future__ import annotations

import glob
from collections.abc import Collection, Iterator

from ...formulations.consolidation.fewest_servers import pooled_relaxation
from ...formulations.consolidation.plan import JobPlacement, Plan, entry_of
from ...instances.common.fields import Fields
from ...instances.consolidation.instance import ConsolidationInstance
from ..changes import (
    REMOVE_JOB,
    Amount,
    Changes,
    ScenarioChange,
    amounts_in_use,
    changes_of,
    matching,
    of_rows,
    rows_of,
)
from ..output import grouped, some_lines
from ..reports.text import counted, listed
from ..server_changes import Rows, added_servers, chosen_servers, server_changes
from .kubernetes import scheduler_notes
from .migration_steps import not_planned_notes
from .page import ClusterUsage
from .plan import placement_text, to_carry_out

MAX_NAMED = 100
"""Most servers that `drain` names one by one; for more it has their pattern."""


def what_if(instance: ConsolidationInstance) -> dict[str, ScenarioChange]:
    """Return the types of scenario change by key, such as `drain` or `add`."""
    del instance
    return {
        "drain": ScenarioChange("drain=SERVER", _drain),
        "add": ScenarioChange("add=NxSERVER or NxGPU_MODEL", added_servers),
        "remove": REMOVE_JOB,
        "value": of_rows("value=JOB:AMOUNT", "jobs", "job", "value", "worth"),
        "must-place": ScenarioChange("must-place=JOB", _must_place),
    }


def _drain(instance: ConsolidationInstance, pattern: str) -> Fields:
    """Return the field `drain` with more servers or racks; jobs on these move or stop.

    The objectives stay as they are, so that the values of the plans compare.
    """
    # By name, since servers that a later change adds may match the pattern as well.
    drained, chosen = chosen_servers(instance, pattern)
    few = drained if len(drained) <= MAX_NAMED else chosen
    more = map(glob.escape, few) if len(few) <= MAX_NAMED else [pattern]
    kept = {} if instance.has_aim else {"keep_objectives": True}
    return {"drain": [*(instance.drain or ()), *more], **kept}


def _must_place(instance: ConsolidationInstance, pattern: str) -> dict[str, Rows]:
    rows = rows_of(instance, "jobs")
    for name in matching(pattern, rows, "job"):
        rows[name]["must_place"] = True
    return {"jobs": [*rows.values()]}


def current_plan(instance: ConsolidationInstance) -> list[JobPlacement]:
    """Return the current placement as a plan; jobs that run in part have only their running tasks."""
    entries = []
    for job in instance.jobs:
        entry = entry_of(job, {group.name: dict(group.current) for group in job.task_groups})
        devices = {g.name: g.current_devices for g in job.task_groups if g.current_devices}
        entries.append(entry.model_copy(update={"devices": devices}) if devices else entry)
    return entries


def changes(instance: ConsolidationInstance, before: Plan | None, after: Plan) -> Changes:
    """Return the differences between two plans; without `before`, from the current placement."""
    plans = current_plan(instance) if before is None else before, after
    old, new = ({entry.job: placement_text(entry) for entry in plan if entry.placed} for plan in plans)
    if before is None:
        # What keeps running need not say on which devices.
        new |= {entry.job: old[entry.job] for entry in after if entry.action == "keep"}
    pooled = pooled_relaxation(instance) if instance.has_devices else instance
    drawn = [ClusterUsage(pooled, plan) for plan in plans]
    before_use, after_use = ({name: each[2] for name, each in one.total.items()} for one in drawn)
    there = {name: capacity - taken for name, (capacity, taken, _) in drawn[1].total.items() if capacity}
    totals = amounts_in_use(drawn[0].resource, before_use, after_use, there)
    servers, more = server_changes(*drawn)
    totals.append(servers)
    totals += _hourly_costs(*drawn)
    begun = {job for job, place in new.items() if old.get(job) != place}
    return changes_of(
        "job",
        "move",
        old,
        new,
        totals,
        len(instance.jobs),
        notes=tuple(remarks(instance, after, begun)),
        **more,
    )


def remarks(
    instance: ConsolidationInstance, entries: Plan, names: Collection[str] | None = None
) -> Iterator[str]:
    """Yield what is assumed about jobs, which starts a script leaves to the scheduler, and where the rest is.

    Parameters
    ----------
    names
        The jobs; by default those that the plan starts or moves.
    """
    chosen = {entry.job for entry in to_carry_out(entries, every=False)} if names is None else names
    jobs_by_sentence = grouped(
        (sentence, job.name) for job in instance.jobs if job.name in chosen for sentence in job.assumed or ()
    )
    lines = [f"assumed of {listed(jobs)}: {sentence}" for sentence, jobs in jobs_by_sentence.items()]
    yield from some_lines(lines, "assumed: {:,} more sentences, under `assumed` of the jobs in the instance")
    yield from not_planned_notes(instance, entries)
    yield from scheduler_notes(instance, entries)
    if instance.assumptions:
        yield f"{counted(len(instance.assumptions), 'assumption')}: see `assumptions` in the instance"


def _hourly_costs(before: ClusterUsage, after: ClusterUsage) -> list[Amount]:
    """Return the USD per hour of the servers in use before and after; empty if no server has a price."""
    prices = {name: server.price_usd_per_hour for name, server in after.servers.items()}
    unknown = sum(price is None for price in prices.values())
    if unknown == len(prices):
        return []
    now, then = (
        sum(prices[name] or 0.0 for name, row in each.rows.items() if row.allocations)
        for each in (before, after)
    )
    name = "USD per hour of servers in use"
    if unknown:
        name += f" ({unknown:,} of {len(prices):,} servers have no price)"
    return [Amount(name, now, then, sum(price or 0.0 for price in prices.values()))]
