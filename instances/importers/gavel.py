"""Gavel: measured training speeds on three GPU types, and traces of jobs (OSDI'20).

The speed table is JSON: GPU type → ``('Model (batch size B)', GPUs)`` → ``null`` → steps per second of the
job alone. A trace has one job a line, with tabs between ten columns (type, command, folder, step flag,
needs data, total steps, GPUs, priority, service-level objective, arrival) or seven (type, command, step
flag, needs data, total steps, arrival, GPUs).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ..allocation import AllocationInstance
from ..errors import Fault, InstanceError
from ..fields import Cell, Model, Name, NonNegative, Number, Positive, PositiveCount
from ..reading import fail, parse_document, read_text
from ..validation import validated

SOURCE = "stanford-futuredata/gavel (commit c4fa400, MIT)"
COLUMNS = {
    10: {"model": 0, "steps": 5, "gpus": 6, "priority": 7, "slo": 8, "arrival_s": 9},
    7: {"model": 0, "steps": 4, "arrival_s": 5, "gpus": 6},
}
"""Number of columns of a trace → where each thing stands that is read."""

_UNCONSOLIDATED = "_unconsolidated"
_KEY = re.compile(r"\('([^']+)', ([1-9][0-9]{0,8})\)")
_SHOWN = 10

_Speeds = dict[str, dict[int, float]]
"""Model → GPUs → steps per second, on one GPU type."""


class _Options(Model):
    capacity: dict[Name, PositiveCount]
    first: PositiveCount | None


class _Measured(Model):
    steps_per_s: dict[str, NonNegative]


class _TraceJob(Model):
    model: str
    steps: Positive
    gpus: PositiveCount
    arrival_s: Number
    priority: Number | None = None
    slo: Number | None = None

    @property
    def weight(self) -> float:
        """The priority where it is usable, else 1."""
        return self.priority if self.priority is not None and self.priority > 0 else 1.0


def import_gavel(
    throughputs: Path, trace: Path, capacity: dict[str, int], first: int | None = None
) -> AllocationInstance:
    """Return the allocation instance of a Gavel trace on a cluster of the given GPUs.

    Parameters
    ----------
    throughputs
        Gavel's speed table, ``simulation_throughputs.json``.
    trace
        A trace of ten or seven columns.
    capacity
        GPU type, such as ``v100`` → number of GPUs; only these types are used.
    first
        Take only so many jobs from the start of the trace; all by default.

    Raises
    ------
    InstanceError
        If a file or an option is wrong; one fault a line.
    """
    options = validated(_Options, {"capacity": capacity, "first": first}, "options")
    tables, zeros = _read_tables(throughputs, list(options.capacity))
    listed = _read_trace(trace)
    chosen = dict(list(listed.items())[: options.first])
    jobs = {number: job for number, job in chosen.items() if _variants(job.model, tables)}
    if not jobs:
        raise fail(str(trace), f"the speed table has none of its models; it has: {_named(_models(tables))}")
    width = max(3, len(str(max(listed))))
    document = {
        "schema_version": 1,
        "kind": "allocation",
        "name": f"gavel-{trace.stem}",
        "source": f"{throughputs.name} and {trace.name}, in the layout of {SOURCE}",
        "assumptions": [
            *_general_assumptions(),
            *_speed_assumptions(chosen, jobs, tables, zeros),
            *_trace_assumptions(listed, chosen, jobs),
        ],
        "resources": dict(options.capacity),
        "jobs": [
            {
                "name": f"job-{number:0{width}d} {job.model}",
                "remaining_steps": job.steps,
                "weight": job.weight,
                "variants": _variants(job.model, tables),
            }
            for number, job in jobs.items()
        ],
    }
    return validated(AllocationInstance, document, str(trace))


def _models(tables: Mapping[str, _Speeds]) -> list[str]:
    return list(dict.fromkeys(model for table in tables.values() for model in table))


def _named(names: Iterable[str]) -> str:
    """List distinct names, the first few of them in full; they come from a file and may be anything."""
    distinct = [name[:60] if name.isprintable() else repr(name)[:60] for name in dict.fromkeys(names)]
    return ", ".join(distinct[:_SHOWN]) + (", …" if len(distinct) > _SHOWN else "")


def _read_tables(path: Path, types: list[str]) -> tuple[dict[str, _Speeds], list[str]]:
    """Return the consolidated speeds of each GPU type, and the entries left out because they are 0."""
    source = str(path)
    data = parse_document(read_text(path), source, ".json")
    if not isinstance(data, dict):
        raise fail(source, "is not a mapping of GPU types; Gavel's simulation_throughputs.json is needed")
    known = [name for name in data if not name.endswith(_UNCONSOLIDATED)]
    allowed = ", ".join(known) or "none"
    unknown = [name for name in types if name not in known]
    if unknown or not types:
        faults = [Fault("options", f"capacity.{n}", f"unknown GPU type; allowed: {allowed}") for n in unknown]
        raise InstanceError(faults or [Fault("options", "capacity", f"is empty; GPU types: {allowed}")])
    tables: dict[str, _Speeds] = {}
    zeros = []
    for name in types:
        tables[name] = defaultdict(dict)
        for key, (model, gpus), speed in _entries(data[name], name, source):
            if speed > 0:
                tables[name][model][gpus] = speed
            else:
                zeros.append(f"{key} on {name}")
    return tables, zeros


def _entries(table: Any, name: str, source: str) -> Iterable[tuple[str, tuple[str, int], float]]:
    """Return key, model and GPUs, and speed alone of each entry of one GPU type's table."""
    if not isinstance(table, dict):
        raise fail(source, "is not a mapping of entries such as \"('A3C', 1)\"", name)
    faults, keys = [], {}
    for key, entry in table.items():
        match = _KEY.fullmatch(key)
        if not match:
            what = "is not a key of the form ('Model (batch size 64)', 2)"
            faults.append(Fault(source, f"{name}.{key}", what))
        elif not isinstance(entry, dict) or "null" not in entry:
            what = "has no 'null', the steps per second of the job alone"
            faults.append(Fault(source, f"{name}.{key}", what))
        else:
            keys[key] = (match[1], int(match[2]))
    if faults:
        raise InstanceError(faults)
    alone = {"steps_per_s": {key: table[key]["null"] for key in keys}}
    speeds = validated(_Measured, alone, f"{source}: {name}").steps_per_s
    return [(key, keys[key], speed) for key, speed in speeds.items()]


