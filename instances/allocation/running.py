"""The plan that runs now: `running: RESULT.json` in a document gives its jobs their current configuration."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import ConfigDict

from ..common.faults import validated
from ..common.fields import Count, Flag, Model, Name
from ..common.servers import MAX_SERVERS
from ..files.reading import fail, parse_document, read_text
from ..references import Folder
from .job import Placement

RUNNING = "running"
"""Field of a document with the path of a result."""


class RunningJob(Model):
    """What a plan says of one job; its other fields do not matter here."""

    model_config = ConfigDict(extra="ignore")

    job: Name
    placed: Flag = True
    variant: Name | None = None
    ps: Count = 0
    workers: Count = 0
    placement: Placement | None = None


def with_running_plan(data: dict[str, Any], source: str, folder: Folder) -> dict[str, Any]:
    """Return a document whose jobs have the configurations of the result that it names under `running`.

    Jobs that say themselves what runs keep that. Jobs of the plan that are not listed any more have ended,
    and those on a server that is not listed any more do not run.

    Raises
    ------
    InstanceError
        If the result cannot be read, or has no plan.
    """
    reference, jobs = data.get(RUNNING), data.get("jobs")
    if reference is None:
        return data
    rest = {key: value for key, value in data.items() if key != RUNNING}
    if not isinstance(reference, str) or not isinstance(jobs, list):
        raise fail(source, "is the path of a result, beside a list of jobs", RUNNING)
    path = folder.file(reference, f"{source}: {RUNNING}")
    result = parse_document(read_text(path), str(path), path.suffix.lower())
    plan = result.get("plan") if isinstance(result, Mapping) else None
    if not isinstance(plan, list):
        raise fail(str(path), "has no plan; give the file that `solve --output` wrote", "plan")
    entries = [validated(RunningJob, entry, f"{path}: plan[{index}]") for index, entry in enumerate(plan)]
    rows = data.get("servers") or ()
    servers = {name for row in rows if isinstance(row, Mapping) for name in _names(row)}
    running = {
        entry.job: entry.model_dump(exclude={"job", "placed"}, exclude_none=True)
        for entry in entries
        if entry.placed and entry.variant is not None and servers.issuperset(entry.placement or ())
    }
    return {**rest, "jobs": [_running(job, running) for job in jobs]}


def _names(row: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names of the servers of one row; nothing where it is malformed."""
    name, count = row.get("name"), row.get("count")
    if isinstance(name, str) and isinstance(count, int):
        yield from (f"{name}-{k}" for k in range(min(count, MAX_SERVERS)))
    elif isinstance(name, str):
        yield name


def _running(job: Any, running: Mapping[str, dict[str, Any]]) -> Any:
    """Return a job with its configuration in a plan; one that says itself what runs is left as it is."""
    if not isinstance(job, Mapping) or job.get("current") is not None or job.get("name") not in running:
        return job
    return {**job, "current": running[job["name"]]}
