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

A workload of its simulator, for scheduling, is CSV: name, time in seconds, application, num_replicas and
batch_size, the global batch. A job keeps its num_replicas and its batch. A step takes what was measured
with as many GPUs at a share of the batch each; a share larger than any that was measured is made in
several parts, one after the other. How many steps a job makes is not in the files that are read, but an
option.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from ...allocation.fits import SpeedFit, SpeedPoint, fit_speed
from ...allocation.instance import AllocationInstance
from ...common.errors import Faults, InstanceError, refuse_faults
from ...common.faults import validated, validated_rows
from ...common.fields import Model, Name, NonNegative, Positive, PositiveCount, repeated
from ...files.csv_tables import model_rows
from ...files.reading import fail
from ...scheduling.instance import SchedulingInstance
from ..importer import Importer, ImportOptions, Option
from .gavel import named
from .gpu_trace import Origin, gpu_row, gpu_trace, numbered_rows_of

SOURCE = "petuum/adaptdl (branch osdi21-artifact, commit c793c70, Apache-2.0)"
SHARES = 4
"""Number of GPUs whose largest local batches together are the default of M, if that was measured."""

Seconds = Annotated[Positive, Field(ge=1e-9, le=1e9)]
LocalBatch = Annotated[PositiveCount, Field(le=1_000_000)]


class PolluxOptions(ImportOptions):
    """Measured step times of ring all-reduce training (Pollux, OSDI'21): an allocation instance."""

    folders: Annotated[
        tuple[Path, ...],
        Option(
            "Folder with placements.csv and scalability.csv of an application; repeatable.", option="--app"
        ),
    ]
    gpus: Annotated[PositiveCount, Option("GPUs of the cluster.")]
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
    samples: Annotated[
        dict[Name, Positive], Option("Samples still to be trained, such as imagenet=1.2e8.")
    ] = {}
    steps: Annotated[Positive, Option("Steps still to be made by jobs that --samples does not name.")] = (
        10_000
    )


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


def times_of(points: Iterable[tuple[int, int, float]]) -> dict[int, tuple[list[int], list[float]]]:
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
    """The measured step times of one application, by GPUs and samples per GPU."""

    name: str
    points: Sequence[tuple[int, int, float]]
    batch: int

    def times(self) -> dict[int, tuple[list[int], list[float]]]:
        """Return number of GPUs → measured local batch sizes in order, and the mean step time at each."""
        return times_of(self.points)

    def rows(self, most: int) -> dict[int, float]:
        """Return number of GPUs → step time in seconds with the application's batch, where measured."""
        return {
            gpus: float(np.interp(self.batch / gpus, locals_, seconds))
            for gpus, (locals_, seconds) in self.times().items()
            if gpus <= most and locals_[0] <= self.batch / gpus <= locals_[-1]
        }


@Importer
def import_pollux(options: PolluxOptions) -> AllocationInstance:
    """Return an allocation instance with one job for each application."""
    apps = _read_apps(options.folders, options)
    jobs = [_job(app, options) for app in apps]
    document = {
        "name": f"pollux-{'-'.join(app.name for app in apps)}"[:200],
        "source": f"placements.csv and scalability.csv of {', '.join(app.name for app in apps)}, "
        f"in the layout of {SOURCE}",
        "assumptions": [*_assumptions(options), *(sentence for _, sentence in jobs)],
        "resources": {"gpu": options.gpus},
        "jobs": [job for job, _ in jobs],
    }
    return validated(AllocationInstance, document, "pollux")


def _read_apps(folders: Sequence[Path], options: PolluxOptions) -> list[_App]:
    names = [folder.resolve().name for folder in folders]
    if not names:
        raise fail("options", "is empty; give at least one folder with placements.csv", "folders")
    what = f"unknown application; allowed: {', '.join(names)}"
    unknown = [
        (f"{key}.{name}", what)
        for key in ("batch", "samples")
        for name in getattr(options, key)
        if name not in names
    ]
    refuse_faults("options", [*repeated(names, "folders"), *unknown])
    apps, faults = [], Faults()
    for name, folder in zip(names, folders, strict=True):
        try:
            points = read_points(folder)
        except InstanceError as error:
            faults.add_all(error)
            continue
        app = _App(name, points, SHARES * max(local for _, local, _ in points))
        apps.append(replace(app, batch=options.batch.get(name) or _default_batch(app, options.gpus)))
    faults.refuse()
    return apps


def _default_batch(app: _App, gpus: int) -> int:
    """Return the global batch of an application, or if not measured one that most numbers of GPUs allow.

    Of several the largest; candidates are the largest measured batches of each number of GPUs.
    """
    if app.rows(gpus):
        return app.batch
    fullest = [number * locals_[-1] for number, (locals_, _) in app.times().items() if number <= gpus]
    return max(
        fullest, key=lambda batch: (len(replace(app, batch=batch).rows(gpus)), batch), default=app.batch
    )


