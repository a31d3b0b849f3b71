"""Tiresias as a trace: the jobs of its simulator, which come one after the other to one of its clusters.

Jobs have a job_id, num_gpu, submit_time and duration in seconds, and a model_name; a cluster is one row, as
in `import_tiresias`. Other columns are not used.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from ...common.fields import Model, Name, NonNegative, PositiveTaskCount
from ...scheduling.instance import SchedulingInstance
from ..importer import Importer, ImportOptions, Option
from ..tiresias import SOURCE, ClusterRow, servers_of
from .gpu_trace import Origin, gpu_row, gpu_trace, numbered_rows_of, row_of

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


class _JobRow(Model):
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
    rows = numbered_rows_of(options.jobs, _JobRow)
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
