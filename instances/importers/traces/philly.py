"""Philly as a trace: jobs that come one after the other to a cluster of a chosen size."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Annotated

from ...common.fields import Model, Name, NonNegative, PositiveCount, PositiveTaskCount
from ...scheduling.instance import SchedulingInstance
from ..importer import Importer, ImportOptions, Option
from ..philly import SOURCE, Instant
from .gpu_trace import Origin, gpu_row, gpu_trace, numbered_rows_of

SHORTEST_S = 1.0
COLUMNS = {"arrival_s": "timestamp", "tasks": "num_gpus", "duration_s": "duration", "tenant": "cluster"}


class PhillyTraceOptions(ImportOptions):
    """Jobs of a production cluster by their submission (Philly, ATC'19): a scheduling instance."""

    jobs: Annotated[Path, Option("philly.csv of the Pollux artifact.", argument="jobs")]
    gpus: Annotated[PositiveCount, Option("GPUs of the cluster.")]
    first: Annotated[PositiveCount | None, Option("Only so many jobs, by submission.")] = None
    max_duration_s: Annotated[
        float | None, Option("Longer durations are cut to this many seconds.", least=SHORTEST_S)
    ] = None


class _Row(Model):
    timestamp: Instant
    duration: NonNegative
    num_gpus: PositiveTaskCount
    cluster: Name


@Importer
def import_philly_trace(options: PhillyTraceOptions) -> SchedulingInstance:
    """Return the scheduling instance of the first jobs of the file, by submission."""
    placed = _rows(options)
    rows = [row for _, row in placed]
    longest = float("inf") if options.max_duration_s is None else options.max_duration_s
    begin = rows[0].timestamp
    digits = len(str(len(rows)))
    jobs = [
        gpu_row(
            f"job-{number:0{digits}d}",
            (row.timestamp - begin).total_seconds(),
            row.num_gpus,
            min(max(row.duration, SHORTEST_S), longest),
            tenant=row.cluster,
        )
        for number, row in enumerate(rows, 1)
    ]
    return gpu_trace(
        f"philly-{len(rows)}x{options.gpus}",
        f"{options.jobs.name}, in the layout of {SOURCE}",
        {"resources": {"gpu": options.gpus}},
        jobs,
        _assumptions(rows, begin, options),
        Origin(str(options.jobs), [place for place, _ in placed], COLUMNS),
    )


def _rows(options: PhillyTraceOptions) -> list[tuple[str, _Row]]:
    """Return the jobs by submission, those of one moment in the order of the file, each with its place.

    Raises
    ------
    InstanceError
        If a row is wrong, or there is none.
    """
    placed = numbered_rows_of(options.jobs, _Row).items()
    return sorted(placed, key=lambda item: item[1].timestamp)[: options.first]


def _assumptions(rows: list[_Row], begin: datetime, options: PhillyTraceOptions) -> Iterable[str]:
    yield f"The jobs are the {len(rows):,} that were submitted first, from {begin} on, which is time 0."
    yield f"The cluster is chosen, not the source's: {options.gpus:,} GPUs in one pool."
    short = sum(row.duration < SHORTEST_S for row in rows)
    if short:
        yield f"{short:,} durations under 1 s count as 1 s."
    if options.max_duration_s is not None:
        cut = sum(row.duration > options.max_duration_s for row in rows)
        yield f"{cut:,} durations are cut to {options.max_duration_s:g} s."
    yield "A duration is how long the job ran there, whatever it shared; a virtual cluster is a tenant."
