"""Gavel (OSDI'20): its speed table and traces of jobs, for consolidation and scheduling.

For consolidation, jobs have the measured slowdown of being spread over servers. For scheduling, they
arrive over time, and run on GPUs of one type with measured speeds.

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
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

from ...common.errors import Fault, Faults, InstanceError, refuse_faults, shortened, some
from ...common.faults import validated
from ...common.fields import Cell, Model, Name, NonNegative, Number, Positive, PositiveCount, ServerCount
from ...consolidation.instance import ConsolidationInstance
from ...files.reading import MAX_SMALL_ROWS, fail, read_mapping, read_text
from ...scheduling.instance import SchedulingInstance
from ..importer import Importer, ImportOptions, Option
from .gpu_trace import Origin, gpu_job, gpu_row, gpu_servers, gpu_trace

SOURCE = "stanford-futuredata/gavel (commit c4fa400, MIT)"
COLUMNS = {
    10: {"model": 0, "steps": 5, "gpus": 6, "priority": 7, "slo": 8, "arrival_s": 9},
    7: {"model": 0, "steps": 4, "arrival_s": 5, "gpus": 6},
}
"""Number of columns of a trace → index of each column that is read."""

UNCONSOLIDATED = "_unconsolidated"
_KEY = re.compile(r"\('([^']+)', ([1-9][0-9]{0,8})\)")
MAX_TABS = 1000

Capacity = Annotated[
    dict[Name, PositiveCount], Option("Allocation: GPUs of each type, such as v100=64,p100=64,k80=64.")
]
GpuType = Annotated[Name, Option("Consolidation: GPUs of the servers, as v100.")]
Servers = Annotated[ServerCount, Option("Consolidation: how many servers.")]
GpusPerServer = Annotated[PositiveCount, Option("Consolidation: GPUs of each server.")]


class GavelFiles(ImportOptions):
    """The files, and how much of the trace is read."""

    throughputs: Annotated[Path, Option("simulation_throughputs.json")]
    trace: Annotated[Path, Option("A .trace file.")]
    first: Annotated[PositiveCount | None, Option("Only the first N jobs of the trace.")] = None

    def source(self) -> str:
        """Return the text on the data source for an instance."""
        return f"{self.throughputs.name} and {self.trace.name}, in the layout of {SOURCE}"

    def jobs(self) -> tuple[dict[str, TraceJob], int]:
        """Return the selected jobs of the trace by name, and the number of jobs in the trace.

        Raises
        ------
        InstanceError
            If the trace cannot be read, or a line is wrong.
        """
        listed = read_trace(self.trace)
        # As many digits as the largest number needs, so that names sort like numbers.
        width = max(3, len(str(max(listed))))
        first = islice(listed.items(), self.first)
        return {f"job-{number:0{width}d} {job.model}": job for number, job in first}, len(listed)


Speeds = dict[str, dict[int, float]]
"""Model → GPUs → steps per second, on one GPU type."""


class _Measured(Model):
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


def read_table(path: Path) -> dict[str, Any]:
    """Return the table of measured speeds (steps per second) as plain data, by GPU type.

    Raises
    ------
    InstanceError
        If the file is no mapping.
    """
    what = "is not a mapping of GPU types; Gavel's simulation_throughputs.json is needed"
    return read_mapping(path, what)


def gpu_types(table: dict[str, Any]) -> list[str]:
    """Return the GPU types of a speed table, without the unconsolidated variants."""
    return [name for name in table if not name.endswith(UNCONSOLIDATED)]


def speeds_of(table: dict[str, Any], name: str, source: str) -> tuple[Speeds, list[str]]:
    """Return the speeds on one GPU type by model and GPUs, and the entries ignored because they are 0.

    Raises
    ------
    InstanceError
        If an entry is wrong; one fault each.
    """
    entries = table[name]
    if not isinstance(entries, dict):
        raise fail(source, "is not a mapping of entries such as \"('A3C', 1)\"", name)
    faults, keys = Faults(), {}
    for key, entry in entries.items():
        match = _KEY.fullmatch(key)
        if not match:
            what = "is not a key of the form ('Model (batch size 64)', 2)"
            faults.add(Fault(source, f"{name}.{shortened(key)}", what))
        elif not isinstance(entry, dict) or "null" not in entry:
            what = "has no 'null', the steps per second of the job alone"
            faults.add(Fault(source, f"{name}.{shortened(key)}", what))
        else:
            keys[key] = (match[1], int(match[2]))
    speeds: Speeds = defaultdict(dict)
    zeros = []
    for key, (model, gpus) in keys.items():
        try:
            speed = validated(_Measured, {"null": entries[key]["null"]}, f"{source}: {name}.{key}").null
        except InstanceError as error:
            faults.add_all(error)
            continue
        if speed > 0:
            speeds[model][gpus] = speed
        else:
            zeros.append(f"{key} on {name}")
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


def named(names: Iterable[str]) -> str:
    """Return the first few distinct names as text, escaped because they come from a file."""
    distinct = [name[:60] if name.isprintable() else repr(name)[:60] for name in dict.fromkeys(names)]
    return some(distinct)


class GavelConsolidationOptions(GavelFiles):
    """Jobs with measured speeds on one GPU type (Gavel, OSDI'20): a consolidation instance."""

    ORDER = ("throughputs", "trace", "gpu_type", "servers", "gpus_per_server")

    gpu_type: GpuType
    servers: Servers
    gpus_per_server: GpusPerServer


@Importer
def import_gavel_consolidation(options: GavelConsolidationOptions) -> ConsolidationInstance:
    """Return the consolidation instance of a Gavel trace on servers with one type of GPU.

    A job's speed on one server is the consolidated one, and on more servers the unconsolidated one.
    """
    trace = options.trace
    together, apart, zeros = _read_speeds(options.throughputs, options.gpu_type)
    jobs, listed = options.jobs()
    spread = {name: _speed_when_spread(job, together, apart) for name, job in jobs.items()}
    document = {
        "name": f"gavel-{trace.stem}-{options.gpu_type}",
        "source": options.source(),
        "assumptions": [
            *_job_assumptions(listed, jobs, options),
            *_speed_assumptions(jobs, spread, zeros, options),
        ],
        "objectives": ["value", "slowdown", "servers"],
        "servers": gpu_servers(options.servers, options.gpus_per_server, options.gpu_type),
        "jobs": [_job(name, job, spread[name]) for name, job in jobs.items()],
    }
    return validated(ConsolidationInstance, document, str(trace))


def _read_speeds(path: Path, gpu_type: str) -> tuple[Speeds, Speeds, list[str]]:
    """Return consolidated and unconsolidated speeds, and the entries ignored because they are 0."""
    source = str(path)
    data = read_table(path)
    both = [name for name in gpu_types(data) if name + UNCONSOLIDATED in data]
    if gpu_type not in both:
        allowed = ", ".join(both) or "none"
        what = f"{gpu_type!r} has not both consolidated and unconsolidated speeds; allowed: {allowed}"
        raise fail("options", what, "gpu_type")
    together, zeros = speeds_of(data, gpu_type, source)
    apart, more_zeros = speeds_of(data, gpu_type + UNCONSOLIDATED, source)
    return together, apart, [*zeros, *more_zeros]


def _speed_when_spread(job: TraceJob, together: Speeds, apart: Speeds) -> float | None:
    """Return the ratio of unconsolidated to consolidated speed; None if one of them is unknown."""
    consolidated = together.get(job.model, {}).get(job.gpus)
    unconsolidated = apart.get(job.model, {}).get(job.gpus)
    return None if consolidated is None or unconsolidated is None else unconsolidated / consolidated


def _job(name: str, job: TraceJob, spread: float | None) -> dict[str, Any]:
    measured = {"speed_by_servers": {1: 1.0, 2: spread}} if job.gpus > 1 and spread is not None else {}
    return gpu_job(name, job.gpus, "free", **measured)


def _job_assumptions(
    listed: int, jobs: Mapping[str, TraceJob], options: GavelConsolidationOptions
) -> Iterable[str]:
    asked, available = sum(job.gpus for job in jobs.values()), options.servers * options.gpus_per_server
    if len(jobs) < listed:
        yield f"Only the first {len(jobs)} of the {listed} jobs of the trace are considered."
    yield "All jobs are present at once; arrival times and steps are not used."
    yield (
        f"The cluster is chosen, not the source's: {options.servers} servers of {options.gpus_per_server} "
        f"{options.gpu_type} GPUs, all free. The {len(jobs)} jobs ask {asked} of the {available} GPUs."
    )
    yield "A job is one task for each GPU that it asks for, is worth that many, and may be left out."
    yield "CPU and memory of a task are not in the source and not asked for."
    if any(job.weight != 1 for job in jobs.values()):
        yield "Priorities of the trace are not used."


def _speed_assumptions(
    jobs: Mapping[str, TraceJob],
    spread: Mapping[str, float | None],
    zeros: list[str],
    options: GavelConsolidationOptions,
) -> Iterable[str]:
    yield (
        "A job on one server has the speed measured consolidated, on two or more servers the one measured "
        "unconsolidated, however many they are: the source does not say over how many it spread a job."
    )
    large = [job for job in jobs.values() if job.gpus > options.gpus_per_server]
    if large:
        yield f"{len(large)} jobs ask more GPUs than a server has, so none of them reaches its full speed."
    several = {name: ratio for name, ratio in spread.items() if jobs[name].gpus > 1}
    faster = [ratio for ratio in several.values() if ratio is not None and ratio > 1]
    if faster:
        yield f"{len(faster)} jobs were measured faster when spread; their slowdown is negative."
    unknown = [jobs[name] for name, ratio in several.items() if ratio is None]
    if unknown:
        names = named(f"{job.model} on {job.gpus}" for job in unknown)
        yield (
            f"{len(unknown)} jobs stay in without measured speeds of their model on as many GPUs, and lose "
            f"nothing by being spread: {names}."
        )
    if zeros:
        yield f"{len(zeros)} measured speeds are 0 and left out as missing: {named(zeros)}."


TRACE_COLUMNS = {"tasks": "GPUs", "arrival_s": "arrival", "weight": "priority"}


class GavelTraceOptions(GavelFiles):
    """Jobs with measured speeds on one GPU type, by their arrival (Gavel, OSDI'20): a scheduling instance."""

    ORDER = ("throughputs", "trace", "gpu_type", "gpus")

    gpu_type: GpuType
    gpus: Annotated[PositiveCount, Option("GPUs of the cluster.")]


@Importer
def import_gavel_trace(options: GavelTraceOptions) -> SchedulingInstance:
    """Return the scheduling instance of a Gavel trace on GPUs of one type."""
    table = read_table(options.throughputs)
    types = gpu_types(table)
    if options.gpu_type not in types:
        what = f"unknown GPU type; allowed: {', '.join(types) or 'none'}"
        refuse_faults("options", [("gpu_type", what)])
    speeds, _ = speeds_of(table, options.gpu_type, str(options.throughputs))
    chosen, listed = options.jobs()
    durations = {
        name: job.steps / speed
        for name, job in chosen.items()
        if (speed := speeds.get(job.model, {}).get(job.gpus)) is not None
    }
    if not durations:
        what = f"the speed table has no speed of its jobs on {options.gpu_type} with as many GPUs as they ask"
        raise fail(str(options.trace), what)
    jobs = [
        gpu_row(
            name,
            max(chosen[name].arrival_s, 0.0),
            chosen[name].gpus,
            duration_s,
            weight=chosen[name].weight,
            model=chosen[name].model,
        )
        for name, duration_s in durations.items()
    ]
    return gpu_trace(
        f"gavel-{options.trace.stem}-{options.gpus}x{options.gpu_type}",
        options.source(),
        {"resources": {"gpu": options.gpus}},
        jobs,
        _assumptions(options, chosen, listed, durations),
        Origin(str(options.trace), [f"line {chosen[name].line}" for name in durations], TRACE_COLUMNS),
    )


def _assumptions(
    options: GavelTraceOptions, chosen: Mapping[str, TraceJob], listed: int, durations: Mapping[str, float]
) -> Iterable[str]:
    yield f"The cluster is chosen, not the source's: {options.gpus:,} GPUs of type {options.gpu_type}."
    yield (
        f"A job takes its total steps over the steps per second measured on {options.gpu_type} with the GPUs "
        "that it asks for, alone and as close together as they can be."
    )
    yield "A job's weight is its priority in the trace where that is positive, else 1."
    if len(chosen) < listed:
        yield f"Only the first {len(chosen)} of the {listed} jobs of the trace are considered."
    absent = [job.model for name, job in chosen.items() if name not in durations]
    if absent:
        lack = "the speed table lacks their model with as many GPUs as they ask for"
        yield f"{len(absent)} jobs are left out, because {lack}: {named(absent)}."
    early = sum(chosen[name].arrival_s < 0 for name in durations)
    if early:
        yield f"{early} jobs arrive before time 0 in the trace; here they arrive at 0."
