"""Traces of jobs: the record of a source, the reader of its files, and the instances that are made of them.

A source says in one `TraceSource` what its instances are called, what is assumed of them, and which columns
its jobs have. Its module beside this one has the columns with their types as a model of the rows, and makes
jobs of the rows. A trace becomes a scheduling instance, and the jobs of one moment a consolidation instance.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, TypeVar

from ...common.base import Instance
from ...common.errors import Fault, InstanceError, some
from ...common.faults import validated, validated_rows
from ...common.fields import Model, PositiveCount
from ...files.csv_tables import model_rows
from ...files.reading import fail
from ...scheduling.instance import SchedulingInstance
from ..importer import ImportOptions, Option

ClusterGpus = Annotated[PositiveCount, Option("GPUs of the cluster.")]

AT_ONCE = "A job is one task for each GPU that it asks for, is worth that many, and may be left out."
NO_CPU = "CPU and memory of a task are not in the source and not asked for."
FREE = "A job may be stopped and goes on later without loss: preemption is free."
GANG = (
    "A job is one task for each GPU that it asks for; all of them run at the same time.",
    NO_CPU,
    FREE,
)
"""Assumptions about jobs over time that ask for whole GPUs."""
CHOSEN_POOL = "The cluster is chosen, not the source's: {gpus:,} GPUs in one pool."
SHORTEST_S = 1.0
SHORT = ("short", "{short:,} durations under 1 s count as 1 s.")

InstanceT = TypeVar("InstanceT", bound=Instance)
RowT = TypeVar("RowT", bound=Model)
Fields = dict[str, Any]
"""A part of a document, such as a job, or facts by name."""
Sentences = Sequence[str | tuple[str, str]]
"""Sentences with facts in braces; a pair names the fact on which its second part depends."""

_JOB = re.compile(r"jobs\[(\d+)\]\.?")


@dataclass(frozen=True)
class TraceSource:
    """What the instances of one source are called, what is assumed of them, and where their jobs come from.

    Parameters
    ----------
    name, files
        The name of an instance, and what its files are, with facts in braces: the options, `list`, the name
        of the file of the jobs without endings, and those that are given with an instance.
    sentences
        The assumptions.
    jobs, cluster
        The options with the file of the jobs, or what faults call it, and the file of the cluster if any.
    columns
        Field of a scheduling job → its column in the file, where their names differ.
    """

    name: str
    files: str
    sentences: Sentences
    jobs: str = "jobs"
    cluster: str = ""
    columns: Mapping[str, str] = field(default_factory=dict)

    def instance(
        self,
        kind: type[InstanceT],
        options: ImportOptions,
        facts: Fields,
        also: Iterable[str] = (),
        **fields: Any,
    ) -> InstanceT:
        """Return the instance of a kind with these fields, and with the sentences `also` after the source's.

        Raises
        ------
        InstanceError
            If anything is wrong with them.
        """
        file = getattr(options, self.jobs, self.jobs)
        facts = {**dict(options), "list": Path(file).name.split(".")[0], **facts}
        document = {
            "name": self.name.format_map(facts),
            "source": self.files.format_map(facts),
            "assumptions": [*filled(self.sentences, facts), *also],
            **fields,
        }
        return validated(kind, document, str(file))

    def renamed(self, fault: Fault, options: ImportOptions, places: Mapping[str, str]) -> Fault:
        """Return a fault of a scheduling instance as one of the files, with places and columns of jobs."""
        what = _JOB.sub(lambda match: places.get(match[1], match[0]), fault.what)
        source, path = fault.source, fault.path
        if self.cluster and path.startswith("servers"):
            source = str(getattr(options, self.cluster))
        elif job := _JOB.match(path):
            name, dot, rest = path[job.end() :].partition(".")
            source, path = f"{source}: {places[job[1]]}", f"{self.columns.get(name, name)}{dot}{rest}"
        return Fault(source, path, what)


def filled(sentences: Sentences, facts: Fields) -> list[str]:
    """Return sentences with their facts; one that depends on a fact that is 0, empty or None is left out."""
    pairs = [("", each) if isinstance(each, str) else each for each in sentences]
    return [text.format_map(facts) for fact, text in pairs if not fact or facts[fact]]


def scheduling(
    source: TraceSource,
    options: ImportOptions,
    facts: Fields,
    jobs: Mapping[str, Fields],
    **fields: Any,
) -> SchedulingInstance:
    """Return the scheduling instance of a trace.

    Parameters
    ----------
    jobs
        Place in the file, such as ``line 3`` → job.
    fields
        The resources or servers of the cluster, and what else `TraceSource.instance` takes.

    Raises
    ------
    InstanceError
        If anything is wrong with them; faults name the place and the columns.
    """
    try:
        return source.instance(SchedulingInstance, options, facts, jobs=list(jobs.values()), **fields)
    except InstanceError as error:
        places = {str(number): place for number, place in enumerate(jobs)}
        faults = [source.renamed(fault, options, places) for fault in error.faults]
        raise InstanceError(faults, error.more, error.stopped) from None


def rows_of(path: Path, model: type[RowT]) -> dict[str, RowT]:
    """Return the rows of a CSV file by their place in it, such as ``line 3``.

    Raises
    ------
    InstanceError
        If it is no such table, a row is invalid, or there is none.
    """
    rows = validated_rows(model, model_rows(path, model), str(path))
    return {f"line {number}": row for number, row in rows}


def row_of(path: Path, model: type[RowT]) -> RowT:
    """Return the only row of a CSV file, which describes a cluster.

    Raises
    ------
    InstanceError
        If it is no such table, or has another number of rows.
    """
    return only(list(rows_of(path, model).values()), path)


def only(rows: Sequence[RowT], path: Path) -> RowT:
    """Return the only row of the description of a cluster.

    Raises
    ------
    InstanceError
        If there are more.
    """
    if len(rows) > 1:
        raise fail(str(path), f"has {len(rows)} rows; a cluster is one row")
    return rows[0]


def gpu_row(name: str, arrival_s: float, gpus: int, duration_s: float, **others: Any) -> Fields:
    """Return a scheduling job with one task per GPU, as a document has it."""
    fields = {"name": name, "arrival_s": arrival_s, "tasks": gpus, "duration_s": duration_s}
    return {**fields, "demand": {"gpu": 1}, **others}


def gpu_job(name: str, gpus: int, spread: str, **others: Any) -> Fields:
    """Return a consolidation job with one task per GPU, as a document has it."""
    return {"name": name, "tasks": gpus, "task_demand": {"gpu": 1}, "spread": spread, **others}


def gpu_servers(count: int, gpus: int, gpu_model: str | None = None) -> list[Fields]:
    """Return `count` identical GPU servers as one entry of a document."""
    return [{"name": "server", "count": count, "capacity": {"gpu": gpus}, "gpu_model": gpu_model}]


def named(names: Iterable[str]) -> str:
    """Return the first few distinct names as text, escaped because they come from a file."""
    distinct = [name[:60] if name.isprintable() else repr(name)[:60] for name in dict.fromkeys(names)]
    return some(distinct)
