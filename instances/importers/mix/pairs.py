"""Measured speeds of pairs of jobs that share a GPU: a user's own table, and that of Gavel (OSDI'20).

A table is CSV with the columns a, gpu, a_speed, b and b_speed: the speeds of jobs of the types a and b, in
any unit that is the same for all rows of a type; b is empty where a is alone. Gavel's table of speeds, JSON,
has beside ``null``, a job alone, an entry for each job with which it was measured: the steps/s of both.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from statistics import fmean
from typing import Annotated

from ...common.errors import refuse_faults, some
from ...common.faults import validated
from ...common.fields import Checked, Complaint, Fields, Model, Name, NonNegative, PositiveCount
from ...files.reading import fail
from ...mix.instance import MixInstance
from ..importer import Importer, ImportOptions, Option
from ..traces.gavel import (
    Capacity,
    GavelFiles,
    chosen_jobs,
    model_of,
    named_count,
    read_table,
    refuse_unknown,
)
from ..traces.trace import TraceSource, rows_of

SENTENCES = (
    "Progress is the speed of a job over its speed alone on a {reference}; a weight makes up for types that "
    "gain little from fast GPUs.",
    "Each job takes one GPU or a share of it; at most two jobs share one.",
    ("zero", "{zero} rows with a speed of 0 are left out, as of jobs that cannot run there: {zero_names}."),
)
PAIRS = TraceSource(
    name="{list}",
    files="{pairs.name}",
    sentences=(*SENTENCES, ("others", "{others} rows of types or GPUs that are not asked for are not used.")),
    jobs="pairs",
)
GAVEL = TraceSource(
    name="gavel-{trace.stem}-shared",
    files="{throughputs.name} and {trace.name}, in the layout of "
    "stanford-futuredata/gavel (commit c4fa400, MIT)",
    sentences=(
        ("cut", "Only the first {taken} of the {listed} jobs of the trace are considered."),
        "Speeds of pairs were measured from 2018 to 2020, on the GPUs and with the software of then.",
        "The {single} jobs of the trace that ask for one GPU are there at once; arrival times, steps and "
        "priorities are not used.",
        ("wide", "{wide} jobs that ask for more GPUs are left out."),
        ("absent", "{absent} jobs are left out, as the table has no speed of their model: {absent_names}."),
        *SENTENCES,
        "Types and numbers of GPUs are chosen, not the source's.",
    ),
    jobs="trace",
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
            yield "b_speed", "and b are given both, or none for a job alone"

    @property
    def speeds(self) -> list[tuple[str, float]]:
        """Type and speed of each of its jobs."""
        return [(self.a, self.a_speed), *([(self.b, self.b_speed or 0.0)] if self.b is not None else [])]


class _Both(Model):
    speeds: tuple[NonNegative, NonNegative]


@Importer
def import_pairs(options: PairsOptions) -> MixInstance:
    """Return the mix instance of a table of pairs."""
    reference = options.reference or next(iter(options.gpus), "")
    rows = rows_of(options.pairs, PairRow)
    source = str(options.pairs)
    alone = _alone(rows, reference)
    what = f"has no speed alone on {reference!r}, above 0, in {options.pairs.name}; needed as the reference"
    refuse_faults("options", ((f"jobs.{name}", what) for name in options.jobs if name not in alone))
    idle = set(options.gpus) - {row.gpu for row in rows.values()}
    refuse_faults("options", ((f"gpus.{name}", "is in no row of the table") for name in sorted(idle)))
    used = _used(rows, options.gpus, options.jobs)
    configurations, facts = _configurations(used, alone, source)
    return PAIRS.instance(
        MixInstance,
        options,
        {**facts, "reference": reference, "others": len(rows) - len(used)},
        types=[{"name": name, "count": count} for name, count in options.jobs.items()],
        hardware=_stock(options.gpus),
        configurations=configurations,
    )


@Importer
def import_gavel_mix(options: GavelMixOptions) -> MixInstance:
    """Return the mix instance of the single-GPU jobs of a trace, which may share GPUs in pairs."""
    table = read_table(options.throughputs)
    refuse_unknown({"capacity": options.capacity, "reference": [options.reference]}, table)
    jobs, facts = chosen_jobs(options)
    single = {name: job.model for name, job in jobs.items() if job.gpus == 1}
    asked = set(single.values())
    rows = dict(_rows(table, {*options.capacity, options.reference}, asked, str(options.throughputs)))
    alone = _alone(rows, options.reference)
    names = defaultdict[str, list[str]](list)
    for name, model in single.items():
        if model in alone:
            names[model].append(name)
    if not names:
        raise fail(str(options.trace), f"has no job of one GPU that was measured on {options.reference}")
    used = _used(rows, options.capacity, names)
    configurations, left_out = _configurations(used, alone, str(options.throughputs))
    facts |= {
        **left_out,
        "single": len(single),
        "wide": len(jobs) - len(single),
        **named_count("absent", (model for model in single.values() if model not in names)),
    }
    return GAVEL.instance(
        MixInstance,
        options,
        facts,
        types=[{"name": model, "count": len(each), "names": each} for model, each in names.items()],
        hardware=_stock(options.capacity),
        configurations=configurations,
    )


def _rows(table: Fields, gpus: set[str], models: set[str], source: str) -> Iterator[tuple[str, PairRow]]:
    """Yield place and row of each entry of Gavel's table for these models on one GPU, each pair once."""
    for gpu in sorted(gpus):
        if not isinstance(table[gpu], dict):
            raise fail(source, "is not a mapping of entries such as \"('A3C', 1)\"", gpu)
        for key, entry in table[gpu].items():
            a = model_of(key)
            for other, speeds in entry.items() if a in models and isinstance(entry, dict) else ():
                place, b = f"{gpu}.{key}.{other}", model_of(other)
                row: Fields = {"a": a, "gpu": gpu}
                if other == "null":
                    row |= {"a_speed": speeds}
                elif a and b in models and a <= b:
                    both = validated(_Both, {"speeds": speeds}, f"{source}: {place}").speeds
                    row |= {"a_speed": both[0], "b": b, "b_speed": both[1]}
                else:
                    continue
                yield place, validated(PairRow, row, f"{source}: {place}")


