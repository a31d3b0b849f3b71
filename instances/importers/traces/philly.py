"""Philly: the jobs of a production cluster of Microsoft (ATC'19; as Pollux has them).

For consolidation, these are the jobs that ran at one instant; for scheduling, jobs arrive over time at a
cluster of a chosen size.

The file is CSV with the columns timestamp (when the job started), duration in seconds, num_gpus and
cluster, the job's virtual cluster. Other columns are not used. A job runs from its timestamp on and
before its end.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator
from pydantic_core import PydanticCustomError

from ...common.errors import InstanceError, shown, some
from ...common.faults import validated, validated_rows
from ...common.fields import (
    LARGEST,
    NUMBER,
    WHOLE_NUMBER,
    Cell,
    Model,
    Name,
    NonNegative,
    PositiveCount,
    PositiveTaskCount,
    ServerCount,
)
from ...consolidation.instance import ConsolidationInstance
from ...files.csv_tables import model_rows
from ...files.reading import fail
from ...scheduling.instance import SchedulingInstance
from ..importer import Importer, ImportOptions, Option
from .gpu_trace import Origin, gpu_job, gpu_row, gpu_servers, gpu_trace, numbered_rows_of

SOURCE = "petuum/adaptdl (branch osdi21-artifact, commit c793c70, Apache-2.0)"
MAX_GPUS = 1_000_000
LONGEST_PLAIN = 100
"""Length of a cluster's name up to which the fast check accepts it."""