def read_points(folder: Path) -> list[tuple[int, int, float]]:
    """Return the measurements of an application as (GPUs, samples per GPU and step, seconds per step).

    Raises
    ------
    InstanceError
        If one of its two files cannot be read, or a row is wrong.
    """
    return [
        *_read(folder / "placements.csv", _Placement),
        *_read(folder / "scalability.csv", _Scalability),
    ]


def _read(path: Path, model: type[_Placement | _Scalability]) -> list[tuple[int, int, float]]:
    rows = validated_rows(model, model_rows(path, model), str(path))
    return [(row.gpus, row.local_bsz, row.step_time) for _, row in rows]


def _fitted(app: _App) -> SpeedFit:
    points = [
        SpeedPoint(workers=gpus, steps_per_s=1.0 / step_s, batch=float(gpus * local))
        for gpus, local, step_s in app.points
    ]
    return fit_speed(points, "ring_allreduce", app.batch, source=app.name)


def _job(app: _App, options: PolluxOptions) -> tuple[dict[str, Any], str]:
    """Return a job as a document has it, and the assumption about it."""
    rows = app.rows(options.gpus)
    if not rows:
        least, most = _fitting_batches(app, options.gpus)
        what = f"is {app.batch}, which no measured number of GPUs up to {options.gpus} can train; "
        raise fail("options", f"{what}measured are global batches of {least} to {most}", f"batch.{app.name}")
    variant: dict[str, Any] = {"name": "gpu", "worker_demand": {"gpu": 1}}
    if options.speed == "table":
        listed = [{"workers": gpus, "steps_per_s": 1.0 / step_s} for gpus, step_s in rows.items()]
        variant["speed"] = {"model": "table", "rows": listed}
        how = f"speeds measured at {len(rows)} numbers of GPUs"
    else:
        fit = _fitted(app)
        variant |= {"workers": {"min": min(rows), "max": max(rows)}, "speed": fit.fields()}
        how = (
            f"speed fitted to {fit.points} step times, MAPE {100 * fit.mape:.1f} %, leave-one-out error "
            f"{100 * fit.leave_one_out:.1f} %"
        )
    asked = options.samples.get(app.name)
    work = f"{options.steps:,.10g} steps" if asked is None else f"{asked:,.10g} samples"
    steps = options.steps if asked is None else asked / app.batch
    job = {"name": app.name, "remaining_steps": steps, "variants": [variant]}
    return job, (
        f"Job {app.name!r}: {work} of work left, global batch {app.batch}, "
        f"{min(rows)} to {max(rows)} GPUs, {how}."
    )


def _fitting_batches(app: _App, gpus: int) -> tuple[int, int]:
    """Return minimum and maximum global batch measured on up to `gpus` GPUs, or on any if none."""
    times = app.times()
    within = {number: cells for number, cells in times.items() if number <= gpus} or times
    return (
        min(number * cells[0][0] for number, cells in within.items()),
        max(number * cells[0][-1] for number, cells in within.items()),
    )


def _assumptions(options: PolluxOptions) -> Iterable[str]:
    yield "All jobs are present at once; their remaining work is not in the source but an option."
    yield (
        "A step is one global batch, the same at every number of GPUs and divided evenly among them; the "
        "measured steps have a fixed batch for each GPU instead, and the speed is looked up at the share."
    )
    yield (
        "Numbers of GPUs at which a GPU's share of the batch lies outside the measured local batches are not "
        "offered; gradients are not accumulated."
    )
    yield (
        "Step times count the same for all placements of as many GPUs, so a plan has the speed of an "
        "average placement, faster on one server and slower where it is spread."
    )
    if options.speed == "table":
        yield "Between two measured local batches the step time is interpolated linearly."
    yield "A worker takes one GPU; CPU and memory of the jobs are not in the source and not asked for."


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
    """Return the scheduling instance of a workload, with rigid jobs as requested, or malleable ones."""
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
        applications = named(row.application for row in rows.values())
        raise fail(str(options.workload), f"{what}its applications: {applications}")
    return gpu_trace(
        f"pollux-{options.workload.stem}-{options.gpus}",
        f"{options.workload.name}, and step times of {', '.join(measured)}, in the layout of {SOURCE}",
        {"resources": {"gpu": options.gpus}},
        [_trace_job(row, step_s, options) for row, step_s in known],
        _trace_assumptions(options, measured, timed),
        Origin(str(options.workload), places, COLUMNS),
    )


def _step_s(row: _Row, measured: StepTimes) -> dict[int, float]:
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


def _trace_job(row: _Row, step_s: dict[int, float], options: PolluxTraceOptions) -> dict[str, Any]:
    """Return the job of a row as a document has it; if malleable, with steps and speeds."""
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


def _trace_assumptions(
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
