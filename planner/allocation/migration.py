"""Export of allocation plans on servers as scripts: which jobs start, stop, shrink, or get other tasks."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence, Set

from ...formulations.allocation.plan import JobAllocation
from ...formulations.common.objective import within
from ...instances.allocation.instance import AllocationInstance
from ...instances.allocation.job import Job, Variant
from ...instances.common.errors import OptionError
from ...instances.files.reading import fail
from ..kind import PlanFormat
from ..migration import kubernetes, slurm
from ..migration.steps import Action, Fits, Migration, MovingJob
from .changes import current_plan
from .placement import variants_of

GROUPS = ("ps", "workers")
"""Groups of tasks of every job; they name the parts of its workload."""
Demands = Mapping[str, Mapping[str, float]]
"""Group of tasks → what each of them takes of each resource."""


def slurm_script(instance: AllocationInstance, plan: Sequence[JobAllocation]) -> Iterator[str]:
    """Return the lines of the script that carries out all entries of a plan in Slurm."""
    return slurm.script_lines(migration_of(instance, plan))


def kubernetes_script(instance: AllocationInstance, plan: Sequence[JobAllocation]) -> Iterator[str]:
    """Return the lines of the script that carries out all entries of a plan in Kubernetes."""
    return kubernetes.script_lines(migration_of(instance, plan))


FORMATS = {
    "slurm": PlanFormat(slurm_script, comment="# ", whole=True),
    "kubernetes": PlanFormat(kubernetes_script, comment="# ", whole=True),
}


def migration_of(instance: AllocationInstance, plan: Sequence[JobAllocation]) -> Migration:
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
    demand = _demands(variants[job.name, entry.variant]).get("workers", {}) if entry.variant else {}
    gpus = {server: tasks.workers * demand.get("gpu", 0.0) for server, tasks in there.items()}
    return MovingJob(
        name=job.name,
        action=action,
        now=before,
        planned=after,
        groups=[group for group in GROUPS if group in before or group in after],
        size=(sum(sum(placed.values()) for placed in before.values()),),
        workload=job.workload,
        shrinks=action == "move" and same and there.items() <= here.items(),
        gpus=gpus,
    )


def _placement(entry: JobAllocation | None) -> dict[str, dict[str, int]]:
    """Return group → server → number of tasks, without zeros."""
    placed = {} if entry is None else entry.placement or {}
    found = {g: {name: n for name, tasks in placed.items() if (n := getattr(tasks, g))} for g in GROUPS}
    return {group: servers for group, servers in found.items() if servers}


def _demands(variant: Variant) -> Demands:
    return {"ps": variant.ps_demand, "workers": variant.worker_demand}


def _fits_of(
    instance: AllocationInstance, now: Mapping[str, JobAllocation], plan: Sequence[JobAllocation]
) -> Fits:
    """Return the function that says whether a server has room for tasks."""
    servers, variants = instance.expanded_servers, variants_of(instance)
    then = {entry.job: entry for entry in plan}

    def fits(server: str, held: Mapping[tuple[str, str], int], moved: Set[str], _: Collection[str]) -> bool:
        used: dict[str, float] = {}
        for (job, group), count in held.items():
            entry = now[job] if job in now and job not in moved else then[job]
            for name, amount in _demands(variants[job, entry.variant or ""])[group].items():
                used[name] = used.get(name, 0.0) + count * amount
        available = servers[server].available
        return all(within(amount, available.get(name, 0.0)) for name, amount in used.items())

    return fits
