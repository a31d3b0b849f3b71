"""Measured speeds of pairs of jobs that share a GPU: a user's own table, and that of Gavel (OSDI'20).

A table is CSV with the columns a, gpu, a_speed, b and b_speed: the speeds of jobs of the types a and b, in
any unit that is the same for all rows of a type; b is empty where a is alone. Gavel's table of speeds, JSON,
has beside ``null``, a job alone, an entry for each job with which it was measured: the steps/s of both.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from ...common.errors import refuse_faults
from ...common.faults import validated
from ...common.fields import Checked, Complaint, Fields, Name, NonNegative, PositiveCount, unknown_names
from ...files.reading import fail
from ...mix.instance import MixInstance
from ..importer import Importer, ImportOptions, Option
from ..traces.gavel import (
    ALLOCATION,
    FIRST,
    Capacity,
    GavelFiles,
    chosen_jobs,
    gpu_types,
    named_count,
    read_table,
)
from ..traces.trace import TraceSource, rows_of

SENTENCES = (
    "Progress is the speed of a job over its speed alone on {reference}; a weight makes up for types that "
    "gain little from fast GPUs.",
    "Each job takes one GPU or a share of it; at most two jobs share one.",
    ("zero", "Rows left out for a speed of 0, as of jobs that cannot run there: {zero}."),
    ("others", "Rows not used, of types or GPUs that are not asked for: {others}."),
)
SINGLE = re.compile(r"\('([^']+)', 1\)")
"""An entry of Gavel's table for jobs of one GPU."""
PAIRS = TraceSource(name="{list}", files="{pairs.name}", sentences=SENTENCES, jobs="pairs")
GAVEL = replace(
    ALLOCATION,
    name="gavel-{trace.stem}-shared",
    sentences=(
        FIRST,
        "Speeds of pairs were measured from 2018 to 2020, on the GPUs and with the software of then.",
        "Jobs of the trace that ask for one GPU, all there at once: {single}. Arrival times, steps and "
        "priorities are not used. The stock of GPUs is chosen.",
        ("wide", "Jobs left out, as they ask for more GPUs: {wide}."),
        ("absent", "Jobs left out, as the table has no speed of their model: {absent} ({absent_names})."),
        *SENTENCES,
    ),
)


class PairsOptions(ImportOptions):
    """Your own measured speeds of jobs that share GPUs in pairs: a mix instance."""

    pairs: Annotated[Path, Option("CSV with the columns a, gpu, a_speed, b, b_speed.", argument="pairs")]
    jobs: Annotated[dict[Name, PositiveCount], Option("Jobs of each type, such as bert=3,resnet=2.")]
    gpus: Annotated[dict[Name, PositiveCount], Option("GPUs of each model, such as a100=8,v100=16.")]
    reference: Annotated[
        Name | None, Option("GPU on which a job alone has progress 1. [default: the first of --gpus]")
    ] = None


class GavelMixOptions(GavelFiles):
    """Jobs with measured speeds in pairs on three GPU types (Gavel, OSDI'20): a mix instance."""

    ORDER = ("throughputs", "trace", "capacity")

    capacity: Capacity
    reference: Annotated[Name, Option("GPU on which a job alone has progress 1.")] = "v100"


class PairRow(Checked):
    """The speeds of two jobs that share a GPU, or of one alone."""

    a: Name
    gpu: Name
    a_speed: NonNegative
    b: Name | None = None
    b_speed: NonNegative | None = None

    def _complaints(self) -> Iterator[Complaint]:
        if (self.b is None) != (self.b_speed is None):
            what = "is missing; give b and b_speed both, or neither for a job alone"
            yield "b" if self.b is None else "b_speed", what

    @property
    def speeds(self) -> list[tuple[str, float]]:
        """Type and speed of each of its jobs."""
        return [(self.a, self.a_speed), *([(self.b, self.b_speed or 0.0)] if self.b is not None else [])]


@Importer
def import_pairs(options: PairsOptions) -> MixInstance:
    """Return the mix instance of a table of pairs."""
    reference = options.reference or next(iter(options.gpus), "")
    rows = rows_of(options.pairs, PairRow)
    alone = _alone(rows, reference, options.gpus)
    known = sorted({name for row in rows.values() for name, _ in row.speeds})
    refuse_faults("options", unknown_names(options.jobs, known, "jobs", "type"))
    what = f"has no row alone on {reference!r}, the reference, with a speed above 0"
    refuse_faults("options", ((f"jobs.{name}", what) for name in options.jobs if name not in alone))
    types: list[Fields] = [{"name": name, "count": count} for name, count in options.jobs.items()]
    return _shared(PAIRS, options, {"reference": reference}, types, rows, alone, options.gpus)


