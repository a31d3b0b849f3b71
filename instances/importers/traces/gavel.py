"""Gavel as a trace: jobs that come one after the other to GPUs of one type, with measured speeds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated

from ...common.errors import refuse_faults
from ...common.fields import PositiveCount
from ...files.reading import fail
from ...scheduling.instance import SchedulingInstance
from ..gavel.files import GavelFiles, GpuType, TraceJob, gpu_types, named, read_table, speeds_of
from ..importer import Importer, Option
from .gpu_trace import Origin, gpu_row, gpu_trace

COLUMNS = {"tasks": "GPUs", "arrival_s": "arrival", "weight": "priority"}


class GavelTraceOptions(GavelFiles):
    """Jobs with measured speeds on one GPU type, by their arrival (Gavel, OSDI'20): a scheduling instance."""

    ORDER = ("throughputs", "trace", "gpu_type", "gpus")

    gpu_type: GpuType
    gpus: Annotated[PositiveCount, Option("GPUs of the cluster.")]


@Importer
def import_gavel_trace(options: GavelTraceOptions) -> SchedulingInstance:
    """Return the scheduling instance of a Gavel trace on GPUs of one type."""
    table = read_table(options.throughputs)
    types = gpu_types(table)
    if options.gpu_type not in types:
        what = f"unknown GPU type; allowed: {', '.join(types) or 'none'}"
        refuse_faults("options", [("gpu_type", what)])
    speeds, _ = speeds_of(table, options.gpu_type, str(options.throughputs))
    chosen, listed = options.jobs()
    durations = {
        name: job.steps / speed
        for name, job in chosen.items()
        if (speed := speeds.get(job.model, {}).get(job.gpus)) is not None
    }
    if not durations:
        what = f"the speed table has no speed of its jobs on {options.gpu_type} with as many GPUs as they ask"
        raise fail(str(options.trace), what)
    jobs = [
        gpu_row(
            name,
            max(chosen[name].arrival_s, 0.0),
            chosen[name].gpus,
            duration_s,
            weight=chosen[name].weight,
            model=chosen[name].model,
        )
        for name, duration_s in durations.items()
    ]
    return gpu_trace(
        f"gavel-{options.trace.stem}-{options.gpus}x{options.gpu_type}",
        options.source(),
        {"resources": {"gpu": options.gpus}},
        jobs,
        _assumptions(options, chosen, listed, durations),
        Origin(str(options.trace), [f"line {chosen[name].line}" for name in durations], COLUMNS),
    )


def _assumptions(
    options: GavelTraceOptions, chosen: Mapping[str, TraceJob], listed: int, durations: Mapping[str, float]
) -> Iterable[str]:
    yield f"The cluster is chosen, not the source's: {options.gpus:,} GPUs of type {options.gpu_type}."
    yield (
        f"A job takes its total steps over the steps per second measured on {options.gpu_type} with the GPUs "
        "that it asks for, alone and as close together as they can be."
    )
    yield "A job's weight is its priority in the trace where that is positive, else 1."
    if len(chosen) < listed:
        yield f"Only the first {len(chosen)} of the {listed} jobs of the trace are considered."
    absent = [job.model for name, job in chosen.items() if name not in durations]
    if absent:
        lack = "the speed table lacks their model with as many GPUs as they ask for"
        yield f"{len(absent)} jobs are left out, because {lack}: {named(absent)}."
    early = sum(chosen[name].arrival_s < 0 for name in durations)
    if early:
        yield f"{early} jobs arrive before time 0 in the trace; here they arrive at 0."
