"""Philly: the jobs of a production cluster of Microsoft (ATC'19; as Pollux has them).

For consolidation, these are the jobs that ran at one instant; for scheduling, jobs arrive over time at a
cluster of a chosen size.

The file is CSV with the columns timestamp (when the job started), duration in seconds, num_gpus and
cluster, the job's virtual cluster. Other columns are not used. A job runs from its timestamp on and
before its end.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator

from ...common.errors import InstanceError, some
from ...common.faults import validated_rows
from ...common.fields import (
    Cell,
    Model,
    Name,
    NonNegative,
    PositiveCount,
    PositiveTaskCount,
    ServerCount,
    unfit,
)
from ...consolidation.instance import ConsolidationInstance
from ...files.csv_tables import model_rows
from ...files.reading import fail
from ...scheduling.instance import SchedulingInstance
from ..importer import Importer, ImportOptions, Option
from .trace import (
    AT_ONCE,
    CHOSEN_POOL,
    GANG,
    NO_CPU,
    SHORT,
    SHORTEST_S,
    ClusterGpus,
    TraceSource,
    gpu_job,
    gpu_row,
    gpu_servers,
    rows_of,
    scheduling,
)

MOMENT = TraceSource(
    name="philly-{at:%Y-%m-%dT%H-%M-%S}",
    files="{jobs.name}, in the layout of petuum/adaptdl (branch osdi21-artifact, commit c793c70, Apache-2.0)",
    sentences=(
        "The jobs are the {running} of {total} that run{where} at {at} by the file's clock: "
        "they ask {asked} GPUs, the largest {largest}.",
        "The cluster is chosen, not the source's: {servers} servers of {gpus_per_server} "
        "GPUs, all free. Where the jobs ran is not in the source.",
        ("too_few", "They ask more GPUs than the {too_few} that there are."),
        AT_ONCE,
        NO_CPU,
        "{rule}",
    ),
)
"""The jobs that run at one instant."""
TRACE = replace(
    MOMENT,
    name="philly-{taken}x{gpus}",
    sentences=(
        "The jobs are the {taken:,} that were submitted first, from {begin} on, which is time 0.",
        CHOSEN_POOL,
        SHORT,
        ("max_duration_s", "{cut:,} durations are cut to {max_duration_s:g} s."),
        "A duration is how long the job ran there, whatever it shared; a virtual cluster is a tenant.",
        *GANG,
    ),
    columns={"arrival_s": "timestamp", "tasks": "num_gpus", "duration_s": "duration", "tenant": "cluster"},
)
SPREAD = {
    "one-server": "A job that fits one server must have one, a larger one had better use few servers: an "
    "assumption, as the source does not say how the jobs tolerate being spread.",
    "required": "Every job must be on the fewest servers it could use: an assumption.",
    "preferred": "Every job had better use few servers: an assumption.",
    "free": "Every job may spread freely: an assumption.",
}
"""Option `spread` → the assumption that it is."""

_INSTANT = r"[0-9]{4}-[0-9]{2}-[0-9]{2}([ T][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?)?"
_PLAIN_ROW = re.compile(_INSTANT + r",[0-9]{1,15}(\.[0-9]*)?,[1-9][0-9]{0,5},[ -~]{1,100}")
"""Cells of a row, in the order of its fields, that are valid if the timestamp is a date of the calendar."""


def _as_instant(value: Any) -> Any:
    try:
        if isinstance(value, str) and re.fullmatch(_INSTANT, value):
            return datetime.fromisoformat(value)
    except ValueError:  # such as the 31st of February
        pass
    if isinstance(value, datetime) and value.tzinfo is None:
        return value
    raise unfit("is {given}, which is no date and time; write 2017-11-01 12:00:00", value)


Instant = Annotated[datetime, BeforeValidator(_as_instant)]
PhillyFile = Annotated[Path, Option("philly.csv of the Pollux artifact.", argument="jobs")]


class PhillyOptions(ImportOptions):
    """Jobs that ran at one instant in production (Philly, ATC'19): a consolidation instance."""

    jobs: PhillyFile
    at: Annotated[Instant, Option("The instant, such as '2017-11-01 12:00'.", kind=str)]
    servers: Annotated[ServerCount, Option("Servers of the cluster.")]
    gpus_per_server: Annotated[PositiveCount, Option("GPUs of each server.")] = 8
    spread: Annotated[
        Literal["one-server", "required", "preferred", "free"],
        Option("one-server: a job that fits one must have one, others had better use few."),
    ] = "one-server"
    virtual_cluster: Annotated[Name | None, Option("Only the jobs of this one, such as 6214e9.")] = None


class PhillyTraceOptions(ImportOptions):
    """Jobs of a production cluster by their submission (Philly, ATC'19): a scheduling instance."""

    jobs: PhillyFile
    gpus: ClusterGpus
    first: Annotated[PositiveCount | None, Option("Only so many jobs, by submission.")] = None
    max_duration_s: Annotated[
        float | None, Option("Longer durations are cut to this many seconds.", least=SHORTEST_S)
    ] = None


class _Row(Model):
    timestamp: Instant
    duration: NonNegative
    num_gpus: ServerCount
    cluster: Name


class _TraceRow(_Row):
    num_gpus: PositiveTaskCount


@Importer
def import_philly(options: PhillyOptions) -> ConsolidationInstance:
    """Return the consolidation instance of the jobs that ran at one instant."""
    running, total = _running(options)
    gpus = [row.num_gpus for row in running.values()]
    room = options.servers * options.gpus_per_server
    facts = {
        "running": len(gpus),
        "total": total,
        "where": _where(options, " in"),
        "asked": sum(gpus),
        "largest": max(gpus),
        "too_few": sum(gpus) > room and room,
        "rule": SPREAD[options.spread],
    }
    digits = len(str(total))
    return MOMENT.instance(
        ConsolidationInstance,
        options,
        facts,
        servers=gpu_servers(options.servers, options.gpus_per_server),
        jobs=[
            gpu_job(f"job-{number:0{digits}d} {row.cluster}", row.num_gpus, _spread(row.num_gpus, options))
            for number, row in running.items()
        ],
    )


def _where(options: PhillyOptions, word: str) -> str:
    return "" if options.virtual_cluster is None else f"{word} virtual cluster {options.virtual_cluster}"


def _spread(gpus: int, options: PhillyOptions) -> str:
    if options.spread != "one-server":
        return options.spread
    return "required" if gpus <= options.gpus_per_server else "preferred"


def _running(options: PhillyOptions) -> tuple[dict[int, _Row], int]:
    """Return number in the file (from 1) → job that runs at the instant, and the number of all jobs."""
    table = model_rows(options.jobs, _Row)
    number_of = {line: number for number, (line, _) in enumerate(table, 1)}
    # Few of the many rows run at one instant; only these become objects, which saves a third of the time.
    doubtful = ((line, cells) for line, cells in table if not _surely_absent(cells, options.at))
    running = {
        number_of[line]: row
        for line, row in validated_rows(_Row, doubtful, str(options.jobs))
        if _is_there(options.at, row.timestamp, row.duration)
        and options.virtual_cluster in (None, row.cluster)
    }
    if not running:
        raise _nothing_runs([cells for _, cells in table], options)
    return running, len(table)


def _is_there(instant: datetime, start: datetime, duration: float) -> bool:
    return 0 <= (instant - start).total_seconds() < duration


def _surely_absent(cells: Mapping[str, Cell], instant: datetime) -> bool:
    """Return whether a row is valid and its job does not run at an instant; False if it is in doubt."""
    try:
        row = [cells[name] for name in _Row.model_fields]
        return (
            not _is_there(instant, datetime.fromisoformat(row[0]), float(row[1]))
            and _PLAIN_ROW.fullmatch(",".join(row)) is not None
        )
    except (KeyError, ValueError, TypeError):
        return False


def _nothing_runs(table: list[dict[str, Cell]], options: PhillyOptions) -> InstanceError:
    """Return the error that no job runs at the instant, with the valid range of instants or clusters."""
    clusters = sorted({cells["cluster"] for cells in table})
    if options.virtual_cluster not in (None, *clusters):
        what = f"there is no virtual cluster {options.virtual_cluster!r}; there are: {some(clusters, 20)}"
        return fail("options", what, "virtual_cluster")
    starts = [datetime.fromisoformat(cells["timestamp"]) for cells in table]
    return fail(
        "options",
        f"no job{_where(options, ' of')} runs at {options.at}; the jobs of the file start from "
        f"{min(starts)} to {max(starts)}",
        "at",
    )


@Importer
def import_philly_trace(options: PhillyTraceOptions) -> SchedulingInstance:
    """Return the scheduling instance of the first jobs of the file, by submission."""
    listed = rows_of(options.jobs, _TraceRow).items()
    # Those of one moment stay in the order of the file.
    rows = dict(sorted(listed, key=lambda item: item[1].timestamp)[: options.first])
    longest = float("inf") if options.max_duration_s is None else options.max_duration_s
    begin = next(iter(rows.values())).timestamp
    digits = len(str(len(rows)))
    jobs = {
        place: gpu_row(
            f"job-{number:0{digits}d}",
            (row.timestamp - begin).total_seconds(),
            row.num_gpus,
            min(max(row.duration, SHORTEST_S), longest),
            tenant=row.cluster,
        )
        for number, (place, row) in enumerate(rows.items(), 1)
    }
    facts = {
        "taken": len(rows),
        "begin": begin,
        "short": sum(row.duration < SHORTEST_S for row in rows.values()),
        "cut": sum(row.duration > longest for row in rows.values()),
    }
    return scheduling(TRACE, options, facts, jobs, resources={"gpu": options.gpus})
