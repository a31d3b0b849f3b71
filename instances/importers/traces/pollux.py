"""Pollux: measured step times of training with ring all-reduce, and workloads (OSDI'21 artifact).

Each application is a folder with two CSV files. ``placements.csv`` has placement (one digit a server, the
GPUs used there: ``44`` is 4 + 4 GPUs), local_bsz and step_time; ``scalability.csv`` has num_nodes,
num_replicas, local_bsz and step_time. Other columns are not used. A step is one batch of local_bsz
samples on every GPU, so its global batch is GPUs × local_bsz and grows with the GPUs.

Here a job trains with one global batch M on any number of GPUs, because remaining steps are only defined
if a step is the same work in every configuration. On w GPUs each has M/w samples a step, and the
step takes the time measured at w GPUs and that local batch. So ``ring_allreduce`` is fitted to all
measurements with M = GPUs × local_bsz of each, which also keeps its four coefficients apart, and the
job's M is put into the fitted formula; a table takes the step time at M/w between the measured local
batches by linear interpolation. Numbers of GPUs at which M/w lies outside the measured local batches are
not offered: below them memory would not do without accumulating gradients, and above them nothing was
measured.

A workload of its simulator is CSV: name, time in seconds, application, num_replicas and batch_size, the
global batch. For scheduling, a job keeps its num_replicas and its batch; for allocation only its batch. A
step takes what was measured with as many GPUs at a share of the batch each; a share larger than any that was
measured is made in several parts, one after the other. How many steps a job makes is not in the files that
are read, but an option. On servers, of several placements of as many GPUs on as many servers the slowest
counts, so that a plan may take any of them.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from ...allocation.fits import SpeedPoint, fit_speed
from ...allocation.instance import AllocationInstance
from ...common.errors import Faults, InstanceError, OptionError, refuse_faults
from ...common.fields import (
    Fields,
    Model,
    Name,
    NonNegative,
    Positive,
    PositiveCount,
    PositiveTaskCount,
    ServerCount,
    repeated,
    unknown_names,
)
from ...files.reading import fail
from ...scheduling.instance import SchedulingInstance
from ..importer import Importer, ImportOptions, Option
from .trace import GANG, NO_CPU, ClusterGpus, TraceSource, gpu_row, gpu_servers, named, rows_of, scheduling

LAYOUT = ", in the layout of petuum/adaptdl (branch osdi21-artifact, commit c793c70, Apache-2.0)"
AT_ONCE = TraceSource(
    name="pollux-{apps}",
    files="placements.csv and scalability.csv of {listed}" + LAYOUT,
    sentences=(
        "All jobs are present at once; their remaining work is not in the source but an option.",
        "A step is one global batch, the same at every number of GPUs and divided evenly among them; the "
        "measured steps have a fixed batch for each GPU instead, and the speed is looked up at the share.",
        "Numbers of GPUs at which a GPU's share of the batch lies outside the measured local batches are not "
        "offered; gradients are not accumulated.",
        "Step times count the same for all placements of as many GPUs, so a plan has the speed of an "
        "average placement, faster on one server and slower where it is spread.",
        ("table", "Between two measured local batches the step time is interpolated linearly."),
        "A worker takes one GPU; CPU and memory of the jobs are not in the source and not asked for.",
    ),
    jobs="pollux",
)
"""One job for each application."""
KEEPS_BATCH = "A job keeps the global batch of the workload, its batch_size, on any measured number of GPUs."
STEP = (
    "A step takes what was measured with as many GPUs and that share of the batch, by linear "
    "interpolation; a share that is larger than any measured one is made in several equal parts."
)
WORK = "The work of a job is not in these files but chosen: {work}."
ABSENT = (
    "absent",
    "{absent} of {listed} jobs are left out, because no step times were given of their application "
    "with as many GPUs: {absent_names}.",
)
WORKLOAD = TraceSource(
    name="pollux-{workload.stem}-{gpus}",
    files="{workload.name}, and step times of {apps}" + LAYOUT,
    sentences=(
        "The cluster is chosen: {gpus:,} GPUs in one pool; the simulator's own has 64.",
        ("malleable", KEEPS_BATCH),
        (
            "rigid",
            "A job keeps the GPUs and the global batch of the workload: its num_replicas and batch_size.",
        ),
        STEP,
        WORK,
        ABSENT,
        *GANG,
    ),
    jobs="workload",
    columns={
        "arrival_s": "time",
        "tasks": "num_replicas",
        "requested": "num_replicas",
        "model": "application",
    },
)
ON_SERVERS = replace(
    WORKLOAD,
    name="pollux-{workload.stem}-{taken}-on-{servers}",
    sentences=(
        "All jobs are present at once; arrival times are not used.",
        "The cluster is chosen: {servers:,} servers of 4 GPUs; the simulator's own has 16.",
        KEEPS_BATCH,
        STEP,
        "Of several placements that were measured with as many GPUs on as many servers the slowest "
        "counts, so that a job is at least as fast wherever its workers are; scalability.csv does not "
        "say where they were and is not used.",
        WORK,
        ABSENT,
        (
            "again",
            "The {usable} usable jobs of the workload are taken again and again until there are {taken}.",
        ),
        NO_CPU,
    ),
)
GPUS_OF_SERVER = 4
SHARES = 4
"""Number of GPUs whose largest local batches together are the default of M, if that was measured."""

Seconds = Annotated[Positive, Field(ge=1e-9, le=1e9)]
LocalBatch = Annotated[PositiveCount, Field(le=1_000_000)]
Points = Sequence[tuple[int, int, float]]
"""Measurements: GPUs, samples for each GPU and step, seconds for each step."""
StepTimes = dict[int, tuple[list[int], list[float]]]
"""Number of GPUs → measured local batch sizes in order, and the mean step time in seconds at each."""
Folders = Annotated[
    tuple[Path, ...],
    Option("Folder with placements.csv and scalability.csv of an application; repeatable.", option="--app"),
]
Samples = Annotated[dict[Name, Positive], Option("Samples still to be trained, such as imagenet=1.2e8.")]
Steps = Annotated[Positive, Option("Steps still to be made by jobs that --samples does not name.")]


class PolluxOptions(ImportOptions):
    """Measured step times of ring all-reduce training (Pollux, OSDI'21): an allocation instance."""

    folders: Folders
    gpus: Annotated[PositiveCount | None, Option("GPUs of the cluster.")] = None
    speed: Annotated[Literal["ring", "table"], Option("Fit ring_allreduce, or offer what was measured.")] = (
        "ring"
    )
    batch: Annotated[
        dict[Name, PositiveCount],
        Option(
            "Global batches, such as bert=48,cifar10=4096; by default what four GPUs take, where that was "
            "measured, or what most numbers of GPUs can train."
        ),
    ] = {}
    samples: Samples = {}
    steps: Steps = 10_000
    servers: Annotated[
        ServerCount | None,
        Option("In place of --gpus: servers of 4 GPUs, for which speeds by the number of servers are taken."),
    ] = None
    workload: Annotated[
        Path | None, Option("workload-N.csv of the simulator, for a trace or with --servers.")
    ] = None
    jobs: Annotated[
        PositiveTaskCount | None,
        Option("With --servers: how many jobs of the workload, again from its start if it has fewer."),
    ] = None


class PolluxTraceOptions(ImportOptions):
    """Jobs of a workload of Pollux's simulator by their submission (OSDI'21): a scheduling instance."""

    workload: Annotated[Path, Option("workload-N.csv of the simulator.")]
    folders: Folders
    gpus: ClusterGpus
    samples: Samples = {}
    steps: Steps = 10_000
    malleable: Annotated[
        bool, Option("Let a job run on any number of GPUs that was measured, with the same batch.")
    ] = False


class _Placement(Model):
    placement: Annotated[Name, Field(pattern=r"^[1-9]{1,100}$")]
    local_bsz: LocalBatch
    step_time: Seconds

    @property
    def gpus(self) -> int:
        return sum(map(int, self.placement))


class _Scalability(Model):
    num_replicas: Annotated[PositiveCount, Field(le=100_000)]
    local_bsz: LocalBatch
    step_time: Seconds

    @property
    def gpus(self) -> int:
        return self.num_replicas


class _WorkloadRow(Model):
    name: Name
    time: NonNegative
    application: Name
    num_replicas: PositiveCount
    batch_size: PositiveCount


def times_of(points: Points) -> StepTimes:
    """Return number of GPUs → measured local batch sizes in order, and the mean step time at each.

    Parameters
    ----------
    points
        GPUs, samples for each GPU and step, seconds for each step.
    """
    by_gpus: dict[int, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for gpus, local, step_s in points:
        by_gpus[gpus][local].append(step_s)
    return {
        gpus: (sorted(cells), [float(np.mean(cells[local])) for local in sorted(cells)])
        for gpus, cells in sorted(by_gpus.items())
    }


@dataclass(frozen=True)
class _App:
    """The measured step times of one application, by GPUs and samples per GPU, and its global batch."""

    name: str
    points: Points
    times: StepTimes
    batch: int = 0

    def rows(self, batch: int, most: int) -> dict[int, float]:
        """Return number of GPUs → step time in seconds with a global batch, where measured."""
        return {
            gpus: float(np.interp(batch / gpus, locals_, seconds))
            for gpus, (locals_, seconds) in self.times.items()
            if gpus <= most and locals_[0] <= batch / gpus <= locals_[-1]
        }


@Importer
def import_pollux(options: PolluxOptions) -> AllocationInstance:
    """Return an allocation instance with one job for each application, or with those of a workload."""
    if options.servers is not None and options.workload is not None and options.gpus is None:
        return _on_servers(options, options.workload, options.servers)
    if options.gpus is None or options.servers or options.workload or options.jobs:
        raise OptionError(
            "give --gpus for one job of each application, or --servers and --workload for its jobs on servers"
        )
    apps = _read_apps(options, options.gpus)
    jobs = [_job(app, options, options.gpus) for app in apps]
    names = [app.name for app in apps]
    return AT_ONCE.instance(
        AllocationInstance,
        options,
        {"apps": "-".join(names)[:193], "listed": ", ".join(names), "table": options.speed == "table"},
        also=[sentence for _, sentence in jobs],
        resources={"gpu": options.gpus},
        jobs=[job for job, _ in jobs],
    )


def _by_application(options: PolluxOptions | PolluxTraceOptions) -> dict[str, Path]:
    """Return application → its folder, which has its name.

    Raises
    ------
    InstanceError
        If there is none, two have the same name, or an option names another application.
    """
    names = [folder.resolve().name for folder in options.folders]
    if not names:
        raise fail("options", "is empty; give at least one folder with placements.csv", "folders")
    unknown = (
        unknown_names(getattr(options, key, ()), names, key, "application") for key in ("batch", "samples")
    )
    refuse_faults("options", chain(repeated(names, "folders"), *unknown))
    return dict(zip(names, options.folders, strict=True))


def _read_apps(options: PolluxOptions, gpus: int) -> list[_App]:
    apps, faults = [], Faults()
    for name, folder in _by_application(options).items():
        try:
            points = read_points(folder)
        except InstanceError as error:
            faults.add_all(error)
            continue
        app = _App(name, points, times_of(points))
        apps.append(replace(app, batch=options.batch.get(name) or _default_batch(app, gpus)))
    faults.refuse()
    return apps


def _default_batch(app: _App, gpus: int) -> int:
    """Return the global batch of an application, or if not measured one that most numbers of GPUs allow.

    Of several the largest; candidates are the largest measured batches of each number of GPUs.
    """
    shared = SHARES * max(local for _, local, _ in app.points)
    if app.rows(shared, gpus):
        return shared
    fullest = [number * locals_[-1] for number, (locals_, _) in app.times.items() if number <= gpus]
    return max(fullest, key=lambda batch: (len(app.rows(batch, gpus)), batch), default=shared)


def read_points(folder: Path) -> Points:
    """Return the measurements of an application as (GPUs, samples per GPU and step, seconds per step).

    Raises
    ------
    InstanceError
        If one of its two files cannot be read, or a row is wrong.
    """
    rows: list[_Placement | _Scalability] = [
        *rows_of(folder / "placements.csv", _Placement).values(),
        *rows_of(folder / "scalability.csv", _Scalability).values(),
    ]
    return [(row.gpus, row.local_bsz, row.step_time) for row in rows]


def _job(app: _App, options: PolluxOptions, gpus: int) -> tuple[Fields, str]:
    """Return a job as a document has it, and the assumption about it."""
    rows = app.rows(app.batch, gpus)
    if not rows:
        within = {number: cells for number, cells in app.times.items() if number <= gpus} or app.times
        batches = [number * local for number, (locals_, _) in within.items() for local in locals_]
        what = f"is {app.batch}, which no measured number of GPUs up to {gpus} can train; "
        what += f"measured are global batches of {min(batches)} to {max(batches)}"
        raise fail("options", what, f"batch.{app.name}")
    variant: Fields = {"name": "gpu", "worker_demand": {"gpu": 1}}
    if options.speed == "table":
        listed = [{"workers": gpus, "steps_per_s": 1.0 / step_s} for gpus, step_s in rows.items()]
        variant["speed"] = {"model": "table", "rows": listed}
        how = f"speeds measured at {len(rows)} numbers of GPUs"
    else:
        points = [
            SpeedPoint(workers=gpus, steps_per_s=1.0 / step_s, batch=float(gpus * local))
            for gpus, local, step_s in app.points
        ]
        fit = fit_speed(points, "ring_allreduce", app.batch, source=app.name)
        variant |= {"workers": {"min": min(rows), "max": max(rows)}, "speed": fit.fields()}
        how = (
            f"speed fitted to {fit.points} step times, MAPE {100 * fit.mape:.1f} %, leave-one-out error "
            f"{100 * fit.leave_one_out:.1f} %"
        )
    asked = options.samples.get(app.name)
    work = f"{options.steps:,.10g} steps" if asked is None else f"{asked:,.10g} samples"
    job = {"name": app.name, "remaining_steps": _steps(options, app.name, app.batch), "variants": [variant]}
    return job, (
        f"Job {app.name!r}: {work} of work left, global batch {app.batch}, "
        f"{min(rows)} to {max(rows)} GPUs, {how}."
    )


def _steps(options: PolluxOptions | PolluxTraceOptions, application: str, batch: int) -> float:
    """Return the steps that a job still has to make, with its samples if they are given."""
    asked = options.samples.get(application)
    return options.steps if asked is None else asked / batch


@Importer
def import_pollux_trace(options: PolluxTraceOptions) -> SchedulingInstance:
    """Return the scheduling instance of a workload, with rigid jobs as requested, or malleable ones."""
    measured = {name: times_of(read_points(folder)) for name, folder in _by_application(options).items()}
    rows = rows_of(options.workload, _WorkloadRow)
    timed = {place: (row, _step_s(row, measured.get(row.application, {}))) for place, row in rows.items()}
    jobs = {
        place: _trace_job(row, step_s, options)
        for place, (row, step_s) in timed.items()
        if row.num_replicas in step_s
    }
    facts = {"rigid": not options.malleable, **_facts(rows, jobs, options, options.workload)}
    return scheduling(WORKLOAD, options, facts, jobs, resources={"gpu": options.gpus})


def _facts(
    rows: dict[str, _WorkloadRow],
    jobs: dict[str, Fields],
    options: PolluxOptions | PolluxTraceOptions,
    workload: Path,
) -> Fields:
    """Return facts about the jobs of a workload, by their place in it, and their work.

    Raises
    ------
    InstanceError
        If there is no job.
    """
    applications = list(_by_application(options))
    if not jobs:
        what = f"has no job of {', '.join(applications)} with measured numbers of GPUs; "
        listed = named(row.application for row in rows.values())
        raise fail(str(workload), f"{what}its applications: {listed}")
    work = [f"{samples:,.10g} samples of {name}" for name, samples in options.samples.items()]
    if len(options.samples) < len(applications):
        work.append(f"{options.steps:,.10g} steps of every other job")
    return {
        "apps": ", ".join(applications),
        "work": ", ".join(work),
        "absent": len(rows) - len(jobs),
        "listed": len(rows),
        "absent_names": named(row.application for place, row in rows.items() if place not in jobs),
    }


def _on_servers(options: PolluxOptions, workload: Path, servers: int) -> AllocationInstance:
    """Return an allocation instance with the jobs of a workload, all at once on servers."""
    measured = {name: _times_by_servers(folder) for name, folder in _by_application(options).items()}
    rows, jobs = rows_of(workload, _WorkloadRow), {}
    for place, row in rows.items():
        slowest: dict[tuple[int, int], float] = {}
        for number, times in measured.get(row.application, ()):
            for gpus, step_s in _step_s(row, times).items():
                if number <= servers:
                    slowest[gpus, number] = max(step_s, slowest.get((gpus, number), 0.0))
        speeds = [
            {"workers": gpus, "servers": number, "steps_per_s": 1 / step_s}
            for (gpus, number), step_s in sorted(slowest.items())
        ]
        if speeds:
            variant = {
                "name": "gpu",
                "worker_demand": {"gpu": 1},
                "speed": {"model": "table", "rows": speeds},
            }
            steps = _steps(options, row.application, row.batch_size)
            jobs[place] = {"name": row.name, "remaining_steps": steps, "variants": [variant]}
    facts = _facts(rows, jobs, options, workload)
    taken = options.jobs or len(jobs)
    facts |= {"taken": taken, "usable": len(jobs), "again": taken > len(jobs)}
    listed = [
        job | {"name": f"{job['name']}{f' again {number}' * (number > 0)}"}
        for number in range(-(-taken // len(jobs)))
        for job in jobs.values()
    ]
    cluster = gpu_servers(servers, GPUS_OF_SERVER)
    return ON_SERVERS.instance(AllocationInstance, options, facts, servers=cluster, jobs=listed[:taken])


def _times_by_servers(folder: Path) -> list[tuple[int, StepTimes]]:
    """Return number of servers and step times of each placement with at most four GPUs on a server."""
    by_placement: dict[str, list[tuple[int, int, float]]] = defaultdict(list)
    for row in rows_of(folder / "placements.csv", _Placement).values():
        if int(max(row.placement)) <= GPUS_OF_SERVER:
            by_placement[row.placement].append((row.gpus, row.local_bsz, row.step_time))
    return [(len(placement), times_of(points)) for placement, points in by_placement.items()]


def _step_s(row: _WorkloadRow, measured: StepTimes) -> dict[int, float]:
    """Return number of GPUs → step time in seconds with the job's batch.

    Numbers of GPUs with a share of the batch below the measured ones are left out, except the job's own.
    """
    step_s = {}
    for gpus, (local, seconds) in measured.items():
        share = row.batch_size / gpus
        parts = max(1, math.ceil(share / local[-1] - 1e-9))
        if gpus == row.num_replicas or share / parts >= local[0] * (1 - 1e-9):
            step_s[gpus] = parts * float(np.interp(share / parts, local, seconds))
    return step_s


def _trace_job(row: _WorkloadRow, step_s: dict[int, float], options: PolluxTraceOptions) -> Fields:
    """Return the job of a row as a document has it; if malleable, with steps and speeds."""
    steps = _steps(options, row.application, row.batch_size)
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
