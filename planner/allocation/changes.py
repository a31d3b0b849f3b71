"""Changes of an allocation: scenario changes of its data, and differences between two plans."""

from __future__ import annotations

import fnmatch
from collections.abc import Container

import numpy as np

from ...formulations.allocation.formulation import AllocationFormulation
from ...formulations.allocation.plan import JobAllocation, Plan, PlanTable
from ...instances.allocation.instance import AllocationInstance
from ...instances.common.errors import OptionError
from ...instances.common.fields import Fields
from ..changes import (
    REMOVE_JOB,
    Amount,
    Changes,
    ScenarioChange,
    amount,
    amounts_in_use,
    changes_of,
    count_and_name,
    fresh_names,
    leading_resource,
    matching,
    of_field,
    of_resource,
    of_rows,
    rows_of,
    without_jobs,
)
from ..server_changes import added_servers, chosen_servers, server_changes
from .placement import placement_text, remarks, servers_in_use


def what_if(instance: AllocationInstance) -> dict[str, ScenarioChange]:
    """Return the types of scenario change by key, such as `budget`; each resource name is a key too."""
    common = {
        "budget": of_field("budget=USD_PER_HOUR", "budget_usd_per_hour"),
        "weight": of_rows("weight=JOB:AMOUNT", "jobs", "job", "weight"),
    }
    if instance.servers is None:
        pooled = {name: of_resource(name, f"{name}=AMOUNT") for name in instance.resources}
        return {**pooled, **common, "remove": REMOVE_JOB, "add": ScenarioChange("add=NxJOB", _add)}
    return {
        **{name: _of_capacity(name) for name in instance.resources},
        **common,
        "servers": of_rows("servers=SERVER:NUMBER", "servers", "row of servers", "count"),
        "drain": ScenarioChange("drain=SERVER", _drain),
        "remove": ScenarioChange("remove=JOB or SERVER", _remove),
        "add": ScenarioChange("add=NxJOB, NxSERVER or NxGPU_MODEL", _add),
    }


def _of_capacity(name: str) -> ScenarioChange:
    """Return the change of how much of a resource servers have."""
    usage = f"{name}=SERVER:AMOUNT"

    def fields(instance: AllocationInstance, text: str) -> Fields:
        pattern, colon, value = text.rpartition(":")
        if not colon:
            raise OptionError(f"{name}={text}: {name} is what the servers have together; write {usage}")
        rows = rows_of(instance, "servers")
        for row in matching(pattern, rows, "row of servers"):
            new = amount(value, rows[row]["capacity"].get(name, 0.0))
            if new is None:
                raise OptionError(f"{name}={text}: a server has so much of it; write 8, +4, -2 or -20%")
            rows[row]["capacity"] = {**rows[row]["capacity"], name: new}
            if name in rows[row].get("free", ()):
                rows[row]["free"] = {**rows[row]["free"], name: min(new, rows[row]["free"][name])}
        return {"servers": [*rows.values()]}

    return ScenarioChange(usage, fields)


def _drain(instance: AllocationInstance, pattern: str) -> Fields:
    """Return the changed list of servers, with nothing free on those that are to be empty."""
    drained = {*chosen_servers(instance, pattern)[0]}
    rows = []
    for name, row in rows_of(instance, "servers").items():
        singles = [name] if "count" not in row else [f"{name}-{k}" for k in range(row["count"])]
        if drained.isdisjoint(singles):
            rows.append(row)
            continue
        for single in singles:
            free = {"free": dict.fromkeys(row["capacity"], 0.0)} if single in drained else {}
            rows.append({**row, **free, "name": single, "count": None})
    return {"servers": rows}


def _remove(instance: AllocationInstance, pattern: str) -> Fields:
    """Return the changed list of jobs without those that match, or if none does, that of servers."""
    rows = rows_of(instance, "servers")
    gone = matching(pattern, [*rows, *(job.name for job in instance.jobs)], "row of servers or job")
    if not gone <= rows.keys():
        return dict(without_jobs(instance, pattern))
    return {"servers": [row for name, row in rows.items() if name not in gone]}


def _add(instance: AllocationInstance, text: str) -> Fields:
    """Return the changed list of jobs, with copies of one that do not run yet, or that of servers."""
    count, like = count_and_name(text)
    rows = rows_of(instance, "jobs")
    if instance.servers is not None and not fnmatch.filter(rows, like):
        return added_servers(instance, text)
    (name, *_) = sorted(matching(like, rows, "job"))
    kept = {key: value for key, value in rows[name].items() if key not in ("current", "workload")}
    return {"jobs": [*rows.values(), *({**kept, "name": new} for new in fresh_names(count, name, rows))]}


def current_plan(instance: AllocationInstance) -> Plan:
    """Return the current configurations of running jobs as a plan."""
    table = instance.table()
    placed = table.current_variant >= 0
    running = np.flatnonzero(placed).tolist()
    if instance.servers is not None:
        jobs = map(instance.jobs.__getitem__, running)
        return [JobAllocation(job=job.name, **job.current.model_dump()) for job in jobs if job.current]
    # An object for each of a million rows of a table takes minutes.
    names = [table.names[j] for j in running]
    variants = [table.variant_names[v] for v in table.current_variant[running]]
    ps, workers = table.current_ps[running], table.current_workers[running]
    return PlanTable(names, placed[running], variants, ps, workers, np.full(len(names), np.nan))


def changes(instance: AllocationInstance, before: Plan | None, after: Plan) -> Changes:
    """Return the differences between two plans; without `before`, from the current configurations.

    Of a running job whose servers are not known, only another configuration is a difference.
    """
    plans = current_plan(instance) if before is None else before, after
    table = instance.table()
    several = {table.names[j] for j in np.flatnonzero(np.diff(table.first_variant) > 1).tolist()}
    old, new = texts = [_configuration_texts(plan, several) for plan in plans]
    if instance.servers is not None:
        nowhere = {entry.job for entry in plans[0] if entry.placement is None}
        for of_job, plan in zip(texts, plans, strict=True):
            for entry in plan:
                if entry.placement and entry.job not in nowhere:
                    of_job[entry.job] += f" ({placement_text(entry)})"
    used = [*map(AllocationFormulation(instance).usage, plans)]
    taken = [name for name in instance.resources if used[0][name] or used[1][name]]
    lead = leading_resource(taken or instance.resources)
    amounts = amounts_in_use(lead, used[0], used[1], instance.resources)
    prices = instance.prices_usd_per_hour
    if any(prices.values()):
        now, then = (sum(price * each[name] for name, price in prices.items()) for each in used)
        amounts.append(Amount("USD per hour", now, then, instance.budget_usd_per_hour))
    more: Fields = {}
    if instance.servers is not None:
        servers, more = server_changes(*(servers_in_use(instance, plan) for plan in plans))
        amounts.append(servers)
    notes = tuple(remarks(instance))
    return changes_of("job", "change", old, new, amounts, len(instance.jobs), notes=notes, **more)


def _configuration_texts(plan: Plan, several: Container[str]) -> dict[str, str]:
    """Return the configuration of each placed job; with its variant where it has several."""
    table = PlanTable.of(plan)
    columns = table.names, table.placed.tolist(), table.variants, table.ps.tolist(), table.workers.tolist()
    return {
        job: f"{f'{variant}: ' if job in several else ''}{f'{ps} ps, ' if ps else ''}{workers} workers"
        for job, placed, variant, ps, workers in zip(*columns, strict=True)
        if placed
    }
