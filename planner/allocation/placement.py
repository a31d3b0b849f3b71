"""Servers of allocation plans: the tasks of each job on them as text, what each holds, what is assumed."""

from __future__ import annotations

from collections.abc import Iterator

from ...formulations.allocation.plan import JobAllocation, Plan
from ...formulations.allocation.splits import SIGMA
from ...instances.allocation.instance import AllocationInstance
from ...instances.allocation.job import Tasks, Variant
from ..changes import leading_resource
from ..reports.servers import ServersInUse, ServerUsage
from ..reports.text import listed

FEW = 4
"""Most servers of a job in the text table of a plan."""


def variants_of(instance: AllocationInstance) -> dict[tuple[str, str], Variant]:
    """Return job and name → each variant."""
    return {(job.name, variant.name): variant for job in instance.jobs for variant in job.variants}


def tasks_text(tasks: Tasks) -> str:
    """Return the tasks of a job on one server, such as ``2 ps + 4 w``."""
    counts = (tasks.ps, "ps"), (tasks.workers, "w")
    return " + ".join(f"{count} {name}" for count, name in counts if count)


def placement_text(entry: JobAllocation, most: int | None = None) -> str:
    """Return the tasks of a job by server, of at most so many, such as ``s-0: 2 ps + 4 w, s-1: 2 w``."""
    parts = [f"{server}: {tasks_text(tasks)}" for server, tasks in (entry.placement or {}).items()]
    return listed(parts, len(parts) if most is None else most)


def servers_in_use(instance: AllocationInstance, plan: Plan) -> ServersInUse:
    """Return what each server holds of the resource that leads, or where some lack that, of their own one."""
    variants = variants_of(instance)
    demands = [each for v in variants.values() for each in (v.ps_demand, v.worker_demand)]
    asked = {name for demand in demands for name, amount in demand.items() if amount}
    drawn, rows = {}, {}
    for name, server in instance.expanded_servers.items():
        has = [each for each, amount in server.capacity.items() if amount and each in asked]
        drawn[name] = leading_resource(has or server.capacity)
    lead = leading_resource(drawn.values())
    for name, server in instance.expanded_servers.items():
        own = lead if server.capacity.get(lead) else drawn[name]
        rows[name] = ServerUsage.of(name, server, own)
    for entry in plan:
        for name, tasks in (entry.placement or {}).items():
            variant = variants[entry.job, entry.variant or ""]
            per_ps, per_worker = variant.ps_demand, variant.worker_demand
            own = rows[name].resource
            amount = tasks.ps * per_ps.get(own, 0.0) + tasks.workers * per_worker.get(own, 0.0)
            rows[name].allocations.append((entry.job, amount, tasks_text(tasks)))
    return ServersInUse(" or ".join(dict.fromkeys(row.resource for row in rows.values())), rows)


def remarks(instance: AllocationInstance, plan: Plan = ()) -> Iterator[str]:
    """Yield what is assumed about the time that tasks on one server save, where any job depends on it."""
    del plan
    speeds = {variant.speed.model for variant in variants_of(instance).values()} if instance.servers else ()
    if "ps_sync" in speeds or "ps_async" in speeds:
        given = f"network_share is {'not given' if instance.network_share is None else 'given'}"
        share = SIGMA if instance.network_share is None else instance.network_share
        part = "all" if share == 1 else f"{100 * share:.4g} %"
        yield (
            f"assumed: tasks on one server save {part} of the time per worker and parameter server ({given})"
        )
