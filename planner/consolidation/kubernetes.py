"""Export of consolidation plans to Kubernetes: a script of kubectl commands, or affinity patches."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress

from ...formulations.consolidation.plan import JobPlacement, Plan
from ...instances.common.errors import InstanceError
from ...instances.consolidation.instance import ConsolidationInstance
from ...instances.consolidation.job import PlacementJob
from ..migration import kubernetes
from ..migration.kubernetes import units_of
from ..migration.nodes import KUBERNETES_NODE, check_nodes, object_name
from ..migration.steps import Migration
from ..reports.text import counted, listed
from .migration_steps import migration_of
from .plan import counts_text, devices_text, named_jobs, tasks_beyond, tasks_now, to_carry_out


def script_lines(instance: ConsolidationInstance, entries: Plan) -> Iterator[str]:
    """Yield the lines of the shell script that carries out all entries of a plan in Kubernetes.

    Raises
    ------
    InstanceError
        If a server's name is no valid node name, or a script cannot move or stop a job of the plan.
    """
    return kubernetes.script_lines(_migration(instance, entries))


def _migration(instance: ConsolidationInstance, entries: Plan) -> Migration:
    """Return what a script has to know, where jobs of which only more tasks start are not stopped."""
    jobs = named_jobs(instance)
    return migration_of(instance, [_without_restart(jobs[entry.job], entry) for entry in entries])


def scheduler_notes(instance: ConsolidationInstance, entries: Plan) -> Iterator[str]:
    """Yield a note on the planned starts that the script leaves to the scheduler, if there are any.

    Nothing where no script can be written.
    """
    if all(job.workload is None for job in instance.jobs):
        return
    with suppress(InstanceError):
        left = units_of(_migration(instance, entries).jobs)[1]
        starts = [entry.job for entry in entries if entry.placed and entry.job in left]
        if starts:
            yield f"{counted(len(starts), 'start is', 'starts are')} left to the scheduler: {listed(starts)}"


def _without_restart(job: PlacementJob, entry: JobPlacement) -> JobPlacement:
    """Return a job's plan entry, with action `keep` if its running tasks stay and others only start."""
    if entry.action != "move" or tasks_beyond(tasks_now(job), entry.tasks) or entry.devices:
        return entry
    return entry.model_copy(update={"action": "keep"})


AFFINITY = [
    "spec:",
    "  template:",
    "    spec:",
    "      affinity:",
    "        nodeAffinity:",
    "          requiredDuringSchedulingIgnoredDuringExecution:",
    "            nodeSelectorTerms:",
]
TERM = [
    "              - matchFields:",
    "                  - key: metadata.name",
    "                    operator: In",
]
"""Lines of a patch that confines pods to nodes, and those of a term, which names one node."""


def kubernetes_plan(instance: ConsolidationInstance, entries: Plan) -> Iterator[str]:
    """Return the lines of a script, or if no job names its Kubernetes object, of YAML affinity patches."""
    if any(job.workload is not None for job in instance.jobs):
        return script_lines(instance, entries)
    return kubernetes_lines(instance, to_carry_out(entries, every=False))


def kubernetes_lines(instance: ConsolidationInstance, placed: Plan) -> Iterator[str]:
    """Yield the lines of a YAML patch of the pod template for each task group of each job.

    External text is in double quotes, as in JSON, which YAML reads alike. Each term names one node, and a
    node need match only one of the terms.

    Raises
    ------
    InstanceError
        If a server's name is no valid node name.
    """
    jobs = {job.name: {group.name: group.asks for group in job.task_groups} for job in instance.jobs}
    taken: set[str] = set()
    for entry in placed:
        for group, servers in entry.tasks.items():
            check_nodes(entry.job, servers, KUBERNETES_NODE)
            name = object_name(entry.job if entry.groups is None else f"{entry.job}-{group}", taken)
            annotations = {"clusterplan/job": entry.job}
            if entry.groups is not None:
                annotations["clusterplan/group"] = group
            yield "---"
            counts = counts_text(servers)
            yield f"# Pods per node: {counts}. Affinity alone does not hold them to these numbers."
            for server, tasks in (entry.devices or {}).get(group, {}).items():
                devices = devices_text(tasks, jobs[entry.job][group])
                yield f"# Devices on {server}: {devices}. Affinity does not choose devices."
            yield "metadata:"
            yield f"  name: {_quoted(name)}"
            yield "  annotations:"
            yield from (f"    {key}: {_quoted(value)}" for key, value in annotations.items())
            yield from AFFINITY
            for server in servers:
                yield from TERM
                yield f"                    values: [{_quoted(server)}]"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
