"""Tiresias (NSDI'19) and Muri (SIGCOMM'22): the jobs and clusters of their simulators.

All files are CSV. Jobs of Tiresias have a job_id, num_gpu and model_name, and in a trace submit_time and
duration in seconds; a cluster is one row with num_switch, num_node_p_switch, num_gpu_p_node,
num_cpu_p_node and mem_p_node.

Files of Muri may be packed by gzip. Jobs have a job_id, num_gpu, submit_time in milliseconds, iterations,
model_name and iteration_time in milliseconds; a cluster is one row with num_switch, num_node_p_switch and
num_gpu_p_node. Other columns are not used, `duration` among them: the simulator ignores it too.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import Field

from ...common.errors import refuse_faults, some
from ...common.faults import validated, validated_rows
from ...common.fields import (
    ManyNamed,
    Model,
    Name,
    NonNegative,
    Positive,
    PositiveCount,
    PositiveTaskCount,
    ServerCount,
    repeated,
    validated_in_batches,
)
from ...consolidation.instance import ConsolidationInstance
from ...files.csv_tables import parse_table
from ...files.reading import fail, parse_document, read_text
from ...scheduling.instance import SchedulingInstance
from ..importer import Importer, ImportOptions, Option
from .gpu_trace import Origin, gpu_job, gpu_row, gpu_trace, numbered_rows_of, row_of

SOURCE = "SymbioticLab/Tiresias (commit 959f9b0, Apache-2.0)"
SKEW_THRESHOLD = 0.3
TENSORS_MB = {
    "vgg19": (392.0, 547.1),
    "vgg16": (392.0, 526.8),
    "vgg11": (392.0, 506.5),
    "alexnet": (144.0, 235.8),
    "resnet152": (9.0, 149.6),
    "resnet101": (9.0, 119.7),
    "resnet50": (9.0, 80.6),
    "inception4": (5.9, 132.8),
    "inception3": (7.8, 56.6),
}
"""Model → its largest tensor and the sum of its tensors in MB, from the lists in Tiresias's simulator."""


class _JobRow(Model):
    job_id: Name
    num_gpu: PositiveCount
    model_name: Name


class ClusterRow(Model):
    """The row that describes a cluster."""

    num_switch: Annotated[PositiveCount, Field(le=10_000)]
    num_node_p_switch: PositiveCount
    num_gpu_p_node: PositiveCount
    num_cpu_p_node: NonNegative
    mem_p_node: NonNegative


class _Tensors(Model):
    tensors_mb: ManyNamed[Name, Annotated[tuple[Positive, ...], Field(min_length=1), validated_in_batches()]]


RowT = TypeVar("RowT", bound=Model)


class TiresiasOptions(ImportOptions):
    """Jobs and clusters of the Tiresias simulator (NSDI'19): a consolidation instance."""

    jobs: Annotated[Path, Option("Job list of the simulator, CSV.")]
    cluster: Annotated[Path, Option("Cluster description of the simulator, CSV.")]
    tensor_sizes: Annotated[
        Path | None, Option("JSON: model → tensor sizes; by default those of the simulator.")
    ] = None


@Importer
def import_tiresias(options: TiresiasOptions) -> ConsolidationInstance:
    """Return the consolidation instance of a Tiresias job list on one of its clusters."""
    jobs, cluster, tensor_sizes = options.jobs, options.cluster, options.tensor_sizes
    rows = _rows(jobs, _JobRow)
    refuse_faults(str(jobs), repeated((row.job_id for row in rows), "rows", "job_id"))
    clusters = _rows(cluster, ClusterRow)
    if len(clusters) > 1:
        raise fail(str(cluster), f"has {len(clusters)} rows; a cluster is one row")
    skews = {model: largest / total for model, (largest, total) in _tensors(tensor_sizes).items()}
    document = {
        "name": f"tiresias-{jobs.stem}-{cluster.stem}",
        "source": f"{jobs.name} and {cluster.name}, in the layout of {SOURCE}",
        "assumptions": list(_assumptions(rows, skews, tensor_sizes)),
        "objectives": ["value", "spread", "servers"],
        "skew_threshold": SKEW_THRESHOLD,
        "servers": servers_of(clusters[0]),
        "jobs": [_job(row, skews) for row in rows],
    }
    return validated(ConsolidationInstance, document, str(jobs))


