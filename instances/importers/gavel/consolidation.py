"""Gavel: the jobs of a trace with the measured slowdown of being spread (OSDI'20), for consolidation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ...common.faults import validated
from ...consolidation.instance import ConsolidationInstance
from ...files.reading import fail
from ..gpu_jobs import gpu_job, gpu_servers
from ..importer import Importer
from .files import (
    UNCONSOLIDATED,
    GavelFiles,
    GpusPerServer,
    GpuType,
    Servers,
    Speeds,
    TraceJob,
    gpu_types,
    named,
    read_table,
    speeds_of,
)


class GavelConsolidationOptions(GavelFiles):
    """Jobs with measured speeds on one GPU type (Gavel, OSDI'20): a consolidation instance."""

    ORDER = ("throughputs", "trace", "gpu_type", "servers", "gpus_per_server")

    gpu_type: GpuType
    servers: Servers
    gpus_per_server: GpusPerServer


@Importer
def import_gavel_consolidation(options: GavelConsolidationOptions) -> ConsolidationInstance:
    """Return the consolidation instance of a Gavel trace on servers with one type of GPU.

    A job's speed on one server is the consolidated one, and on more servers the unconsolidated one.
    """
    trace = options.trace
    together, apart, zeros = _read_speeds(options.throughputs, options.gpu_type)
    jobs, listed = options.jobs()
    spread = {name: _speed_when_spread(job, together, apart) for name, job in jobs.items()}
    document = {
        "name": f"gavel-{trace.stem}-{options.gpu_type}",
        "source": options.source(),
        "assumptions": [
            *_job_assumptions(listed, jobs, options),
            *_speed_assumptions(jobs, spread, zeros, options),
        ],
        "objectives": ["value", "slowdown", "servers"],
        "servers": gpu_servers(options.servers, options.gpus_per_server, options.gpu_type),
        "jobs": [_job(name, job, spread[name]) for name, job in jobs.items()],
    }
    return validated(ConsolidationInstance, document, str(trace))


def _read_speeds(path: Path, gpu_type: str) -> tuple[Speeds, Speeds, list[str]]:
    """Return consolidated and unconsolidated speeds, and the entries left out because they are 0."""
    source = str(path)
    data = read_table(path)
    both = [name for name in gpu_types(data) if name + UNCONSOLIDATED in data]
    if gpu_type not in both:
        allowed = ", ".join(both) or "none"
        what = f"{gpu_type!r} has not both consolidated and unconsolidated speeds; allowed: {allowed}"
        raise fail("options", what, "gpu_type")
    together, zeros = speeds_of(data, gpu_type, source)
    apart, more_zeros = speeds_of(data, gpu_type + UNCONSOLIDATED, source)
    return together, apart, [*zeros, *more_zeros]


def _speed_when_spread(job: TraceJob, together: Speeds, apart: Speeds) -> float | None:
    """Return the unconsolidated over the consolidated speed; None where one of them is unknown."""
    consolidated = together.get(job.model, {}).get(job.gpus)
    unconsolidated = apart.get(job.model, {}).get(job.gpus)
    return None if consolidated is None or unconsolidated is None else unconsolidated / consolidated


def _job(name: str, job: TraceJob, spread: float | None) -> dict[str, Any]:
    measured = {"speed_by_servers": {1: 1.0, 2: spread}} if job.gpus > 1 and spread is not None else {}
    return gpu_job(name, job.gpus, "free", **measured)


def _job_assumptions(
    listed: int, jobs: Mapping[str, TraceJob], options: GavelConsolidationOptions
) -> Iterable[str]:
    asked, there = sum(job.gpus for job in jobs.values()), options.servers * options.gpus_per_server
    if len(jobs) < listed:
        yield f"Only the first {len(jobs)} of the {listed} jobs of the trace are considered."
    yield "All jobs are present at once; arrival times and steps are not used."
    yield (
        f"The cluster is chosen, not the source's: {options.servers} servers of {options.gpus_per_server} "
        f"{options.gpu_type} GPUs, all free. The {len(jobs)} jobs ask {asked} of the {there} GPUs."
    )
    yield "A job is one task for each GPU that it asks for, is worth that many, and may be left out."
    yield "CPU and memory of a task are not in the source and not asked for."
    if any(job.weight != 1 for job in jobs.values()):
        yield "Priorities of the trace are not used."


def _speed_assumptions(
    jobs: Mapping[str, TraceJob],
    spread: Mapping[str, float | None],
    zeros: list[str],
    options: GavelConsolidationOptions,
) -> Iterable[str]:
    yield (
        "A job on one server has the speed measured consolidated, on two or more servers the one measured "
        "unconsolidated, however many they are: the source does not say over how many it spread a job."
    )
    large = [job for job in jobs.values() if job.gpus > options.gpus_per_server]
    if large:
        yield f"{len(large)} jobs ask more GPUs than a server has, so none of them reaches its full speed."
    several = {name: ratio for name, ratio in spread.items() if jobs[name].gpus > 1}
    faster = [ratio for ratio in several.values() if ratio is not None and ratio > 1]
    if faster:
        yield f"{len(faster)} jobs were measured faster when spread; their slowdown is negative."
    unknown = [jobs[name] for name, ratio in several.items() if ratio is None]
    if unknown:
        names = named(f"{job.model} on {job.gpus}" for job in unknown)
        yield (
            f"{len(unknown)} jobs stay in without measured speeds of their model on as many GPUs, and lose "
            f"nothing by being spread: {names}."
        )
    if zeros:
        yield f"{len(zeros)} measured speeds are 0 and left out as missing: {named(zeros)}."