def _read_trace(path: Path) -> dict[int, _TraceJob]:
    """Return the jobs of a trace by their number, counted from 1."""
    source = str(path)
    faults: list[Fault] = []
    jobs: dict[int, _TraceJob] = {}
    lines = [(number, line) for number, line in enumerate(read_text(path).split("\n"), 1) if line.strip()]
    for position, (number, line) in enumerate(lines, 1):
        where = f"{source}: line {number}"
        cells = line.rstrip("\r").split("\t")
        columns = COLUMNS.get(len(cells))
        if columns is None:
            what = f"has {len(cells)} columns with tabs between them; a trace has 10 or 7"
            faults.append(Fault(where, "", what))
            continue
        row = {name: Cell(cells[index].strip()) for name, index in columns.items()}
        try:
            jobs[position] = validated(_TraceJob, {**row, "model": str(row["model"])}, where)
        except InstanceError as error:
            faults += error.faults
    if faults:
        raise InstanceError(faults)
    return jobs


def _variants(model: str, tables: Mapping[str, _Speeds]) -> list[dict[str, Any]]:
    """Return one variant for each GPU type that has a speed of this model."""
    return [
        {
            "name": name,
            "worker_demand": {name: 1},
            "speed": {
                "model": "table",
                "rows": [
                    {"workers": gpus, "steps_per_s": table[model][gpus]} for gpus in sorted(table[model])
                ],
            },
        }
        for name, table in tables.items()
        if model in table
    ]


def _general_assumptions() -> list[str]:
    return [
        "All jobs are present at once with all their steps still to be made; arrival times are not used.",
        "A step is the same work at every number of GPUs, as the source's steps per second grow with it.",
        "Speeds are those of a job alone on its GPUs, all of one type and as close together as they can be.",
        "A worker takes one GPU; CPU and memory of the jobs are not in the source and not asked for.",
    ]


def _speed_assumptions(
    chosen: Mapping[int, _TraceJob],
    jobs: Mapping[int, _TraceJob],
    tables: Mapping[str, _Speeds],
    zeros: list[str],
) -> Iterable[str]:
    asked = sum(job.gpus for job in jobs.values())
    yield (
        f"The trace asks {asked} GPUs for the {len(jobs)} jobs taken; here the plan decides, and every "
        "number of GPUs that the speed table has for a job's model is offered."
    )
    missing = [
        job
        for job in jobs.values()
        if not any(job.gpus in table.get(job.model, ()) for table in tables.values())
    ]
    if missing:
        lack = "a number of GPUs that the speed table lacks for their model"
        yield f"{len(missing)} of these jobs ask {lack}; they stay in with the numbers it has."
    absent = [job.model for number, job in chosen.items() if number not in jobs]
    if absent:
        models = _named(absent)
        yield f"{len(absent)} jobs are left out, because the speed table lacks their model: {models}."
    if zeros:
        yield f"{len(zeros)} measured speeds are 0 and left out as missing: {_named(zeros)}."


def _trace_assumptions(
    listed: Mapping[int, _TraceJob], chosen: Mapping[int, _TraceJob], jobs: Mapping[int, _TraceJob]
) -> Iterable[str]:
    if len(chosen) < len(listed):
        yield f"Only the first {len(chosen)} of the {len(listed)} jobs of the trace are considered."
    with_priority = [job for job in jobs.values() if job.priority is not None]
    if with_priority:
        yield "A job's weight is its priority in the trace."
    if len(with_priority) < len(jobs):
        yield f"{len(jobs) - len(with_priority)} jobs have no priority in the trace; their weight is 1."
    unusable = sum(job.priority is not None and job.priority <= 0 for job in jobs.values())
    if unusable:
        yield f"{unusable} jobs have a priority that is not positive; their weight is 1."
    deadlines = sum(job.slo is not None and job.slo > 0 for job in jobs.values())
    if deadlines:
        yield f"{deadlines} jobs have a service-level objective in the trace; it is not used."
