"""Elastic jobs of a cluster in use: an allocation instance of the jobs whose speeds a table has.

The table is CSV with a row for each measurement, as `ThroughputRow` reads it; `job` is the name of a job or
a pattern of names such as ``*/bert-*``, and the first that matches a job has its speeds. The numbers of GPUs
in the rows are those on which the job may run. A worker is a task that the job has now, and takes what that
takes. Whatever else runs stays where it is, and what it holds is not free.

A resource that stands for a choice of servers is counted in GPUs here, of which these servers have as many as
they have GPUs: so it limits no job by itself, and bounds know how many GPUs all such jobs can have together.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated

from ..allocation.instance import AllocationInstance
from ..allocation.job import HOUR_S, ThroughputRow, with_throughput
from ..common.errors import some
from ..common.faults import validated, validated_rows
from ..common.fields import Fields
from ..consolidation.instance import ConsolidationInstance
from ..consolidation.job import PlacementJob, models_of
from ..files.csv_tables import model_rows
from ..files.reading import fail
from .clusters.snapshot import RESTART_COST_H, ClusterSnapshot
from .importer import Option
from .node_restrictions import counted

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
Models = dict[str | None, set[str]]
"""GPU model → the servers with it; None → those without any."""


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
    tables: dict[str, list[ThroughputRow]] = defaultdict(list)
    for _, row in validated_rows(ThroughputRow, model_rows(speeds, ThroughputRow), source):
        tables[row.job].append(row)
    models: Models = defaultdict(set)
    for server in made.expanded_servers:
        models[server.gpu_model].add(server.name)
    choices = snapshot.restrictions.servers
    elastic, rows, others = [], [], {}
    for job in made.jobs:
        matching = (own for name, own in tables.items() if name == job.name or fnmatchcase(job.name, name))
        table = next(matching, [])
        own = list(_rows_of(job, table, models))
        why = _why_not(made, job, choices, bool(own)) if table else "not in the table"
        if why:
            others[job.name] = why
        else:
            elastic.append(job)
            rows += own
    listed = some(f"{name} ({why})" for name, why in others.items())
    if not elastic:
        raise fail(source, f"has no job that may run on another number of GPUs; there are: {listed}")
    document = with_throughput({"jobs": rows}, source)
    jobs = [_job(*each, models, choices) for each in zip(elastic, document["jobs"], strict=True)]
    notes = [
        f"{counted(len(jobs), 'job is', 'jobs are')} elastic: a worker is a task that the job has now, and "
        f"takes what that takes. One that runs and is changed loses {RESTART_COST_H:g} hours where the table "
        "has no restart_s. What is said of values and spread does not count.",
        f"Other jobs stay where they run, on what is not free, or are left out: {listed or 'none'}.",
    ]
    fields = {
        "name": made.name,
        "source": f"{made.source}, and {speeds.name}",
        "assumptions": [*notes, *document["assumptions"], *made.assumptions],
        "servers": list(_servers(made, others, choices)),
        "jobs": jobs,
    }
    return validated(AllocationInstance, fields, source)


def _rows_of(job: PlacementJob, table: Sequence[ThroughputRow], models: Models) -> Iterator[Fields]:
    """Yield the rows that whole tasks of a job on its GPU models can have, by tasks in place of GPUs."""
    each, allowed = job.task_groups[0].demand.get("gpu", 0.0), models_of(job.gpu_model) or models
    # What runs stays placed.
    without = {"job", "gpus", *(("optional", "unplaced_s") if job.is_running else ())}
    for row in table:
        if each > 0 and row.gpus % each == 0 and row.gpu_model in (ANY_MODEL, *allowed):
            fields = row.model_dump(exclude_none=True, exclude=without)
            yield {"job": job.name, "gpus": int(row.gpus / each), **fields}


def _why_not(made: ConsolidationInstance, job: PlacementJob, choices: Choices, usable: bool) -> str:
    """Return why a job is not elastic though the table has it; empty if it is."""
    groups = job.task_groups
    reasons = {
        "is not to be moved": made.stays(job),
        "runs in part": job.is_running and not made.runs(job),
        "asks for single or shared devices": any(group.asks for group in groups),
        "has tasks of several kinds": any(group.demand != groups[0].demand for group in groups),
        "could not start again where it runs": any(
            not choices[name].issuperset(group.current)
            for group in groups
            for name in group.demand.keys() & choices.keys()
        ),
        "has no row for whole tasks on its GPU model": not usable,
    }
    return next((why for why, holds in reasons.items() if holds), "")


def _job(job: PlacementJob, fields: Fields, models: Models, choices: Choices) -> Fields:
    """Return an elastic job as a document has it, and add the servers of its GPU models to the choices.

    Parameters
    ----------
    fields
        The job with its speeds alone.
    """
    demand = dict(job.task_groups[0].demand)
    demand |= dict.fromkeys(demand.keys() & choices.keys(), demand["gpu"])
    for variant in fields["variants"]:
        allowed = models_of(job.gpu_model) if variant["name"] == ANY_MODEL else (variant["name"],)
        variant["worker_demand"] = demand
        if allowed and not models.keys() <= set(allowed):
            name = f"GPU model {' or '.join(allowed)}"
            choices[name] = frozenset[str]().union(*(models.get(model, ()) for model in allowed))
            variant["worker_demand"] = demand | {name: demand["gpu"]}
    fields["workload"] = job.workload
    placed = sum((Counter(group.current) for group in job.task_groups), Counter[str]())
    here = {ANY_MODEL, *(model for model, servers in models.items() if placed.keys() & servers)}
    now = [variant["name"] for variant in fields["variants"] if variant["name"] in here]
    if placed:
        fields.setdefault("restart_s", HOUR_S * RESTART_COST_H)
    if placed and now:
        placement = {server: {"workers": tasks} for server, tasks in placed.items()}
        fields["current"] = {"variant": now[0], "workers": placed.total(), "placement": placement}
    return fields


def _servers(made: ConsolidationInstance, others: Collection[str], choices: Choices) -> Iterator[Fields]:
    """Yield the servers without what other jobs hold, and with the choices that they are in."""
    held: dict[str, Counter[str]] = defaultdict(Counter)
    for job in made.jobs:
        for group in job.task_groups if job.name in others else ():
            for server, tasks in group.current.items():
                held[server].update({name: amount * tasks for name, amount in group.demand.items()})
    for row in made.expanded_servers:
        left = {name: row.available.get(name, 0.0) - held[row.name][name] for name in row.capacity}
        free = {name: max(0.0, round(amount, 9)) for name, amount in left.items()}
        inside = {name: row.name in servers for name, servers in choices.items()}
        yield {
            "name": row.name,
            "rack": row.rack,
            "gpu_model": row.gpu_model,
            **{
                key: amounts | {name: amounts.get("gpu", 0.0) * holds for name, holds in inside.items()}
                for key, amounts in (("capacity", row.capacity), ("free", free))
            },
        }