@Importer
def import_gavel_mix(options: GavelMixOptions) -> MixInstance:
    """Return the mix instance of the single-GPU jobs of a trace, which may share GPUs in pairs."""
    rows = dict(_rows(read_table(options.throughputs), str(options.throughputs)))
    alone = _alone(rows, options.reference, options.capacity)
    jobs, facts = chosen_jobs(options)
    single = {name: job.model for name, job in jobs.items() if job.gpus == 1}
    names = {model: [name for name, own in single.items() if own == model] for model in alone}
    types: list[Fields] = [
        {"name": model, "count": len(each), "names": each} for model, each in names.items() if each
    ]
    if not types:
        what = f"has no job of one GPU that was measured alone on {options.reference!r}"
        raise fail(str(options.trace), what)
    facts |= {"single": len(single), "wide": len(jobs) - len(single)}
    facts |= named_count("absent", (model for model in single.values() if model not in alone))
    return _shared(GAVEL, options, facts, types, rows, alone, options.capacity)


def _rows(table: Fields, source: str) -> Iterator[tuple[str, PairRow]]:
    """Yield place and row of each entry of Gavel's table for jobs of one GPU, each pair once."""
    for gpu in gpu_types(table):
        for key, entry in table[gpu].items() if isinstance(table[gpu], dict) else ():
            a = SINGLE.fullmatch(key)
            for other, speeds in entry.items() if a and isinstance(entry, dict) else ():
                b = SINGLE.fullmatch(other)
                if a and (other == "null" or (b and a[1] <= b[1])):
                    listed = speeds if isinstance(speeds, list) else [speeds]
                    named = dict(zip(("a_speed", "b_speed"), listed, strict=False))
                    place = f"{gpu}.{key}.{other}"
                    fields = {"a": a[1], "gpu": gpu, "b": b and b[1], **named}
                    yield place, validated(PairRow, fields, f"{source}: {place}")


def _alone(rows: Mapping[str, PairRow], reference: str, gpus: Iterable[str]) -> dict[str, float]:
    """Return the speed of each type alone on the GPU of reference, where it is above 0.

    Raises
    ------
    InstanceError
        If that GPU, or another of the cluster, has no row.
    """
    known, asked = sorted({row.gpu for row in rows.values()}), dict.fromkeys((*gpus, reference))
    refuse_faults("options", unknown_names(asked, known, "GPUs", "GPU"))
    alone = (row for row in rows.values() if row.b is None and row.gpu == reference)
    return {row.a: row.a_speed for row in alone if row.a_speed > 0}


def _shared(
    source: TraceSource,
    options: ImportOptions,
    facts: Fields,
    types: list[Fields],
    rows: Mapping[str, PairRow],
    alone: Mapping[str, float],
    gpus: Mapping[str, int],
) -> MixInstance:
    """Return the instance of types of jobs and GPUs, with a configuration for each row that has only them.

    Raises
    ------
    InstanceError
        If two rows have the same jobs and GPU.
    """
    names, zero = {one["name"] for one in types}, 0
    configurations = dict[tuple[str, ...], Fields]()
    for place, row in rows.items():
        jobs = Counter(name for name, _ in row.speeds)
        if row.gpu not in gpus or not names.issuperset(jobs):
            continue
        if not all(speed for _, speed in row.speeds):
            zero += 1
            continue
        key = (row.gpu, *sorted(jobs.elements()))
        if key in configurations:
            what = f"has {' + '.join(key[1:])} on {row.gpu} again; give each group once"
            raise fail(f"{getattr(options, source.jobs)}: {place}", what)
        progress = dict.fromkeys(jobs, 0.0)
        for name, speed in row.speeds:  # of two jobs of one type their mean
            progress[name] += speed / alone[name] / jobs[name]
        configurations[key] = {"hardware": row.gpu, "jobs": jobs, "progress": progress}
    return source.instance(
        MixInstance,
        options,
        {**facts, "zero": zero, "others": len(rows) - zero - len(configurations)},
        types=types,
        hardware=[{"name": name, "limit": limit} for name, limit in gpus.items()],
        configurations=list(configurations.values()),
    )
