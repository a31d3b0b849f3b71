"""Registration of allocation instances: their data model, their tables in files, and a tiny example."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..common.base import Instance
from ..common.errors import OptionError
from ..common.kind import InstanceKind, Tables
from ..files.columns import Columns
from ..files.tables import MANY_ROWS, NO_COLUMN, can_be_columns
from ..references import Folder
from .generate import generate_allocation
from .instance import AllocationInstance
from .job import with_fits, with_throughput
from .job_columns import read_allocation
from .job_table import write_jobs


def _resolved(data: dict[str, Any], source: str, folder: Folder) -> Instance | dict[str, Any]:
    """Return the instance if its jobs are a large table; else the document with measurements fitted."""
    jobs = data.get("jobs")
    if isinstance(jobs, Columns) and "samples_per_s" in jobs.names and "name" not in jobs.names:
        data["jobs"] = jobs.rows()
    elif isinstance(jobs, Columns):
        instance = read_allocation(jobs, data, source)
        if instance is not None:
            return instance
        data["jobs"] = jobs.rows()
    return with_fits(with_throughput(data, source), source, folder)


def _wants_table(instance: AllocationInstance) -> bool:
    return len(instance.jobs) >= MANY_ROWS and can_be_columns(instance.resources)


def _write_table(instance: AllocationInstance, path: Path, ending: str) -> dict[str, str]:
    reference = f"{path.stem}-jobs.{ending}"
    file = path.with_name(reference)
    if not can_be_columns(instance.resources):
        raise OptionError(f"{file}: {NO_COLUMN}")
    write_jobs(instance.table(), file)
    return {"jobs": reference}


ALLOCATION = InstanceKind(
    model=AllocationInstance,
    lists=("jobs",),
    tiny=lambda: generate_allocation(2, 2, tightness=0.9, seed=1),
    resolved=_resolved,
    tables=Tables(_wants_table, _write_table),
)