def _rows(path: Path, model: type[RowT]) -> list[RowT]:
    """Return the rows of a CSV file; errors name the row, counted from 0 below the header."""
    source = str(path)
    table = parse_table(read_text(path), source)
    if not table:
        raise fail(source, "has a header but no rows")
    filled = set().union(*table)
    missing = [name for name in model.model_fields if name not in filled]
    if missing:
        needed = ", ".join(model.model_fields)
        raise fail(source, f"has no column {', '.join(missing)}, or nothing in it; needed: {needed}")
    return [row for _, row in validated_rows(model, enumerate(table), source, "rows[{}]")]


def _tensors(path: Path | None) -> dict[str, tuple[float, float]]:
    """Return model → sizes in MB of its largest tensor, and of all its tensors."""
    if path is None:
        return TENSORS_MB
    source = str(path)
    data = parse_document(read_text(path), source, ".json")
    sizes = validated(_Tensors, {"tensors_mb": data}, source).tensors_mb
    return {**TENSORS_MB, **{model: (max(listed), math.fsum(listed)) for model, listed in sizes.items()}}


def servers_of(cluster: ClusterRow) -> list[dict[str, Any]]:
    """Return the servers as a document has them: one entry of identical servers for each switch."""
    switches = cluster.num_switch
    return [
        {
            "name": "node" if switches == 1 else f"switch-{switch}-node",
            "count": cluster.num_node_p_switch,
            "capacity": {
                "gpu": cluster.num_gpu_p_node,
                "cpu": cluster.num_cpu_p_node,
                "memory_gib": cluster.mem_p_node,
            },
            "rack": f"switch-{switch}",
        }
        for switch in range(switches)
    ]


def _job(row: _JobRow, skews: dict[str, float]) -> dict[str, Any]:
    skew = skews.get(row.model_name)
    spread = "free" if skew is None else "from_skew"
    return gpu_job(f"job-{row.job_id} {row.model_name}", row.num_gpu, spread, skew=skew)


def _assumptions(rows: list[_JobRow], skews: dict[str, float], tensor_sizes: Path | None) -> Iterable[str]:
    yield "All jobs are present at once; submit times, iterations and durations are not used."
    yield "A job is one task for each GPU that it asks for."
    yield "CPU and memory of a task are not in the source and not asked for."
    yield "A job is worth the GPUs that it asks for, and may be left out."
    yield "The memory of a server is read as GiB; a switch is a rack."
    origin = (
        "the lists in Tiresias's simulator"
        if tensor_sizes is None
        else f"{tensor_sizes.name} and, for models that it lacks, the lists in Tiresias's simulator"
    )
    yield "Skew is the largest tensor over the sum of the listed tensors; small ones are not listed."
    yield f"Tensor sizes are from {origin}."
    yield (
        f"A job must be consolidated if its skew is above {SKEW_THRESHOLD}; the source's own threshold is an "
        "option, and any between 0.14 and 0.61 separates its models alike."
    )
    unknown = [row.model_name for row in rows if row.model_name not in skews]
    if unknown:
        names = some(dict.fromkeys(unknown))
        yield f"{len(unknown)} jobs may spread freely, as tensor sizes of their model are unknown: {names}."


COLUMNS = {
    "name": "job_id",
    "tasks": "num_gpu",
    "arrival_s": "submit_time",
    "duration_s": "duration",
    "model": "model_name",
}