def _alone(rows: Mapping[str, PairRow], reference: str) -> dict[str, float]:
    """Return the speed of each type alone on the GPU of reference, where it is above 0."""
    alone = (row for row in rows.values() if row.b is None and row.gpu == reference)
    return {row.a: row.a_speed for row in alone if row.a_speed > 0}


def _used(rows: Mapping[str, PairRow], gpus: Collection[str], types: Collection[str]) -> dict[str, PairRow]:
    """Return the rows of some GPUs and types of jobs."""
    return {
        place: row
        for place, row in rows.items()
        if row.gpu in gpus and all(name in types for name, _ in row.speeds)
    }


def _configurations(
    rows: Mapping[str, PairRow], alone: Mapping[str, float], source: str
) -> tuple[list[Fields], Fields]:
    """Return the configurations of rows, and facts about those that are left out.

    Raises
    ------
    InstanceError
        If two rows have the same jobs and GPU.
    """
    found: dict[tuple[str, ...], str] = {}
    zero, configurations, complaints = [], list[Fields](), list[Complaint]()
    for place, row in rows.items():
        speeds = defaultdict[str, list[float]](list)
        for name, speed in row.speeds:
            speeds[name].append(speed / alone[name])
        called = f"{' + '.join(name for name, _ in row.speeds)} on {row.gpu}"
        key = (row.gpu, *sorted(name for name, _ in row.speeds))
        if key in found:
            complaints.append((place, f"has {called}, as {found[key]}; give each group once"))
        found[key] = place
        if not all(speed for _, speed in row.speeds):
            zero.append(called)
            continue
        configurations.append(
            {
                "hardware": row.gpu,
                "jobs": Counter(name for name, _ in row.speeds),
                "progress": {name: round(fmean(each), 9) for name, each in speeds.items()},
            }
        )
    refuse_faults(source, complaints)
    return configurations, {"zero": len(zero), "zero_names": some(zero, 3)}


def _stock(gpus: Mapping[str, int]) -> list[Fields]:
    return [{"name": name, "limit": limit} for name, limit in gpus.items()]
