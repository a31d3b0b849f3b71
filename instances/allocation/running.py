"""The plan that runs now: a result gives the jobs of a document their current configuration.

`running: RESULT.json` says so, or `stability: {plan: RESULT.json, seconds: 300}`, where every change of what
runs also costs the job so many seconds at least, as if its `restart_s` said so.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any

import numpy as np
from pydantic import ConfigDict, Field
from pydantic.json_schema import SkipJsonSchema

from ..common.faults import validated
from ..common.fields import Count, Flag, Many, Model, Name, NonNegative, Text
from ..files.reading import fail, parse_document, read_text
from ..references import Folder
from .job import Configuration, Job
from .job_table import JobTable

RUNNING, STABILITY = "running", "stability"
"""Fields of a document with the path of a result, and with that and what a change costs."""


class RunningJob(Configuration):
    """What a plan says of one job; its other fields do not matter here."""

    model_config = ConfigDict(extra="ignore")

    job: Name
    placed: Flag = True
    variant: Name | None = None  # type: ignore[assignment]  # a job that is not placed has none
    workers: Count = 0


class Stability(Model):
    """The plan that runs now, and what a change of it costs.

    Attributes
    ----------
    plan
        Path of the result with the plan, relative to the document; None where the library was given the plan.
    seconds
        What a change of its configuration costs each running job at least; its `restart_s`, if larger, wins.
    sha256
        Hash of the plan, as the result says; a file with another plan is refused.
    jobs
        The plan, as read from the result.
    """

    plan: Text | None = None
    seconds: NonNegative = 0.0
    sha256: Text | None = None
    jobs: Annotated[SkipJsonSchema[Many[RunningJob]], Field(exclude=True)] = ()


def with_running_plan(data: dict[str, Any], source: str, folder: Folder) -> dict[str, Any]:
    """Return a document with the plan of the result that it names under `stability` or `running`.

    Raises
    ------
    InstanceError
        If the result cannot be read, or has no plan.
    """
    given, reference = data.get(STABILITY), data.get(RUNNING)
    if given is None and reference is None:
        return data
    key = RUNNING if given is None else STABILITY
    stability = {"plan": reference} if given is None else given
    reference = stability.get("plan") if isinstance(stability, Mapping) else None
    if not isinstance(reference, str):
        form = (
            "is the path of a result" if key == RUNNING else "is a mapping: {plan: RESULT.json, seconds: 300}"
        )
        raise fail(source, form, key)
    path = folder.file(reference, f"{source}: {key}")
    result = parse_document(read_text(path), str(path), path.suffix.lower())
    plan = result.get("plan") if isinstance(result, Mapping) else None
    if not isinstance(plan, list):
        raise fail(str(path), "has no plan; give the file that `solve --output` wrote", "plan")
    digest = result.get("plan_sha256")
    if stability.get("sha256") not in (None, digest):
        raise fail(str(path), "is not that of the plan that ran; the file was written anew", "plan_sha256")
    jobs = [validated(RunningJob, entry, f"{path}: plan[{index}]") for index, entry in enumerate(plan)]
    home = folder.path.resolve()
    named = path.relative_to(home) if path.is_relative_to(home) else path
    rest = {name: value for name, value in data.items() if name != RUNNING}
    return {**rest, STABILITY: {**stability, "plan": str(named), "sha256": digest, "jobs": jobs}}


def running_jobs(
    jobs: Sequence[Job], stability: Stability, servers: Collection[str] | None
) -> JobTable | tuple[Job, ...]:
    """Return the jobs with what runs of them in a plan, and with what a change costs.

    Jobs that say themselves what runs keep that. Jobs of the plan that are not listed any more have ended.
    Those whose variant, or one of whose servers, is not listed any more do not run.

    Parameters
    ----------
    servers
        Names of the servers of the instance; None if it has none.
    """
    running = {
        entry.job: entry
        for entry in stability.jobs
        if entry.placed and (servers is None or all(name in servers for name in entry.placement or ()))
    }
    if isinstance(jobs, JobTable):
        return _running_table(jobs, running, stability.seconds)
    return tuple(
        _running(job, running.get(job.name), stability.seconds, on_servers=servers is not None)
        for job in jobs
    )


def _running_table(table: JobTable, running: Mapping[str, RunningJob], seconds: float) -> JobTable:
    """Return a table of jobs with what runs, without an object for each job."""
    variant, ps, workers = (
        column.copy() for column in (table.current_variant, table.current_ps, table.current_workers)
    )
    first = table.first_variant.tolist()
    for j in np.flatnonzero(variant < 0).tolist():
        entry, names = running.get(table.names[j]), table.variant_names[first[j] : first[j + 1]]
        if entry is not None and entry.variant in names:
            variant[j] = first[j] + names.index(entry.variant)
            ps[j], workers[j] = entry.ps, entry.workers
    restart_s = np.where(variant < 0, table.restart_s, np.maximum(table.restart_s, seconds))
    return replace(
        table, restart_s=restart_s, current_variant=variant, current_ps=ps, current_workers=workers
    )


def _running(job: Job, entry: RunningJob | None, seconds: float, on_servers: bool) -> Job:
    """Return a job with what runs of it."""
    current = job.current
    if current is None and entry is not None and entry.variant in {variant.name for variant in job.variants}:
        placement = entry.placement if on_servers else None
        current = Configuration(
            variant=entry.variant, ps=entry.ps, workers=entry.workers, placement=placement
        )
    if current is None:
        return job
    return job.model_copy(update={"current": current, "restart_s": max(job.restart_s, seconds)})
