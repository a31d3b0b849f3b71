"""Export of allocation plans on servers as scripts: which jobs start, stop, shrink, or get other tasks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Set

from ...formulations.allocation.plan import JobAllocation, Plan
from ...formulations.common.objective import within
from ...instances.allocation.instance import AllocationInstance
from ...instances.allocation.job import Job, Variant
from ...instances.common.errors import OptionError
from ...instances.files.reading import fail
from ..migration.steps import Action, Fits, Held, Migration, MovingJob, total
from .changes import current_plan
from .placement import variants_of

DEMANDS = {"ps": "ps_demand", "workers": "worker_demand"}
"""Group of tasks, of every job and of the parts of its workload → the field of what each of them takes."""


def migration_of(instance: AllocationInstance, plan: Plan) -> Migration:
    """Return what a script has to know of a plan.

    Raises
    ------
    OptionError
        If the instance has no servers.
    InstanceError
        If it does not say where a running job is.
    """
    if instance.servers is None:
        raise OptionError("a script says on which servers tasks run; give servers in place of resources")
    jobs, variants = {job.name: job for job in instance.jobs}, variants_of(instance)
    now = {entry.job: entry for entry in current_plan(instance)}
    changed = [
        f"{entry.job}: is planned as {entry.variant}, which is for you to set in what it runs"
        for entry in plan
        if entry.variant not in (None, now[entry.job].variant if entry.job in now else None)
        and len(jobs[entry.job].variants) > 1
    ]
    return Migration(
        title=instance.name,
        name=f"plan-{instance.sha256()[:12]}",
        jobs=[_moving_job(jobs[entry.job], now.get(entry.job), entry, variants) for entry in plan],
        fits=_fits_of(instance, now, plan),
        notes=changed,
    )


def _moving_job(
    job: Job, now: JobAllocation | None, entry: JobAllocation, variants: Mapping[tuple[str, str], Variant]
) -> MovingJob:
    if now is not None and now.placement is None:
        what = "runs, and nobody knows where; give the placement of its current configuration"
        raise fail("plan", what, f"job {job.name!r}")
    before, after = _placement(now), _placement(entry)
    here, there = (now.placement if now else None) or {}, entry.placement or {}
    same = now is not None and now.variant == entry.variant
    action: Action = "start" if after else "wait"
    if before:
        action = "stop" if not after else "keep" if same and before == after else "move"
    each = variants[job.name, entry.variant].worker_demand.get("gpu", 0.0) if entry.variant else 0.0
    return MovingJob(
        name=job.name,
        action=action,
        now=before,
        planned=after,
        groups=[group for group in DEMANDS if group in before or group in after],
        size=(total(before).total(),),
        workload=job.workload,
        shrinks=action == "move" and same and there.items() <= here.items(),
        gpus={server: tasks.workers * each for server, tasks in there.items()},
    )


def _placement(entry: JobAllocation | None) -> dict[str, dict[str, int]]:
    """Return group → server → number of tasks, without zeros."""
    placed = {} if entry is None else entry.placement or {}
    found = {g: {name: n for name, tasks in placed.items() if (n := getattr(tasks, g))} for g in DEMANDS}
    return {group: servers for group, servers in found.items() if servers}


def _fits_of(instance: AllocationInstance, now: Mapping[str, JobAllocation], plan: Plan) -> Fits:
    """Return the function that says whether a server has room for tasks."""
    servers, variants = instance.expanded_servers, variants_of(instance)
    then = {entry.job: entry for entry in plan}

    def fits(server: str, held: Held, moved: Set[str], _: Collection[str]) -> bool:
        used: dict[str, float] = defaultdict(float)
        for (job, group), count in held.items():
            entry = then[job] if job in moved else now.get(job, then[job])
            for name, amount in getattr(variants[job, entry.variant or ""], DEMANDS[group]).items():
                used[name] += count * amount
        available = servers[server].available
        return all(within(amount, available.get(name, 0.0)) for name, amount in used.items())

    return fits
