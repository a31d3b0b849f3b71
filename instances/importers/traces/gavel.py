"""Gavel (OSDI'20): its table of measured speeds, and traces of jobs.

For allocation, jobs have measured speeds on GPUs of several types. For consolidation, jobs have the measured
slowdown of being spread over servers. For scheduling, they arrive over time, and run on GPUs of one type
with measured speeds.

The speed table is JSON: GPU type → ``('Model (batch size B)', GPUs)`` → ``null`` → steps per second of
the job alone; a type with ``_unconsolidated`` behind its name has the speeds of jobs spread over servers.
A trace has one job a line, with tabs between ten columns (type, command, folder, step flag, needs data,
total steps, GPUs, priority, service-level objective, arrival) or seven (type, command, step flag, needs
data, total steps, arrival, GPUs).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Annotated

from ...allocation.instance import AllocationInstance
from ...common.errors import Faults, InstanceError, refuse_faults, shortened
from ...common.faults import validated
from ...common.fields import (
    Cell,
    Fields,
    Model,
    Name,
    NonNegative,
    Number,
    Part,
    Positive,
    PositiveCount,
    ServerCount,
    unknown_names,
)
from ...consolidation.instance import ConsolidationInstance
from ...files.reading import MAX_SMALL_ROWS, fail, read_mapping, read_text
from ...scheduling.instance import SchedulingInstance
from ..importer import Importer, ImportOptions, Option
from .trace import (
    AT_ONCE,
    GANG,
    NO_CPU,
    ClusterGpus,
    TraceSource,
    gpu_job,
    gpu_row,
    gpu_servers,
    named,
    scheduling,
)

FIRST = ("cut", "Only the first {taken} of the {listed} jobs of the trace are considered.")
ZEROS = ("zero", "{zero} measured speeds are 0 and left out as missing: {zero_names}.")
BY_SPREAD = (
    "A job on one server has the speed measured consolidated, on two or more servers the one measured "
    "unconsolidated, however many they are: the source does not say over how many it spread a job."
)
ALLOCATION = TraceSource(
    name="gavel-{trace.stem}",
    files="{throughputs.name} and {trace.name}, in the layout of "
    "stanford-futuredata/gavel (commit c4fa400, MIT)",
    sentences=(
        "All jobs are present at once with all their steps still to be made; arrival times are not used.",
        "A step is the same work at every number of GPUs, as the source's steps per second grow with it.",
        (
            "pooled",
            "Speeds are those of a job alone on its GPUs, all of one type and as close together as they can "
            "be.",
        ),
        ("gpus_per_server", "The cluster is chosen: servers of {gpus_per_server} GPUs, all of one type."),
        ("gpus_per_server", BY_SPREAD),
        "A worker takes one GPU; CPU and memory of the jobs are not in the source and not asked for.",
        "The trace asks {asked} GPUs for the {jobs} jobs taken; here the plan decides, and every "
        "number of GPUs that the speed table has for a job's model is offered.",
        (
            "missing",
            "{missing} of these jobs ask a number of GPUs that the speed table lacks for their model; they "
            "stay in with the numbers it has.",
        ),
        (
            "absent",
            "{absent} jobs are left out, because the speed table lacks their model: {absent_names}.",
        ),
        ZEROS,
        FIRST,
        ("ranked", "A job's weight is its priority in the trace."),
        ("unranked", "{unranked} jobs have no priority in the trace; their weight is 1."),
        ("unusable", "{unusable} jobs have a priority that is not positive; their weight is 1."),
        (
            "deadlines",
            "{deadlines} jobs have a service-level objective in the trace; it is not used.",
        ),
    ),
    jobs="trace",
)
"""Jobs that are present at once and choose their GPUs."""
AT_HAND = replace(
    ALLOCATION,
    name="gavel-{trace.stem}-{gpu_type}",
    sentences=(
        FIRST,
        "All jobs are present at once; arrival times and steps are not used.",
        "The cluster is chosen, not the source's: {servers} servers of {gpus_per_server} "
        "{gpu_type} GPUs, all free. The {taken} jobs ask {asked} of the {room} GPUs.",
        AT_ONCE,
        NO_CPU,
        ("ranked", "Priorities of the trace are not used."),
        BY_SPREAD,
        (
            "large",
            "{large} jobs ask more GPUs than a server has, so none of them reaches its full speed.",
        ),
        ("faster", "{faster} jobs were measured faster when spread; their slowdown is negative."),
        (
            "unknown",
            "{unknown} jobs stay in without measured speeds of their model on as many GPUs, and lose "
            "nothing by being spread: {unknown_names}.",
        ),
        ZEROS,
    ),
)
"""Jobs that are present at once on servers with one type of GPU."""
TRACE = replace(
    ALLOCATION,
    name="gavel-{trace.stem}-{gpus}x{gpu_type}",
    sentences=(
        "The cluster is chosen, not the source's: {gpus:,} GPUs of type {gpu_type}.",
        "A job takes its total steps over the steps per second measured on {gpu_type} with the GPUs "
        "that it asks for, alone and as close together as they can be.",
        "A job's weight is its priority in the trace where that is positive, else 1.",
        FIRST,
        (
            "absent",
            "{absent} jobs are left out, because the speed table lacks their model with as many GPUs as "
            "they ask for: {absent_names}.",
        ),
        ("early", "{early} jobs arrive before time 0 in the trace; here they arrive at 0."),
        *GANG,
    ),
    columns={"tasks": "GPUs", "arrival_s": "arrival", "weight": "priority"},
)

COLUMNS = {
    10: {"model": 0, "steps": 5, "gpus": 6, "priority": 7, "slo": 8, "arrival_s": 9},
    7: {"model": 0, "steps": 4, "arrival_s": 5, "gpus": 6},
}
"""Number of columns of a trace → index of each column that is read."""

UNCONSOLIDATED = "_unconsolidated"
_KEY = re.compile(r"\('([^']+)', ([1-9][0-9]{0,8})\)")
MAX_TABS = 1000

Size = Annotated[
    PositiveCount | None,
    Option("GPUs of each server. [default: with --kind allocation pools without servers]"),
]
Capacity = Annotated[dict[Name, PositiveCount], Option("GPUs of each type, such as v100=64,p100=64,k80=64.")]
GpuType = Annotated[Name, Option("Consolidation: GPUs of the servers, as v100.")]


class GavelFiles(ImportOptions):
    """The files, and how much of the trace is read."""

    throughputs: Annotated[Path, Option("simulation_throughputs.json")]
    trace: Annotated[Path, Option("A .trace file.")]
    first: Annotated[PositiveCount | None, Option("Only the first N jobs of the trace.")] = None


class GavelOptions(GavelFiles):
    """Jobs with measured speeds on three GPU types (Gavel, OSDI'20): an allocation instance."""

    ORDER = ("throughputs", "trace", "capacity")

    capacity: Capacity
    gpus_per_server: Size = None


class GavelConsolidationOptions(GavelFiles):
    """Jobs with measured speeds on one GPU type (Gavel, OSDI'20): a consolidation instance."""

    ORDER = ("throughputs", "trace", "gpu_type", "servers", "gpus_per_server")

    gpu_type: GpuType
    servers: Annotated[ServerCount, Option("Consolidation: how many servers.")]
    gpus_per_server: Annotated[PositiveCount, Option("Consolidation: GPUs of each server.")]


class GavelTraceOptions(GavelFiles):
    """Jobs with measured speeds on one GPU type, by their arrival (Gavel, OSDI'20): a scheduling instance."""

    ORDER = ("throughputs", "trace", "gpu_type", "gpus")

    gpu_type: GpuType
    gpus: ClusterGpus


Speeds = dict[str, dict[int, float]]
"""Model → GPUs → steps per second, on one GPU type."""


class _Measured(Part):
    null: NonNegative


class TraceJob(Model):
    """One line of a trace, which is the `line`-th of its file."""

    model: str
    steps: Positive
    gpus: PositiveCount
    arrival_s: Number
    priority: Number | None = None
    slo: Number | None = None
    line: int = 0

    @property
    def weight(self) -> float:
        """The weight of the job in the objective: its priority if positive, else 1."""
        return self.priority if self.priority is not None and self.priority > 0 else 1.0

    def measured(self, speeds: Speeds) -> float | None:
        """Return the steps per second of the job on one type of GPU; None if they are unknown."""
        return speeds.get(self.model, {}).get(self.gpus)


def read_table(path: Path) -> Fields:
    """Return the table of measured speeds (steps per second) as plain data, by GPU type.

    Raises
    ------
    InstanceError
        If the file is no mapping.
    """
    return read_mapping(path, "is not a mapping of GPU types; Gavel's simulation_throughputs.json is needed")


def gpu_types(table: Iterable[str]) -> list[str]:
    """Return the GPU types of a speed table, without the unconsolidated variants."""
    return [name for name in table if not name.endswith(UNCONSOLIDATED)]


def speeds_of(table: Fields, name: str, source: str) -> tuple[Speeds, list[str]]:
    """Return the speeds on one GPU type by model and GPUs, and the entries ignored because they are 0.

    Raises
    ------
    InstanceError
        If an entry is wrong; one fault each.
    """
    entries = table[name]
    if not isinstance(entries, dict):
        raise fail(source, "is not a mapping of entries such as \"('A3C', 1)\"", name)
    faults, zeros = Faults(), []
    speeds: Speeds = defaultdict(dict)
    for key, entry in entries.items():
        match, place = _KEY.fullmatch(key), f"{name}.{shortened(key)}"
        try:
            if not match:
                raise fail(source, "is not a key of the form ('Model (batch size 64)', 2)", place)
            if not isinstance(entry, dict) or "null" not in entry:
                raise fail(source, "has no 'null', the steps per second of the job alone", place)
            speed = validated(_Measured, entry, f"{source}: {name}.{key}").null
            if speed > 0:
                speeds[match[1]][int(match[2])] = speed
            else:
                zeros.append(f"{key} on {name}")
        except InstanceError as error:
            faults.add_all(error)
    faults.refuse()
    return speeds, zeros


def read_trace(path: Path) -> dict[int, TraceJob]:
    """Return the jobs of a trace by their number, counted from 1.

    Raises
    ------
    InstanceError
        If a line is wrong; one fault each.
    """
    source = str(path)
    faults = Faults()
    jobs: dict[int, TraceJob] = {}
    text = read_text(path)
    if text.count("\n") > MAX_SMALL_ROWS:
        raise fail(source, f"has more than {MAX_SMALL_ROWS:,} lines; split it")
    lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    for position, (number, line) in enumerate(lines, 1):
        try:
            jobs[position] = _trace_job(line, number, source)
        except InstanceError as error:
            faults.add_all(error)
            if faults.stop():
                break
    faults.refuse()
    return jobs


def _trace_job(line: str, number: int, source: str) -> TraceJob:
    where = f"{source}: line {number}"
    cells = line.rstrip("\r").split("\t", MAX_TABS)
    if len(cells) not in COLUMNS:
        raise fail(where, f"has {len(cells)} columns with tabs between them; a trace has 10 or 7")
    row = {name: Cell(cells[index].strip()) for name, index in COLUMNS[len(cells)].items()}
    return validated(TraceJob, {**row, "model": str(row["model"]), "line": number}, where)


def chosen_jobs(options: GavelFiles) -> tuple[dict[str, TraceJob], Fields]:
    """Return the jobs of the trace by name, as many as are asked for, and facts about them.

    Raises
    ------
    InstanceError
        If the trace cannot be read, or a line is wrong.
    """
    listed = read_trace(options.trace)
    # As many digits as the largest number needs, so that names sort like numbers.
    width = max(3, len(str(max(listed))))
    first = islice(listed.items(), options.first)
    jobs = {f"job-{number:0{width}d} {job.model}": job for number, job in first}
    return jobs, {"cut": len(jobs) < len(listed), "taken": len(jobs), "listed": len(listed)}


def named_count(fact: str, names: Iterable[str]) -> Fields:
    """Return two facts, a number and what it counts."""
    listed = list(names)
    return {fact: len(listed), f"{fact}_names": named(listed)}


@Importer
def import_gavel(options: GavelOptions) -> AllocationInstance:
    """Return the allocation instance of a Gavel trace on a cluster of the given GPUs."""
    tables, zeros = _read_tables(options)
    chosen, facts = chosen_jobs(options)
    variants = {job.model: _variants(job.model, tables, options) for job in chosen.values()}
    jobs = {name: job for name, job in chosen.items() if variants[job.model]}
    if not jobs:
        models = named(model for table in tables.values() for model in table)
        raise fail(str(options.trace), f"the speed table has none of its models; it has: {models}")
    given = [job.priority for job in jobs.values() if job.priority is not None]
    facts |= {
        "asked": sum(job.gpus for job in jobs.values()),
        "jobs": len(jobs),
        "missing": sum(
            all(job.measured(table) is None for table in tables.values()) for job in jobs.values()
        ),
        **named_count("absent", (job.model for name, job in chosen.items() if name not in jobs)),
        **named_count("zero", zeros),
        "ranked": given,
        "unranked": len(jobs) - len(given),
        "unusable": sum(priority <= 0 for priority in given),
        "pooled": options.gpus_per_server is None,
        "deadlines": sum(job.slo is not None and job.slo > 0 for job in jobs.values()),
    }
    return ALLOCATION.instance(
        AllocationInstance,
        options,
        facts,
        **_cluster(options),
        jobs=[
            {
                "name": name,
                "remaining_steps": job.steps,
                "weight": job.weight,
                "variants": variants[job.model],
            }
            for name, job in jobs.items()
        ],
    )


def _cluster(options: GavelOptions) -> Fields:
    """Return resources or servers as a document has them.

    Raises
    ------
    InstanceError
        If the GPUs of a type do not fill servers.
    """
    size = options.gpus_per_server
    if size is None:
        return {"resources": options.capacity}
    what = f"is no multiple of {size}, the GPUs of each server; give whole servers"
    rest = [name for name, gpus in options.capacity.items() if gpus % size]
    refuse_faults("options", ((f"capacity.{name}", what) for name in rest))
    rows = options.capacity.items()
    return {
        "servers": [{"name": name, "count": gpus // size, "capacity": {name: size}} for name, gpus in rows]
    }


def _read_tables(options: GavelOptions) -> tuple[dict[str, Speeds], list[str]]:
    """Return GPU type → consolidated speeds, and the entries ignored because they are 0.

    For servers the unconsolidated speeds are there too.
    """
    path, types = options.throughputs, list(options.capacity)
    data = read_table(path)
    known = gpu_types(data)
    refuse_faults("options", unknown_names(types, known, "capacity", "GPU type"))
    if not types:
        raise fail("options", f"is empty; GPU types: {', '.join(known) or 'none'}", "capacity")
    tables: dict[str, Speeds] = {}
    zeros: list[str] = []
    apart = [name + UNCONSOLIDATED for name in types if options.gpus_per_server]
    for name in [*types, *(name for name in apart if name in data)]:
        tables[name], left_out = speeds_of(data, name, str(path))
        zeros += left_out
    return tables, zeros


def _variants(model: str, tables: Mapping[str, Speeds], options: GavelOptions) -> list[Fields]:
    """Return the variants of a job as a document has them, one for each GPU type with a measured speed."""
    variants, size = [], options.gpus_per_server
    for name, capacity in options.capacity.items():
        rows: list[Fields] = [
            {"workers": gpus, "steps_per_s": speed, "servers": size and 1}
            for gpus, speed in sorted(tables[name].get(model, {}).items())
            if size is None or gpus <= size
        ]
        apart = tables.get(name + UNCONSOLIDATED, {}).get(model, {}) if size else {}
        rows += [
            {"workers": gpus, "steps_per_s": speed, "servers": servers}
            for gpus, speed in sorted(apart.items())
            for servers in range(2, min(gpus, capacity // (size or 1)) + 1)
        ]
        if rows:
            speeds = {"model": "table", "rows": rows}
            variants.append({"name": name, "worker_demand": {name: 1}, "speed": speeds})
    return variants


@Importer
def import_gavel_consolidation(options: GavelConsolidationOptions) -> ConsolidationInstance:
    """Return the consolidation instance of a Gavel trace on servers with one type of GPU.

    A job's speed on one server is the consolidated one, and on more servers the unconsolidated one.
    """
    together, apart, zeros = _read_speeds(options.throughputs, options.gpu_type)
    jobs, facts = chosen_jobs(options)
    several = {name: job for name, job in jobs.items() if job.gpus > 1}
    spread = {
        name: unconsolidated / consolidated
        for name, job in several.items()
        if (consolidated := job.measured(together)) is not None
        and (unconsolidated := job.measured(apart)) is not None
    }
    unknown = [f"{job.model} on {job.gpus}" for name, job in several.items() if name not in spread]
    facts |= {
        "asked": sum(job.gpus for job in jobs.values()),
        "room": options.servers * options.gpus_per_server,
        "ranked": any(job.weight != 1 for job in jobs.values()),
        "large": sum(job.gpus > options.gpus_per_server for job in jobs.values()),
        "faster": sum(ratio > 1 for ratio in spread.values()),
        **named_count("unknown", unknown),
        **named_count("zero", zeros),
    }
    return AT_HAND.instance(
        ConsolidationInstance,
        options,
        facts,
        objectives=["value", "slowdown", "servers"],
        servers=gpu_servers(options.servers, options.gpus_per_server, options.gpu_type),
        jobs=[
            gpu_job(
                name,
                job.gpus,
                "free",
                **({"speed_by_servers": {1: 1.0, 2: spread[name]}} if name in spread else {}),
            )
            for name, job in jobs.items()
        ],
    )


def _read_speeds(path: Path, gpu_type: str) -> tuple[Speeds, Speeds, list[str]]:
    """Return consolidated and unconsolidated speeds, and the entries ignored because they are 0."""
    data = read_table(path)
    both = [name for name in gpu_types(data) if name + UNCONSOLIDATED in data]
    if gpu_type not in both:
        allowed = ", ".join(both) or "none"
        what = f"{gpu_type!r} has not both consolidated and unconsolidated speeds; allowed: {allowed}"
        raise fail("options", what, "gpu_type")
    together, zeros = speeds_of(data, gpu_type, str(path))
    apart, more_zeros = speeds_of(data, gpu_type + UNCONSOLIDATED, str(path))
    return together, apart, [*zeros, *more_zeros]


@Importer
def import_gavel_trace(options: GavelTraceOptions) -> SchedulingInstance:
    """Return the scheduling instance of a Gavel trace on GPUs of one type."""
    table = read_table(options.throughputs)
    types = gpu_types(table)
    if options.gpu_type not in types:
        what = f"unknown GPU type; allowed: {', '.join(types) or 'none'}"
        raise fail("options", what, "gpu_type")
    speeds, _ = speeds_of(table, options.gpu_type, str(options.throughputs))
    chosen, facts = chosen_jobs(options)
    jobs = {
        f"line {job.line}": gpu_row(
            name, max(job.arrival_s, 0.0), job.gpus, job.steps / speed, weight=job.weight, model=job.model
        )
        for name, job in chosen.items()
        if (speed := job.measured(speeds)) is not None
    }
    if not jobs:
        what = f"the speed table has no speed of its jobs on {options.gpu_type} with as many GPUs as they ask"
        raise fail(str(options.trace), what)
    facts |= named_count("absent", (job.model for job in chosen.values() if job.measured(speeds) is None))
    facts["early"] = sum(job.arrival_s < 0 for job in chosen.values() if job.measured(speeds) is not None)
    return scheduling(TRACE, options, facts, jobs, resources={"gpu": options.gpus})
