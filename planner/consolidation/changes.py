"""Changes of a consolidation: scenario changes of its data, and differences between two plans."""

from __future__ import annotations

import glob
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from itertools import chain
from typing import Any

from ...formulations.consolidation.plan import JobPlacement, entry_of
from ...instances.common.errors import OptionError
from ...instances.consolidation.instance import ConsolidationInstance
from ..changes import (
    REMOVE_JOB,
    Amount,
    Changes,
    ScenarioChange,
    changes_of,
    count_and_name,
    fresh_names,
    matching,
    of_rows,
    rows_of,
)
from ..output import some_lines
from ..reports.text import counted, listed
from .kubernetes import scheduler_notes
from .migration_steps import not_planned_notes
from .page import ClusterUsage
from .plan import placement_text, to_carry_out

Rows = list[dict[str, Any]]
MAX_NAMED = 100
"""Most servers that `drain` names one by one; for more it has their pattern."""


def what_if(instance: ConsolidationInstance) -> dict[str, ScenarioChange]:
    """Return the types of scenario change by key, such as `drain` or `add`."""
    del instance
    return {
        "drain": ScenarioChange("drain=SERVER", _drain),
        "add": ScenarioChange("add=NxSERVER or NxGPU_MODEL", _add),
        "remove": REMOVE_JOB,
        "value": of_rows("value=JOB:AMOUNT", "jobs", "job", "value", "worth"),
        "must-place": ScenarioChange("must-place=JOB", _must_place),
    }


def _drain(instance: ConsolidationInstance, pattern: str) -> dict[str, Any]:
    """Return the field `drain` with more servers or racks; jobs on these move or stop.

    The objectives stay as they are, so that the values of the plans compare.
    """
    rows = (row for row in instance.servers for _ in range(row.count or 1))
    singles = zip(instance.expanded_servers, rows, strict=True)
    names = {server.name: (server.name, row.name, row.rack or row.name) for server, row in singles}
    chosen = matching(pattern, chain(names, *names.values()), "server or rack")
    # By name, since servers that a later change adds may match the pattern as well.
    drained = [name for name, known in names.items() if not chosen.isdisjoint(known)]
    few = drained if len(drained) <= MAX_NAMED else chosen
    more = map(glob.escape, few) if len(few) <= MAX_NAMED else [pattern]
    kept = {} if instance.has_aim else {"keep_objectives": True}
    return {"drain": [*(instance.drain or ()), *more], **kept}


def _add(instance: ConsolidationInstance, text: str) -> dict[str, Rows]:
    """Return the changed list of servers, with empty ones like a server or a GPU model's most common one."""
    count, like = count_and_name(text)
    servers = instance.expanded_servers
    rows = rows_of(instance, "servers")
    single = {server.name: server for server in servers}
    if like in rows:
        model = rows[like]
    elif like in single:
        model = single[like].model_dump(mode="json", exclude_none=True)
    else:
        model = _most_common_server(instance, like)
        like = model["name"]
    kept = {key: value for key, value in model.items() if key not in ("count", "free", "traffic_gbit_per_s")}
    for devices in kept.get("devices", {}).values():
        devices.pop("taken", None)
    made = [{**kept, "name": name} for name in fresh_names(count, like, [*single, *rows])]
    return {"servers": [*rows.values(), *made]}


def _most_common_server(instance: ConsolidationInstance, model: str) -> dict[str, Any]:
    """Return the document entry of the most common server type with a GPU model, ignoring case."""
    shapes: Counter[str] = Counter()
    first: dict[str, dict[str, Any]] = {}
    for row in rows_of(instance, "servers").values():
        if str(row.get("gpu_model")).lower() == model.lower():
            shape = repr((row["capacity"], row.get("devices")))
            shapes[shape] += row.get("count", 1)
            first.setdefault(shape, row)
    if not shapes:
        models = dict.fromkeys(server.gpu_model for server in instance.servers if server.gpu_model)
        names = [server.name for server in instance.servers]
        have = f"models {listed(list(models))}; " if models else ""
        raise OptionError(f"no server and no GPU model is called {model!r}; there are: {have}{listed(names)}")
    return first[shapes.most_common(1)[0][0]]


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


def changes(
    instance: ConsolidationInstance, before: Sequence[JobPlacement] | None, after: Sequence[JobPlacement]
) -> Changes:
    """Return the differences between two plans; without `before`, from the current placement."""
    plans = current_plan(instance) if before is None else before, after
    old, new = ({entry.job: placement_text(entry) for entry in plan if entry.placed} for plan in plans)
    if before is None:
        # What keeps running need not say on which devices.
        new |= {entry.job: old[entry.job] for entry in after if entry.action == "keep"}
    drawn = [ClusterUsage(instance, plan) for plan in plans]
    resource, rows = drawn[0].resource, drawn[1].rows
    places = [
        Amount(
            name,
            row.used,
            rows[name].used,
            row.capacity - row.taken,
            "to be empty" if row.drained else "",
        )
        for name, row in drawn[0].rows.items()
    ]
    totals = [
        Amount(f"{name} in use", drawn[0].total[name][2], used, capacity - taken)
        for name, (capacity, taken, used) in drawn[1].total.items()
        if capacity
    ]
    totals.sort(key=lambda amount: amount.name != f"{resource} in use")
    busy, then = (sum(bool(row.allocations) for row in each.rows.values()) for each in drawn)
    totals.append(Amount("servers in use", busy, then, len(rows)))
    totals += _hourly_costs(*drawn)
    begun = {job for job, place in new.items() if old.get(job) != place}
    return changes_of(
        "job",
        "move",
        old,
        new,
        totals,
        len(instance.jobs),
        places=[place for place in places if place.differs],
        place=f"{resource} on server",
        notes=tuple(remarks(instance, after, begun)),
    )


def remarks(
    instance: ConsolidationInstance, entries: Sequence[JobPlacement], names: Collection[str] | None = None
) -> Iterator[str]:
    """Yield what is assumed about jobs, which starts a script leaves to the scheduler, and where the rest is.

    Parameters
    ----------
    names
        The jobs; by default those that the plan starts or moves.
    """
    chosen = {entry.job for entry in to_carry_out(entries, every=False)} if names is None else names
    jobs_by_sentence: dict[str, list[str]] = {}
    for job in instance.jobs:
        for sentence in job.assumed or () if job.name in chosen else ():
            jobs_by_sentence.setdefault(sentence, []).append(job.name)
    lines = [f"assumed of {listed(jobs)}: {sentence}" for sentence, jobs in jobs_by_sentence.items()]
    yield from some_lines(lines, "assumed: {:,} more sentences, under `assumed` of the jobs in the instance")
    yield from not_planned_notes(instance, entries)
    yield from scheduler_notes(instance, entries)
    if instance.assumptions:
        yield f"{counted(len(instance.assumptions), 'assumption')}: see `assumptions` in the instance"


def _hourly_costs(before: ClusterUsage, after: ClusterUsage) -> list[Amount]:
    """Return the USD per hour of the servers in use before and after; empty if no server has a price."""
    prices = {name: row.server.price_usd_per_hour for name, row in after.rows.items()}
    if not any(price is not None for price in prices.values()):
        return []
    now, then = (
        sum(prices[name] or 0.0 for name, row in each.rows.items() if row.allocations)
        for each in (before, after)
    )
    unknown = sum(price is None for price in prices.values())
    name = "USD per hour of servers in use"
    if unknown:
        name += f" ({unknown:,} of {len(prices):,} servers have no price)"
    return [Amount(name, now, then, sum(price or 0.0 for price in prices.values()))]
