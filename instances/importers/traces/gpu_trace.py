"""What importers of traces share: jobs that ask for GPUs for some time, as a scheduling instance."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from ...common.errors import Fault, InstanceError
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
_JOB = re.compile(r"jobs\[(\d+)\]\.?")


@dataclass(frozen=True)
class Origin:
    """Where a trace comes from, so that a fault names the file and the place in it.

    Parameters
    ----------
    file
        The file of the jobs.
    places
        Where each job stands in it, such as ``line 3``, in the order of the jobs.
    columns
        What the file calls a field of a job, where that is another name.
    cluster
        The file of the cluster, where there is one.
    """

    file: str
    places: Sequence[str] = ()
    columns: Mapping[str, str] = field(default_factory=dict)
    cluster: str = ""

    def renamed(self, error: InstanceError) -> InstanceError:
        """Return an error about the instance as one about the files that it was made of."""
        return InstanceError([self._renamed(fault) for fault in error.faults], error.more, error.stopped)

    def _renamed(self, fault: Fault) -> Fault:
        what = _JOB.sub(lambda found: self._place(found) or found[0], fault.what)
        if self.cluster and fault.path.startswith("servers"):
            return Fault(self.cluster, fault.path, what)
        job = _JOB.match(fault.path)
        place = job and self._place(job)
        if job is None or not place:
            return Fault(self.file, fault.path, what)
        name, dot, rest = fault.path[job.end() :].partition(".")
        return Fault(f"{self.file}: {place}", f"{self.columns.get(name, name)}{dot}{rest}", what)

    def _place(self, job: re.Match[str]) -> str:
        index = int(job[1])
        return self.places[index] if index < len(self.places) else ""


def rows_of(path: Path, model: type[RowT]) -> list[RowT]:
    """Return the rows of a CSV file, as `numbered_rows_of` does."""
    return list(numbered_rows_of(path, model).values())


def numbered_rows_of(path: Path, model: type[RowT]) -> dict[str, RowT]:
    """Return the rows of a CSV file by their place in it, such as ``line 3``.

    Raises
    ------
    InstanceError
        If it is no such table, a row is wrong, or there is none.
    """
    numbered = validated_rows(model, model_rows(path, model), str(path))
    rows = {f"line {number}": row for number, row in numbered}
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
    origin: Origin,
    assumed: Sequence[str] = ASSUMED,
) -> SchedulingInstance:
    """Return the instance of jobs on a cluster, which is its resources or its servers.

    Parameters
    ----------
    origin
        Where faults are said to be.
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
    try:
        return validated(SchedulingInstance, document, origin.file)
    except InstanceError as error:
        raise origin.renamed(error) from None
