"""Muri: the traces and the cluster of its simulator (SIGCOMM'22).

Both files are CSV, plain or packed by gzip. Jobs have a job_id, num_gpu, submit_time in milliseconds,
iterations, model_name and iteration_time in milliseconds; a cluster is one row with num_switch,
num_node_p_switch and num_gpu_p_node. Other columns are not used, `duration` among them: the simulator ignores
it too.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from ...common.fields import Model, Name, NonNegative, Positive, PositiveTaskCount, ServerCount
from ...scheduling.instance import SchedulingInstance
from ..importer import Importer, ImportOptions, Option
from .gpu_trace import Origin, gpu_row, gpu_trace, numbered_rows_of, row_of

SOURCE = "Rivendile/Muri (commit 4e69a78, Apache-2.0)"
SLOWER = 1.015
"""By how much the simulator lengthens every iteration of a job that has its GPUs for itself."""

COLUMNS = {"name": "job_id", "tasks": "num_gpu", "arrival_s": "submit_time", "model": "model_name"}


class MuriOptions(ImportOptions):
    """Traces of Muri's simulator (SIGCOMM'22): a scheduling instance."""

    jobs: Annotated[Path, Option("A trace of the simulator, CSV or CSV.gz.", argument="jobs")]
    cluster: Annotated[Path, Option("Cluster description of the simulator, CSV.")]


class _JobRow(Model):
    job_id: Name
    num_gpu: PositiveTaskCount
    submit_time: NonNegative
    iterations: Positive
    model_name: Name
    iteration_time: Positive


class _ClusterRow(Model):
    num_switch: ServerCount
    num_node_p_switch: ServerCount
    num_gpu_p_node: PositiveTaskCount


@Importer
def import_muri(options: MuriOptions) -> SchedulingInstance:
    """Return the scheduling instance of a trace on a cluster."""
    cluster = row_of(options.cluster, _ClusterRow)
    servers = {
        "name": "node",
        "count": cluster.num_switch * cluster.num_node_p_switch,
        "capacity": {"gpu": cluster.num_gpu_p_node},
    }
    rows = numbered_rows_of(options.jobs, _JobRow)
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
        f"{options.jobs.name} and {options.cluster.name}, in the layout of {SOURCE}",
        {"servers": [servers]},
        jobs,
        (
            f"A job takes iterations × iteration_time × {SLOWER}, as in the simulator; its column duration "
            "is not used.",
            "Overheads of the simulator count only with semantics=muri.",
        ),
        Origin(str(options.jobs), tuple(rows), COLUMNS, str(options.cluster)),
    )