_INSTANT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}([ T][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?)?")


def _as_instant(value: Any) -> Any:
    try:
        if isinstance(value, str) and _INSTANT.fullmatch(value):
            return datetime.fromisoformat(value)
    except ValueError:  # such as the 31st of February
        pass
    if isinstance(value, datetime) and value.tzinfo is None:
        return value
    what = "is {given}, which is no date and time; write 2017-11-01 12:00:00"
    raise PydanticCustomError("instant", what, {"given": shown(value)})


Instant = Annotated[datetime, BeforeValidator(_as_instant)]
Spread = Literal["one-server", "required", "preferred", "free"]


class PhillyOptions(ImportOptions):
    """Jobs that ran at one instant in production (Philly, ATC'19): a consolidation instance."""

    jobs: Annotated[Path, Option("philly.csv of the Pollux artifact.", argument="jobs")]
    at: Annotated[Instant, Option("The instant, such as '2017-11-01 12:00'.", kind=str)]
    servers: Annotated[ServerCount, Option("Servers of the cluster.")]
    gpus_per_server: Annotated[PositiveCount, Option("GPUs of each server.")] = 8
    spread: Annotated[
        Spread,
        Option("one-server: a job that fits one must have one, others had better use few."),
    ] = "one-server"
    virtual_cluster: Annotated[Name | None, Option("Only the jobs of this one, such as 6214e9.")] = None


class _Row(Model):
    timestamp: Instant
    duration: NonNegative
    num_gpus: ServerCount
    cluster: Name

    def runs_at(self, instant: datetime) -> bool:
        return 0 <= (instant - self.timestamp).total_seconds() < self.duration


@Importer
def import_philly(options: PhillyOptions) -> ConsolidationInstance:
    """Return the consolidation instance of the jobs that ran at one instant."""
    running, total = _running(options)
    digits = len(str(total))
    document = {
        "name": f"philly-{options.at:%Y-%m-%dT%H-%M-%S}",
        "source": f"{options.jobs.name}, in the layout of {SOURCE}",
        "assumptions": list(_assumptions(running, total, options)),
        "servers": gpu_servers(options.servers, options.gpus_per_server),
        "jobs": [
            gpu_job(f"job-{number:0{digits}d} {row.cluster}", row.num_gpus, _spread(row.num_gpus, options))
            for number, row in running.items()
        ],
    }
    return validated(ConsolidationInstance, document, str(options.jobs))


def _spread(gpus: int, options: PhillyOptions) -> str:
    if options.spread != "one-server":
        return options.spread
    return "required" if gpus <= options.gpus_per_server else "preferred"


def _running(options: PhillyOptions) -> tuple[dict[int, _Row], int]:
    """Return number in the file (from 1) → job that runs at the instant, and the number of all jobs."""
    table = model_rows(options.jobs, _Row)
    number_of = {line: number for number, (line, _) in enumerate(table, 1)}
    # Few of the many rows run at one instant; only these become objects.
    doubtful = ((line, cells) for line, cells in table if not _surely_does_not_run(cells, options.at))
    running = {
        number_of[line]: row
        for line, row in validated_rows(_Row, doubtful, str(options.jobs))
        if row.runs_at(options.at) and options.virtual_cluster in (None, row.cluster)
    }
    if not running:
        raise _nothing_runs([cells for _, cells in table], options)
    return running, len(table)


def _surely_does_not_run(cells: Mapping[str, Cell], instant: datetime) -> bool:
    """Return whether a valid row does not run at an instant; False if it is in doubt.

    Most rows are excluded here, without an object for each.
    """
    try:
        started, duration = datetime.fromisoformat(cells["timestamp"]), float(cells["duration"])
        seconds = (instant - started).total_seconds()
        return (
            not 0 <= seconds < duration
            and 0 <= duration <= LARGEST
            and 1 <= int(cells["num_gpus"]) <= MAX_GPUS
            and len(cells["cluster"]) <= LONGEST_PLAIN
            and cells["cluster"].isprintable()
            and _INSTANT.fullmatch(cells["timestamp"]) is not None
            and NUMBER.fullmatch(cells["duration"]) is not None
            and WHOLE_NUMBER.fullmatch(cells["num_gpus"]) is not None
        )
    except (KeyError, ValueError, TypeError):
        return False


def _nothing_runs(table: list[dict[str, Cell]], options: PhillyOptions) -> InstanceError:
    """Return the error that no job runs at the instant, with the valid range of instants or clusters."""
    clusters = sorted({str(cells["cluster"]) for cells in table})
    if options.virtual_cluster is not None and options.virtual_cluster not in clusters:
        what = f"there is no virtual cluster {options.virtual_cluster!r}; there are: {some(clusters, 20)}"
        return fail("options", what, "virtual_cluster")
    starts = [datetime.fromisoformat(cells["timestamp"]) for cells in table]
    where = f" of virtual cluster {options.virtual_cluster}" if options.virtual_cluster is not None else ""
    what = (
        f"no job{where} runs at {options.at}; the jobs of the file start from {min(starts)} to {max(starts)}"
    )
    return fail("options", what, "at")


def _assumptions(running: Mapping[int, _Row], total: int, options: PhillyOptions) -> Iterable[str]:
    asked = sum(row.num_gpus for row in running.values())
    largest = max(row.num_gpus for row in running.values())
    where = "" if options.virtual_cluster is None else f" in virtual cluster {options.virtual_cluster}"
    yield (
        f"The jobs are the {len(running)} of {total} that run{where} at {options.at} by the file's clock: "
        f"they ask {asked} GPUs, the largest {largest}."
    )
    yield (
        f"The cluster is chosen, not the source's: {options.servers} servers of {options.gpus_per_server} "
        "GPUs, all free. Where the jobs ran is not in the source."
    )
    if asked > options.servers * options.gpus_per_server:
        yield f"They ask more GPUs than the {options.servers * options.gpus_per_server} that there are."
    yield "A job is one task for each GPU that it asks for, is worth that many, and may be left out."
    yield "CPU and memory of a task are not in the source and not asked for."
    yield {
        "one-server": (
            "A job that fits one server must have one, a larger one had better use few servers: an "
            "assumption, as the source does not say how the jobs tolerate being spread."
        ),
        "required": "Every job must be on the fewest servers it could use: an assumption.",
        "preferred": "Every job had better use few servers: an assumption.",
        "free": "Every job may spread freely: an assumption.",
    }[options.spread]


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


class _TraceRow(Model):
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
        _trace_assumptions(rows, begin, options),
        Origin(str(options.jobs), [place for place, _ in placed], COLUMNS),
    )


def _rows(options: PhillyTraceOptions) -> list[tuple[str, _TraceRow]]:
    """Return (place in the file, job), sorted by submission, ties in the order of the file.

    Raises
    ------
    InstanceError
        If a row is wrong, or there is none.
    """
    placed = numbered_rows_of(options.jobs, _TraceRow).items()
    return sorted(placed, key=lambda item: item[1].timestamp)[: options.first]


def _trace_assumptions(rows: list[_TraceRow], begin: datetime, options: PhillyTraceOptions) -> Iterable[str]:
    yield f"The jobs are the {len(rows):,} that were submitted first, from {begin} on, which is time 0."
    yield f"The cluster is chosen, not the source's: {options.gpus:,} GPUs in one pool."
    short = sum(row.duration < SHORTEST_S for row in rows)
    if short:
        yield f"{short:,} durations under 1 s count as 1 s."
    if options.max_duration_s is not None:
        cut = sum(row.duration > options.max_duration_s for row in rows)
        yield f"{cut:,} durations are cut to {options.max_duration_s:g} s."
    yield "A duration is how long the job ran there, whatever it shared; a virtual cluster is a tenant."
