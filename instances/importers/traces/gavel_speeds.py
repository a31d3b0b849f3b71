"""Importer of Gavel (OSDI'20) for allocation: measured speeds on three GPU types, and traces of jobs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ...allocation.instance import AllocationInstance
from ...common.errors import refuse_faults
from ...common.faults import validated
from ...files.reading import fail
from ..importer import Importer
from .gavel import Capacity, GavelFiles, Speeds, TraceJob, gpu_types, named, read_table, speeds_of


class GavelOptions(GavelFiles):
    """Jobs with measured speeds on three GPU types (Gavel, OSDI'20): an allocation instance."""

    ORDER = ("throughputs", "trace", "capacity")

    capacity: Capacity


@Importer
def import_gavel(options: GavelOptions) -> AllocationInstance:
    """Return the allocation instance of a Gavel trace on a cluster of the given GPUs."""
    trace = options.trace
    tables, zeros = _read_tables(options.throughputs, list(options.capacity))
    chosen, listed = options.jobs()
    jobs = {name: job for name, job in chosen.items() if _variants(job.model, tables)}
    if not jobs:
        models = named(model for table in tables.values() for model in table)
        raise fail(str(trace), f"the speed table has none of its models; it has: {models}")
    document = {
        "name": f"gavel-{trace.stem}",
        "source": options.source(),
        "assumptions": [
            *_general_assumptions(),
            *_speed_assumptions(chosen, jobs, tables, zeros),
            *_trace_assumptions(listed, chosen, jobs),
        ],
        "resources": dict(options.capacity),
        "jobs": [
            {
                "name": name,
                "remaining_steps": job.steps,
                "weight": job.weight,
                "variants": _variants(job.model, tables),
            }
            for name, job in jobs.items()
        ],
    }
    return validated(AllocationInstance, document, str(trace))


def _read_tables(path: Path, types: list[str]) -> tuple[dict[str, Speeds], list[str]]:
    """Return GPU type → consolidated speeds, and the entries ignored because they are 0."""
    data = read_table(path)
    known = gpu_types(data)
    allowed = ", ".join(known) or "none"
    unknown = [name for name in types if name not in known]
    refuse_faults("options", ((f"capacity.{n}", f"unknown GPU type; allowed: {allowed}") for n in unknown))
    if not types:
        raise fail("options", f"is empty; GPU types: {allowed}", "capacity")
    tables: dict[str, Speeds] = {}
    zeros: list[str] = []
    for name in types:
        tables[name], left_out = speeds_of(data, name, str(path))
        zeros += left_out
    return tables, zeros


def _variants(model: str, tables: Mapping[str, Speeds]) -> list[dict[str, Any]]:
    """Return the variants of a job as a document has them, one for each GPU type with a measured speed."""
    return [
        {
            "name": name,
            "worker_demand": {name: 1},
            "speed": {
                "model": "table",
                "rows": [
                    {"workers": gpus, "steps_per_s": table[model][gpus]} for gpus in sorted(table[model])
                ],
            },
        }
        for name, table in tables.items()
        if model in table
    ]


def _general_assumptions() -> list[str]:
    return [
        "All jobs are present at once with all their steps still to be made; arrival times are not used.",
        "A step is the same work at every number of GPUs, as the source's steps per second grow with it.",
        "Speeds are those of a job alone on its GPUs, all of one type and as close together as they can be.",
        "A worker takes one GPU; CPU and memory of the jobs are not in the source and not asked for.",
    ]


def _speed_assumptions(
    chosen: Mapping[str, TraceJob],
    jobs: Mapping[str, TraceJob],
    tables: Mapping[str, Speeds],
    zeros: list[str],
) -> Iterable[str]:
    asked = sum(job.gpus for job in jobs.values())
    yield (
        f"The trace asks {asked} GPUs for the {len(jobs)} jobs taken; here the plan decides, and every "
        "number of GPUs that the speed table has for a job's model is offered."
    )
    missing = [
        job
        for job in jobs.values()
        if not any(job.gpus in table.get(job.model, ()) for table in tables.values())
    ]
    if missing:
        lack = "a number of GPUs that the speed table lacks for their model"
        yield f"{len(missing)} of these jobs ask {lack}; they stay in with the numbers it has."
    absent = [job.model for name, job in chosen.items() if name not in jobs]
    if absent:
        models = named(absent)
        yield f"{len(absent)} jobs are left out, because the speed table lacks their model: {models}."
    if zeros:
        yield f"{len(zeros)} measured speeds are 0 and left out as missing: {named(zeros)}."


def _trace_assumptions(
    listed: int, chosen: Mapping[str, TraceJob], jobs: Mapping[str, TraceJob]
) -> Iterable[str]:
    if len(chosen) < listed:
        yield f"Only the first {len(chosen)} of the {listed} jobs of the trace are considered."
    with_priority = [job for job in jobs.values() if job.priority is not None]
    if with_priority:
        yield "A job's weight is its priority in the trace."
    if len(with_priority) < len(jobs):
        yield f"{len(jobs) - len(with_priority)} jobs have no priority in the trace; their weight is 1."
    unusable = sum(job.priority is not None and job.priority <= 0 for job in jobs.values())
    if unusable:
        yield f"{unusable} jobs have a priority that is not positive; their weight is 1."
    deadlines = sum(job.slo is not None and job.slo > 0 for job in jobs.values())
    if deadlines:
        yield f"{deadlines} jobs have a service-level objective in the trace; it is not used."