class TiresiasTraceOptions(ImportOptions):
    """Jobs of the Tiresias simulator by their submission (NSDI'19): a scheduling instance."""

    jobs: Annotated[Path, Option("Job list of the simulator, CSV.")]
    cluster: Annotated[Path, Option("Cluster description of the simulator, CSV.")]


class _TraceJobRow(Model):
    job_id: Name
    num_gpu: PositiveTaskCount
    submit_time: NonNegative
    duration: NonNegative
    model_name: Name


@Importer
def import_tiresias_trace(options: TiresiasTraceOptions) -> SchedulingInstance:
    """Return the scheduling instance of a Tiresias job list on one of its clusters."""
    cluster = row_of(options.cluster, ClusterRow)
    servers = [
        {**row, "capacity": {"gpu": row["capacity"]["gpu"]}} for row in servers_of(cluster) if row["count"]
    ]
    rows = numbered_rows_of(options.jobs, _TraceJobRow)
    jobs = [
        gpu_row(f"job-{row.job_id}", row.submit_time, row.num_gpu, row.duration, model=row.model_name)
        for row in rows.values()
    ]
    return gpu_trace(
        f"tiresias-{options.jobs.stem}-{options.cluster.stem}",
        f"{options.jobs.name} and {options.cluster.name}, in the layout of {SOURCE}",
        {"servers": servers},
        jobs,
        ("A job runs for its column duration, in seconds; iterations and interval are not used.",),
        Origin(str(options.jobs), tuple(rows), COLUMNS, str(options.cluster)),
    )


MURI_SOURCE = "Rivendile/Muri (commit 4e69a78, Apache-2.0)"
SLOWER = 1.015
"""Factor by which the simulator lengthens every iteration of a job that does not share its GPUs."""

MURI_COLUMNS = {"name": "job_id", "tasks": "num_gpu", "arrival_s": "submit_time", "model": "model_name"}


class MuriOptions(ImportOptions):
    """Traces of Muri's simulator (SIGCOMM'22): a scheduling instance."""

    jobs: Annotated[Path, Option("A trace of the simulator, CSV or CSV.gz.", argument="jobs")]
    cluster: Annotated[Path, Option("Cluster description of the simulator, CSV.")]


class _MuriJobRow(Model):
    job_id: Name
    num_gpu: PositiveTaskCount
    submit_time: NonNegative
    iterations: Positive
    model_name: Name
    iteration_time: Positive


class _MuriClusterRow(Model):
    num_switch: ServerCount
    num_node_p_switch: ServerCount
    num_gpu_p_node: PositiveTaskCount


@Importer
def import_muri(options: MuriOptions) -> SchedulingInstance:
    """Return the scheduling instance of a trace on a cluster."""
    cluster = row_of(options.cluster, _MuriClusterRow)
    servers = {
        "name": "node",
        "count": cluster.num_switch * cluster.num_node_p_switch,
        "capacity": {"gpu": cluster.num_gpu_p_node},
    }
    rows = numbered_rows_of(options.jobs, _MuriJobRow)
    jobs = []
    for row in rows.values():
        step_s = row.iteration_time * SLOWER / 1000
        arrival_s, duration_s = row.submit_time / 1000, row.iterations * step_s
        jobs.append(
            gpu_row(
                f"job-{row.job_id}", arrival_s, row.num_gpu, duration_s, model=row.model_name, step_s=step_s
            )
        )
    return gpu_trace(
        f"muri-{options.jobs.name.split('.')[0]}-{options.cluster.stem}",
        f"{options.jobs.name} and {options.cluster.name}, in the layout of {MURI_SOURCE}",
        {"servers": [servers]},
        jobs,
        (
            f"A job takes iterations × iteration_time × {SLOWER}, as in the simulator; its column duration "
            "is not used.",
            "Overheads of the simulator count only with semantics=muri.",
        ),
        Origin(str(options.jobs), tuple(rows), MURI_COLUMNS, str(options.cluster)),
    )
