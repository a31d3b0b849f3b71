"""Elastic jobs of a cluster in use: an allocation instance of the jobs whose speeds a table has.

The table is CSV with a row for each measurement, as `ThroughputRow` reads it; `job` is the name of a job or
a pattern of names such as ``*/bert-*``, and the first that matches a job has its speeds. The numbers of GPUs
in the rows are those on which the job may run. A worker is a task that the job has now, and takes what that
takes. Whatever else runs stays where it is, and what it holds is not free.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any

from ...allocation.instance import AllocationInstance
from ...allocation.job import HOUR_S, ThroughputRow, with_throughput
from ...common.errors import refuse_faults, some
from ...common.faults import validated, validated_rows
from ...consolidation.instance import ConsolidationInstance
from ...consolidation.job import PlacementJob, models_of
from ...files.csv_tables import model_rows
from ...files.reading import fail
from ..importer import Option
from ..node_restrictions import counted, note
from .snapshot import RESTART_COST_H, ClusterSnapshot

Speeds = Annotated[
    Path,
    Option(
        "CSV of the jobs that may run on other numbers of GPUs: job (a name, or a pattern such as 'bert*'), "
        "gpus, samples_per_s, and as you like servers, gpu_model, remaining_samples, restart_s."
    ),
]
ANY_MODEL = ThroughputRow.model_fields["gpu_model"].default
"""The GPU model of rows that hold for all models."""
Choices = dict[str, frozenset[str]]
"""Resource that stands for a choice of servers → these servers."""


def elastic_instance(
    made: ConsolidationInstance, snapshot: ClusterSnapshot, speeds: Path
) -> AllocationInstance:
    """Return the allocation instance of the elastic jobs of a cluster.

    Parameters
    ----------
    made, snapshot
        The consolidation instance of all its jobs, and what it was made of.
    speeds
        The table of speeds.

    Raises
    ------
    InstanceError
        If the table is wrong, or has no job of the cluster.
    """
    source = str(speeds)
    tables = _tables(speeds, {server.gpu_model for server in made.expanded_servers})
    elastic, rows, others = [], [], {}
    for job in made.jobs:
        matching = (own for name, own in tables.items() if name == job.name or fnmatchcase(job.name, name))
        table = next(matching, [])
        own = list(_rows_of(job, table))
        why = _why_not(made, job, bool(own)) if table else "not in the table"
        if why:
            others[job.name] = why
        else:
            elastic.append(job)
            rows += own
    if not elastic:
        reasons = some(f"{name} ({why})" for name, why in others.items())
        raise fail(source, f"has no job that may run on another number of GPUs; there are: {reasons}")
    document = with_throughput({"jobs": rows}, source)
    choices = snapshot.restrictions.servers
    jobs = [_job(made, *each, choices) for each in zip(elastic, document["jobs"], strict=True)]
    fields = {
        "name": made.name,
        "source": f"{made.source}, and {speeds.name}",
        "assumptions": [*_notes(made, jobs, others), *document["assumptions"], *made.assumptions],
        "servers": list(_servers(made, jobs, others, choices)),
        "jobs": jobs,
    }
    return validated(AllocationInstance, fields, source)


def _tables(speeds: Path, models: Collection[str | None]) -> dict[str, list[ThroughputRow]]:
    """Return the rows of the table by name or pattern of jobs.

    Raises
    ------
    InstanceError
        If a row is wrong, or names a GPU model that no node has.
    """
    tables: dict[str, list[ThroughputRow]] = defaultdict(list)
    unknown = []
    for line, row in validated_rows(ThroughputRow, model_rows(speeds, ThroughputRow), str(speeds)):
        tables[row.job].append(row)
        if row.gpu_model not in (ANY_MODEL, *models):
            unknown.append(f"line {line}: gpu_model")
    known = some(sorted(filter(None, models))) or "none"
    refuse_faults(str(speeds), ((place, f"unknown GPU model; the nodes have: {known}") for place in unknown))
    return tables


def _rows_of(job: PlacementJob, table: Sequence[ThroughputRow]) -> Iterator[dict[str, Any]]:
    """Yield the rows that whole tasks of a job on its GPU models can have, by tasks in place of GPUs."""
    each, models = job.task_groups[0].demand.get("gpu", 0.0), models_of(job.gpu_model)
    # What runs stays placed.
    without = {"job", "gpus", *(("optional", "unplaced_s") if job.is_running else ())}
    for row in table:
        if each > 0 and row.gpus % each == 0 and row.gpu_model in (ANY_MODEL, *(models or [row.gpu_model])):
            fields = row.model_dump(exclude_none=True, exclude=without)
            yield {"job": job.name, "gpus": int(row.gpus / each), **fields}


def _why_not(made: ConsolidationInstance, job: PlacementJob, usable: bool) -> str:
    """Return why a job is not elastic though the table has it; empty if it is."""
    reasons = {
        "is not to be moved": made.stays(job),
        "runs in part": job.is_running and not made.runs(job),
        "asks for single or shared devices": any(group.asks for group in job.task_groups),
        "has tasks of several kinds": any(g.demand != job.task_groups[0].demand for g in job.task_groups),
        "has no row for whole tasks on its GPU model": not usable,
    }
    return next((why for why, holds in reasons.items() if holds), "")


def _job(
    made: ConsolidationInstance, job: PlacementJob, fields: dict[str, Any], choices: Choices
) -> dict[str, Any]:
    """Return an elastic job as a document has it, and add the servers of its GPU models to the choices.

    Parameters
    ----------
    fields
        The job with its speeds alone.
    """
    of_server = {server.name: server.gpu_model for server in made.expanded_servers}
    for each in fields["variants"]:
        models = models_of(job.gpu_model) if each["name"] == ANY_MODEL else (each["name"],)
        each["worker_demand"] = dict(job.task_groups[0].demand)
        if models and not set(models).issuperset(of_server.values()):
            name = f"GPU model {' or '.join(models)}"
            choices[name] = frozenset(server for server, model in of_server.items() if model in models)
            each["worker_demand"][name] = 1.0
    fields["workload"] = job.workload
    if job.is_running:
        placed = sum((Counter(group.current) for group in job.task_groups), Counter[str]())
        names = [each["name"] for each in fields["variants"]]
        here = {ANY_MODEL, *(of_server[server] for server in placed)}
        variant = next((name for name in names if name in here), None)
        placement = {server: {"workers": tasks} for server, tasks in placed.items()}
        now = {"variant": variant, "workers": placed.total(), "placement": placement}
        fields["current"] = now if variant else None
        fields.setdefault("restart_s", HOUR_S * RESTART_COST_H)
    return fields


def _servers(
    made: ConsolidationInstance, jobs: Sequence[dict[str, Any]], others: Mapping[str, str], choices: Choices
) -> Iterator[dict[str, Any]]:
    """Yield the servers without what jobs hold that are not elastic; choices limit no number of workers."""
    held: dict[str, Counter[str]] = defaultdict(Counter)
    for job in made.jobs:
        for group in job.task_groups if job.name in others else ():
            for name, tasks in group.current.items():
                held[name].update({each: amount * tasks for each, amount in group.demand.items()})
    most = float(sum(max(_workers(job)) for job in jobs))
    for server in made.expanded_servers:
        chosen = {name: most for name, servers in choices.items() if server.name in servers}
        free = {
            name: max(0.0, round(server.available.get(name, 0.0) - held[server.name][name], 9))
            for name in server.capacity
        }
        yield {
            **{key: getattr(server, key) for key in ("name", "rack", "gpu_model")},
            "capacity": {**server.capacity, **chosen},
            "free": {**free, **chosen},
        }


def _workers(job: dict[str, Any]) -> set[int]:
    """Return the numbers of workers on which a job may run."""
    return {row["workers"] for variant in job["variants"] for row in variant["speed"]["rows"]}


def _notes(
    made: ConsolidationInstance, jobs: Sequence[dict[str, Any]], others: Mapping[str, str]
) -> Iterator[str]:
    """Yield the assumptions about elastic jobs, and about the others."""
    yield (
        f"{counted(len(jobs), 'job is', 'jobs are')} elastic: a worker is a task that the job has now, and "
        f"takes what that takes. One that runs and is changed loses {RESTART_COST_H:g} hours where the table "
        "has no restart_s. What is said of values and spread does not count."
    )
    running = {job.name for job in made.jobs if job.is_running}
    stay = [f"{name} ({why})" for name, why in others.items() if name in running]
    rest = "not elastic, and what runs of it is not free"
    yield from note(stay, "running job is", "running jobs are", rest)
    waiting = [f"{name} ({why})" for name, why in others.items() if name not in running]
    yield from note(waiting, "waiting job is", "waiting jobs are", "not elastic and left out")
    placed = (job for job in jobs if job.get("current"))
    changed = [job["name"] for job in placed if job["current"]["workers"] not in _workers(job)]
    rest = "with a number of GPUs that the table does not have, so that every plan changes that"
    yield from note(changed, "job runs", "jobs run", rest)
