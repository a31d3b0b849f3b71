"""Pollux as a trace: a workload of its simulator, with the step times that were measured of its applications.

A workload is CSV: name, time in seconds, application, num_replicas and batch_size, the global batch. A job
keeps its num_replicas and its batch. A step takes what was measured with as many GPUs at a share of the batch
each; a share larger than any that was measured is made in several parts, one after the other. How many steps
a job makes is not in the files that are read, but an option.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from ...common.fields import Model, Name, NonNegative, Positive, PositiveCount
from ...files.reading import fail
from ...scheduling.instance import SchedulingInstance
from ..gavel.files import named
from ..importer import Importer, ImportOptions, Option
from ..pollux import SOURCE, read_points, times_of
from .gpu_trace import Origin, gpu_row, gpu_trace, numbered_rows_of

COLUMNS = {
    "arrival_s": "time",
    "tasks": "num_replicas",
    "requested": "num_replicas",
    "model": "application",
}
StepTimes = dict[int, tuple[list[int], list[float]]]
"""GPUs → local batches in order, and the seconds of a step at each."""


class PolluxTraceOptions(ImportOptions):
    """Jobs of a workload of Pollux's simulator by their submission (OSDI'21): a scheduling instance."""

    workload: Annotated[Path, Option("workload-N.csv of the simulator.")]
    folders: Annotated[
        tuple[Path, ...],
        Option(
            "Folder with placements.csv and scalability.csv of an application; repeatable.", option="--app"
        ),
    ]
    gpus: Annotated[PositiveCount, Option("GPUs of the cluster.")]
    samples: Annotated[
        dict[Name, Positive], Option("Samples still to be trained, such as imagenet=1.2e8.")
    ] = {}
    steps: Annotated[Positive, Option("Steps still to be made by jobs that --samples does not name.")] = (
        10_000
    )
    malleable: Annotated[
        bool, Option("Let a job run on any number of GPUs that was measured, with the same batch.")
    ] = False


class _Row(Model):
    name: Name
    time: NonNegative
    application: Name
    num_replicas: PositiveCount
    batch_size: PositiveCount


@Importer
def import_pollux_trace(options: PolluxTraceOptions) -> SchedulingInstance:
    """Return the scheduling instance of a workload, each job on the GPUs that it asks for, or malleable."""
    measured = {folder.resolve().name: times_of(read_points(folder)) for folder in options.folders}
    unknown = [name for name in options.samples if name not in measured]
    if unknown:
        what = f"unknown application; allowed: {', '.join(measured) or 'none'}"
        raise fail("options", what, f"samples.{unknown[0]}")
    rows = numbered_rows_of(options.workload, _Row)
    timed = [(row, _step_s(row, measured.get(row.application, {}))) for row in rows.values()]
    known = [(row, step_s) for row, step_s in timed if row.num_replicas in step_s]
    places = [place for place, (row, step_s) in zip(rows, timed, strict=True) if row.num_replicas in step_s]
    if not known:
        what = f"has no job of {', '.join(measured) or 'an application'} with measured numbers of GPUs; "
        there = named(row.application for row in rows.values())
        raise fail(str(options.workload), f"{what}its applications: {there}")
    return gpu_trace(
        f"pollux-{options.workload.stem}-{options.gpus}",
        f"{options.workload.name}, and step times of {', '.join(measured)}, in the layout of {SOURCE}",
        {"resources": {"gpu": options.gpus}},
        [_job(row, step_s, options) for row, step_s in known],
        _assumptions(options, measured, timed),
        Origin(str(options.workload), places, COLUMNS),
    )


def _step_s(row: _Row, measured: StepTimes) -> dict[int, float]:
    """Return the seconds of a step with the job's batch on each number of GPUs.

    Shares of the batch that are smaller than what was measured are left out, but not the job's own.
    """
    found = {}
    for gpus, (local, seconds) in measured.items():
        share = row.batch_size / gpus
        parts = max(1, math.ceil(share / local[-1] - 1e-9))
        if gpus == row.num_replicas or share / parts >= local[0] * (1 - 1e-9):
            found[gpus] = parts * float(np.interp(share / parts, local, seconds))
    return found


def _job(row: _Row, step_s: dict[int, float], options: PolluxTraceOptions) -> dict[str, Any]:
    """Return the job of a row, in steps and their speeds where it is malleable."""
    asked = options.samples.get(row.application)
    steps = options.steps if asked is None else asked / row.batch_size
    if not options.malleable:
        duration_s = steps * step_s[row.num_replicas]
        return gpu_row(row.name, row.time, row.num_replicas, duration_s, model=row.application)
    return {
        "name": row.name,
        "arrival_s": row.time,
        "demand": {"gpu": 1},
        "work": steps,
        "speeds": {gpus: 1 / step for gpus, step in step_s.items() if gpus <= options.gpus},
        "requested": str(row.num_replicas),
        "model": row.application,
    }


def _assumptions(
    options: PolluxTraceOptions, measured: dict[str, StepTimes], timed: list[tuple[_Row, dict[int, float]]]
) -> Iterable[str]:
    yield f"The cluster is chosen: {options.gpus:,} GPUs in one pool; the simulator's own has 64."
    if options.malleable:
        yield "A job keeps the global batch of the workload, its batch_size, on any measured number of GPUs."
    else:
        yield "A job keeps the GPUs and the global batch of the workload: its num_replicas and batch_size."
    yield (
        "A step takes what was measured with as many GPUs and that share of the batch, by linear "
        "interpolation; a share that is larger than any measured one is made in several equal parts."
    )
    work = [f"{samples:,.10g} samples of {name}" for name, samples in options.samples.items()]
    if len(options.samples) < len(measured):
        work.append(f"{options.steps:,.10g} steps of every other job")
    yield f"The work of a job is not in these files but chosen: {', '.join(work)}."
    absent = [row.application for row, step_s in timed if row.num_replicas not in step_s]
    if absent:
        lack = "no step times were given of their application with as many GPUs"
        yield f"{len(absent)} of {len(timed)} jobs are left out, because {lack}: {named(absent)}."
