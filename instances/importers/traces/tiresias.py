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
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from pydantic import Field

from ...common.errors import refuse_faults, some
from ...common.faults import validated
from ...common.fields import (
    Fields,
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
from ...files.reading import parse_document, read_text
from ...mix.instance import MixInstance
from ...scheduling.instance import SchedulingInstance
from ..importer import Importer, ImportOptions, Option
from ..node_restrictions import counted
from .trace import GANG, NO_CPU, TraceSource, gpu_job, gpu_row, row_of, rows_of, scheduling

FILES = "{jobs.name} and {cluster.name}, in the layout of "
SOURCE = FILES + "SymbioticLab/Tiresias (commit 959f9b0, Apache-2.0)"
COLUMNS = {"name": "job_id", "tasks": "num_gpu", "arrival_s": "submit_time", "model": "model_name"}
AT_ONCE = TraceSource(
    name="tiresias-{jobs.stem}-{cluster.stem}",
    files=SOURCE,
    sentences=(
        "All jobs are present at once; submit times, iterations and durations are not used.",
        "A job is one task for each GPU that it asks for.",
        NO_CPU,
        "A job is worth the GPUs that it asks for, and may be left out.",
        "The memory of a server is read as GiB; a switch is a rack.",
        "Skew is the largest tensor over the sum of the listed tensors; small ones are not listed.",
        "Tensor sizes are from {sizes}the lists in Tiresias's simulator.",
        "A job must be consolidated if its skew is above {threshold}; the source's own threshold is an "
        "option, and any between 0.14 and 0.61 separates its models alike.",
        (
            "unknown",
            "{unknown} jobs may spread freely, as tensor sizes of their model are unknown: {models}.",
        ),
    ),
)
"""The jobs of a list, present at once."""
TRACE = TraceSource(
    name=AT_ONCE.name,
    files=SOURCE,
    sentences=(
        "A job runs for its column duration, in seconds; iterations and interval are not used.",
        *GANG,
    ),
    cluster="cluster",
    columns={**COLUMNS, "duration_s": "duration"},
)
SLOWER = 1.015
"""Factor by which Muri's simulator lengthens every iteration of a job that does not share its GPUs."""
MURI = TraceSource(
    name="muri-{list}-{cluster.stem}",
    files=FILES + "Rivendile/Muri (commit 4e69a78, Apache-2.0)",
    sentences=(
        f"A job takes iterations × iteration_time × {SLOWER}, as in the simulator; its column duration "
        "is not used.",
        "Overheads of the simulator do not count.",
        *GANG,
    ),
    cluster="cluster",
    columns=COLUMNS,
)
SHARED = replace(
    MURI,
    name="muri-{list}-shared",
    sentences=(
        "All jobs are there at once; submit times, iterations, durations and priorities are not used.",
        "The {gpus:,} GPUs of the cluster are one pool; a job takes the GPUs that it asks for, alone or with "
        "others that ask for as many.",
        "resource_time_0 to 2 are milliseconds of an iteration to read and prepare data, on the GPU, and on "
        "the network; the first is of two resources in a row, as in the simulator.",
        "The period of a group is the shortest of all orders; it is longer by the overhead of the simulator, "
        f"as an iteration alone is by the factor {SLOWER}.",
        "Times are those of the first job of a type: of a model, batch size and number of GPUs.",
        (
            "wide",
            "A job counts 1 on however many GPUs, so that jobs on several may all wait; a larger weight of "
            "their types, such as the number of GPUs, makes them count more.",
        ),
    ),
    columns={},
)
OVERHEAD = {jobs: round(factor / SLOWER, 6) for jobs, factor in ((2, 1.33), (3, 1.5), (4, 1.37))}
"""Factors by which Muri's simulator lengthens the period of so many jobs that share GPUs."""

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


class TiresiasTraceOptions(ImportOptions):
    """Jobs of the Tiresias simulator by their submission (NSDI'19): a scheduling instance."""

    jobs: Annotated[Path, Option("Job list of the simulator, CSV.")]
    cluster: Annotated[Path, Option("Cluster description of the simulator, CSV.")]


class TiresiasOptions(TiresiasTraceOptions):
    """Jobs and clusters of the Tiresias simulator (NSDI'19): a consolidation instance."""

    tensor_sizes: Annotated[
        Path | None, Option("JSON: model → tensor sizes; by default those of the simulator.")
    ] = None


class MuriOptions(TiresiasTraceOptions):
    """Traces of Muri's simulator (SIGCOMM'22): a scheduling instance."""

    jobs: Annotated[Path, Option("A trace of the simulator, CSV or CSV.gz.", argument="jobs")]


class MuriMixOptions(MuriOptions):
    """Jobs of Muri's simulator that may share GPUs in groups (SIGCOMM'22): a mix instance."""

    share_up_to: Annotated[PositiveCount, Option("How many jobs share a GPU at most.")] = 4


class _JobRow(Model):
    job_id: Name
    num_gpu: PositiveTaskCount
    model_name: Name


class _TraceRow(_JobRow):
    submit_time: NonNegative
    duration: NonNegative


class _MuriRow(_JobRow):
    submit_time: NonNegative
    iterations: Positive
    iteration_time: Positive


class _ProfileRow(_MuriRow):
    batch_size: PositiveCount
    resource_time_0: NonNegative
    resource_time_1: NonNegative
    resource_time_2: NonNegative


class _MuriClusterRow(Model):
    num_switch: ServerCount
    num_node_p_switch: ServerCount
    num_gpu_p_node: PositiveTaskCount


class _ClusterRow(_MuriClusterRow):
    num_switch: Annotated[PositiveCount, Field(le=10_000)]
    num_cpu_p_node: NonNegative
    mem_p_node: NonNegative


class _Tensors(Model):
    tensors_mb: ManyNamed[Name, Annotated[tuple[Positive, ...], Field(min_length=1), validated_in_batches()]]


@Importer
def import_tiresias(options: TiresiasOptions) -> ConsolidationInstance:
    """Return the consolidation instance of a Tiresias job list on one of its clusters."""
    rows = list(rows_of(options.jobs, _JobRow).values())
    refuse_faults(str(options.jobs), repeated((row.job_id for row in rows), "rows", "job_id"))
    cluster = row_of(options.cluster, _ClusterRow)
    skews = _skews(options.tensor_sizes)
    unknown = [row.model_name for row in rows if row.model_name not in skews]
    given = options.tensor_sizes
    facts = {
        "sizes": f"{given.name} and, for models that it lacks, " if given else "",
        "threshold": SKEW_THRESHOLD,
        "unknown": len(unknown),
        "models": some(dict.fromkeys(unknown)),
    }
    others = {"cpu": cluster.num_cpu_p_node, "memory_gib": cluster.mem_p_node}
    return AT_ONCE.instance(
        ConsolidationInstance,
        options,
        facts,
        objectives=["value", "spread", "servers"],
        skew_threshold=SKEW_THRESHOLD,
        servers=_servers(cluster, others),
        jobs=[
            gpu_job(
                f"job-{row.job_id} {row.model_name}",
                row.num_gpu,
                "from_skew" if row.model_name in skews else "free",
                skew=skews.get(row.model_name),
            )
            for row in rows
        ],
    )


def _skews(path: Path | None) -> dict[str, float]:
    """Return model → its largest tensor over the sum of its tensors; those of a file replace the known."""
    skews = {model: largest / total for model, (largest, total) in TENSORS_MB.items()}
    if path is None:
        return skews
    data = parse_document(read_text(path), str(path), ".json")
    sizes = validated(_Tensors, {"tensors_mb": data}, str(path)).tensors_mb
    return skews | {model: max(listed) / math.fsum(listed) for model, listed in sizes.items()}


def _servers(cluster: _ClusterRow, others: Mapping[str, float]) -> list[Fields]:
    """Return the servers as a document has them: one entry of identical servers for each switch."""
    switches = cluster.num_switch
    return [
        {
            "name": "node" if switches == 1 else f"switch-{switch}-node",
            "count": cluster.num_node_p_switch,
            "capacity": {"gpu": cluster.num_gpu_p_node, **others},
            "rack": f"switch-{switch}",
        }
        for switch in range(switches)
    ]


@Importer
def import_tiresias_trace(options: TiresiasTraceOptions) -> SchedulingInstance:
    """Return the scheduling instance of a Tiresias job list on one of its clusters."""
    servers = _servers(row_of(options.cluster, _ClusterRow), {})
    jobs = {
        place: gpu_row(f"job-{row.job_id}", row.submit_time, row.num_gpu, row.duration, model=row.model_name)
        for place, row in rows_of(options.jobs, _TraceRow).items()
    }
    return scheduling(TRACE, options, {}, jobs, servers=servers)


@Importer
def import_muri_mix(options: MuriMixOptions) -> MixInstance:
    """Return the mix instance of the jobs of a trace, which may share GPUs in groups."""
    cluster = row_of(options.cluster, _MuriClusterRow)
    alike = defaultdict[str, list[_ProfileRow]](list)
    for row in rows_of(options.jobs, _ProfileRow).values():
        alike[f"{row.model_name}, batch {row.batch_size}, {counted(row.num_gpu, 'GPU')}"].append(row)
    gpus = cluster.num_switch * cluster.num_node_p_switch * cluster.num_gpu_p_node
    return SHARED.instance(
        MixInstance,
        options,
        {"gpus": gpus, "wide": any(rows[0].num_gpu > 1 for rows in alike.values())},
        share_up_to=options.share_up_to,
        overhead=OVERHEAD,
        types=[_profile(name, same) for name, same in alike.items()],
        hardware=[{"name": "gpu", "limit": gpus}],
    )


def _profile(name: str, rows: Sequence[_ProfileRow]) -> Fields:
    first = rows[0]
    return {
        "name": name,
        "count": len(rows),
        "names": [f"job-{row.job_id}" for row in rows],
        "devices": first.num_gpu,
        "resource_s": {
            "storage+cpu": first.resource_time_0 / 1000,
            "gpu": first.resource_time_1 / 1000,
            "network": first.resource_time_2 / 1000,
        },
        "step_s": first.iteration_time * SLOWER / 1000,
    }


@Importer
def import_muri(options: MuriOptions) -> SchedulingInstance:
    """Return the scheduling instance of a trace on a cluster."""
    cluster = row_of(options.cluster, _MuriClusterRow)
    servers = {
        "name": "node",
        "count": cluster.num_switch * cluster.num_node_p_switch,
        "capacity": {"gpu": cluster.num_gpu_p_node},
    }
    jobs = {place: _muri_job(row) for place, row in rows_of(options.jobs, _MuriRow).items()}
    return scheduling(MURI, options, {}, jobs, servers=[servers])


def _muri_job(row: _MuriRow) -> Fields:
    step_s = row.iteration_time * SLOWER / 1000
    timed = {"model": row.model_name, "step_s": step_s}
    return gpu_row(f"job-{row.job_id}", row.submit_time / 1000, row.num_gpu, row.iterations * step_s, **timed)
