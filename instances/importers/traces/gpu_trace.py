"""What importers of traces share: jobs that ask for GPUs for some time, as a scheduling instance."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from ...common.faults import validated, validated_rows
from ...common.fields import Model
from ...files.csv_tables import model_rows
from ...files.reading import fail
from ...scheduling.instance import SchedulingInstance

FREE = "A job may be stopped and goes on later without loss: preemption is free."
ASSUMED = (
    "A job is one task for each GPU that it asks for; all of them run at the same time.",
    "CPU and memory of a task are not in the source and not asked for.",
    FREE,
)

RowT = TypeVar("RowT", bound=Model)


def rows_of(path: Path, model: type[RowT]) -> list[RowT]:
    """Return the rows of a CSV file.

    Raises
    ------
    InstanceError
        If it is no such table, a row is wrong, or there is none.
    """
    rows = [row for _, row in validated_rows(model, model_rows(path, model), str(path))]
    if not rows:
        raise fail(str(path), "has a header but no rows")
    return rows


def row_of(path: Path, model: type[RowT]) -> RowT:
    """Return the only row of a CSV file that describes a cluster.

    Raises
    ------
    InstanceError
        If it is no such table, or has another number of rows.
    """
    rows = rows_of(path, model)
    if len(rows) > 1:
        raise fail(str(path), f"has {len(rows)} rows; a cluster is one row")
    return rows[0]


def gpu_row(name: str, arrival_s: float, gpus: int, duration_s: float, **others: Any) -> dict[str, Any]:
    """Return a job with one task for each GPU."""
    row = {
        "name": name,
        "arrival_s": arrival_s,
        "tasks": gpus,
        "demand": {"gpu": 1},
        "duration_s": duration_s,
    }
    return {**row, **others}


def gpu_trace(
    name: str,
    source: str,
    cluster: Mapping[str, Any],
    jobs: Sequence[dict[str, Any]],
    assumptions: Iterable[str],
    file: str,
    assumed: Sequence[str] = ASSUMED,
) -> SchedulingInstance:
    """Return the instance of jobs on a cluster, which is its resources or its servers.

    Parameters
    ----------
    file
        Where it is said that something is wrong.
    assumed
        What else is assumed; by default what jobs have in common that ask for whole GPUs.

    Raises
    ------
    InstanceError
        If anything is wrong with them.
    """
    document = {
        "name": name,
        "source": source,
        "assumptions": [*assumptions, *assumed],
        **cluster,
        "jobs": jobs,
    }
    return validated(SchedulingInstance, document, file)
